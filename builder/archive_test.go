package builder_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

func filesAt(paths ...string) []landfall.File {
	var files []landfall.File
	for _, p := range paths {
		f := landfall.File{Path: p, Size: int64(len(p))}
		if strings.HasSuffix(p, ".sh") {
			f.Mode = landfall.Executable
		}
		files = append(files, f)
	}
	return files
}

func TestSelectArchive(t *testing.T) {
	t.Parallel()
	files := filesAt("README.md", "src/app/.env", "src/app/a.js", "src/app/lib/b.js", "src/app/lib/b.test.js",
		"src/run.sh", "src/application/c.js", "odd[1]/x.js", "--help.js")
	for name, test := range map[string]struct {
		include, exclude []string
		want             []string
		warnings         int
	}{
		"one folder":             {[]string{"src/app/**"}, nil, []string{".env", "a.js", "lib/b.js", "lib/b.test.js"}, 0},
		"the folder by its name": {[]string{"src/app/"}, nil, []string{".env", "a.js", "lib/b.js", "lib/b.test.js"}, 0},
		"two that share one":     {[]string{"src/app/*.js", "./src/*.sh"}, nil, []string{"app/a.js", "run.sh"}, 0},
		"a single file":          {[]string{"src/app/lib/b.js"}, nil, []string{"b.js"}, 0},
		"nothing shared":         {[]string{"README.md", "src/app/a.js"}, nil, []string{"README.md", "src/app/a.js"}, 0},
		"excluded": {[]string{"src/app/**"}, []string{"**/*.test.js", "src/app/.env"},
			[]string{"a.js", "lib/b.js"}, 0}, "excluded by a folder": {[]string{"src/app/**"}, []string{"src/app/lib"},
			[]string{".env", "a.js"}, 0},
		"one glob without match": {[]string{"src/app/*.js", "src/app/*.ts"}, nil, []string{"a.js"}, 1},
		"alternatives":           {[]string{"src/{app,application}/*.js"}, nil, []string{"app/a.js", "application/c.js"}, 0},
		"escaped":                {[]string{`odd\[1\]/*`}, nil, []string{"x.js"}, 0},
		"everything":             {[]string{"**"}, []string{"src/**", "odd*/**"}, []string{"--help.js", "README.md"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selected, warnings, err := builder.SelectArchive(builder.ArchiveSpec{Name: "hello", Include: test.include,
				Exclude: test.exclude}, files)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range selected {
				got = append(got, f.Path)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			// N-012: a glob that matches nothing beside one that does is a warning that names it
			if len(warnings) != test.warnings || (test.warnings > 0 && !strings.Contains(warnings[0], "src/app/*.ts")) {
				t.Errorf("got warnings %q, want %d", warnings, test.warnings)
			}
		})
	}
	t.Run("nothing matches", func(t *testing.T) {
		t.Parallel()
		for _, spec := range []builder.ArchiveSpec{
			{Name: "hello", Include: []string{"dist/**", "out/*"}},
			{Name: "hello", Include: []string{"dist/**", "src/**"}, Exclude: []string{"src"}},
			{Name: "hello"},
		} {
			_, _, err := builder.SelectArchive(spec, files)
			// N-012: an archive none of whose globs matches is an error that names archive and globs
			wantError(t, err, landfall.Invalid, "archive hello is empty", strings.Join(spec.Include, ", "))
		}
	})
	t.Run("what is no glob", func(t *testing.T) {
		t.Parallel()
		_, _, err := builder.SelectArchive(builder.ArchiveSpec{Name: "hello", Include: []string{"src/[a"}}, files)
		wantError(t, err, landfall.Invalid, "hello", "src/[a")
	})
}

func TestWriteArchive(t *testing.T) {
	t.Parallel()
	files := filesAt("b/run.sh", "a.txt", "ü/x y.txt")
	var archive []builder.ArchiveFile
	for _, f := range files {
		archive = append(archive, builder.ArchiveFile{Path: f.Path, File: f})
	}
	content := func(f landfall.File) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Repeat(f.Path, 100))), nil
	}
	var first, second bytes.Buffer
	if err := builder.WriteArchive(&first, archive, content); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(archive)
	if err := builder.WriteArchive(&second, archive, content); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the order of files changes the archive's bytes")
	}
	z, err := zip.NewReader(bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range z.File {
		got = append(got, f.Name+" "+f.Mode().String())
		if f.Modified.Unix() != 315532800 { // 1980-01-01
			t.Errorf("%s was modified %s, want one fixed moment", f.Name, f.Modified)
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil || string(text) != strings.Repeat(f.Name, 100) {
			t.Errorf("%s holds %d bytes, %v", f.Name, len(text), err)
		}
	}
	want := []string{"a.txt -rw-r--r--", "b/run.sh -rwxr-xr-x", "ü/x y.txt -rw-r--r--"}
	if !slices.Equal(got, want) {
		t.Errorf("got entries %q, want %q", got, want)
	}

	for _, bad := range []string{"../x", "/x", "a/../../x", "", "a//b", "./a", `..\x`, "a\x00"} {
		err := builder.WriteArchive(io.Discard, []builder.ArchiveFile{{Path: bad}}, content)
		wantError(t, err, landfall.Invalid)
	}
	err = builder.WriteArchive(io.Discard, []builder.ArchiveFile{{Path: "a"}, {Path: "a"}}, content)
	wantError(t, err, landfall.Invalid, "two files a")

	// What a build made has the digest that was recorded then.
	made := []builder.ArchiveFile{{Path: "a",
		File: landfall.File{Path: "deploy/a", Digest: landfall.DigestOf([]byte("one"))}}}
	for _, text := range []string{"one", "two"} {
		err := builder.WriteArchive(io.Discard, made, func(landfall.File) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		})
		switch {
		case text == "two":
			wantError(t, err, landfall.Internal, "deploy/a", "changed between build and upload")
		case err != nil:
			t.Errorf("what was made is refused: %v", err)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		glob, path string
		want       bool
	}{
		{"*.js", "a.js", true}, {"*.js", "x/a.js", false}, {"**/*.js", "a.js", true}, {"**/*.js", "x/y/a.js", true},
		{"./a", "a", true}, {"a/", "a", true}, {"src/*", "src/.hidden", true}, {"src", "src/a", false},
		{"[a-c].txt", "b.txt", true}, {"{a,b}/?", "b/x", true}, {"*", "a\nb", true}, {"[", "[", false},
	} {
		if got := builder.Match(test.glob, test.path); got != test.want {
			t.Errorf("Match(%q, %q) is %v, want %v", test.glob, test.path, got, test.want)
		}
	}
}

// Where links lead stands in the list of an archive; of their entries nothing is read, but of archives that earlier
// commits wrote.
func TestListArchive(t *testing.T) {
	t.Parallel()
	want := map[string]string{"a": "to/a", "b": "ü \xff\n", "c": strings.Repeat("../", 1300) + "c"}
	var archive []builder.ArchiveFile
	var written, earlier bytes.Buffer
	z := zip.NewWriter(&earlier)
	for name, target := range want {
		archive = append(archive, builder.ArchiveFile{Path: name,
			File: landfall.File{Path: name, Digest: landfall.DigestOf([]byte(target)), Mode: landfall.Symlink, Target: target}})
		header := &zip.FileHeader{Name: name}
		header.SetMode(fs.ModeSymlink | 0o777)
		if w, err := z.CreateHeader(header); err != nil {
			t.Fatal(err)
		} else if _, err := io.WriteString(w, target); err != nil {
			t.Fatal(err)
		}
	}
	err := builder.WriteArchive(&written, archive, func(f landfall.File) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(f.Target)), nil
	})
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	list := bytes.Clone(written.Bytes())
	entries, _, _ := bytes.Cut(list, []byte("PK\x01\x02")) // the list comes behind all of them
	clear(entries)
	for name, data := range map[string][]byte{"whole": written.Bytes(), "the list alone": list,
		"of an earlier commit": earlier.Bytes()} {
		linked, err := builder.ListWithLinks(bytes.NewReader(data), int64(len(data)))
		if err != nil || len(linked) != len(want) {
			t.Errorf("%s: got %d files, %v", name, len(linked), err)
		}
		for _, f := range linked {
			if f.Mode != landfall.Symlink || f.Target != want[f.Path] {
				t.Errorf("%s: %s leads to %q, want %q", name, f.Path, f.Target, want[f.Path])
			}
		}
	}
	// a diff compares archives, also with those of earlier commits
	entries, _, _ = bytes.Cut(earlier.Bytes(), []byte("PK\x01\x02"))
	clear(entries)
	for _, data := range [][]byte{list, earlier.Bytes()} {
		files, err := builder.ListArchive(bytes.NewReader(data), int64(len(data)))
		if err != nil || len(files) != len(want) {
			t.Fatalf("got %d files, %v", len(files), err)
		}
		for _, f := range files {
			if f.Mode != landfall.Symlink || f.Size != int64(len(want[f.Path])) ||
				f.Checksum != crc32.ChecksumIEEE([]byte(want[f.Path])) || f.Target != "" {
				t.Errorf("got %+v", f)
			}
		}
	}
}
