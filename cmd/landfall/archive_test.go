package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a build made is deployed as it was made, or not at all.
func TestDamagedBuildIsNotDeployed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	r := s.repository(s.app("shop"))
	built := func(name string) string {
		return strings.Replace(functionSpec(name), `deployment: {url: "archive://`+name+`"}`, `source: {url: "archive://`+name+`"}
  buildcmd: cp -r "$SRC_PKG" "$DEPLOY_PKG"`, 1)
	}
	r.write("specs/app.yaml", appSpec("shop", ""), "specs/env.yaml", environmentSpec, "specs/f.yaml", built("f"), "f/main.py", "one",
		"site/robots.txt", "all")
	s.pushed(r, "shop", "A package is built")
	kept := filepath.Join(s.data, "cache", "builds")
	damaged := 0
	err := filepath.WalkDir(kept, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "main.py" {
			return err
		}
		damaged++
		return os.WriteFile(path, []byte("bad"), 0o600)
	})
	if err != nil || damaged == 0 {
		t.Fatalf("%d files below %s were damaged: %v", damaged, kept, err)
	}
	r.write("specs/g.yaml", built("g"), "g/main.py", "one")
	r.commit("Another package is built from the same")
	wantFailed(t, s, "shop", r, r.push("HEAD"), "main.py", "changed between build and upload")
}
