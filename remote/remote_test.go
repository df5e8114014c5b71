package remote_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/test/testkit"
)

const (
	token  = "a-token-that-may-write-everything"
	reader = "a-token-that-may-only-read-things"
)

// doors is a value: the apps shop, shop-1 … have the ids id-shop, id-shop-1 and so on.
type doors struct {
	check  func(updates []remote.Update) error
	accept func(updates []remote.Update) ([]string, error)
	follow func(ctx context.Context, run string, lines io.Writer) error

	mu       sync.Mutex
	checked  [][]remote.Update
	accepted [][]remote.Update
	actors   []string
}

func (d *doors) Open(_ context.Context, app, given string, write bool) (remote.Repository, error) {
	switch {
	case given != token && given != reader:
		return remote.Repository{}, &landfall.Error{Kind: landfall.Unauthorized, Message: "this token is not known"}
	case app == "gone":
		return remote.Repository{}, &landfall.Error{Kind: landfall.Conflict, Message: "the app gone was deleted"}
	case app == "down":
		return remote.Repository{}, errors.New("the cause is for the operator")
	case !strings.HasPrefix(app, "shop"):
		return remote.Repository{}, &landfall.Error{Kind: landfall.NotFound, Message: "there is no app of this name"}
	case write && given == reader:
		return remote.Repository{}, &landfall.Error{Kind: landfall.Forbidden, Message: "this token may only read"}
	}
	return remote.Repository{App: "id-" + app, Actor: "ada"}, nil
}

func (d *doors) Check(_ context.Context, _ remote.Repository, updates []remote.Update) error {
	d.mu.Lock()
	d.checked = append(d.checked, updates)
	d.mu.Unlock()
	if d.check != nil {
		return d.check(updates)
	}
	return nil
}

func (d *doors) Accept(_ context.Context, repository remote.Repository, updates []remote.Update) ([]string, error) {
	d.mu.Lock()
	d.accepted = append(d.accepted, updates)
	d.actors = append(d.actors, repository.Actor)
	d.mu.Unlock()
	if d.accept != nil {
		return d.accept(updates)
	}
	return nil, nil
}

func (d *doors) Follow(ctx context.Context, run string, _ time.Time, lines io.Writer) error {
	if d.follow != nil {
		return d.follow(ctx, run, lines)
	}
	return nil
}

// last returns the updates of the newest accepted push, and how many there were.
func (d *doors) last() ([]remote.Update, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.accepted) == 0 {
		return nil, 0
	}
	return d.accepted[len(d.accepted)-1], len(d.accepted)
}

// site is a running remote.
type site struct {
	*httptest.Server
	root         string
	repositories *remote.Repositories
	log          *logtest.Buffer
}

func serve(t *testing.T, config remote.Config) *site {
	t.Helper()
	program, err := remote.FindGit()
	if err != nil {
		t.Fatalf("finding git: %v", err)
	}
	s := &site{root: filepath.Join(t.TempDir(), `a "folder": with \ signs`), log: &logtest.Buffer{}}
	if s.repositories, err = remote.OpenRepositories(s.root, program); err != nil {
		t.Fatalf("opening the repositories: %v", err)
	}
	config.Repositories = s.repositories
	config.Logger = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.Server = httptest.NewServer(remote.New(config))
	t.Cleanup(s.Close)
	return s
}

// address returns the clone address of an app.
func (s *site) address(app, secret string) string {
	return strings.Replace(s.URL, "http://", "http://any:"+secret+"@", 1) + "/git/" + app + ".git"
}

func (s *site) heads(t *testing.T, app string) map[landfall.RefName]landfall.CommitSHA {
	t.Helper()
	heads, err := s.repositories.Heads(t.Context(), "id-"+app)
	if err != nil {
		t.Fatalf("heads of %s: %v", app, err)
	}
	return heads
}

// processes returns the command lines of every process that works in the site's folder.
func (s *site) processes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		line, _ := os.ReadFile(file) // it may have ended meanwhile
		if bytes.Contains(line, []byte(s.root)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// work is a work tree.
type work struct{ dir string }

// newWork makes a work tree on branch main with one commit.
func newWork(t *testing.T) work {
	t.Helper()
	w := work{t.TempDir()}
	w.git(t, "init", "-q", "-b", "main")
	w.commit(t, "index.html", "<h1>one</h1>", "first\n\nwith a body")
	return w
}

func (w work) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = w.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.com",
	}
	return cmd
}

// try runs git and returns all that it says.
func (w work) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := w.command(t.Context(), args...).CombinedOutput()
	return string(out), err
}

// git runs git, which must succeed, and returns what it says.
func (w work) git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.try(t, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// commit writes a file and commits everything; it returns the commit.
func (w work) commit(t *testing.T, name, content, message string) landfall.CommitSHA {
	t.Helper()
	w.write(t, name, []byte(content))
	w.git(t, "add", "-A")
	w.git(t, "commit", "-q", "-m", message)
	return w.sha(t, "HEAD")
}

func (w work) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w work) sha(t *testing.T, name string) landfall.CommitSHA {
	t.Helper()
	return landfall.CommitSHA(w.git(t, "rev-parse", name+"^{commit}"))
}

// refused fails unless a push failed, and said each of the words.
func refused(t *testing.T, out string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("the push went through: %s", out)
	}
	said(t, out, words...)
}

func said(t *testing.T, out string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("got %q, want %q in it", out, word)
		}
	}
}

// equal fails unless the newest accepted push is these updates.
func equal(t *testing.T, d *doors, want ...remote.Update) {
	t.Helper()
	got, _ := d.last()
	if len(got) != len(want) {
		t.Fatalf("got updates %+v, want %+v", got, want)
	}
	byRef := map[landfall.RefName]remote.Update{}
	for _, u := range got {
		byRef[u.Ref] = u
	}
	for _, u := range want {
		if byRef[u.Ref] != u {
			t.Errorf("got update %+v, want %+v", byRef[u.Ref], u)
		}
	}
}

// receive waits for a signal.
func receive[T any](t *testing.T, what string, signal <-chan T) T {
	t.Helper()
	var v T
	select {
	case v = <-signal:
	case <-time.After(testkit.Patience):
		t.Fatalf("never came: %s", what)
	}
	return v
}

// post sends a request as git does.
func post(t *testing.T, s *site, path, contentType, secret string, body io.Reader, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.SetBasicAuth("any", secret)
	return answer(t, req)
}

func answer(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// dial opens a bare connection to the site.
func dial(t *testing.T, s *site) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
