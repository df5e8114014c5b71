package forge

import (
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder/sshtest"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// Forge keeps repositories as GitHub does, and gives them by HTTP: http://127.0.0.1:PORT/OWNER/NAME.git.
type Forge struct {
	Address string
	SSH     *sshtest.Server // the same repositories
	root    string          // the bare repositories
	git     http.Handler
	media   *media

	mu    sync.Mutex
	asked map[string]int // requests by repository
	given map[string]int // those of them that were answered
	rules map[string]Rule
	last  int64 // repository id
}

// Rule says how a repository is given.
type Rule struct {
	Status   int    // answer nothing else
	Silent   bool   // answer nothing at all
	Password string // of any user; empty: to everybody
	// whether it is given to who has a password, of any user; nil: Password says it
	Admits func(repository, password string) bool
	hold   chan struct{} // answer after it is closed
}

// New starts a forge, which ends with the test.
func New(tb testing.TB) *Forge {
	tb.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		tb.Fatal(err)
	}
	f := &Forge{root: tb.TempDir(), asked: map[string]int{}, given: map[string]int{}, rules: map[string]Rule{}, last: 710200300}
	f.git = &cgi.Handler{Path: git, Args: []string{"http-backend"}, Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}}
	f.SSH, f.media = sshtest.New(tb, f.root), newMedia(tb)
	server := httptest.NewServer(f)
	f.Address = server.URL
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return f
}

// hosts are those that a server needs to fetch from, all of them private.
func (f *Forge) hosts() string {
	return strings.Join([]string{strings.TrimPrefix(f.Address, "http://"), strings.TrimPrefix(f.media.URL, "http://"),
		f.SSH.Address}, ",")
}

// ServeHTTP implements http.Handler.
func (f *Forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git")
	f.mu.Lock()
	f.asked[name]++
	rule := f.rules[name]
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.given[name]++
	}()
	if rule.hold != nil {
		select {
		case <-rule.hold:
		case <-r.Context().Done():
			return
		}
	}
	_, password, _ := r.BasicAuth()
	switch {
	case rule.Silent:
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			connection.Close()
		}
	case rule.Status != 0:
		http.Error(w, http.StatusText(rule.Status), rule.Status)
	case rule.Password != password && rule.Password != "" || rule.Admits != nil && !rule.Admits(name, password):
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		http.Error(w, "Repository not found.", http.StatusUnauthorized)
	case strings.HasSuffix(r.URL.Path, "/info/lfs/objects/batch"):
		f.media.batch(w, r)
	default:
		f.git.ServeHTTP(w, r)
	}
}

// Rule changes how a repository is given.
func (f *Forge) Rule(name string, r Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules[name] = r
}

// Requests returns how many requests for a repository came.
func (f *Forge) Requests(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[name]
}

// forget forgets the requests for a repository that were answered so far, and returns how many these were.
func (f *Forge) forget(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	given := f.given[name]
	f.asked[name], f.given[name] = f.asked[name]-given, 0
	return given
}

// Hosted is a repository at the forge, with a work tree to push from.
type Hosted struct {
	*site.Repository
	Forge *Forge
	Name  string // OWNER/NAME
	ID    int64
	Bare  *site.Repository
}

// Host makes an empty repository at the forge.
func (f *Forge) Host(t testing.TB, name string) *Hosted {
	t.Helper()
	f.mu.Lock()
	f.last++
	id := f.last
	f.mu.Unlock()
	dir := filepath.Join(f.root, filepath.FromSlash(name)+".git")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h := &Hosted{Repository: site.NewRepository(t), Forge: f, Name: name, ID: id, Bare: &site.Repository{T: t, Dir: dir}}
	h.Bare.Git("init", "--quiet", "--bare", "--initial-branch=main")
	h.Bare.Git("config", "uploadpack.allowAnySHA1InWant", "true") // as at GitHub
	h.Git("remote", "add", "origin", dir)
	return h
}

// Move gives the repository another name at the forge.
func (h *Hosted) Move(name string) {
	h.T.Helper()
	dir := filepath.Join(h.Forge.root, filepath.FromSlash(name)+".git")
	if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o755), os.Rename(h.Bare.Dir, dir)); err != nil {
		h.T.Fatal(err)
	}
	h.Name, h.Bare.Dir = name, dir
	h.Git("remote", "set-url", "origin", dir)
}

// Clone is the address to fetch from.
func (h *Hosted) Clone() string { return h.Forge.Address + "/" + h.Name + ".git" }

// Hold lets the repository answer only after the returned function was called.
func (h *Hosted) Hold() (release func()) {
	gate := make(chan struct{})
	h.Forge.Rule(h.Name, Rule{hold: gate})
	release = sync.OnceFunc(func() {
		h.Forge.Rule(h.Name, Rule{})
		close(gate)
	})
	h.T.Cleanup(release)
	return release
}

// Delivery is one webhook request.
type Delivery struct {
	ID, Event string
	Body      []byte
}

const noCommit = "0000000000000000000000000000000000000000"

// Send pushes a branch or, by its full name, another reference as `git push --force` does, and returns what GitHub then
// delivers. Of an annotated tag that names the tag.
func (h *Hosted) Send(ref string) Delivery {
	h.T.Helper()
	ref = fullName(ref)
	before := h.at(ref)
	h.Git("push", "--quiet", "--force", "origin", ref+":"+ref)
	after := h.at(ref)
	commit := h.Bare.Git("rev-parse", ref+"^{commit}")
	_, err := h.Bare.Try("merge-base", "--is-ancestor", before, after)
	fields := map[string]any{
		"ref": ref, "before": before, "after": after, "created": before == noCommit, "deleted": false,
		"forced": before != noCommit && err != nil,
	}
	template := "push_branch_update"
	if strings.HasPrefix(ref, "refs/tags/") {
		template = "push_tag_create_annotated"
	}
	return h.Delivery("push", template, func(payload map[string]any) {
		maps.Copy(payload, fields)
		head := Object(h.T, payload, "head_commit")
		head["id"], head["message"] = commit, h.Bare.Git("log", "-1", "--format=%B", commit)
	})
}

// Remove deletes a reference at the forge and returns what GitHub then delivers.
func (h *Hosted) Remove(ref string) Delivery {
	h.T.Helper()
	ref = fullName(ref)
	before := h.at(ref)
	h.Git("push", "--quiet", "--delete", "origin", ref)
	return h.Delivery("push", "push_branch_delete", func(payload map[string]any) {
		maps.Copy(payload, map[string]any{"ref": ref, "before": before, "after": noCommit, "deleted": true})
	})
}

// Pull returns what GitHub delivers of a pull request whose head is a branch; action is the name of a template.
func (h *Hosted) Pull(action string, number int, branch string) Delivery {
	h.T.Helper()
	sha := h.at(fullName(branch))
	return h.Delivery("pull_request", "pull_request_"+action, func(payload map[string]any) {
		payload["number"] = number
		pull := Object(h.T, payload, "pull_request")
		now := time.Now().UTC().Format(time.RFC3339)
		pull["number"], pull["updated_at"], pull["created_at"] = number, now, now
		head, base := Object(h.T, pull, "head"), Object(h.T, pull, "base")
		head["ref"], head["sha"], base["ref"] = branch, sha, "main"
		base["repo"] = payload["repository"]
		if !strings.Contains(action, "fork") {
			head["repo"] = payload["repository"]
		}
	})
}

// Delivery makes a delivery of a template of testdata/github.
func (h *Hosted) Delivery(event, template string, change func(payload map[string]any)) Delivery {
	h.T.Helper()
	payload := testkit.Decode[map[string]any](h.T, Fixture(h.T, template))
	owner, name, _ := strings.Cut(h.Name, "/")
	repository := Object(h.T, payload, "repository")
	maps.Copy(repository, map[string]any{
		"id": h.ID, "name": name, "full_name": h.Name, "clone_url": h.Clone(),
		"html_url": strings.TrimSuffix(h.Clone(), ".git"), "git_url": "git://forge.test/" + h.Name + ".git",
		"ssh_url": h.Forge.SSH.URL(h.Name),
	})
	maps.Copy(Object(h.T, repository, "owner"), map[string]any{"login": owner, "name": owner})
	change(payload)
	return Delivery{ID: rand.Text(), Event: event, Body: testkit.Encode(h.T, payload)}
}

// With returns another delivery whose payload is changed.
func (d Delivery) With(t testing.TB, change func(payload map[string]any)) Delivery {
	t.Helper()
	payload := testkit.Decode[map[string]any](t, d.Body)
	change(payload)
	return Delivery{ID: rand.Text(), Event: d.Event, Body: testkit.Encode(t, payload)}
}

// Object returns an object within a payload.
func Object(t testing.TB, payload map[string]any, field string) map[string]any {
	t.Helper()
	inner, ok := payload[field].(map[string]any)
	if !ok {
		t.Fatalf("the payload has no object %q", field)
	}
	return inner
}

// at returns what a reference names at the forge; noCommit when it is not there.
func (h *Hosted) at(ref string) string {
	sha, err := h.Bare.Try("rev-parse", "--verify", "--quiet", ref)
	if err != nil {
		return noCommit
	}
	return strings.TrimSpace(sha)
}

func fullName(ref string) string {
	if strings.HasPrefix(ref, "refs/") {
		return ref
	}
	return landfall.BranchPrefix + ref
}

// Release writes a page, commits it, and pushes the branch that is checked out.
func (h *Hosted) Release(page string) (landfall.CommitSHA, Delivery) {
	h.T.Helper()
	h.Write("index.html", page)
	commit := h.Commit(page)
	return commit, h.Send(h.Git("symbolic-ref", "--short", "HEAD"))
}

// Fixture returns a payload of testdata/github as it is.
func Fixture(tb testing.TB, name string) []byte {
	tb.Helper()
	return testkit.Must(os.ReadFile(filepath.Join(testkit.Must(site.Root())(tb), "testdata", "github", name+".json")))(tb)
}
