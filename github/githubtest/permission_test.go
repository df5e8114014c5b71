package githubtest_test

import (
	"fmt"
	"net/http"
	"testing"
)

// A user has the role that was given, with what GitHub's older words make of it; everybody else may read.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := start(t)
	for role, want := range map[string]string{
		"none": "none none", "triage": "read triage", "maintain": "write maintain", "admin": "admin admin",
		"read:auditor": "read auditor", "": "read read",
	} {
		if role != "" {
			s.Permit("harbor/shop", 7, role)
		}
		user := map[bool]string{true: "user-8", false: "user-7"}[role == ""]
		status, got := call(t, s, http.MethodGet, "repos/harbor/shop/collaborators/"+user+"/permission", "")
		fields, ok := got.(map[string]any)
		if status != http.StatusOK || !ok || fmt.Sprint(fields["permission"], " ", fields["role_name"]) != want {
			t.Errorf("%q: got %d %v, want %s", role, status, got, want)
		}
	}
	if status, _ := call(t, s, http.MethodGet, "repos/harbor/shop/collaborators/nobody/permission", ""); status != 404 {
		t.Errorf("an unknown user: got %d, want 404", status)
	}
}

// A comment has each reaction of a user once.
func TestReactions(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.Comment("harbor/shop", 12, 7, "a person's")
	path := func(id int64) string { return fmt.Sprintf("repos/harbor/shop/issues/comments/%d/reactions", id) }
	for _, c := range []struct {
		id      int64
		content string
		status  int
	}{{id, "+1", 201}, {id, "+1", 200}, {id, "confused", 201}, {5, "+1", 404}} {
		if status, got := call(t, s, http.MethodPost, path(c.id), `{"content":"`+c.content+`"}`); status != c.status {
			t.Errorf("%s on %d: got %d %v, want %d", c.content, c.id, status, got, c.status)
		}
	}
	status, got := call(t, s, http.MethodGet, path(id), "")
	if list, ok := got.([]any); status != http.StatusOK || !ok || len(list) != 2 {
		t.Errorf("got %d %v, want both", status, got)
	}
	if got := s.Reactions(id); len(got) != 2 || got[1].Content != "confused" {
		t.Errorf("got %+v, want both", got)
	}
}
