package files

import (
	"context"
	"net/http"
	"strings"

	"landfall.dev/landfall/runtime/registry"
)

// answer says what a path of a release leads to: a file with a status, an address to go to, or, when it is zero,
// nothing.
type answer struct {
	status int
	path   string // of the file; its name decides how long it may be kept
	file   File
	moved  string // the canonical path to go to instead

	fallback bool // the file is the page for addresses that only the page's own script knows
	past     bool // the file is of a release that was live before
}

// exists reports whether there is something at the path, and not only a page that says that there is nothing.
func (a answer) exists() bool { return a.moved != "" || a.status == http.StatusOK }

// find returns what the canonical path of the release leads to: the file, the page without its ".html", the folder's
// index; else the fallback page or the 404 page of the most specific unit that covers the path and has one.
func (m *manifests) find(ctx context.Context, release *registry.Release, path string) (answer, error) {
	candidates := []string{path, path + ".html"}
	folder := strings.HasSuffix(path, "/")
	if folder {
		candidates = []string{path + "index.html"}
	}
	for _, name := range candidates {
		if file, ok, err := m.file(ctx, release, name); ok || err != nil {
			return answer{status: http.StatusOK, path: name, file: file}, err
		}
	}
	page, other := path+"/index.html", path+"/"
	if folder && path != "/" {
		other = strings.TrimSuffix(path, "/")
		page = other + ".html"
	}
	if _, ok, err := m.file(ctx, release, page); ok || err != nil {
		return answer{moved: other}, err
	}
	return m.instead(ctx, release, path)
}

// instead returns the page for a path that has no file.
func (m *manifests) instead(ctx context.Context, release *registry.Release, path string) (answer, error) {
	for i := range release.Units {
		unit := &release.Units[i]
		if !covers(unit.Path, path) {
			continue
		}
		manifest, err := m.at(ctx, unit.Manifest)
		if err != nil {
			return answer{}, err
		}
		if file, ok := manifest.Files[unit.Fallback]; ok && navigation(path) {
			return answer{status: http.StatusOK, path: unit.Fallback, file: file, fallback: true}, nil
		}
		for folder := path; folder != ""; {
			folder = folder[:strings.LastIndexByte(folder, '/')]
			if file, ok := manifest.Files[folder+"/404.html"]; ok {
				return answer{status: http.StatusNotFound, path: folder + "/404.html", file: file}, nil
			}
		}
	}
	return answer{}, nil
}
