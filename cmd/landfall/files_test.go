package main

import (
	"fmt"
	"net/http"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// The files of a release are listed with the version that stored each, and two releases, or a run, with the files that differ.
func TestFilesOfReleases(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/app.yaml", appSpec("shop"), "specs/env.yaml", environmentSpec, "specs/hello.yaml", functionSpec("hello"), "hello/main.py", "one",
		"site/index.html", "one", "site/same.txt", "same", "site/old.txt", "old")
	one := s.pushed(r, "shop", "One")
	wantEqual(t, "what a rollback would go to", s.showApp("shop").Previous, "")
	r.git("rm", "--quiet", "site/old.txt")
	r.write("site/index.html", "two!", "site/new.txt", "new", "hello/main.py", "two")
	two := s.pushed(r, "shop", "Two")
	wantEqual(t, "what a rollback would go to", s.showApp("shop").Previous, one)

	files := list[client.File](s, "/apps/shop/groups/live/files")
	got := []string{}
	for _, f := range files {
		got = append(got, fmt.Sprintf("%s %s %d %s", f.Path, f.Unit, f.Size, f.Stored))
	}
	// L-029: each file is with the version that stored its bytes: what is shared is told from what is the release's own
	wantList(t, "files", got, []string{"/index.html / 4 " + string(two), "/new.txt / 3 " + string(two), "/same.txt / 4 " + string(one)})
	wantEqual(t, "digest", files[2].Digest, landfall.DigestOf([]byte("same")))

	var page struct {
		Items []client.File `json:"items"`
		Next  string        `json:"next"`
	}
	s.call(http.MethodGet, "/apps/shop/groups/live/files?limit=2", nil, &page)
	wantEqual(t, "files of the first page", len(page.Items), 2)
	rest := list[client.File](s, "/apps/shop/groups/live/files?limit=2&cursor="+page.Next)
	if len(rest) != 1 || rest[0].Path != "/same.txt" {
		t.Errorf("second page: got %v, want /same.txt", rest)
	}
	for _, cursor := range []string{"x", "-1", "4"} {
		wantRefused(t, s.refused(http.MethodGet, "/apps/shop/groups/live/files?cursor="+cursor, nil), landfall.Invalid, "cursor")
	}

	run := s.finished("shop", r.head())
	differ := []string{
		"package hello-pkg deployment/main.py changed 3 3", "static / /index.html changed 3 4", "static / /new.txt added 0 3",
		"static / /old.txt removed 3 0",
	}
	for _, path := range []string{"/apps/shop/diff/files?from=" + string(one) + "&to=" + string(two), "/runs/" + run.ID + "/files"} {
		got := []string{}
		for _, f := range list[client.ChangedFile](s, path) {
			got = append(got, fmt.Sprintf("%s %s %s %d %d", f.Unit, f.Path, f.Change, f.Before, f.After))
		}
		wantList(t, path, got, differ)
	}
	wantEqual(t, "files that differ from itself", len(list[client.ChangedFile](s, "/apps/shop/diff/files?from=live&to=live")), 0)
}
