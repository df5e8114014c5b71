package unpack_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/tree"
	"landfall.dev/landfall/unpack"
)

const link = fs.ModeSymlink | 0o777

type entry struct {
	name, text string
	mode       fs.FileMode
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var text bytes.Buffer
	z := zip.NewWriter(&text)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name}
		header.SetMode(e.mode)
		f, err := z.CreateHeader(header)
		if err == nil {
			_, err = io.WriteString(f, e.text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func into(t *testing.T, data []byte) (dir string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "into")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, unpack.Zip(dir, "it", bytes.NewReader(data), int64(len(data)), unpack.Limits{Files: 10, Bytes: 10000})
}

// Files come with their modes, and links lead where they led, whatever the order is.
func TestZip(t *testing.T) {
	t.Parallel()
	dir, err := into(t, archive(t, entry{"node_modules/.bin/tool", "../tool/cli.js", link},
		entry{"alias", "node_modules", link}, entry{"node_modules/tool/", "", fs.ModeDir | 0o755},
		entry{"node_modules/tool/cli.js", "code", 0o755}, entry{"none", "nowhere", link}, entry{"self", "self", link}))
	if err != nil {
		t.Fatal(err)
	}
	// K-001: links to files and folders of a package, and chains of links, are there where it is unpacked
	if text, err := os.ReadFile(filepath.Join(dir, "alias/.bin/tool")); err != nil || string(text) != "code" {
		t.Errorf("got %q, %v", text, err)
	}
	for name, want := range map[string]string{"node_modules/.bin/tool": "../tool/cli.js", "alias": "node_modules",
		"none": "nowhere", "self": "self"} {
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != want {
			t.Errorf("%s leads to %q, %v; want %s", name, target, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "node_modules/tool/cli.js")); err != nil || info.Mode() != 0o755 {
		t.Errorf("got %v, %v", info, err)
	}
}

// Nothing is written outside of the folder, and no link leads out of it.
func TestZipRefuses(t *testing.T) {
	t.Parallel()
	for says, entries := range map[string][]entry{
		`"../out"`:                  {{"../out", "x", 0o644}},
		`"/out"`:                    {{"/out", "x", 0o644}},
		`"a\\out"`:                  {{`a\out`, "x", 0o644}},
		`symbolic link "absolute"`:  {{"absolute", "/etc", link}},
		`symbolic link "up"`:        {{"up", "..", link}},
		`symbolic link "a/b/chain"`: {{"a/b/chain", "../up", link}, {"a/up", "../..", link}},
		// the system follows 40
		`symbolic link "through links"`:    {{"d", ".", link}, {"through links", strings.Repeat("d/", 20) + "..", link}},
		`"l/x" twice, or below another`:    {{"l", "a", link}, {"l/x", "../..", link}, {"a/f", "", 0o644}},
		`symbolic link "missing"`:          {{"missing", "../missing", link}},
		`"l" twice, or below another`:      {{"l", "..", link}, {"l/out", "x", 0o644}},
		`"in" twice, or below another`:     {{"in", "x", 0o644}, {"in", "y", link}},
		`"f/x" twice, or below another`:    {{"f", "x", 0o644}, {"f/x", "x", 0o644}},
		`symbolic link "deep"`:             {{"deep", "a/a/a/../../../../../out", link}, {"a/a/a/f", "", 0o644}},
		`"pipe", which is no plain file`:   {{"pipe", "", fs.ModeNamedPipe | 0o644}},
		`"empty", whose target is no path`: {{"empty", "", link}},
		`"zero", whose target is no path`:  {{"zero", "a\x00b", link}},
		"has no file":                      {{"folder/", "", fs.ModeDir | 0o755}},
		"bytes than the limit of 10000":    {{"large", strings.Repeat("x", 10001), 0o644}},
		"has 11 files; the limit is 10": {{"0", "", 0}, {"1", "", 0}, {"2", "", 0}, {"3", "", 0}, {"4", "", 0},
			{"5", "", 0}, {"6", "", 0}, {"7", "", 0}, {"8", "", 0}, {"9", "", 0}, {"10", "", 0}},
		"target has more than 4096 bytes":  {{"long", strings.Repeat("x", 5000), link}},
		`has "damaged", which is damaged`:  {{"damaged", "the text", 0o644}},
		"in more than 300 folders":         {{strings.Repeat("d/", 301) + "f", "x", 0o644}},
		"has a file in more than 300":      {{strings.Repeat("d/", 2040) + "l", "x", link}},
		"is no zip archive, or is damaged": nil,
	} {
		data := archive(t, entries...)
		data = bytes.Replace(data, []byte("the text"), []byte("another!"), 1)
		if entries == nil {
			data = []byte("text")
		}
		dir, err := into(t, data)
		if landfall.KindOf(err) != landfall.Invalid || err == nil || !strings.Contains(landfall.MessageOf(err), says) ||
			!strings.HasPrefix(landfall.MessageOf(err), "it ") {
			t.Errorf("got %v: %v, want %s", landfall.KindOf(err), err, says)
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "out")); err == nil {
			t.Errorf("%s: something was written outside", says)
		}
	}
}

// Many links to what lies as deep as it may are unpacked.
func TestZipOfManyLinks(t *testing.T) {
	t.Parallel()
	const many = 300
	deep := strings.Repeat("d/", tree.MaxDepth) + "f"
	entries := []entry{{deep, "text", 0o644}}
	for i := range many {
		entries = append(entries, entry{fmt.Sprintf("l%d", i), strings.Repeat("d/../", 500) + deep, link})
	}
	data, dir := archive(t, entries...), t.TempDir()
	if err := unpack.Zip(dir, "it", bytes.NewReader(data), int64(len(data)),
		unpack.Limits{Files: many + 1, Bytes: 100 << 20}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, deep)); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "l299")); err != nil || target != entries[many].text {
		t.Errorf("the last link leads to %q, %v", target, err)
	}
}

// An archive may say that it has fewer files than its list has: the list is not read further than it may be long.
func TestOpenOfLongLists(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for n := range 20_000 {
		if _, err := z.Create(strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	copy(data[bytes.LastIndex(data, []byte("PK\x05\x06"))+8:], []byte{2, 0, 2, 0}) // how many there are
	read := &counted{ReaderAt: bytes.NewReader(data)}
	_, err := unpack.Open("the archive", read, int64(len(data)), 100)
	testkit.Kind(t, "a list of 20,000 files that says 2", err, landfall.Invalid, "the archive has more files than 100")
	if most := int64(len(data)) / 4; read.bytes > most {
		t.Errorf("read %d bytes of %d, want at most %d", read.bytes, len(data), most)
	}
}

// long gives an archive the end of one with longer numbers, which says that it has so many files.
func long(data []byte, files uint64) []byte {
	const size = 22
	end := bytes.Clone(data[len(data)-size:])
	record := make([]byte, 56)
	copy(record, "PK\x06\x06")
	binary.LittleEndian.PutUint64(record[32:], files)
	binary.LittleEndian.PutUint64(record[40:], uint64(binary.LittleEndian.Uint32(end[12:])))
	binary.LittleEndian.PutUint64(record[48:], uint64(binary.LittleEndian.Uint32(end[16:])))
	locator := make([]byte, 20)
	copy(locator, "PK\x06\x07")
	binary.LittleEndian.PutUint64(locator[8:], uint64(len(data)-size))
	locator[16] = 1 // disks
	copy(end[8:], "\xff\xff\xff\xff")
	return slices.Concat(data[:len(data)-size], record, locator, end)
}

// An archive may say that it has more files than may be: no memory is reserved for them.
func TestOpenReservesNothing(t *testing.T) {
	t.Parallel()
	large := archive(t, entry{"large", strings.Repeat("x", 1<<20), 0o644}, entry{"small", "x", 0o644})
	for files, says := range map[uint64]string{2: "", 101: "it has 101 files; the limit is 100",
		math.MaxUint64: "it has 18446744073709551615 files; the limit is 100"} {
		data := long(large, files)
		z, err := unpack.Open("it", bytes.NewReader(data), int64(len(data)), 100)
		if says == "" {
			testkit.Equal(t, "files of an archive with long numbers", len(testkit.Must(z, err)(t).File), 2)
			continue
		}
		testkit.Kind(t, "a number of files that is too large", err, landfall.Invalid, says)
	}
}

// counted counts what is read.
type counted struct {
	io.ReaderAt

	bytes int64
}

// ReadAt implements io.ReaderAt.
func (c *counted) ReadAt(p []byte, offset int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, offset)
	c.bytes += int64(n)
	return n, err
}

// tarOf packs headers, each with as many bytes as it says.
func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, h := range headers {
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = io.WriteString(w, strings.Repeat("x", int(h.Size)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var text bytes.Buffer
	w := gzip.NewWriter(&text)
	if _, err := w.Write(data); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// A tar is unpacked as a zip is, and so is one that gzip compressed.
func TestTar(t *testing.T) {
	t.Parallel()
	packed := tarOf(t, tar.Header{Name: "pax", Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "c"}},
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "a/link", Typeflag: tar.TypeSymlink,
			Linkname: "../b/tool"}, tar.Header{Name: "./b/tool", Typeflag: tar.TypeReg, Mode: 0o700, Size: 4})
	for _, data := range [][]byte{packed, gzipped(t, packed)} {
		if !unpack.IsTar(data) || unpack.IsZip(data) || unpack.IsTar(archive(t, entry{"a", "b", 0o644})) {
			t.Error("an archive is not known by its first bytes")
		}
		dir := t.TempDir()
		if err := unpack.Tar(dir, "it", bytes.NewReader(data), unpack.Limits{Files: 4, Bytes: 4}); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "a/link")); err != nil || string(text) != "xxxx" {
			t.Errorf("got %q, %v", text, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "b/tool")); err != nil || info.Mode() != 0o755 {
			t.Errorf("got %v, %v", info, err)
		}
	}
}

// A tar writes nothing outside, and no more than it may.
func TestBadTar(t *testing.T) {
	t.Parallel()
	file := func(name string, size int64) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: size}
	}
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	whole := tarOf(t, file("a", 600))
	var named []tar.Header // long names, and nothing else
	for range 3 {
		named = append(named, tar.Header{Name: strings.Repeat("folder/", 10_000), Typeflag: tar.TypeDir})
	}
	for want, data := range map[string][]byte{
		`has "../a", which is no plain file inside it`:       tarOf(t, file("../a", 1)),
		`has "/a", which is no plain file inside it`:         tarOf(t, file("/a", 1)),
		`has "a/b", which is no plain file inside it`:        tarOf(t, tar.Header{Name: "a/b", Typeflag: tar.TypeFifo}),
		`has "hard", which is no plain file inside it`:       tarOf(t, file("a", 1), tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "a"}),
		`has "a" twice, or below another file`:               tarOf(t, file("a", 1), file("a", 1)),
		`has the symbolic link "a", which leads out of it`:   tarOf(t, link("a", "../b")),
		`has the symbolic link "a", whose target is no path`: tarOf(t, link("a", "")),
		"has more bytes than the limit of 1000":              gzipped(t, tarOf(t, file("a", 600), file("b", 401))),
		"has more files than 3":                              tarOf(t, file("a", 1), file("b", 1), file("c", 1), file("d", 1)),
		"has no file":                                        tarOf(t, tar.Header{Name: "a/", Typeflag: tar.TypeDir}),
		"is no tar archive, or is damaged":                   bytes.Repeat([]byte("no tar"), 200),
		`has "a", which is damaged or encrypted`:             whole[:700],
		"no tar archive, or is damaged":                      append(gzipped(t, whole)[:10], bytes.Repeat([]byte{0xff}, 100)...),
		`has the name "aaaa`:                                 tarOf(t, file(strings.Repeat("a", 256), 1)),
		`has the name "bbbb`:                                 tarOf(t, link(strings.Repeat(strings.Repeat("b", 99)+"/", 50)+"b", "b")),
		"it has more bytes than the limit":                   gzipped(t, tarOf(t, named...)),
		"it is no tar archive, or is damaged":                []byte("\x1f\x8bno gzip"),
	} {
		dir := filepath.Join(t.TempDir(), "into")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		err := unpack.Tar(dir, "it", bytes.NewReader(data), unpack.Limits{Files: 3, Bytes: 1000})
		testkit.Kind(t, want, err, landfall.Invalid, want)
		if outside, _ := filepath.Glob(filepath.Join(dir, "../*")); len(outside) != 1 {
			t.Errorf("%s: there is %v", want, outside)
		}
	}
}
