package main

import (
	"crypto/rand"
	"encoding/json"
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

	"landfall.dev/landfall"
)

// forge keeps repositories as GitHub does, and gives them by HTTP: http://127.0.0.1:PORT/OWNER/NAME.git.
type forge struct {
	url  string
	root string // the bare repositories
	git  http.Handler

	mu    sync.Mutex
	asked map[string]int // requests by repository
	rules map[string]rule
	last  int64 // repository id
}

// rule says how a repository is given.
type rule struct {
	status   int           // answer nothing else
	silent   bool          // answer nothing at all
	password string        // of any user; empty: to everybody
	hold     chan struct{} // answer after it is closed
}

func newForge(tb testing.TB) *forge {
	tb.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		tb.Fatal(err)
	}
	f := &forge{root: tb.TempDir(), asked: map[string]int{}, rules: map[string]rule{}, last: 710200300}
	f.git = &cgi.Handler{Path: git, Args: []string{"http-backend"}, Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}}
	server := httptest.NewServer(f)
	f.url = server.URL
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return f
}

// ServeHTTP implements http.Handler.
func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git")
	f.mu.Lock()
	f.asked[name]++
	rule := f.rules[name]
	f.mu.Unlock()
	if rule.hold != nil {
		select {
		case <-rule.hold:
		case <-r.Context().Done():
			return
		}
	}
	_, password, _ := r.BasicAuth()
	switch {
	case rule.silent:
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			connection.Close()
		}
	case rule.status != 0:
		http.Error(w, http.StatusText(rule.status), rule.status)
	case rule.password != password && rule.password != "":
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		http.Error(w, "Repository not found.", http.StatusUnauthorized)
	default:
		f.git.ServeHTTP(w, r)
	}
}

// rule changes how a repository is given.
func (f *forge) rule(name string, r rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules[name] = r
}

// requests returns how many requests for a repository came.
func (f *forge) requests(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[name]
}

// hosted is a repository at the forge, with a work tree to push from.
type hosted struct {
	*repository
	forge *forge
	name  string // OWNER/NAME
	id    int64
	bare  *repository
}

// host makes an empty repository at the forge.
func (f *forge) host(t *testing.T, name string) *hosted {
	t.Helper()
	f.mu.Lock()
	f.last++
	id := f.last
	f.mu.Unlock()
	dir := filepath.Join(f.root, filepath.FromSlash(name)+".git")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h := &hosted{repository: newRepository(t), forge: f, name: name, id: id, bare: &repository{t, dir}}
	h.bare.git("init", "--quiet", "--bare", "--initial-branch=main")
	h.bare.git("config", "uploadpack.allowAnySHA1InWant", "true") // as at GitHub
	h.git("remote", "add", "origin", dir)
	return h
}

// clone is the address to fetch from.
func (h *hosted) clone() string { return h.forge.url + "/" + h.name + ".git" }

// hold lets the repository answer only after the returned function was called.
func (h *hosted) hold() (release func()) {
	gate := make(chan struct{})
	h.forge.rule(h.name, rule{hold: gate})
	release = sync.OnceFunc(func() {
		h.forge.rule(h.name, rule{})
		close(gate)
	})
	h.t.Cleanup(release)
	return release
}

// delivery is one webhook request.
type delivery struct {
	id, event string
	body      []byte
}

const noCommit = "0000000000000000000000000000000000000000"

// send pushes a branch or, by its full name, another reference as `git push --force` does, and returns what GitHub then
// delivers. Of an annotated tag that names the tag.
func (h *hosted) send(ref string) delivery {
	h.t.Helper()
	ref = fullName(ref)
	before := h.at(ref)
	h.git("push", "--quiet", "--force", "origin", ref+":"+ref)
	after := h.at(ref)
	commit := h.bare.git("rev-parse", ref+"^{commit}")
	_, err := h.bare.try("merge-base", "--is-ancestor", before, after)
	fields := map[string]any{
		"ref": ref, "before": before, "after": after, "created": before == noCommit, "deleted": false,
		"forced": before != noCommit && err != nil,
	}
	template := "push_branch_update"
	if strings.HasPrefix(ref, "refs/tags/") {
		template = "push_tag_create_annotated"
	}
	return h.delivery("push", template, func(payload map[string]any) {
		maps.Copy(payload, fields)
		head := object(h.t, payload, "head_commit")
		head["id"], head["message"] = commit, h.bare.git("log", "-1", "--format=%B", commit)
	})
}

// remove deletes a reference at the forge and returns what GitHub then delivers.
func (h *hosted) remove(ref string) delivery {
	h.t.Helper()
	ref = fullName(ref)
	before := h.at(ref)
	h.git("push", "--quiet", "--delete", "origin", ref)
	return h.delivery("push", "push_branch_delete", func(payload map[string]any) {
		maps.Copy(payload, map[string]any{"ref": ref, "before": before, "after": noCommit, "deleted": true})
	})
}

// pull returns what GitHub delivers of a pull request whose head is a branch; action is the name of a template.
func (h *hosted) pull(action string, number int, branch string) delivery {
	h.t.Helper()
	sha := h.at(fullName(branch))
	return h.delivery("pull_request", "pull_request_"+action, func(payload map[string]any) {
		payload["number"] = number
		pull := object(h.t, payload, "pull_request")
		pull["number"] = number
		head, base := object(h.t, pull, "head"), object(h.t, pull, "base")
		head["ref"], head["sha"], base["ref"] = branch, sha, "main"
		base["repo"] = payload["repository"]
		if !strings.Contains(action, "fork") {
			head["repo"] = payload["repository"]
		}
	})
}

// delivery makes a delivery of a template of testdata/github.
func (h *hosted) delivery(event, template string, change func(payload map[string]any)) delivery {
	h.t.Helper()
	payload := decode[map[string]any](h.t, fixture(h.t, template))
	owner, name, _ := strings.Cut(h.name, "/")
	repository := object(h.t, payload, "repository")
	maps.Copy(repository, map[string]any{
		"id": h.id, "name": name, "full_name": h.name, "clone_url": h.clone(), "html_url": strings.TrimSuffix(h.clone(), ".git"),
		"git_url": "git://forge.test/" + h.name + ".git", "ssh_url": "git@forge.test:" + h.name + ".git",
	})
	maps.Copy(object(h.t, repository, "owner"), map[string]any{"login": owner, "name": owner})
	change(payload)
	return delivery{id: rand.Text(), event: event, body: encode(h.t, payload)}
}

// with returns another delivery whose payload is changed.
func (d delivery) with(t *testing.T, change func(payload map[string]any)) delivery {
	t.Helper()
	payload := decode[map[string]any](t, d.body)
	change(payload)
	return delivery{id: rand.Text(), event: d.event, body: encode(t, payload)}
}

// object returns an object within a payload.
func object(t *testing.T, payload map[string]any, field string) map[string]any {
	t.Helper()
	inner, ok := payload[field].(map[string]any)
	if !ok {
		t.Fatalf("the payload has no object %q", field)
	}
	return inner
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// at returns what a reference names at the forge; noCommit when it is not there.
func (h *hosted) at(ref string) string {
	sha, err := h.bare.try("rev-parse", "--verify", "--quiet", ref)
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

// release writes a page, commits it, and pushes the branch that is checked out.
func (h *hosted) release(page string) (landfall.CommitSHA, delivery) {
	h.t.Helper()
	h.write("index.html", page)
	commit := h.commit(page)
	return commit, h.send(h.git("symbolic-ref", "--short", "HEAD"))
}
