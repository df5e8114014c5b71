package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/porttest"
)

// patience is how long a test waits for what must come: far longer than it takes, so that a slow machine is no failure.
const patience = 2 * time.Minute

// binaryFolder is where binary builds the program; TestMain removes it.
var binaryFolder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "landfall-binary-*") })

// binary builds the program once, as the tests are built (with the race detector when they are), with crash points, and its init as
// it is installed.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := binaryFolder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "landfall")
	if err := goBuild("-tags", "crashpoints", "-o", path, "landfall.dev/landfall/cmd/landfall"); err != nil {
		return "", err
	}
	init := exec.Command("go", "build", "-o", filepath.Join(dir, "landfall-init"), "landfall.dev/landfall/cmd/landfall-init")
	init.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := init.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// goBuild compiles as the tests are compiled, so that most of it is there already.
func goBuild(args ...string) error {
	flags := []string{"build", "-ldflags", "-s -w"}
	if raceDetector() {
		flags = append(flags, "-race")
		for _, alone := range []string{"modernc.org/...", "compress/...", "github.com/klauspost/compress/..."} { // as the Makefile has them
			flags = append(flags, "-gcflags="+alone+"=-race=false")
		}
	}
	if out, err := exec.Command("go", append(flags, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}

// site is a running `landfall serve`, as a process of its own, with its data folder.
type site struct {
	*client.Client
	t      *testing.T
	engine engine
	data   string
	port   string
	env    []string
	main   string   // the program of its role; empty: landfall serve
	flags  []string // of landfall serve
	within []string // what the command line begins with, when the server runs somewhere else than the tests
	cmd    *exec.Cmd
	log    *logtest.Buffer
	done   chan struct{} // closed when the process has ended
	strays bool          // that objects are left which nothing points at is no fault of the server's
}

// newSite makes a data folder and a free port, and starts the server. env are NAME=VALUE settings.
func newSite(t *testing.T, env ...string) *site {
	t.Helper()
	return newSiteOn(t, newEngine(t), env...)
}

// newSiteOn is newSite on engines that the test needs.
func newSiteOn(t *testing.T, on engine, env ...string) *site {
	t.Helper()
	s := newStopped(t, on, env...)
	s.start()
	s.readToken()
	return s
}

// newStopped is newSite on an engine, before the start.
func newStopped(t *testing.T, on engine, env ...string) *site {
	t.Helper()
	s := &site{t: t, engine: on, data: t.TempDir(), port: freePort(t)}
	s.env = append(on.settings(), env...)
	s.Client = &client.Client{URL: "http://localhost:" + s.port}
	t.Cleanup(s.stop)
	return s
}

// readToken reads the token that the server made.
func (s *site) readToken() {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(s.data, "token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.Token = strings.TrimSpace(string(token))
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := porttest.Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// start starts the server, with more settings, and waits until it is ready or dead.
func (s *site) start(env ...string) {
	s.t.Helper()
	s.launch(env...)
	s.begun()
}

// launch is start without the wait.
func (s *site) launch(env ...string) {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	s.log = &logtest.Buffer{}
	line := slices.Concat(s.within, []string{path, "serve"}, s.flags)
	if s.main != "" {
		line = []string{s.main}
	}
	s.cmd = exec.Command(line[0], line[1:]...)
	s.cmd.Env = append(append(os.Environ(), "LANDFALL_DATA="+s.data, "LANDFALL_LISTEN=127.0.0.1:"+s.port), append(s.env, env...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, done := s.cmd, make(chan struct{}) // a later start has others
	s.done = done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
}

// begun waits until a server that was launched is ready or dead.
func (s *site) begun() {
	s.t.Helper()
	s.eventually("the server is ready or dead", func() bool {
		select {
		case <-s.done:
			return true
		default:
		}
		resp, err := http.Get("http://127.0.0.1:" + s.port + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// stop ends the server as an administrator would, and fails the test when it does not end by itself.
func (s *site) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		s.t.Errorf("the server did not end after SIGTERM")
	}
	if strings.Contains(s.log.String(), "DATA RACE") || strings.Contains(s.log.String(), "panic:") || s.t.Failed() {
		s.t.Logf("the server's log:\n%s", s.log)
	}
	if strings.Contains(s.log.String(), "DATA RACE") || strings.Contains(s.log.String(), "panic:") {
		s.t.Errorf("the server had a data race or panicked")
	}
}

// kill ends the server at once and starts it again.
func (s *site) kill() {
	s.t.Helper()
	_ = s.cmd.Process.Kill()
	<-s.done
	s.start()
}

// eventually waits until what is true.
func (s *site) eventually(what string, is func() bool) {
	s.t.Helper()
	for began := time.Now(); !is(); {
		waited := time.Since(began)
		if waited > patience {
			s.t.Fatalf("waited %s in vain until %s; the server's log:\n%s", patience, what, s.log)
		}
		const share, soonest, latest = 8, 10 * time.Millisecond, 250 * time.Millisecond
		<-time.After(max(soonest, min(waited/share, latest))) // who asks without a pause slows down all others
	}
}

// call calls the API and fails the test on an error.
func (s *site) call(method, path string, in, out any) {
	s.t.Helper()
	if err := s.Do(context.Background(), method, path, in, out); err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// app makes an app.
func (s *site) app(name string) client.App {
	s.t.Helper()
	var app client.App
	s.call(http.MethodPost, "/apps", client.NewApp{Name: name}, &app)
	return app
}

// showApp returns an app as it is now.
func (s *site) showApp(name string) client.App {
	s.t.Helper()
	var app client.App
	s.call(http.MethodGet, "/apps/"+name, nil, &app)
	return app
}

// list returns the items of a list.
func list[T any](s *site, path string) []T {
	s.t.Helper()
	var p struct {
		Items []T `json:"items"`
	}
	s.call(http.MethodGet, path, nil, &p)
	return p.Items
}

// runOf returns the newest run of a commit, final or not.
func (s *site) runOf(app string, commit landfall.CommitSHA) (client.Run, bool) {
	s.t.Helper()
	for _, run := range list[client.Run](s, "/runs?limit=1000&app="+app) {
		if run.Commit == commit {
			return run, true
		}
	}
	return client.Run{}, false
}

// finished waits until the commit's run is over, and returns it whole.
func (s *site) finished(app string, commit landfall.CommitSHA) client.Run {
	s.t.Helper()
	var run client.Run
	s.eventually("the run of "+commit.Short()+" is over", func() bool {
		var ok bool
		run, ok = s.runOf(app, commit)
		return ok && run.State.Final()
	})
	var whole client.Run
	s.call(http.MethodGet, "/runs/"+run.ID, nil, &whole)
	return whole
}

// page is what a visitor gets.
type page struct {
	status int
	body   string
	header http.Header
}

// get asks for an address as a browser does: names below localhost are this machine.
func (s *site) get(address string) page {
	s.t.Helper()
	p, err := tryGet(address)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// tryGet gets an address of a server that may end meanwhile.
func tryGet(address string) (page, error) {
	c := http.Client{Transport: client.LocalTransport(), Timeout: patience}
	defer c.CloseIdleConnections()
	resp, err := c.Get(address)
	if err != nil {
		return page{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return page{resp.StatusCode, string(body), resp.Header}, err
}

// at returns the address of a path at a host below the domain: at("shop", "/x") is the live release's.
func (s *site) at(host, path string) string {
	return "http://" + host + ".localhost:" + s.port + path
}

// repository is a work tree with a remote.
type repository struct {
	t   *testing.T
	dir string
}

// newRepository makes an empty repository on the branch main.
func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main")
	r.git("config", "gc.auto", "0") // it would go on behind the test's back
	return r
}

// repository makes a repository whose remote "origin" is the app's built-in one.
func (s *site) repository(app client.App) *repository {
	s.t.Helper()
	r := newRepository(s.t)
	r.git("remote", "add", "origin", s.remote(app))
	return r
}

// remote is the address of an app's built-in remote with the administrator's token.
func (s *site) remote(app client.App) string {
	return strings.Replace(app.Repository, "://", "://admin:"+s.Token+"@", 1)
}

// try runs git and returns what it printed on both outputs. Each repository has a committer of its own: two that commit
// the same files in the same second would else have one commit.
func (r *repository) try(args ...string) (string, error) { return r.tryWith(nil, args...) }

// tryWith is try with an input.
func (r *repository) tryWith(in io.Reader, args ...string) (string, error) {
	committer := fmt.Sprintf("GIT_COMMITTER_EMAIL=ada+%08x@example.com", crc32.ChecksumIEEE([]byte(r.dir)))
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = r.dir, in
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", committer)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// git runs git and fails the test when it fails.
func (r *repository) git(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// write writes files: pairs of name and content.
func (r *repository) write(pairs ...string) {
	r.t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		path := filepath.Join(r.dir, filepath.FromSlash(pairs[i]))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(pairs[i+1]), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// commit commits everything, and returns the commit.
func (r *repository) commit(message string) landfall.CommitSHA {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message", message)
	return r.head()
}

func (r *repository) head() landfall.CommitSHA {
	r.t.Helper()
	return landfall.CommitSHA(r.git("rev-parse", "HEAD"))
}

// copyTree copies a folder into the repository.
func (r *repository) copyTree(from string) {
	r.t.Helper()
	if err := os.CopyFS(r.dir, os.DirFS(from)); err != nil {
		r.t.Fatal(err)
	}
}

// decode reads JSON of a test's own making.
func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}
