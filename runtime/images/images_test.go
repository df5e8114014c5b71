package images_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/images"
)

// door is a registry with the function default/hello, whose versions are v1 to vN, of which each has a file with its
// name.
type door struct {
	http.Handler
	versions int
	broken   atomic.Bool // no image can be made
	unpacked atomic.Int64
	cache    string
}

func newDoor(t *testing.T, versions int, limit int64) *door {
	t.Helper()
	d := &door{versions: versions, cache: filepath.Join(t.TempDir(), "images")}
	folder := t.TempDir()
	builder, err := images.New(d.cache, limit,
		func(_ context.Context, f *landfall.Function) (images.Content, func(), error) {
			d.unpacked.Add(1)
			if d.broken.Load() {
				return images.Content{}, nil, &landfall.Error{Op: "test", Kind: landfall.Invalid,
					Message: "the package has no image"}
			}
			dir := filepath.Join(folder, string(f.Version))
			err := os.MkdirAll(filepath.Join(dir, ".landfall"), 0o755)
			for name, mode := range map[string]fs.FileMode{"main": 0o755, "notes": 0o644, ".landfall/adaptor": 0o644} {
				text := strings.Repeat(string(f.Version), 1000)
				if name == ".landfall/adaptor" {
					text = "adaptor"
				}
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), []byte(text), mode)
				}
			}
			return images.Content{Folder: dir, At: "function", Apart: ".landfall", Args: []string{"/function/main"},
				Dir: "/function", Env: []string{"A=b"}}, func() {}, err
		})
	if err != nil {
		t.Fatal(err)
	}
	missing := &landfall.Error{Op: "test", Kind: landfall.NotFound, Message: "there is no such version; the newest is v1"}
	d.Handler = &images.Handler{
		Find: func(_ context.Context, ref landfall.Reference) (images.Function, error) {
			var number int64
			if _, err := fmt.Sscanf(ref.Selector, "v%d", &number); err != nil || number > int64(versions) ||
				ref.Name != "hello" {
				return images.Function{}, missing
			}
			return images.Function{Commit: "abc", Function: &landfall.Function{App: "1", Namespace: "default", Name: "hello",
				Version: landfall.UID(ref.Selector), Number: number}}, nil
		},
		Names: func(_ context.Context, _, name string) (images.Names, error) {
			if name != "hello" {
				return images.Names{}, missing
			}
			names := images.Names{App: "1", Tags: []string{"latest", "", "feature/x"}}
			for i := versions; i > 0; i-- {
				names.UIDs = append(names.UIDs, landfall.UID(fmt.Sprintf("v%d", i)))
				names.Tags = append(names.Tags, fmt.Sprintf("v%d", i))
			}
			return names, nil
		},
		Admit: func(r *http.Request, app *string) error {
			if r.Header.Get("Authorization") != "" && app != nil { // whoever sends one here has no right to app 1
				return missing
			}
			return nil
		},
		Builder: builder, Logger: slog.New(slog.DiscardHandler),
	}
	return d
}

func (d *door) ask(method, at string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/v2/"+at, http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// layers returns the digests of a version's layers.
func (d *door) layers(t *testing.T, version string) []string {
	t.Helper()
	manifest, err := v1.ParseManifest(d.ask("GET", "default/hello/manifests/"+version).Body)
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for _, l := range manifest.Layers {
		digests = append(digests, l.Digest.String())
	}
	return digests
}

const plenty = 1 << 30

// However an image is asked for, and by however many, it is made once.
func TestMadeOnce(t *testing.T) {
	t.Parallel()
	d := newDoor(t, 1, plenty)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			method := []string{"HEAD", "GET"}[i%2]
			if w := d.ask(method, "default/hello/manifests/v1"); w.Code != http.StatusOK ||
				(w.Body.Len() > 0) != (method == "GET") {
				t.Errorf("%s: got %d %s", method, w.Code, w.Body)
			}
		})
	}
	all.Wait()
	head, get := d.ask("HEAD", "default/hello/manifests/v1"), d.ask("GET", "default/hello/manifests/v1")
	digest := head.Header().Get("Docker-Content-Digest")
	if string(landfall.DigestOf(get.Body.Bytes())) != digest ||
		head.Header().Get("Content-Length") != fmt.Sprint(get.Body.Len()) {
		t.Errorf("HEAD says %v, GET is %s", head.Header(), get.Body)
	}
	if n := d.unpacked.Load(); n != 1 {
		t.Errorf("the image was made %d times", n)
	}
}

// The same version is the same image on every server, and versions share what is not theirs.
func TestSame(t *testing.T) {
	t.Parallel()
	one, other := newDoor(t, 2, plenty), newDoor(t, 2, plenty)
	first := one.layers(t, "v1")
	if diff := cmp.Diff(first, other.layers(t, "v1")); diff != "" {
		t.Errorf("another server has other layers:\n%s", diff)
	}
	for _, d := range []*door{one, other} {
		manifest, err := v1.ParseManifest(d.ask("GET", "default/hello/manifests/v1").Body)
		if err != nil {
			t.Fatal(err)
		}
		config, err := v1.ParseConfigFile(d.ask("GET", "default/hello/blobs/"+manifest.Config.Digest.String()).Body)
		if err != nil {
			t.Fatal(err)
		}
		// whenever it was made, and whoever runs it: nobody, as in the sandbox
		if config.Created.Unix() != 0 || config.Config.User != "65534:65534" {
			t.Errorf("it was made at %s, for the user %q", config.Created, config.Config.User)
		}
	}
	second := one.layers(t, "v2")
	if len(first) != 2 || first[0] != second[0] || first[1] == second[1] {
		t.Errorf("the layers are %v and %v; want one that they share, and one of their own", first, second)
	}
	// a server that never made it finds out of which version a digest is
	fresh := newDoor(t, 3, plenty)
	if w := fresh.ask("GET", "default/hello/blobs/"+first[1]); w.Code != http.StatusOK ||
		string(landfall.DigestOf(w.Body.Bytes())) != first[1] {
		t.Errorf("a layer: got %d", w.Code)
	}
}

// What is kept has a bound; what was removed is made again.
func TestBound(t *testing.T) {
	t.Parallel()
	const versions = 5
	d := newDoor(t, versions, 20_000)
	var own []string
	for i := range versions {
		own = append(own, d.layers(t, fmt.Sprintf("v%d", i+1))[1])
	}
	files, err := os.ReadDir(d.cache)
	if err != nil || len(files) > 4 {
		t.Errorf("%d layers are kept of %d images, %v", len(files), versions, err)
	}
	for _, digest := range own {
		if w := d.ask("GET", "default/hello/blobs/"+digest); w.Code != http.StatusOK ||
			string(landfall.DigestOf(w.Body.Bytes())) != digest {
			t.Errorf("%s: got %d", digest, w.Code)
		}
	}
	small := newDoor(t, 1, 1) // not one image is within the bound: it stays until another one is made
	for _, digest := range small.layers(t, "v1") {
		if w := small.ask("GET", "default/hello/blobs/"+digest); w.Code != http.StatusOK {
			t.Errorf("a layer of an image larger than the bound: got %d", w.Code)
		}
	}
	before := d.unpacked.Load()
	for range 3 {
		if w := d.ask("GET", "default/hello/blobs/sha256:"+strings.Repeat("1", 64)); w.Code != http.StatusNotFound {
			t.Errorf("a digest of nothing: got %d", w.Code)
		}
	}
	if made := d.unpacked.Load() - before; made != 0 {
		t.Errorf("%d images were made anew for a digest of nothing", made)
	}
}

// Versions of which no image can be made are not tried again for each digest of nothing; by its own name one is, and
// then it is found.
func TestBroken(t *testing.T) {
	t.Parallel()
	const versions = 3
	d := newDoor(t, versions, plenty)
	d.broken.Store(true)
	for i := range 4 {
		nothing := fmt.Sprintf("default/hello/blobs/sha256:%064d", i)
		if w := d.ask("GET", nothing); w.Code != http.StatusNotFound {
			t.Errorf("a digest of nothing: got %d", w.Code)
		}
	}
	if n := d.unpacked.Load(); n != versions {
		t.Errorf("%d images were tried for digests of nothing, want each version once", n)
	}
	d.broken.Store(false)
	for _, digest := range d.layers(t, "v1") {
		if w := d.ask("GET", "default/hello/blobs/"+digest); w.Code != http.StatusOK {
			t.Errorf("a layer of what can be made by now: got %d", w.Code)
		}
	}
}

// A file with many names is in a layer once: an image's hard links do not become files, of which each takes as much.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	const names, size = 200, 100_000
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "f0"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range names {
		if err := os.Link(filepath.Join(folder, "f0"), filepath.Join(folder, fmt.Sprint("f", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{"", "function"} {
		d := newDoor(t, 1, plenty)
		builder, err := images.New(d.cache, plenty,
			func(context.Context, *landfall.Function) (images.Content, func(), error) {
				return images.Content{Folder: folder, At: at, Args: []string{"/f0"}, Dir: "/"}, func() {}, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		handler, ok := d.Handler.(*images.Handler)
		if !ok {
			t.Fatal("the door is another")
		}
		handler.Builder = builder
		layer := d.ask("GET", "default/hello/blobs/"+d.layers(t, "v1")[0]).Body
		if layer.Len() > 4*size {
			t.Errorf("the layer of one file of %d bytes has %d", size, layer.Len())
		}
		files := 0
		for r := tar.NewReader(layer); ; files++ {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Typeflag == tar.TypeLink && header.Linkname != path.Join(at, "f0") {
				t.Errorf("%s is a link to %s", header.Name, header.Linkname)
			}
		}
		if files < names+1 {
			t.Errorf("the layer has %d entries, want more than %d", files, names)
		}
	}
}

// A part of a layer can be asked for, which is how a broken pull goes on.
func TestRange(t *testing.T) {
	t.Parallel()
	d := newDoor(t, 1, plenty)
	blob := "default/hello/blobs/" + d.layers(t, "v1")[1]
	whole, part := d.ask("GET", blob), d.ask("GET", blob, "Range", "bytes=600-")
	if part.Code != http.StatusPartialContent || part.Body.String() != whole.Body.String()[600:] {
		t.Errorf("got %d with %d bytes of %d", part.Code, part.Body.Len(), whole.Body.Len())
	}
	// K-020: ranges follow RFC 9110 at their edges
	for _, at := range []string{blob, "default/hello/manifests/v1"} {
		size := d.ask("GET", at).Body.Len()
		if none := d.ask("GET", at, "Range", "bytes=-0"); none.Code != http.StatusRequestedRangeNotSatisfiable ||
			none.Header().Get("Content-Range") != fmt.Sprintf("bytes */%d", size) {
			t.Errorf("the last 0 bytes of %s: got %d with %v", at, none.Code, none.Header())
		}
		if rest := d.ask("GET", at, "Range", "bytes=100-99999999999999999999"); rest.Code != http.StatusPartialContent ||
			rest.Body.Len() != size-100 {
			t.Errorf("%s from 100 to a byte beyond any integer: got %d with %d bytes of %d", at, rest.Code,
				rest.Body.Len(), size)
		}
		if head := d.ask("HEAD", at, "Range", "bytes=0-1"); head.Code != http.StatusOK ||
			head.Header().Get("Content-Length") != strconv.Itoa(size) {
			t.Errorf("HEAD of %s: got %d with %v, want 200: it has no ranges", at, head.Code, head.Header())
		}
	}
}

// Nothing refers to an image, and who asks is told so: with an error tools would look for a tag in its place.
func TestReferrers(t *testing.T) {
	t.Parallel()
	d := newDoor(t, 1, plenty)
	digest := d.ask("HEAD", "default/hello/manifests/v1").Header().Get("Docker-Content-Digest")
	for _, at := range []string{digest, "sha256:" + strings.Repeat("0", 64), digest + "?artifactType=a/b"} {
		w := d.ask("GET", "default/hello/referrers/"+at)
		index, err := v1.ParseIndexManifest(w.Body)
		if err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != string(types.OCIImageIndex) ||
			index.SchemaVersion != 2 ||
			index.MediaType != types.OCIImageIndex || index.Manifests == nil || len(index.Manifests) != 0 {
			t.Errorf("%s: got %d %+v with %v, %v, want an empty index", at, w.Code, index, w.Header(), err)
		}
		if filtered := strings.Contains(at,
			"artifactType"); (w.Header().Get("Oci-Filters-Applied") == "artifactType") != filtered {
			t.Errorf("%s: got %v", at, w.Header())
		}
	}
	if w := d.ask("GET", "default/hello/referrers/v1"); w.Code != http.StatusBadRequest ||
		!strings.Contains(w.Body.String(), "DIGEST_INVALID") {
		t.Errorf("of a tag: got %d %s", w.Code, w.Body)
	}
	for _, other := range []*httptest.ResponseRecorder{d.ask("GET", "default/other/referrers/"+digest),
		d.ask("GET", "default/hello/referrers/"+digest, "Authorization", "x")} {
		if other.Code != http.StatusNotFound || !strings.Contains(other.Body.String(), "NAME_UNKNOWN") {
			t.Errorf("of an image that is not there: got %d %s", other.Code, other.Body)
		}
	}
}

// What is of another app looks as if it were not there: to the byte.
func TestHidden(t *testing.T) {
	t.Parallel()
	d := newDoor(t, 1, plenty)
	manifest := d.ask("GET", "default/hello/manifests/v1").Header().Get("Docker-Content-Digest")
	layer := d.layers(t, "v1")[0]
	none := "sha256:" + strings.Repeat("1", 64)
	for at, nothing := range map[string]string{
		"default/hello/manifests/v1":          "default/nobody/manifests/v1",
		"default/hello/manifests/v9":          "default/nobody/manifests/v9",
		"default/hello/manifests/" + manifest: "default/nobody/manifests/" + none,
		"default/hello/blobs/" + layer:        "default/nobody/blobs/" + none,
		"default/hello/tags/list":             "default/nobody/tags/list",
	} {
		theirs, missing := d.ask("GET", at, "Authorization", "another app's"), d.ask("GET", nothing)
		if theirs.Code != http.StatusNotFound || theirs.Body.String() != missing.Body.String() ||
			cmp.Diff(theirs.Header(), missing.Header()) != "" {
			t.Errorf("%s: got %d %s %v, and for nothing %s %v", at, theirs.Code, theirs.Body, theirs.Header(), missing.Body,
				missing.Header())
		}
	}
}

// Who may not know of an app makes nobody work for it: a digest of nothing makes no image.
func TestStrangersMakeNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t, 3, plenty)
	for _, at := range []string{"manifests/v1", "manifests/sha256:" + strings.Repeat("1", 64),
		"blobs/sha256:" + strings.Repeat("1", 64)} {
		if w := d.ask("GET", "default/hello/"+at, "Authorization", "another app's"); w.Code != http.StatusNotFound {
			t.Errorf("%s: got %d", at, w.Code)
		}
	}
	if n := d.unpacked.Load(); n != 0 {
		t.Errorf("%d images were made", n)
	}
}

// Standard tools are told by status, code and headers what to do: to sign in, to give up, or to come again.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for kind, want := range map[landfall.Kind]struct {
		status                 int
		code, challenge, again string
	}{
		landfall.Unauthorized: {http.StatusUnauthorized, "UNAUTHORIZED", `Basic realm="landfall", charset="UTF-8"`, ""},
		landfall.Forbidden:    {http.StatusForbidden, "DENIED", "", ""},
		landfall.Unavailable:  {http.StatusServiceUnavailable, "UNKNOWN", "", "1"},
		landfall.Internal:     {http.StatusInternalServerError, "UNKNOWN", "", ""},
	} {
		d := newDoor(t, 1, plenty)
		handler, ok := d.Handler.(*images.Handler)
		if !ok {
			t.Fatal("the door is another")
		}
		handler.Admit = func(*http.Request, *string) error { return &landfall.Error{Op: "test", Kind: kind, Message: "no"} }
		for _, at := range []string{"", "default/hello/manifests/v1"} {
			w := d.ask("GET", at)
			h := w.Header()
			if w.Code != want.status || !strings.Contains(w.Body.String(), `"code":"`+want.code+`"`) ||
				h.Get("WWW-Authenticate") != want.challenge || h.Get("Retry-After") != want.again {
				t.Errorf("%s at %q: got %d %s %v, want %+v", kind, at, w.Code, w.Body, h, want)
			}
		}
	}
}

// Tags come in pages, sorted, and are all that can be pulled.
func TestTags(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newDoor(t, 12, plenty))
	defer server.Close()
	repository, err := name.NewRepository(strings.TrimPrefix(server.URL, "http://")+"/default/hello", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 5, 100} {
		tags, err := remote.List(repository, remote.WithPageSize(size))
		want := []string{"latest", "v1", "v10", "v11", "v12", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9"}
		if err != nil || cmp.Diff(want, tags) != "" {
			t.Errorf("in pages of %d: got %v, %v", size, tags, err)
		}
	}
	if w := newDoor(t, 12, plenty).ask("GET", "default/hello/tags/list?n=13"); w.Header().Get("Link") != "" {
		t.Errorf("a page of all 13 leads to %s, want nowhere", w.Header().Get("Link"))
	}
	response, err := http.Get(server.URL + "/v2/default/hello/tags/list?n=3&last=v9")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != `{"name":"default/hello","tags":[]}` ||
		response.Header.Get("Link") != "" {
		t.Errorf("behind the last one: got %s, %v, %v", body, response.Header, err)
	}
}
