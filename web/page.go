package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

//go:embed templates static
var embedded embed.FS

// page is a template with the layout around it. Its parts are the templates of it whose names begin with "part-": they
// are what changes while somebody looks.
type page struct {
	*template.Template
	names []string // of its parts
}

// partPrefix begins the names of parts.
const partPrefix = "part-"

// readPages reads every template. Those of layout.html and parts.html are everybody's.
func readPages() (map[string]*page, error) {
	shared, err := template.New("").Funcs(functions()).ParseFS(embedded, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, err
	}
	paths, err := fs.Glob(embedded, "templates/*.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*page{}
	for _, name := range paths {
		t, err := shared.Clone()
		if err != nil {
			return nil, err
		}
		if t, err = t.ParseFS(embedded, name); err != nil {
			return nil, err
		}
		p := &page{Template: t}
		for _, part := range t.Templates() {
			if strings.HasPrefix(part.Name(), partPrefix) {
				p.names = append(p.names, part.Name())
			}
		}
		slices.Sort(p.names)
		pages[strings.TrimSuffix(path.Base(name), ".html")] = p
	}
	return pages, nil
}

// part is a part of a page as it is now.
type part struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
	HTML string `json:"html"`
}

// parts makes the parts of a page.
func (p *page) parts(f *frame) ([]part, error) {
	all := make([]part, 0, len(p.names))
	for _, name := range p.names {
		var text bytes.Buffer
		if err := p.ExecuteTemplate(&text, name, f); err != nil {
			return nil, err
		}
		all = append(all, part{name, hashOf(text.Bytes()), text.String()})
	}
	return all, nil
}

func hashOf(data []byte) string { return landfall.DigestOf(data).Hex()[:16] }

// file is a file that pages need. Its address holds its hash, so that browsers keep it for ever.
type file struct {
	url, kind string
	data      []byte
}

// files are the files that pages need, by name.
type files map[string]file

const filePath = "/static/"

func readFiles() (files, error) {
	entries, err := embedded.ReadDir("static")
	if err != nil {
		return nil, err
	}
	all := files{}
	for _, e := range entries {
		data, err := embedded.ReadFile("static/" + e.Name())
		if err != nil {
			return nil, err
		}
		ext := path.Ext(e.Name())
		url := fmt.Sprintf("%s%s.%s%s", filePath, strings.TrimSuffix(e.Name(), ext), hashOf(data), ext)
		all[e.Name()] = file{url, mime.TypeByExtension(ext), data}
	}
	return all, nil
}

// URL returns the address of a file.
func (f files) URL(name string) string { return f[name].url }

func (f files) serve(w http.ResponseWriter, r *http.Request) {
	for _, file := range f {
		if file.url == r.URL.Path {
			w.Header().Set("Content-Type", file.kind)
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			_, _ = w.Write(file.data) // the reader may be gone
			return
		}
	}
	http.NotFound(w, r)
}
