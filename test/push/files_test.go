package push_test

import (
	"fmt"
	"net/http"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// The files of a release are listed with the version that stored each, and two releases, or a run, with the files that
// differ.
func TestFilesOfReleases(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/app.yaml", site.AppSpec("shop"), "specs/env.yaml", site.EnvironmentSpec, "specs/hello.yaml",
		site.FunctionSpec("hello"), "hello/main.py", "one",
		"site/index.html", "one", "site/same.txt", "same", "site/old.txt", "old")
	one := s.Pushed(r, "shop", "One")
	testkit.Equal(t, "what a rollback would go to", s.ShowApp("shop").Previous, "")
	r.Git("rm", "--quiet", "site/old.txt")
	r.Write("site/index.html", "two!", "site/new.txt", "new", "hello/main.py", "two")
	two := s.Pushed(r, "shop", "Two")
	testkit.Equal(t, "what a rollback would go to", s.ShowApp("shop").Previous, one)

	files := site.List[client.File](s, "/apps/shop/groups/live/files")
	got := []string{}
	for _, f := range files {
		got = append(got, fmt.Sprintf("%s %s %d %s", f.Path, f.Unit, f.Size, f.Stored))
	}
	// L-029: each file is with the version that stored its bytes: what is shared is told from what is the release's own
	testkit.EqualList(t, "files", got, []string{"/index.html / 4 " + string(two), "/new.txt / 3 " + string(two),
		"/same.txt / 4 " + string(one)})
	testkit.Equal(t, "digest", files[2].Digest, landfall.DigestOf([]byte("same")))

	var page struct {
		Items []client.File `json:"items"`
		Next  string        `json:"next"`
	}
	s.Call(http.MethodGet, "/apps/shop/groups/live/files?limit=2", nil, &page)
	testkit.Equal(t, "files of the first page", len(page.Items), 2)
	rest := site.List[client.File](s, "/apps/shop/groups/live/files?limit=2&cursor="+page.Next)
	if len(rest) != 1 || rest[0].Path != "/same.txt" {
		t.Errorf("second page: got %v, want /same.txt", rest)
	}
	for _, cursor := range []string{"x", "-1", "4"} {
		site.WantRefused(t, s.Refused(http.MethodGet, "/apps/shop/groups/live/files?cursor="+cursor, nil),
			landfall.Invalid, "cursor")
	}

	run := s.Finished("shop", r.Head())
	differ := []string{
		"package hello-pkg deployment/main.py changed 3 3", "static / /index.html changed 3 4", "static / /new.txt added 0 3",
		"static / /old.txt removed 3 0",
	}
	for _, path := range []string{"/apps/shop/diff/files?from=" + string(one) + "&to=" + string(two),
		"/runs/" + run.ID + "/files"} {
		got := []string{}
		for _, f := range site.List[client.ChangedFile](s, path) {
			got = append(got, fmt.Sprintf("%s %s %s %d %d", f.Unit, f.Path, f.Change, f.Before, f.After))
		}
		testkit.EqualList(t, path, got, differ)
	}
	testkit.Equal(t, "files that differ from itself",
		len(site.List[client.ChangedFile](s, "/apps/shop/diff/files?from=live&to=live")), 0)
}
