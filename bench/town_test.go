package bench_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
)

// A town is an installation with many apps: every app has a function and pages of 4 KiB, and a release for each of its
// branches, of which main is live. The branches differ in page 0.
const (
	townApps     = 100
	townPages    = 100
	townReleases = 10
)

type town struct {
	data  string     // the data folder of a server that is to be started
	pages [][][]byte // of main, by app
	other [][]byte   // page 0 of the branch b1, by app
}

func townApp(i int) string { return fmt.Sprintf("app%03d", i) }

func townPage(i int) string { return fmt.Sprintf("/dir%d/page%02d.html", i%10, i) }

// newTown returns the town, with a data folder of the caller's own.
func newTown(b *testing.B) *town {
	b.Helper()
	t := &town{pages: make([][][]byte, townApps), other: make([][]byte, townApps)}
	var stream bytes.Buffer
	random := rand.New(rand.NewPCG(3, 4))
	for app := range townApps {
		t.write(&stream, app, random)
	}
	t.data = fixture(b, "town", func(folder string) { settle(b, folder, stream.Bytes()) })
	return t
}

// settle pushes the town to a server whose data folder it becomes.
func settle(b *testing.B, folder string, stream []byte) {
	b.Helper()
	repository := site.NewRepository(b)
	feed(b, repository.Dir, stream, "git", "fast-import", "--quiet")
	s := startServer(b, folder, "")
	for app := range townApps {
		push := []string{"push", "--quiet", s.Remote(s.App(townApp(app)))}
		for branch := range townReleases {
			push = append(push, fmt.Sprintf("refs/heads/%s/b%d:refs/heads/%s", townApp(app), branch, branchOf(branch)))
		}
		repository.Git(push...)
	}
	var page struct{ Items []client.Release }
	s.Call(http.MethodGet, "/apps/"+townApp(townApps-1)+"/releases", nil, &page)
	if len(page.Items) != townReleases {
		b.Fatalf("an app has %d releases, want %d; the server's log:\n%s", len(page.Items), townReleases, s.Log)
	}
	s.Stop()
}

func branchOf(branch int) string {
	if branch == 0 {
		return "main"
	}
	return fmt.Sprintf("b%d", branch)
}

// write writes an app's branches for git fast-import.
func (t *town) write(stream *bytes.Buffer, app int, random *rand.Rand) {
	file := func(name string, data []byte) {
		fmt.Fprintf(stream, "M 100644 inline %s\ndata %d\n%s\n", name, len(data), data)
	}
	page := func() []byte {
		data := make([]byte, fileSize)
		for i := range data {
			data[i] = byte('a' + random.IntN(26))
		}
		return data
	}
	for branch := range townReleases {
		fmt.Fprintf(stream, "commit refs/heads/%s/b%d\ncommitter a <a@b> %d +0000\ndata 1\nx\n", townApp(app), branch,
			1_700_000_000+branch)
		if branch > 0 {
			fmt.Fprintf(stream, "from refs/heads/%s/b0\n", townApp(app))
			data := page()
			if branch == 1 {
				t.other[app] = data
			}
			file("site"+townPage(0), data)
			continue
		}
		file("specs/app.yaml", fmt.Appendf(nil, townSpec, townApp(app)))
		file("function/main.py", []byte("def main(): pass\n"))
		for i := range townPages {
			data := page()
			t.pages[app] = append(t.pages[app], data)
			file("site"+townPage(i), data)
		}
	}
}

const townSpec = `apiVersion: landfall.dev/v1
kind: App
metadata: {name: %[1]s}
spec:
  static:
    - {src: site, path: /}
---
apiVersion: fission.io/v1
kind: Environment
metadata: {name: python}
spec:
  version: 2
  runtime: {image: fission/python-env}
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: %[1]s}
spec:
  environment: {name: python}
  package:
    packageref: {name: %[1]s-package}
    functionName: main.main
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: %[1]s-package}
spec:
  environment: {name: python}
  deployment: {url: "archive://%[1]s-archive"}
---
kind: ArchiveUploadSpec
name: %[1]s-archive
include:
  - function/*.py
`
