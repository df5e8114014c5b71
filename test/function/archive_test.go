package function_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// fileServer has files, and counts how often each was fetched.
type fileServer struct {
	*httptest.Server

	mu      sync.Mutex
	files   map[string][]byte
	fetched map[string]int
	down    map[string]int // how many more requests for a file it refuses for now
}

func newFileServer(t *testing.T) *fileServer {
	t.Helper()
	f := &fileServer{files: map[string][]byte{}, fetched: map[string]int{}, down: map[string]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// ServeHTTP implements http.Handler.
func (f *fileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fetched[r.URL.Path]++
	content, there := f.files[r.URL.Path]
	switch {
	case f.down[r.URL.Path] > 0:
		f.down[r.URL.Path]--
		w.WriteHeader(http.StatusServiceUnavailable)
	case !there:
		http.NotFound(w, r)
	default:
		_, _ = w.Write(content)
	}
}

func (f *fileServer) put(path string, content []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[path] = content
}

// refuse makes it refuse the next request for a file.
func (f *fileServer) refuse(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down[path] = 1
}

// times returns how often a file was fetched.
func (f *fileServer) times(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fetched[path]
}

// zipOf packs one file.
func zipOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	f := testkit.Must(z.Create(name))(t)
	_, err := f.Write([]byte(text))
	if err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// tarOf packs one file, compressed by gzip.
func tarOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err != nil || w.Close() != nil || compressed.Close() != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// answering is a function in Python that answers with a word.
func answering(word string) string { return "def main():\n    return '" + word + "'\n" }

// A package whose archive is at a URL, or is a literal, is fetched when it is pushed, stored, and versioned by its bytes.
func TestFetchedArchives(t *testing.T) {
	t.Parallel()
	files := newFileServer(t)
	files.put("/zipped.zip", zipOf(t, "zipped.py", answering("zip one")))
	files.put("/packed", tarOf(t, "lib/main.py", answering("tar")))
	files.put("/plain.py", []byte(answering("plain")))
	fixed := zipOf(t, "fixed.py", answering("fixed"))
	files.put("/fixed.zip", fixed)
	sum := landfall.DigestOf(fixed).Hex()

	s := site.New(t, "LANDFALL_ALLOWED_HOSTS="+files.Listener.Addr().String())
	r := s.Repository(s.App("shop"))
	functions := []string{"zipped zipped.main", "packed lib.main.main", "plain main", "fixed fixed.main", "short main"}
	write := func(archives map[string]string) {
		t.Helper()
		text := site.FunctionsSpec("python-env", functions...)
		for name, archive := range archives {
			text = strings.Replace(text, `deployment: {url: "archive://`+name+`"}`, archive, 1)
			text = strings.Replace(text, "kind: ArchiveUploadSpec\nname: "+name+"\ninclude: [\""+name+"/*\"]\n---\n", "", 1)
		}
		r.Write("specs/functions.yaml", text)
	}
	archives := map[string]string{
		"zipped": `source: {type: url, url: "` + files.URL + `/zipped.zip?key=secret"}`,
		"packed": `deployment: {type: url, url: "` + files.URL + `/packed", checksum: {}}`,
		"plain":  `deployment: {type: url, url: "` + files.URL + `/plain.py"}`,
		"fixed":  `deployment: {url: "` + files.URL + `/fixed.zip", checksum: {type: sha256, sum: ` + sum + `}}`,
		"short": `source: {literal: eA==}, deployment: {type: literal, literal: ` +
			base64.StdEncoding.EncodeToString([]byte(answering("literal"))) + `}`,
	}
	write(archives)
	r.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
	first := s.Pushed(r, "shop", "Archives from elsewhere")
	for name, want := range map[string]string{"zipped": "zip one", "packed": "tar", "plain": "plain", "fixed": "fixed",
		"short": "literal"} {
		site.WantServed(t, s, "shop", "/api/"+name, want)
	}

	var version client.Version
	s.Call(http.MethodGet, "/packages/short-pkg/versions/latest", nil, &version)
	testkit.Equal(t, "buildstatus of what was not built", version.Status.BuildStatus, "none")

	before := s.UnitsOf("shop", string(first))
	r.Write("site/index.html", "another page")
	again := s.UnitsOf("shop", string(s.Pushed(r, "shop", "Another page")))
	for id, u := range before {
		if u.Unit.Kind == landfall.PackageUnit {
			testkit.Equal(t, "the version of "+id+" with the same bytes", again[id].UID, u.UID)
		}
	}
	testkit.Equal(t, "how often a file was fetched whose digest is known", files.times("/fixed.zip"), 1)
	testkit.Equal(t, "how often a file was fetched that may change", files.times("/zipped.zip"), 2)

	files.put("/zipped.zip", zipOf(t, "zipped.py", answering("zip two")))
	r.Write("site/index.html", "a third page")
	r.Commit("Other bytes")
	kept := filepath.Join(s.Data, "cache", "builds", "*", "*")
	stored := testkit.Must(filepath.Glob(kept))(t)
	out, code := s.Run(r.Dir, "spec", "version", "apply", "--app", "shop", "--dry-run")
	if code != 0 || !strings.Contains(out, "zipped-pkg") || strings.Contains(out, "plain-pkg") {
		t.Errorf("the plan: exit code %d:\n%s", code, out)
	}
	testkit.EqualList(t, "what is kept after a plan", testkit.Must(filepath.Glob(kept))(t), stored)
	// the other side is down for a moment, and the run is tried again with what it has already
	files.refuse("/zipped.zip")
	asked := files.times("/packed")
	second := s.Released(r.Push("HEAD"), "shop")
	testkit.Equal(t, "how often a run fetched a file", files.times("/packed")-asked, 1)
	site.WantServed(t, s, "shop", "/api/zipped", "zip two")
	site.WantServed(t, s, "shop--"+string(first), "/api/zipped", "zip one")
	if u := s.UnitsOf("shop", string(second))["package zipped-pkg"]; u.Number != 2 {
		t.Errorf("the version of other bytes is %+v", u)
	}

	// nothing that cannot be fetched goes live
	files.put("/none.zip", []byte("no archive"))
	files.put("/out.zip", zipOf(t, "../out.py", "x"))
	for archive, says := range map[string][]string{
		`deployment: {url: "` + files.URL + `/gone.zip?key=secret"}`: {
			files.URL + "/gone.zip cannot be fetched: it answers 404 Not Found: correct the address"},
		`deployment: {url: "` + files.URL + `/zipped.zip?key=secret", checksum: {sum: ` + sum + `}}`: {
			files.URL + "/zipped.zip has the digest sha256:", ", not sha256:" + sum + ": "},
		`deployment: {url: "` + files.URL + `/none.zip"}`: {files.URL + "/none.zip is no zip archive"},
		`deployment: {url: "` + files.URL + `/out.zip"}`:  {files.URL + `/out.zip has "../out.py"`},
		`deployment: {url: "https://127.0.0.1:1/a.zip"}`: {
			"https://127.0.0.1:1/a.zip cannot be fetched: 127.0.0.1 is an address of this installation's own network"},
		`deployment: {literal: eA==, checksum: {sum: "` + sum + `"}}`: {"the literal has the digest sha256:", "checksum.sum"},
	} {
		archives["zipped"] = archive
		write(archives)
		told := s.Attempt(r, "shop", append(says, "specs/functions.yaml:16: Package zipped-pkg: deployment: ")...).Reason
		if strings.Contains(told, "secret") {
			t.Errorf("the reason tells what stands behind the ?: %s", told)
		}
		site.WantServed(t, s, "shop", "/api/zipped", "zip two")
	}

	// by hand the same is fetched by the same rules
	s.Landfall("function", "version", "create", "hand", "--env", "python", "--code", files.URL+"/plain.py")
	testkit.Equal(t, "answer of a function by hand", s.Landfall("function", "invoke", "hand"), "plain")
	out, code = s.Run(r.Dir, "function", "version", "create", "hand", "--code", files.URL+"/gone.py?key=secret")
	if code != 2 || !strings.Contains(out, "/gone.py cannot be fetched: it answers 404") || strings.Contains(out, "secret") {
		t.Errorf("by hand: exit code %d:\n%s", code, out)
	}

	// what is stored needs the other side no more, here and elsewhere
	files.Close()
	parcel := filepath.Join(t.TempDir(), "shop.tar")
	s.Landfall("release", "export", "shop", string(second), parcel)
	s.Kill()
	s.Landfall("app", "create", "store", "--namespace", "elsewhere")
	s.Landfall("release", "import", parcel, "--app", "store")
	s.Landfall("release", "live", "store", string(second))
	site.WantServed(t, s, "store", "/api/zipped", "zip two")
	site.WantServed(t, s, "shop", "/api/zipped", "zip two")
	s.WantWhole()
}
