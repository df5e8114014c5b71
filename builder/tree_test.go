package builder_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

func TestFilesAreTheCommits(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	contents := map[string]string{
		"with space.txt": "1", "ünï/日本.txt": "2", "new\nline": "3", "-rf": "4", "%2e%2e/%00": "5",
		"Readme": "6", "README": "7", "!run.sh": "8", "a/b/c/d.txt": "9", "a.txt": "10", "a-b/x": "11", "empty": "",
	}
	c := origin.commit(contents)
	mirror := fetch(t, mirrors(t), origin.local(), mainRef, c)
	files, err := mirror.Files(t.Context(), c, "")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, f := range files {
		key := f.Path
		if f.Mode == landfall.Executable {
			key = "!" + key
		}
		got[key] = read(t, mirror, f)
		if f.Size != int64(len(got[key])) {
			t.Errorf("%q has size %d, want %d", f.Path, f.Size, len(got[key]))
		}
	}
	// N-014: odd names come out of the repository as they went in
	if fmt.Sprint(got) != fmt.Sprint(contents) {
		t.Errorf("got files %q\nwant %q", got, contents)
	}
	if !slices.IsSortedFunc(files, func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) }) {
		t.Errorf("files are not sorted: %v", files)
	}

	t.Run("below a folder", func(t *testing.T) {
		for _, folder := range []string{"a/b", "/a/b/"} {
			files, err := mirror.Files(t.Context(), c, folder)
			if err != nil || len(files) != 1 || files[0].Path != "a/b/c/d.txt" {
				t.Errorf("folder %q: got %v, %v; want a/b/c/d.txt", folder, files, err)
			}
		}
		for _, folder := range []string{"a.txt", "nowhere", "../a", "a/../a"} {
			_, err := mirror.Files(t.Context(), c, folder)
			wantError(t, err, landfall.NotFound, "no folder", folder)
		}
	})
}

func TestLinksSubmodulesAndPointers(t *testing.T) {
	t.Parallel()
	const secret = "root:x:0:0"
	origin := newRepository(t)
	oid := strings.Repeat("c", 40)
	good := map[string]string{
		"->same": "docs/page.html", "->docs/up": "../site/index.html", "->chain": "same",
		"->docs/dots": ".././docs//page.html", "->through": "folderlink/index.html", "->run": "tools/run.sh",
	}
	bad := map[string]string{
		"->passwd": "/etc/passwd", "->out": "../outside", "->docs/deep": "../../../../etc/passwd", "->loop": "loop",
		"->ping": "pong", "->pong": "ping", "->nothing": "missing", "->folderlink": "site", "->docs/parent": "..",
		"->empty/.": "", "->intosub": "vendor/lib/file", "->file/below": "x", "->dotgit": ".git/config",
		"->nul": "docs\x00/page.html", "->long": strings.Repeat("a/", 3000), "->belowfile": "docs/page.html/x",
	}
	delete(bad, "->empty/.")
	delete(bad, "->file/below")
	contents := map[string]string{
		"docs/page.html": "page", "site/index.html": "index", "!tools/run.sh": "#!", "etc/passwd": "not " + secret,
		"big.bin":   "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 12345\n",
		"about.txt": "version 1 of the page",
	}
	var info strings.Builder
	for _, group := range []map[string]string{good, bad, contents} {
		for path, content := range group {
			mode := "100644"
			if rest, ok := strings.CutPrefix(path, "->"); ok {
				mode, path = "120000", rest
			}
			if rest, ok := strings.CutPrefix(path, "!"); ok {
				mode, path = "100755", rest
			}
			fmt.Fprintf(&info, "%s %s\t%s\x00", mode, origin.blob(content), path)
		}
	}
	fmt.Fprintf(&info, "160000 %s\tvendor/lib\x00", oid)
	c := origin.commitTree(origin.index([]byte(info.String())), "links")
	s := origin.serve(t)
	origin.set(mainRef, c)
	mirror := fetch(t, mirrors(t, s), s.remote(), mainRef, c)
	files := list(t, mirror, c)

	for path, want := range map[string]string{
		"same": "page", "docs/up": "index", "chain": "page", "docs/dots": "page", "through": "index", "run": "#!",
	} {
		f := files[path]
		if got := read(t, mirror, f); got != want || builder.Check(f) != nil || f.Size != int64(len(want)) {
			t.Errorf("link %s reads %q (size %d), want %q", path, got, f.Size, want)
		}
	}
	if files["run"].Mode != landfall.Executable {
		t.Error("a link to an executable file is not executable")
	}
	for path := range bad {
		f := files[strings.TrimPrefix(path, "->")]
		content, err := tryRead(t, mirror, f)
		// N-013: a link that leads to no file of the repository is refused by its name
		wantError(t, err, landfall.Invalid, strings.TrimPrefix(path, "->"), "symbolic link")
		wantError(t, builder.Check(f), landfall.Invalid, "exclude the link")
		// N-013: and nothing of what it leads to is ever read
		if content != "" {
			t.Errorf("link %s gave %q", path, content)
		}
	}
	_, err := tryRead(t, mirror, files["vendor/lib"])
	// N-013: a submodule is refused by its name when something selects it
	wantError(t, err, landfall.Invalid, "vendor/lib", "submodule")
	wantError(t, builder.Check(files["vendor/lib"]), landfall.Invalid, "vendor/lib")
	content, err := tryRead(t, mirror, files["big.bin"])
	// N-013: a pointer of Git LFS is refused by its name
	wantError(t, err, landfall.Invalid, "big.bin", "Git LFS")
	// N-013: and is never taken for the file
	if content != "" {
		t.Errorf("the pointer gave %q", content)
	}
	if got := read(t, mirror, files["about.txt"]); got != contents["about.txt"] {
		t.Errorf("a text that begins a little like a pointer reads %q", got)
	}
	_, _, err = builder.SelectArchive(builder.ArchiveSpec{Name: "all", Include: []string{"docs/*"}}, values(files))
	// N-013: an archive that selects such a link says which
	wantError(t, err, landfall.Invalid, "archive all", "docs/", "symbolic link")
	if got := s.seen(""); got != 2 {
		t.Errorf("the server got %d requests, want 2: submodules and LFS bring none", got)
	}
}

func values(files map[string]landfall.File) []landfall.File {
	var all []landfall.File
	for _, f := range files {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func TestTreesMadeByHand(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	blob := origin.blob("x")
	sub := origin.tree(entry{"100644", "f", blob})
	for name, test := range map[string]struct {
		tree string
		want string
	}{
		"parent folder":   {origin.tree(entry{"40000", "..", sub}), `".."`},
		"this folder":     {origin.tree(entry{"40000", ".", sub}), `"."`},
		"slash":           {origin.tree(entry{"100644", "a/../../x", blob}), "slash"},
		"git folder":      {origin.tree(entry{"40000", ".GIT", sub}), "git's own"},
		"twice":           {origin.tree(entry{"100644", "a", blob}, entry{"100644", "a", blob}), "two entries"},
		"file and folder": {origin.tree(entry{"100644", "a", blob}, entry{"40000", "a", sub}), "two entries"},
	} {
		t.Run(name, func(t *testing.T) {
			c := origin.commitTree(test.tree, "crafted")
			mirror := fetch(t, mirrors(t), origin.local(), mainRef, c)
			_, err := mirror.Files(t.Context(), c, "")
			// N-014: a name that cannot be a file's is refused
			wantError(t, err, landfall.Invalid, test.want)
		})
	}
	t.Run("endlessly deep", func(t *testing.T) {
		tree := sub
		for range 300 {
			tree = origin.tree(entry{"40000", "d", tree})
		}
		c := origin.commitTree(tree, "deep")
		mirror := fetch(t, mirrors(t), origin.local(), mainRef, c)
		_, err := mirror.Files(t.Context(), c, "")
		wantError(t, err, landfall.Invalid, "deep")
	})
	t.Run("a tree that lists itself a billion times", func(t *testing.T) {
		tree := sub
		for range 30 {
			tree = origin.tree(entry{"40000", "a", tree}, entry{"40000", "b", tree})
		}
		c := origin.commitTree(tree, "bomb")
		mirror := fetch(t, mirrors(t), origin.local(), mainRef, c)
		_, err := mirror.Files(t.Context(), c, "")
		// N-008: the figure is the real one also where counting to it would take hours.
		wantError(t, err, landfall.Invalid, "the commit has 1073741824 files", "LANDFALL_MAX_FILES")
	})
	t.Run("an object that is missing", func(t *testing.T) {
		c := origin.commitTree(origin.tree(entry{"100644", "a", strings.Repeat("9", 40)}), "broken")
		mirror := fetch(t, mirrors(t), origin.local(), mainRef, c)
		_, err := mirror.Files(t.Context(), c, "")
		wantError(t, err, landfall.NotFound)
	})
}

// What was learned of a commit serves the next one of the same mirror, and nobody else.
func TestFilesAfterFiles(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	m := mirrors(t)
	m.Limits.CommitBytes = 8
	mirror := fetch(t, m, origin.local(), mainRef,
		origin.commit(map[string]string{"same": "11", "->link": "same", "changed": "2"}))
	for _, test := range []struct {
		contents map[string]string
		want     string
	}{
		{map[string]string{"same": "11", "->link": "same", "changed": "2"}, "[{changed 1} {link 2} {same 2}]"},
		{map[string]string{"same": "11", "->link": "same", "changed": "333"}, "[{changed 3} {link 2} {same 2}]"},
		{map[string]string{"renamed": "11", "changed": "333"}, "[{changed 3} {renamed 2}]"},
	} {
		files, err := mirror.Files(t.Context(), origin.commit(test.contents), "")
		if err != nil {
			t.Fatal(err)
		}
		type line struct {
			path string
			size int64
		}
		var got []line
		for _, f := range files {
			got = append(got, line{f.Path, f.Size})
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("got %v, want %s", got, test.want)
		}
	}
	_, err := mirror.Files(t.Context(), origin.commit(map[string]string{"a": "11", "b": "11", "c": "11", "d": "333"}), "")
	// N-008: the limits count also what is known already.
	wantError(t, err, landfall.Invalid, "files have 9 bytes", "LANDFALL_MAX_COMMIT_BYTES")

	stranger := newRepository(t)
	guess := stranger.commitTree(stranger.tree(entry{"100644", "a", origin.blob("11")}), "naming what another has")
	_, err = fetch(t, m, stranger.local(), mainRef, guess).Files(t.Context(), guess, "")
	wantError(t, err, landfall.NotFound)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	contents := make(map[string]string)
	for i := range 12 {
		contents[fmt.Sprintf("d%d/f.txt", i)] = strings.Repeat("x", 100+i)
	}
	c := origin.commit(contents)
	origin.set(mainRef, c)
	s := origin.serve(t)
	for name, test := range map[string]struct {
		limits builder.Limits
		want   []string
	}{
		"files": {builder.Limits{Files: 10}, []string{"the commit has 12 files", "limit is 10", "LANDFALL_MAX_FILES"}},
		"commit bytes": {builder.Limits{CommitBytes: kib},
			[]string{"files have 1266 bytes", "limit is 1 KiB", "LANDFALL_MAX_COMMIT_BYTES"}},
		"file bytes": {builder.Limits{FileBytes: 105},
			[]string{"d10/f.txt", "110 bytes", "limit is 105 bytes", "LANDFALL_MAX_FILE_BYTES"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := mirrors(t)
			m.Limits = test.limits
			mirror, err := m.Fetch(t.Context(), origin.local(), mainRef, c)
			if err == nil {
				_, err = mirror.Files(t.Context(), c, "")
			}
			// N-008: a commit over a limit names the limit, the figure and the setting
			wantError(t, err, landfall.Invalid, test.want...)
		})
	}
	for name, test := range map[string]struct {
		limits builder.Limits
		want   []string
	}{
		"received bytes": {builder.Limits{ReceivedBytes: kib},
			[]string{"more than 1024 bytes", "1 KiB", "LANDFALL_MAX_RECEIVED_BYTES"}},
		"objects": {builder.Limits{Objects: 20}, []string{"objects at once", "limit is 20", "LANDFALL_MAX_OBJECTS"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := mirrors(t, s)
			m.Limits = test.limits
			_, err := m.Fetch(t.Context(), s.remote(), mainRef, c)
			// N-008: a fetch over a limit names the limit, the figure and the setting
			wantError(t, err, landfall.Invalid, test.want...)
			m.Limits = builder.Limits{}
			fetch(t, m, s.remote(), mainRef, c)
		})
	}
	t.Run("a file that was listed under a higher limit is not read", func(t *testing.T) {
		m := mirrors(t)
		mirror := fetch(t, m, origin.local(), mainRef, c)
		f := list(t, mirror, c)["d9/f.txt"]
		m.Limits = builder.Limits{FileBytes: 10_000}
		m.Limits.FileBytes = 107
		low := m
		small, err := low.Fetch(t.Context(), origin.local(), mainRef, c)
		if err == nil {
			_, err = small.Read(t.Context(), f)
		}
		wantError(t, err, landfall.Invalid, "109 bytes", "LANDFALL_MAX_FILE_BYTES")
	})
}

const kib = 1 << 10
