package container_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment/container"
)

// What a tag means is pinned, and what is pulled is that and nothing else: by its digest, for this machine, within
// limits.
func TestPull(t *testing.T) {
	t.Parallel()
	inner := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	var spoil atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/private/"):
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, "/broken/"):
			w.WriteHeader(http.StatusInsufficientStorage)
		case spoil.Load() && strings.Contains(r.URL.Path, "/blobs/"):
			_, _ = w.Write([]byte("something else"))
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://")
	tag, err := name.NewTag(at + "/team/greeter:stable")
	if err != nil {
		t.Fatal(err)
	}
	put := func(content string) {
		t.Helper()
		here := imageOf(t, layerOf(t, entry{name: "word", content: content}))
		file, err := here.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		index := mutate.AppendManifests(empty.Index,
			mutate.IndexAddendum{Add: imageOf(t),
				Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "riscv64"}}},
			mutate.IndexAddendum{Add: here, Descriptor: v1.Descriptor{Platform: file.Platform()}})
		if err := remote.WriteIndex(tag, index); err != nil {
			t.Fatal(err)
		}
	}
	pulled := func(r container.Registries, reference string) (map[string]string, error) {
		dir := t.TempDir()
		err := r.Pull(t.Context(), reference, filepath.Join(dir, "image.tar"), nil)
		if err == nil {
			_, err = container.Unpack(t.Context(), dir, filepath.Join(dir, "root"), container.Limits{})
		}
		if err != nil {
			return nil, err
		}
		return tree(t, filepath.Join(dir, "root")), nil
	}
	all := container.Registries{Transport: http.DefaultTransport}
	put("one")
	pinned, err := all.Pin(t.Context(), tag.String(), nil)
	if err != nil || !strings.HasPrefix(pinned, tag.String()+"@sha256:") {
		t.Fatalf("got %q, %v", pinned, err)
	}
	if again, err := all.Pin(t.Context(), pinned, nil); err != nil || again != pinned {
		t.Errorf("pinned again: got %q, %v", again, err)
	}
	put("two")
	if files, err := pulled(all, pinned); err != nil || files["word"] != "one" {
		t.Errorf("got %v, %v; want what the tag meant", files, err)
	}
	if other, err := all.Pin(t.Context(), tag.String(), nil); err != nil || other == pinned {
		t.Errorf("the tag still means %q, %v", other, err)
	}
	want := func(title string, err error, kind landfall.Kind, says string) {
		t.Helper()
		if landfall.KindOf(err) != kind || !strings.Contains(landfall.MessageOf(err), says) {
			t.Errorf("%s: the error is %v (%s), want %s with %q", title, err, landfall.KindOf(err), kind, says)
		}
	}
	_, err = pulled(container.Registries{Transport: http.DefaultTransport, Bytes: 10}, pinned)
	want("a large image", err, landfall.Invalid, "larger than the limit")
	spoil.Store(true)
	_, err = pulled(all, pinned)
	want("other bytes", err, landfall.Unavailable, "cannot be pulled")
	_, err = all.Pin(t.Context(), at+"/team/nobody:stable", nil)
	want("no image", err, landfall.Invalid, "not there")
	_, err = all.Pin(t.Context(), at+"/private/greeter", nil)
	want("a private one", err, landfall.Invalid, "asks for a password: landfall secret set APP DOCKER_AUTH_CONFIG --build")
	_, err = all.Pin(t.Context(), at+"/broken/greeter", nil)
	want("a broken registry", err, landfall.Unavailable, "cannot be pulled now")
	_, err = all.Pin(t.Context(), "not an image", nil)
	want("no reference", err, landfall.Invalid, "REGISTRY/NAME:TAG")
}

// What a registry says of an image is not believed: a configuration of less than nothing is not read to an end that
// never comes, and an image for other machines is no fault of the moment, which would be tried again.
func TestHostileRegistry(t *testing.T) {
	t.Parallel()
	const most = 64 << 20
	var sent atomic.Int64
	zeros := "sha256:" + strings.Repeat("0", 64)
	manifests := map[string]string{
		"endless": `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":-1,"digest":"` + zeros + `"},"layers":[]}`,
		"foreign": `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":2,"digest":"` + zeros + `","platform":{"os":"linux","architecture":"riscv64"}}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elements := strings.Split(r.URL.Path, "/")
		switch text := manifests[elements[len(elements)-1]]; {
		case r.URL.Path == "/v2/":
		case text != "":
			_, what, _ := strings.Cut(text, `"mediaType":"`)
			what, _, _ = strings.Cut(what, `"`)
			w.Header().Set("Content-Type", what)
			_, _ = w.Write([]byte(text))
		case strings.Contains(r.URL.Path, "/blobs/"):
			piece := make([]byte, 1<<20)
			for sent.Load() < most {
				n, err := w.Write(piece)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	r := container.Registries{Transport: http.DefaultTransport}
	for tag, says := range map[string]string{"endless": "a configuration with more than",
		"foreign": "is not for this server, which runs linux/"} {
		reference := strings.TrimPrefix(server.URL, "http://") + "/team/greeter:" + tag
		err := r.Pull(t.Context(), reference, filepath.Join(t.TempDir(), "image.tar"), nil)
		if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), says) {
			t.Errorf("%s: the error is %v (%s), want Invalid with %q", tag, err, landfall.KindOf(err), says)
		}
	}
	if n := sent.Load(); n > 0 {
		t.Errorf("%d bytes of a configuration without a size were read", n)
	}
}
