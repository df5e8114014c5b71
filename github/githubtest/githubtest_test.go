package githubtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall/github/githubtest"
)

const (
	token  = "ghp_of_the_test"
	commit = "c3d9a1f04b7e62855d0c9be1f3a76240d8e5917b"
)

var description = sync.OnceValues(githubtest.Load)

func start(t *testing.T) *githubtest.Server {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	return githubtest.New(t, d, token)
}

// call sends a request and returns the answer's status and JSON.
func call(t *testing.T, s *githubtest.Server, method, path, body string) (int, any) {
	t.Helper()
	return callAs(t, s, token, method, path, body)
}

// callAs is call with another token.
func callAs(t *testing.T, s *githubtest.Server, token, method, path, body string) (int, any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	var value any
	if err := json.NewDecoder(response.Body).Decode(&value); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, value
}

// A status that was posted is in the list, the newest first, as at GitHub.
func TestStatuses(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, state := range []string{"pending", "success"} {
		status, _ := call(t, s, http.MethodPost, "repos/harbor/shop/statuses/"+commit,
			`{"state":"`+state+`","context":"landfall/shop","description":"x","target_url":"http://shop.test/"}`)
		if status != http.StatusCreated {
			t.Errorf("%s: got %d, want 201", state, status)
		}
	}
	status, list := call(t, s, http.MethodGet, "repos/harbor/shop/commits/"+commit+"/statuses?per_page=10", "")
	if all, ok := list.([]any); status != http.StatusOK || !ok || len(all) != 2 || !hasState(all[0], "success") {
		t.Errorf("got %d %v, want both statuses, success first", status, list)
	}
	want := githubtest.Status{
		Repository: "harbor/shop", SHA: commit, State: "pending", Context: "landfall/shop", Description: "x",
		Target: "http://shop.test/",
	}
	if got := s.Statuses(commit); len(got) != 2 || got[0] != want {
		t.Errorf("got %+v, want pending and success", got)
	}
	if got := s.Statuses("0000"); len(got) != 0 {
		t.Errorf("another commit has %+v, want none", got)
	}
}

func hasState(status any, state string) bool {
	fields, ok := status.(map[string]any)
	return ok && fields["state"] == state
}

// What GitHub would not take is refused; what its description forbids is a problem, too.
func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		problem            bool
	}{
		"an unknown state": {"POST", "repos/harbor/shop/statuses/" + commit, `{"state":"skipped"}`, 400, true},
		"no state":         {"POST", "repos/harbor/shop/statuses/" + commit, `{"context":"x"}`, 400, true},
		"a wrong type": {"POST", "repos/harbor/shop/statuses/" + commit, `{"state":"error","description":1}`,
			400, true},
		"no body":           {"POST", "repos/harbor/shop/statuses/" + commit, "", 400, true},
		"an unknown path":   {"POST", "repos/harbor/statuses/" + commit, `{"state":"error"}`, 400, true},
		"an unknown method": {"PUT", "repos/harbor/shop/statuses/" + commit, `{"state":"error"}`, 400, true},
		"a long description": {"POST", "repos/harbor/shop/statuses/" + commit,
			`{"state":"error","description":"` + strings.Repeat("x", 141) + `"}`, 422, false},
		"no commit": {"POST", "repos/harbor/shop/statuses/main", `{"state":"error"}`, 422, false},
		"a target elsewhere": {"POST", "repos/harbor/shop/statuses/" + commit, `{"state":"error","target_url":"ftp://x"}`,
			422, false},
	} {
		if got, _ := call(t, s, c.method, c.path, c.body); got != c.status {
			t.Errorf("%s: got %d, want %d", name, got, c.status)
		}
		if got := s.Problems(); (len(got) > 0) != c.problem {
			t.Errorf("%s: the problems are %q, want some: %t", name, got, c.problem)
		}
	}
	if got := s.Statuses(""); len(got) != 0 {
		t.Errorf("got %+v, want no status", got)
	}
}

// The n-th request from now on gets the fault, and the others do not.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := start(t)
	post := func() int {
		status, _ := call(t, s, http.MethodPost, "repos/harbor/shop/statuses/"+commit, `{"state":"error"}`)
		return status
	}
	first := post()
	s.Fail(2, githubtest.Fault{Status: 502, Written: true})
	s.Fail(3, githubtest.Fault{Close: true})
	got := []int{first, post(), post(), post(), post()}
	for i, want := range []int{201, 201, 502, 0, 201} {
		if got[i] != want {
			t.Errorf("request %d: got %d, want %d", i+1, got[i], want)
		}
	}
	if got := len(s.Statuses("")); got != 4 {
		t.Errorf("%d statuses were written, want 4", got)
	}
	if got := s.Requests(); got != 5 {
		t.Errorf("%d requests, want 5", got)
	}

	s.Fail(1, githubtest.Fault{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"repos/harbor/shop/statuses/"+commit,
		strings.NewReader(`{"state":"error"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	go func() {
		for s.Requests() < 6 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		cancel()
	}()
	if response, err := http.DefaultClient.Do(r); err == nil {
		response.Body.Close()
		t.Errorf("got %d, want no answer", response.StatusCode)
	}
}

// Without the description the error is the command to type.
func TestDescriptionIsMissing(t *testing.T) {
	t.Setenv(githubtest.DescriptionVariable, filepath.Join(t.TempDir(), "none.json"))
	if _, err := githubtest.Load(); err == nil ||
		!strings.HasSuffix(err.Error(), "type: make build/openapi/api.github.com.json") {
		t.Errorf("got %v, want the command", err)
	}
	other := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(other, []byte(`{"openapi":"3.0.3","paths":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(githubtest.DescriptionVariable, other)
	if _, err := githubtest.Load(); err == nil {
		t.Error("got no error, want that the paths are missing")
	}
}

// A comment that was made is listed by pages, edited in place by its author only, and gone when it is deleted.
func TestComments(t *testing.T) {
	t.Parallel()
	s := start(t)
	const list = "repos/harbor/shop/issues/12/comments"
	for range 3 {
		s.Comment("harbor/shop", 12, 7, "a person's")
	}
	s.Comment("harbor/shop", 13, 7, "another pull request's")
	status, made := call(t, s, http.MethodPost, list, `{"body":"one"}`)
	fields, ok := made.(map[string]any)
	if status != http.StatusCreated || !ok || fields["body"] != "one" {
		t.Fatalf("got %d %v, want the comment", status, made)
	}
	status, who := call(t, s, http.MethodGet, "user", "")
	self, ok := who.(map[string]any)
	author, isUser := fields["user"].(map[string]any)
	if status != http.StatusOK || !ok || !isUser || self["id"] != author["id"] {
		t.Errorf("got %d %v, want the author of the comment", status, who)
	}
	for page, want := range map[string]int{"1": 3, "2": 1, "3": 0} {
		status, got := call(t, s, http.MethodGet, list+"?per_page=3&page="+page, "")
		if all, ok := got.([]any); status != http.StatusOK || !ok || len(all) != want {
			t.Errorf("page %s: got %d %v, want %d comments", page, status, got, want)
		}
	}
	all := s.Comments("harbor/shop", 12)
	address := func(c githubtest.Comment) string { return fmt.Sprintf("repos/harbor/shop/issues/comments/%d", c.ID) }
	for _, c := range []struct {
		comment githubtest.Comment
		body    string
		status  int
	}{
		{all[3], `{"body":"two"}`, 200}, {all[0], `{"body":"two"}`, 403}, {githubtest.Comment{ID: 5}, `{"body":"two"}`, 404},
		{all[3], `{"body":"` + strings.Repeat("x", 65537) + `"}`, 422},
	} {
		if status, _ := call(t, s, http.MethodPatch, address(c.comment), c.body); status != c.status {
			t.Errorf("an edit of %d got %d, want %d", c.comment.ID, status, c.status)
		}
	}
	want := githubtest.Comment{Repository: "harbor/shop", Number: 12, ID: all[3].ID, Author: githubtest.Self,
		Body: "two", Edits: 1}
	if got := s.Comments("harbor/shop", 12)[3]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.DeleteComment(want.ID)
	if status, _ := call(t, s, http.MethodGet, address(want), ""); status != http.StatusNotFound {
		t.Errorf("a deleted comment got %d, want 404", status)
	}
}
