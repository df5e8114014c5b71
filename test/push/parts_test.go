package push_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// What an app version consists of, and what it does not.
func TestPartsOfAnAppVersion(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	app := s.App("shop")
	r := s.Repository(app)
	r.CopyTree("../../testdata/apps/shop")
	commit := r.Commit("Open the shop")
	r.Git("push", "--quiet", "origin", "main")
	run := s.Finished("shop", commit)

	var raw json.RawMessage
	s.Call(http.MethodGet, "/apps/shop/groups/"+string(run.Release), nil, &raw)
	tracker := testkit.Decode[struct {
		Kind     string
		Metadata map[string]any
		Spec     struct {
			Git     map[string]string
			Objects []map[string]string
		}
	}](t, raw)
	git := tracker.Spec.Git
	// B-026: the group has the commit, the branch and whether the work tree was clean, and its objects by type, name
	// and version
	if tracker.Kind != "GroupVersionTracker" || git["commit"] != string(commit) || git["branch"] != "main" ||
		git["clean"] != "yes" {
		t.Errorf("group: got kind %q and git %v, want GroupVersionTracker, %s, main, yes", tracker.Kind, git, commit)
	}
	kinds := map[string]int{}
	for _, o := range tracker.Spec.Objects {
		kinds[o["type"]]++
		if len(o) != 3 || o["name"] == "" || o["version"] == "" {
			t.Errorf("object: got %v, want type, name and version", o)
		}
	}
	// D-006: the tenant configuration is a part of the app version
	if kinds["config"] != 1 {
		t.Errorf("got %d units of tenant configuration, want 1", kinds["config"])
	}
	got := slices.Sorted(maps.Keys(kinds))
	want := []string{"config", "environment", "function", "http-trigger", "package", "static"}
	// D-005: our own services are no part of an app version: it holds what the app brings, and nothing else
	if !slices.Equal(got, want) {
		t.Errorf("kinds of units: got %v, want %v", got, want)
	}

	before := s.Get(s.At("shop", "/"))
	s.Stop()
	s.Start("LANDFALL_SANDBOX=off") // another server, as an administrator would put it in place
	after := s.Get(s.At("shop", "/"))
	groups := site.List[client.Group](s, "/apps/shop/groups")
	// D-015: replacing the server is the administrator's act: it makes no app version, and the release stays the same
	if len(groups) != 1 || after.Body != before.Body || after.Header.Get("Landfall-Release") != string(run.Release) {
		t.Errorf("after the server was replaced: got %d app versions and release %q, want 1 and %q",
			len(groups), after.Header.Get("Landfall-Release"), run.Release)
	}
}
