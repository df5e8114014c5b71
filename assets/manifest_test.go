package assets_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/test/testkit"
)

func TestManifest(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	first, _ := shop.upload(t, store, rootRule, "firstuid")
	changed := shop.with(tree{"site/app.js": "app 2", "site/LICENSE": "other words"})
	second, result := changed.upload(t, store, rootRule, "nextuid2", first)

	t.Run("what was stored is what was returned", func(t *testing.T) {
		t.Parallel()
		loaded := mustLoad(t, store, result.Manifest)
		testkit.EqualList(t, "files", loaded.Files(), second.Files())
		testkit.EqualList(t, "prefixes", loaded.Prefixes(), []string{rootPrefix("nextuid2"), rootPrefix("firstuid")})
		if loaded.Prefix() != rootPrefix("nextuid2") || loaded.Figures() != second.Figures() {
			t.Errorf("got %s %+v, want %s %+v", loaded.Prefix(), loaded.Figures(), second.Prefix(), second.Figures())
		}
		if _, ok := loaded.Lookup("/absent"); ok {
			t.Error("/absent is served")
		}
	})

	t.Run("prefixes are its own first, then in order", func(t *testing.T) {
		t.Parallel()
		plan := assets.Plan(changed.with(tree{"site/new": "new"}).sel(t, rootRule)[0], rootPrefix("athirdui"), second)
		testkit.EqualList(t, "prefixes", plan.Prefixes(),
			[]string{rootPrefix("athirdui"), rootPrefix("firstuid"), rootPrefix("nextuid2")})
	})

	t.Run("a manifest that is not there is NotFound", func(t *testing.T) {
		t.Parallel()
		if _, err := assets.Load(t.Context(), store,
			assets.Ref{Key: rootPrefix("absentid") + ".manifest.json"}); landfall.KindOf(err) != landfall.NotFound {
			t.Errorf("got %v, want NotFound", err)
		}
	})

	t.Run("one of which a byte is another one, or is missing, is damaged", func(t *testing.T) {
		t.Parallel()
		store := openStore(t)
		_, result := tree{"site/index.html": "x"}.upload(t, store, rootRule, "firstuid")
		object, err := store.Open(t.Context(), result.Manifest.Key)
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		whole, err := io.ReadAll(object)
		if err != nil {
			t.Fatal(err)
		}
		for at := range whole {
			flipped := slices.Clone(whole)
			flipped[at] ^= 1
			for what, bad := range map[string][]byte{"flipped": flipped, "cut": whole[:at]} {
				key := fmt.Sprintf("apps/%s/%d", what, at)
				put(t, store, key, string(bad))
				if _, err := assets.Load(t.Context(), store, assets.Ref{Key: key, Digest: result.Manifest.Digest}); err == nil ||
					landfall.KindOf(err) != landfall.Internal {
					t.Errorf("%s at %d: got %v, want an Internal error", what, at, err)
				}
			}
		}
	})

	t.Run("its form is fixed", func(t *testing.T) {
		t.Parallel()
		small, _ := tree{"site/a\n.js": "x"}.upload(t, openStore(t), rootRule, "firstuid")
		data, err := small.Encode()
		want := `{"version":1,"prefixes":["apps/default/shop/static/root/firstuid/"],"files":[{"path":"/a%0A.js","key":"a%0A.js",` +
			`"sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","size":1,"type":"text/javascript; charset=utf-8",` +
			`"blob":"11f6ad8ec52a2984abaafd7c3b516503785c2072"}]}`
		if err != nil || string(data) != want {
			t.Errorf("got %s, %v, want %s", data, err, want)
		}
	})

	t.Run("a manifest does not differ from itself, and nothing counts as empty", func(t *testing.T) {
		t.Parallel()
		if got := assets.Diff(second, second); got != (landfall.FileChange{}) {
			t.Errorf("diff with itself: got %+v, want none", got)
		}
		if got, want := assets.Diff(nil, first), (landfall.FileChange{Added: 6, Bytes: first.Figures().Bytes}); got != want {
			t.Errorf("from nothing: got %+v, want %+v", got, want)
		}
		if got, want := assets.Diff(first, nil),
			(landfall.FileChange{Removed: 6, Bytes: -first.Figures().Bytes}); got != want {
			t.Errorf("to nothing: got %+v, want %+v", got, want)
		}
		if got := assets.Diff(nil, nil); got != (landfall.FileChange{}) {
			t.Errorf("nothing: got %+v, want none", got)
		}
	})
}

// file and manifest are well-formed, to be broken one field at a time.
const (
	goodFile = `{"path":"/b","key":"b","sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","size":1,"type":"text/css"}`
	goodData = `{"version":1,"prefixes":["apps/n/a/static/root/u/","apps/n/a/static/root/v/"],"files":[` + goodFile + `]}`
)

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	if _, err := assets.Decode([]byte(goodData)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"version":1`, `"version":2`}, {`"version":1`, `"version":1,"more":1`}, {`"size"`, `"more":1,"size"`},
		{`"size":1`, `"size":-1`}, {`"path":"/b"`, `"path":"b"`}, {`"path":"/b"`, `"path":"/../b"`},
		{`"path":"/b"`, `"path":"/b/"`}, {`"path":"/b"`, `"path":"/%62"`}, {`"path":"/b"`, `"path":"/%zz"`},
		{`"path":"/b"`, `"path":"/\n"`}, {`"key":"b"`, `"key":"../v/b"`}, {`"key":"b"`, `"key":""`},
		{`"key":"b"`, `"key":"/b"`}, {`"sha256":"2`, `"sha256":"A`}, {`"sha256":"2`, `"sha256":"`}, {`text/css`,
			`text/css\r\nSet-Cookie: a`}, {`text/css`, ``}, {`"size"`, `"in":2,"size"`}, {`"size"`, `"in":-1,"size"`},
		{`"size"`, `"blob":"xyz","size"`}, {`root/u/"`, `root/u"`}, {`"apps/n/a/static/root/u/"`, `"/"`},
		{`"apps/n/a/static/root/u/"`, `"../"`},
		{goodFile, goodFile + "," + goodFile}, {goodFile, goodFile + "," + strings.Replace(goodFile, `"/b"`, `"/a"`, 1)},
		{`]}`, `]}{}`}, {`]}`, `]`}, {goodData, ``}, {goodData, `null`}, {goodData, `[]`},
	} {
		data := strings.Replace(goodData, change[0], change[1], 1)
		if data == goodData {
			t.Fatalf("%q is not in the manifest", change[0])
		}
		if _, err := assets.Decode([]byte(data)); err == nil || landfall.KindOf(err) != landfall.Internal {
			t.Errorf("%s: got %v, want an Internal error", data, err)
		}
	}
}

// FuzzDecode looks for data that is accepted and does not survive being encoded, or that leads out of its prefixes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(goodData))
	f.Add([]byte(strings.Replace(goodData, `"/b"`, `"/%0A%25%FF"`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		manifest, err := assets.Decode(data)
		if err != nil {
			return
		}
		encoded, err := manifest.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := assets.Decode(encoded)
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if !slices.Equal(again.Files(), manifest.Files()) || again.Prefix() != manifest.Prefix() {
			t.Errorf("got %v, want %v", again.Files(), manifest.Files())
		}
		for _, file := range manifest.Files() {
			if err := assets.CheckKey(file.Key); err != nil || !strings.HasPrefix(file.Key, file.Prefix) {
				t.Errorf("key %q of prefix %q: %v", file.Key, file.Prefix, err)
			}
		}
	})
}

// FuzzNames looks for two names of a tree that do not survive into keys and back, or that share a key.
func FuzzNames(f *testing.F) {
	for _, name := range oddNames() {
		f.Add(name, name+"~", "/a b")
	}
	f.Fuzz(func(t *testing.T, one, other, target string) {
		var files []landfall.File
		for i, name := range []string{one, other} {
			files = append(files, landfall.File{Path: "site/" + name, Blob: fmt.Sprintf("%040d", i), Size: int64(i)})
		}
		units, _, err := assets.Select([]assets.Rule{{Src: "site", Path: target}}, files)
		if err != nil {
			return // refused by name
		}
		prefix := assets.Prefix("apps/n/a/", units[0].Rule.Path, "u")
		plan := assets.Plan(units[0], prefix)
		manifest, _, err := assets.Uploader{Store: blackHole{}, Read: nothing}.Upload(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		data, err := manifest.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := assets.Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		seen := map[string]bool{prefix + ".manifest.json": true}
		for _, entry := range units[0].Entries {
			file, ok := again.Lookup(entry.Path)
			if !ok || file.Blob != entry.File.Blob {
				t.Errorf("%q: got %+v, want blob %s", entry.Path, file, entry.File.Blob)
			}
			if seen[file.Key] || assets.CheckKey(file.Key) != nil || !strings.HasPrefix(file.Key, prefix) {
				t.Errorf("%q: key %q is taken, or none, or not below %q", entry.Path, file.Key, prefix)
			}
			seen[file.Key] = true
		}
	})
}
