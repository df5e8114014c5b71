package builder_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

// main is the branch of most tests.
const mainRef = landfall.RefName("refs/heads/main")

// repository is a bare repository that real git made.
type repository struct {
	tb  testing.TB
	dir string
}

func newRepository(tb testing.TB) *repository {
	tb.Helper()
	r := &repository{tb: tb, dir: filepath.Join(tb.TempDir(), "shop.git")}
	runGit(tb, "", nil, "init", "-q", "--bare", "-b", "main", r.dir)
	r.git("config", "http.receivepack", "true")
	return r
}

// runGit runs git and returns what it printed, without the newline at the end.
func runGit(tb testing.TB, dir string, stdin []byte, args ...string) string {
	tb.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "GIT_COMMITTER_DATE=1700000000 +0000")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (r *repository) git(args ...string) string {
	r.tb.Helper()
	return runGit(r.tb, r.dir, nil, args...)
}

// blob stores content.
func (r *repository) blob(content string) string {
	r.tb.Helper()
	return runGit(r.tb, r.dir, []byte(content), "hash-object", "-w", "--stdin")
}

// entry is one entry of a tree, which may be what git itself would never add.
type entry struct{ mode, name, hash string }

// tree stores a tree exactly as given, past all of git's checks.
func (r *repository) tree(entries ...entry) string {
	r.tb.Helper()
	var data bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&data, "%s %s\x00", e.mode, e.name)
		for i := 0; i < len(e.hash); i += 2 {
			var b byte
			if _, err := fmt.Sscanf(e.hash[i:i+2], "%02x", &b); err != nil {
				r.tb.Fatal(err)
			}
			data.WriteByte(b)
		}
	}
	return runGit(r.tb, r.dir, data.Bytes(), "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
}

// commitTree stores a commit of the tree.
func (r *repository) commitTree(tree, message string, parents ...landfall.CommitSHA) landfall.CommitSHA {
	r.tb.Helper()
	args := []string{"commit-tree", tree, "-m", message}
	for _, p := range parents {
		args = append(args, "-p", string(p))
	}
	return landfall.CommitSHA(r.git(args...))
}

// files stores a tree with these contents at these paths: a path that begins with "->" is a link, one with "!"
// executable.
func (r *repository) files(contents map[string]string) string {
	r.tb.Helper()
	var index bytes.Buffer
	for path, content := range contents {
		mode := "100644"
		if rest, ok := strings.CutPrefix(path, "->"); ok {
			mode, path = "120000", rest
		}
		if rest, ok := strings.CutPrefix(path, "!"); ok {
			mode, path = "100755", rest
		}
		fmt.Fprintf(&index, "%s %s\t%s\x00", mode, r.blob(content), path)
	}
	return r.index(index.Bytes())
}

// index stores a tree from the input of update-index -z --index-info.
func (r *repository) index(info []byte) string {
	r.tb.Helper()
	file := filepath.Join(r.tb.TempDir(), "index")
	run := func(stdin []byte, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin, cmd.Env = r.dir, bytes.NewReader(stdin), append(os.Environ(), "GIT_INDEX_FILE="+file)
		out, err := cmd.CombinedOutput()
		if err != nil {
			r.tb.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run(info, "update-index", "-z", "--index-info")
	return run(nil, "write-tree")
}

// commit stores a commit of these files.
func (r *repository) commit(contents map[string]string, parents ...landfall.CommitSHA) landfall.CommitSHA {
	r.tb.Helper()
	return r.commitTree(r.files(contents), "a commit\n\nwith a body", parents...)
}

// set makes the reference name the object.
func (r *repository) set(ref landfall.RefName, to landfall.CommitSHA) {
	r.tb.Helper()
	r.git("update-ref", string(ref), string(to))
}

// local is the repository as the built-in remote has it.
func (r *repository) local() builder.Remote {
	return builder.Remote{Namespace: "default", Local: r.dir}
}

// server serves the repository with git's own HTTP backend, and remembers the requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string                // method and path
	authed   []string                // Authorization headers
	check    func(*http.Request) int // a status to answer instead
}

func (r *repository) serve(tb testing.TB) *server {
	tb.Helper()
	backend := &cgi.Handler{
		Path:   filepath.Join(runGit(tb, "", nil, "--exec-path"), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1"},
		Stderr: io.Discard,
	}
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, q.Method+" "+q.URL.Path)
		if a := q.Header.Get("Authorization"); a != "" {
			s.authed = append(s.authed, a)
		}
		check := s.check
		s.mu.Unlock()
		if check != nil {
			if status := check(q); status != 0 {
				w.WriteHeader(status)
				return
			}
		}
		backend.ServeHTTP(w, q)
	}))
	tb.Cleanup(s.Close)
	return s
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "http://") }

func (s *server) remote() builder.Remote {
	return builder.Remote{Namespace: "default", URL: s.URL + "/shop.git"}
}

// seen returns how many requests there were whose method and path end so.
func (s *server) seen(suffix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, q := range s.requests {
		if strings.HasSuffix(q, suffix) {
			n++
		}
	}
	return n
}

// mirrors returns mirrors that may speak to the servers.
func mirrors(tb testing.TB, servers ...*server) *builder.Mirrors {
	tb.Helper()
	m := &builder.Mirrors{Root: filepath.Join(tb.TempDir(), "mirrors"), Dialer: &builder.Dialer{}}
	for _, s := range servers {
		u, err := url.Parse(s.URL)
		if err != nil {
			tb.Fatal(err)
		}
		m.Dialer.AllowedHosts = append(m.Dialer.AllowedHosts, u.Host)
	}
	return m
}

// fetch fetches, or ends the test.
func fetch(tb testing.TB, m *builder.Mirrors, r builder.Remote, ref landfall.RefName,
	commit landfall.CommitSHA) *builder.Mirror {
	tb.Helper()
	mirror, err := m.Fetch(tb.Context(), r, ref, commit)
	if err != nil {
		tb.Fatalf("Fetch of %s: %v", commit.Short(), err)
	}
	tb.Cleanup(func() { _ = mirror.Close() })
	return mirror
}

// list returns the commit's files by path, or ends the test.
func list(tb testing.TB, m *builder.Mirror, commit landfall.CommitSHA) map[string]landfall.File {
	tb.Helper()
	files, err := m.Files(tb.Context(), commit, "")
	if err != nil {
		tb.Fatalf("Files: %v", err)
	}
	byPath := make(map[string]landfall.File)
	for _, f := range files {
		byPath[f.Path] = f
	}
	return byPath
}

// read returns the file's bytes, or ends the test.
func read(tb testing.TB, m *builder.Mirror, f landfall.File) string {
	tb.Helper()
	content, err := tryRead(tb, m, f)
	if err != nil {
		tb.Fatalf("Read of %q: %v", f.Path, err)
	}
	return content
}

func tryRead(tb testing.TB, m *builder.Mirror, f landfall.File) (string, error) {
	tb.Helper()
	r, err := m.Read(tb.Context(), f)
	if err != nil {
		return "", err
	}
	defer r.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	return b.String(), err
}

// wantError fails unless err is of the kind and its message has all the parts, and is fit for people.
func wantError(tb testing.TB, err error, kind landfall.Kind, parts ...string) {
	tb.Helper()
	if err == nil || landfall.KindOf(err) != kind {
		tb.Errorf("got error %v (%v), want kind %v", err, landfall.KindOf(err), kind)
		return
	}
	message := landfall.MessageOf(err)
	for _, part := range parts {
		if !strings.Contains(message, part) {
			tb.Errorf("got message %q, want %q in it", message, part)
		}
	}
}

// newCancel returns a context and what ends it.
func newCancel(tb testing.TB) (context.Context, context.CancelFunc) {
	tb.Helper()
	return context.WithCancel(tb.Context())
}
