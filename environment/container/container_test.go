package container_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment/container"
)

// entry is one of a layer: a file with a content, unless its type is another.
type entry struct {
	name, content string
	kind          byte // 0: a file; a folder when the name ends with a slash
	to            string
	mode          int64
}

func layerOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.to, Size: int64(len(e.content)), Mode: e.mode}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if e.kind == 0 && strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// imageOf returns an image of layers for this machine.
func imageOf(t *testing.T, layers ...[]byte) v1.Image {
	t.Helper()
	image := empty.Image
	for _, content := range layers {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		})
		if err == nil {
			image, err = mutate.AppendLayers(image, l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{Entrypoint: []string{"/bin/run"}, Cmd: []string{"fast"}, Env: []string{"A=b"},
		WorkingDir: "/srv/app"}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	return image
}

// saved returns a package with an image as docker save writes it.
func saved(t *testing.T, image v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	if err := tarball.WriteToFile(filepath.Join(dir, "image.tar"), name.MustParseReference("shop:latest"),
		image); err != nil {
		t.Fatal(err)
	}
	return dir
}

// laidOut returns a package with images as an OCI layout.
func laidOut(t *testing.T, images ...v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	l, err := layout.Write(dir, empty.Index)
	for _, image := range images {
		if err == nil {
			file, _ := image.ConfigFile()
			err = l.AppendImage(image, layout.WithPlatform(*file.Platform()))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree returns what is in a folder: contents, targets of links, and modes of what can be executed.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	there := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		at, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			there[at] = "/"
		case info.Mode().Type() == fs.ModeSymlink:
			there[at], err = os.Readlink(path)
			there[at] = "-> " + there[at]
		default:
			var text []byte
			text, err = os.ReadFile(path)
			there[at] = string(text)
		}
		if want := map[bool]fs.FileMode{true: 0o755,
			false: 0o644}[e.IsDir() || info.Mode()&0o111 != 0]; info.Mode().Type() != fs.ModeSymlink &&
			info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSticky) != want {
			t.Errorf("%s: its mode is %v, want %v", at, info.Mode(), want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// Layers are applied one after the other, and what a later one takes away is gone: only of lower ones, whatever the
// order.
func TestUnpack(t *testing.T) {
	t.Parallel()
	image := imageOf(t,
		layerOf(t, entry{name: "bin/", mode: 0o700}, entry{name: "bin/run", content: "run", mode: 0o4755},
			entry{name: "etc/old", content: "old"},
			entry{name: "etc/kept", content: "kept", mode: 0o600}, entry{name: "var/cache/a", content: "a"},
			entry{name: "var/cache/b/c", content: "c"},
			entry{name: "lib", kind: tar.TypeSymlink, to: "usr/lib"}, entry{name: "usr/lib/"},
			entry{name: "file/", mode: 0o1777}, entry{name: "file/x", content: "x"}, entry{name: "run-d", kind: tar.TypeLink,
				to: "bin/run"}, entry{name: "etc/abs", kind: tar.TypeSymlink, to: "/proc/mounts"}),
		layerOf(t, entry{name: "./etc/.wh.old"}, entry{name: "var/cache/new", content: "new"},
			entry{name: "var/cache/.wh..wh..opq"}, entry{name: "lib/one.so", content: "so"},
			entry{name: "file", content: "now a file"}, entry{name: "bin/run", content: "run again", mode: 0o755},
			entry{name: "etc/again", content: "again"}, entry{name: "etc/.wh.again"}),
	)
	want := map[string]string{
		"bin": "/", "bin/run": "run again", "run-d": "run", "etc": "/", "etc/kept": "kept", "etc/again": "again",
		"etc/abs": "-> /proc/mounts", "var": "/", "var/cache": "/", "var/cache/new": "new", "lib": "-> usr/lib", "usr": "/",
		"usr/lib": "/", "usr/lib/one.so": "so", "file": "now a file", "srv": "/", "srv/app": "/",
	}
	for form, pack := range map[string]string{"docker save": saved(t, image), "OCI layout": laidOut(t, image)} {
		into := filepath.Join(t.TempDir(), "root")
		got, err := container.Unpack(t.Context(), pack, into, container.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if diff := cmp.Diff(container.Image{Entrypoint: []string{"/bin/run"}, Cmd: []string{"fast"}, Env: []string{"A=b"},
			Dir: "/srv/app"}, got); diff != "" {
			t.Errorf("%s: how it starts (- want, + got):\n%s", form, diff)
		}
		if diff := cmp.Diff(want, tree(t, into)); diff != "" {
			t.Errorf("%s: its files (- want, + got):\n%s", form, diff)
		}
		if left, err := os.ReadDir(pack); err != nil || len(left) > 0 {
			t.Errorf("%s: the package keeps %v, %v", form, left, err)
		}
	}
}

// Whatever an image names, nothing is written outside of its folder, and what can only be meant badly is refused.
func TestHostile(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 1<<20)
	base := layerOf(t, entry{name: "etc/passwd", content: "root"}, entry{name: "dir/x", content: "x"})
	for title, test := range map[string]struct {
		layer []byte
		says  string
	}{
		"an absolute path":      {layerOf(t, entry{name: "/evil", content: "x"}), "outside"},
		"a path upwards":        {layerOf(t, entry{name: "../evil", content: "x"}), "outside"},
		"a path upwards within": {layerOf(t, entry{name: "etc/../../evil", content: "x"}), "outside"},
		"a folder upwards":      {layerOf(t, entry{name: "../evil/"}), "outside"},
		"a link out": {layerOf(t, entry{name: "a", kind: tar.TypeSymlink, to: "../evil"}),
			"outside"},
		"a link far out": {layerOf(t,
			entry{name: "a/b", kind: tar.TypeSymlink, to: "../../../../../etc"}), "outside"},
		"a file through an absolute link": {layerOf(t, entry{name: "a", kind: tar.TypeSymlink, to: "@"},
			entry{name: "a/evil", content: "x"}), "link"},
		"a folder through an absolute link": {layerOf(t, entry{name: "a", kind: tar.TypeSymlink, to: "@"},
			entry{name: "a/evil/"}), "link"},
		"a file through links that climb": {layerOf(t, entry{name: "d/e/"},
			entry{name: "l", kind: tar.TypeSymlink, to: "d/e"}, entry{name: "m", kind: tar.TypeSymlink, to: "l/../../../.."},
			entry{name: "m/evil", content: "x"}), "outside"},
		"a hard link out": {layerOf(t, entry{name: "a", kind: tar.TypeLink, to: "../evil"}),
			"no file of the image"},
		"an absolute hard link": {layerOf(t, entry{name: "a", kind: tar.TypeLink, to: "/etc/passwd"}),
			"no file of the image"},
		"a hard link through a link": {layerOf(t, entry{name: "a", kind: tar.TypeSymlink, to: "@"},
			entry{name: "b", kind: tar.TypeLink, to: "a/secret"}), "no file of the image"},
		"a hard link to a folder": {layerOf(t, entry{name: "a", kind: tar.TypeLink, to: "dir"}),
			"no file of the image"},
		"a character device":           {layerOf(t, entry{name: "dev/mem", kind: tar.TypeChar}), "device"},
		"a block device":               {layerOf(t, entry{name: "dev/sda", kind: tar.TypeBlock}), "device"},
		"a pipe":                       {layerOf(t, entry{name: "p", kind: tar.TypeFifo}), "device"},
		"another kind":                 {layerOf(t, entry{name: "p", kind: 'Z'}), "kind"},
		"a whiteout upwards":           {layerOf(t, entry{name: "../.wh.evil"}), "outside"},
		"a whiteout of a folder's own": {layerOf(t, entry{name: "dir/.wh..."}), "nothing away"},
		"a whiteout of the folder":     {layerOf(t, entry{name: "dir/.wh.."}), "nothing away"},
		"a whiteout without a name":    {layerOf(t, entry{name: "dir/.wh."}), "nothing away"},
		"a whiteout through an absolute link": {layerOf(t, entry{name: "a", kind: tar.TypeSymlink, to: "@"},
			entry{name: "a/.wh.secret"}), "escapes"},
		"a bomb of zeros": {layerOf(t, entry{name: "a", content: zeros}, entry{name: "b", content: zeros},
			entry{name: "c", content: zeros}), "more bytes"},
		"a bomb of names":     {layerOf(t, many(200)...), "more files"},
		"no archive":          {[]byte("nonsense that is no archive at all"), "layer 2"},
		"one that ends early": {layerOf(t, entry{name: "a", content: zeros})[:2000], "layer 2"},
		"zstd":                {[]byte("\x28\xb5\x2f\xfd and more"), "zstd"},
		"a bomb behind a whiteout": {layerOf(t, entry{name: "a", content: zeros}, entry{name: ".wh.a"},
			entry{name: "a", content: zeros}, entry{name: "a", content: zeros}), "more bytes"},
	} {
		outside := t.TempDir()
		if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		layer := bytes.Replace(test.layer, append([]byte("@"), make([]byte, 80)...),
			append([]byte(outside), make([]byte, 81-len(outside))...), 1)
		layer = checksummed(layer)
		into := filepath.Join(outside, "pack", "root")
		if err := os.Mkdir(filepath.Dir(into), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := container.Unpack(t.Context(), raw(t, base, layer), into, container.Limits{Files: 100, Bytes: 3 << 20})
		// N-027: absolute paths, links out, devices, whiteouts and bombs are refused, and nothing is outside of its
		// folder
		if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), test.says) {
			t.Errorf("%s: the error is %v, want one with %q", title, err, test.says)
		}
		secret, err := os.ReadFile(filepath.Join(outside, "secret"))
		beside, failed := os.ReadDir(outside)
		within, bad := os.ReadDir(filepath.Dir(into))
		if string(secret) != "secret" || len(beside) != 2 || len(within) != 1 || errors.Join(err, failed, bad) != nil {
			t.Errorf("%s: outside there are %q, %v and %v, %v", title, secret, beside, within, errors.Join(err, failed, bad))
		}
	}
}

// Who stops does not wait for an image: unpacking ends with its context, and the image is not called wrong.
func TestUnpackEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := container.Unpack(ctx, raw(t, layerOf(t, entry{name: "a", content: strings.Repeat("a", 1<<20)})),
		filepath.Join(t.TempDir(), "root"), container.Limits{})
	if landfall.KindOf(err) != landfall.Canceled || err == nil {
		t.Errorf("the error is %v, want Canceled", err)
	}
}

// What the archive does not have itself counts all the same: holes of sparse files, and folders that stand in names
// only.
func TestBombsThatAreSmall(t *testing.T) {
	t.Parallel()
	deep := func(elements int) string { return strings.Repeat("d/", elements) + "x" }
	var wide []entry
	for i := range 30 {
		wide = append(wide, entry{name: fmt.Sprintf("%d/%s", i, deep(10))})
	}
	for title, test := range map[string]struct {
		layer []byte
		says  string
	}{
		"one file with a hole":      {sparse("a", 1<<50), "more bytes"},
		"files with holes":          {append(append(sparse("a", 2<<20), sparse("b", 2<<20)...), layerOf(t)...), "more bytes"},
		"folders of names":          {layerOf(t, wide...), "more files"},
		"a name without an end":     {layerOf(t, entry{name: deep(5000)}), "name"},
		"a name of many folders":    {layerOf(t, entry{name: deep(500)}), "name"},
		"a whiteout without an end": {layerOf(t, entry{name: strings.Repeat("d/", 500) + ".wh.x"}), "name"},
	} {
		_, err := container.Unpack(t.Context(), raw(t, test.layer), filepath.Join(t.TempDir(), "root"),
			container.Limits{Files: 200, Bytes: 3 << 20})
		if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), test.says) {
			t.Errorf("%s: the error is %v, want one with %q", title, err, test.says)
		}
	}
}

// The names of a layer are remembered while it is unpacked: there is an end to them, also where they name nothing.
func TestManyLongNames(t *testing.T) {
	t.Parallel()
	var entries []entry
	dir := strings.Repeat(strings.Repeat("d", 250)+"/", 16)
	for i := range 18_000 {
		entries = append(entries, entry{name: fmt.Sprint(dir, ".wh.", i)})
	}
	_, err := container.Unpack(t.Context(), raw(t, layerOf(t, entries...)), filepath.Join(t.TempDir(), "root"),
		container.Limits{})
	if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), "its names have more than") {
		t.Errorf("the error is %v, want one about its names", err)
	}
}

// Each start of a program has the files in the root itself to deal with, one by one.
func TestWideRoot(t *testing.T) {
	t.Parallel()
	_, err := container.Unpack(t.Context(), raw(t, layerOf(t, many(1001)...)), filepath.Join(t.TempDir(), "root"),
		container.Limits{})
	if landfall.KindOf(err) != landfall.Invalid ||
		!strings.Contains(landfall.MessageOf(err), "1001 files and folders in its root") {
		t.Errorf("the error is %v, want one about its root", err)
	}
}

// sparse returns an entry of a tar file that is a file with nothing but a hole, as GNU tar writes it.
func sparse(file string, size int64) []byte {
	record := func(key, value string) string {
		body := " " + key + "=" + value + "\n"
		n := len(body)
		for n != len(body)+len(fmt.Sprint(n)) {
			n = len(body) + len(fmt.Sprint(n))
		}
		return fmt.Sprint(n) + body
	}
	pax := record("GNU.sparse.major", "0") + record("GNU.sparse.minor", "1") + record("GNU.sparse.name", file) +
		record("GNU.sparse.size", fmt.Sprint(size)) + record("GNU.sparse.numblocks", "1") +
		record("GNU.sparse.map", fmt.Sprintf("%d,0", size))
	const block = 512
	head := func(kind byte, size int) []byte {
		h := make([]byte, block)
		copy(h, file)
		copy(h[100:], "0000644\x00")
		copy(h[124:], fmt.Sprintf("%011o\x00", size))
		h[156] = kind
		copy(h[257:], "ustar\x0000")
		return h
	}
	out := append(head('x', len(pax)), pax...)
	out = append(out, make([]byte, (block-len(pax)%block)%block)...)
	return checksummed(append(out, head('0', 0)...))
}

// A layer that takes away again and again what is below a folder does not take longer for it.
func TestWhiteoutsAgain(t *testing.T) {
	t.Parallel()
	const n = 5000
	entries := []entry{{name: "lower/"}}
	for i := range n {
		entries = append(entries, entry{name: fmt.Sprint("lower/f", i)})
	}
	for range n {
		entries = append(entries, entry{name: "lower/.wh..wh..opq"}, entry{name: ".wh.lower"})
	}
	into := filepath.Join(t.TempDir(), "root")
	done := make(chan error, 1)
	pack := raw(t, layerOf(t, entry{name: "lower/old", content: "x"}), layerOf(t, entries...))
	go func() {
		_, err := container.Unpack(t.Context(), pack, into, container.Limits{})
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(100 * time.Second): // it was fifty million looks at files
		t.Fatal("it takes as long as its whiteouts times its files")
	}
	if there, err := os.ReadDir(filepath.Join(into, "lower")); err != nil || len(there) != n {
		t.Errorf("there are %d files, %v; want %d", len(there), err, n)
	}
}

func many(n int) []entry {
	var all []entry
	for i := range n {
		all = append(all, entry{name: fmt.Sprint("f", i)})
	}
	return all
}

// checksummed corrects the checksums of a tar file's headers, of which some were changed.
func checksummed(archive []byte) []byte {
	const block, at, digits = 512, 148, 8
	for i := 0; i+block <= len(archive); i += block {
		head := archive[i : i+block]
		if string(head[257:262]) != "ustar" {
			continue
		}
		copy(head[at:at+digits], "        ")
		sum := 0
		for _, c := range head {
			sum += int(c)
		}
		copy(head[at:at+digits], fmt.Sprintf("%06o\x00 ", sum))
	}
	return archive
}

// raw returns a package with an image of layers as they are, compressed.
func raw(t *testing.T, layers ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	config, err := json.Marshal(v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	manifest := []map[string]any{{"Config": "config.json", "Layers": []string{}}}
	files := map[string][]byte{"config.json": config}
	var names []string
	for i, layer := range layers {
		names = append(names, fmt.Sprintf("layer%d", i))
		if bytes.HasPrefix(layer, []byte("\x28\xb5")) {
			files[names[i]] = layer
			continue
		}
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		if _, err := z.Write(layer); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		files[names[i]] = zipped.Bytes()
	}
	manifest[0]["Layers"] = names
	if files["manifest.json"], err = json.Marshal(manifest); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What is no image is refused with what would be one.
func TestNoImage(t *testing.T) {
	t.Parallel()
	other := imageOf(t, layerOf(t, entry{name: "a"}))
	file, err := other.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.Architecture = "riscv64"
	foreign, err := mutate.ConfigFile(other, file)
	if err != nil {
		t.Fatal(err)
	}
	with := func(pairs ...string) string {
		dir := t.TempDir()
		for i := 0; i+1 < len(pairs); i += 2 {
			if err := os.WriteFile(filepath.Join(dir, pairs[i]), []byte(pairs[i+1]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	large := strings.Repeat(" ", 5<<20)
	long := strings.Repeat("x", 1<<20)
	linked := with()
	if err := os.Symlink("/etc/passwd", filepath.Join(linked, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	elsewhere := with()
	if err := os.Symlink(filepath.Join(saved(t, imageOf(t, layerOf(t, entry{name: "a"}))), "image.tar"),
		filepath.Join(elsewhere, "image.tar")); err != nil {
		t.Fatal(err)
	}
	for title, test := range map[string]struct{ pack, says string }{
		"an image elsewhere": {elsewhere, "docker save"},
		"nothing":            {with(), "docker save"},
		"no tar":             {with("image.tar", "nonsense"+strings.Repeat("x", 1000)), "docker save"},
		"an empty tar":       {with("image.tar", string(layerOf(t))), "skopeo copy"},
		"no JSON":            {with("manifest.json", "nonsense"), "cannot be read"},
		"a large environment": {with("manifest.json", `[{"Config":"c"}]`, "c",
			`{"config":{"Env":["A=`+large[:70_000]+`"]}}`), "bytes of ENV"},
		"a start in folders without an end": {with("manifest.json", `[{"Config":"c"}]`, "c",
			`{"config":{"WorkingDir":"/`+strings.Repeat("a/", 1000)+`"}}`), "starts in a folder"},
		"a long start": {with("manifest.json", `[{"Config":"c"}]`, "c",
			`{"config":{"WorkingDir":"/`+long+`"}}`), "starts in a folder"},
		"a long configuration": {with("manifest.json", `[{"Config":"`+long+`"}]`), "names \"xxx"},
		"a long layer": {with("manifest.json", `[{"Config":"c","Layers":["`+long+`"]}]`, "c", "{}"),
			"names \"xxx"},
		"a long name of a system": {with("manifest.json", `[{"Config":"c"}]`, "c", `{"os":"`+long+`"}`),
			"is for xxx"},
		"two images": {with("manifest.json", `[{},{}]`), "there must be one"},
		"layers elsewhere": {with("manifest.json",
			`[{"Config":"config.json","Layers":["../../etc/passwd"]}]`), "outside of it"},
		"a configuration that is elsewhere": {with("manifest.json", `[{"Config":"/etc/passwd"}]`), "outside of it"},
		"a manifest that is a link":         {linked, "docker save"},
		"a large manifest":                  {with("manifest.json", large), "more than"},
		"a large configuration":             {with("manifest.json", `[{"Config":"c"}]`, "c", large), "more than"},
		"a missing layer": {with("manifest.json", `[{"Config":"c","Layers":["l"]}]`, "c", "{}"),
			"l is missing"},
		"an index in circles": {circle(t), "indexes"},
		"another processor":   {saved(t, foreign), "linux/riscv64"},
		"none for here":       {laidOut(t, foreign, foreign), "there must be one"},
		"two for here":        {laidOut(t, other, imageOf(t, layerOf(t, entry{name: "b"}))), "there must be one"},
	} {
		_, err := container.Unpack(t.Context(), test.pack, filepath.Join(t.TempDir(), "root"), container.Limits{})
		if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), test.says) {
			t.Errorf("%s: the error is %.1000v, want one with %q", title, err, test.says)
		}
		if n := len(landfall.MessageOf(err)); n > 1000 { // it is kept, logged and shown for each call
			t.Errorf("%s: the message has %d bytes", title, n)
		}
	}
	_, err = container.Unpack(t.Context(), laidOut(t, foreign, other), filepath.Join(t.TempDir(), "root"),
		container.Limits{})
	if err != nil {
		t.Errorf("one for here and one for elsewhere: %v", err)
	}
	_, err = container.Unpack(t.Context(), raw(t, layerOf(t), layerOf(t), layerOf(t)), filepath.Join(t.TempDir(), "root"),
		container.Limits{Layers: 2})
	if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), "3 layers; the limit is 2") {
		t.Errorf("too many layers: the error is %v", err)
	}
}

// circle returns an OCI layout whose index names an index like itself, without end.
func circle(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	zeros := strings.Repeat("0", 64)
	index := []byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","size":1,"digest":"sha256:` +
		zeros + `"}]}`)
	err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o755)
	for name, content := range map[string][]byte{"oci-layout": []byte("{}"), "index.json": index,
		"blobs/sha256/" + zeros: index} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
