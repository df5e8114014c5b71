package assets_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/test/testkit"
)

var rootRule = assets.Rule{Src: "site", Path: "/", Where: "specs/app.yaml:3"}

// rootPrefix is the prefix of the root unit's version uid.
func rootPrefix(uid string) string { return "apps/default/shop/static/root/" + uid + "/" }

var shop = tree{
	"site/index.html": "<html>one", "site/app.js": "app", "site/copy.js": "app", "site/data/blob": "built: \x00\x01",
	"site/empty.css": "built:", "site/LICENSE": "plain words",
}

func TestUploadWritesWhatChanged(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	first, firstResult := shop.upload(t, store, rootRule, "firstuid")

	// D-060: the version's files lie in the folder that is named by its id.
	testkit.EqualList(t, "objects", keys(t, store), []string{
		rootPrefix("firstuid") + ".manifest.json", rootPrefix("firstuid") + "LICENSE", rootPrefix("firstuid") + "app.js",
		rootPrefix("firstuid") + "data/blob", rootPrefix("firstuid") + "empty.css", rootPrefix("firstuid") + "index.html",
	})
	at := assets.Ref{Key: rootPrefix("firstuid") + ".manifest.json", Digest: firstResult.Manifest.Digest}
	if want := (assets.UploadResult{Manifest: at, Files: 5, Bytes: 9 + 3 + 9 + 6 + 11}); firstResult != want {
		t.Errorf("got %+v, want %+v: the same bytes are stored once", firstResult, want)
	}

	second := shop.with(tree{"site/index.html": "<html>two", "site/LICENSE": "", "site/moved/app.js": "app",
		"site/new.txt": "new"})
	counted := count(store)
	manifest, result := second.upload(t, counted, rootRule, "nextuid2", first)

	// P-006: changed files are uploaded under the prefix of the new version, unchanged ones are not.
	slices.Sort(counted.created)
	testkit.EqualList(t, "created", counted.created, []string{
		rootPrefix("nextuid2") + ".manifest.json", rootPrefix("nextuid2") + "index.html", rootPrefix("nextuid2") + "new.txt",
	})
	// P-006: and nothing is listed, opened, deleted or copied on the way.
	if len(counted.opened) != 0 || counted.others != 0 {
		t.Errorf("got opens %q and %d lists and deletes, want none", counted.opened, counted.others)
	}
	if result.Files != 2 || result.Bytes != 12 {
		t.Errorf("got %+v, want 2 files of 12 bytes", result)
	}
	wantServed(t, store, manifest, map[string]string{
		"/index.html": "<html>two", "/app.js": "app", "/copy.js": "app", "/moved/app.js": "app",
		"/data/blob": "built: \x00\x01", "/empty.css": "built:", "/new.txt": "new",
	})
	// The version before serves what it served.
	wantServed(t, store, first, map[string]string{
		"/index.html": "<html>one", "/app.js": "app", "/copy.js": "app", "/data/blob": "built: \x00\x01",
		"/empty.css": "built:", "/LICENSE": "plain words",
	})

	// D-062: change is found by content, not by date: the same tree again needs no upload at all, whatever touched it.
	if plan := assets.Plan(second.sel(t, rootRule)[0], rootPrefix("thirduid"), manifest); plan.Uploads() != 0 ||
		plan.Bytes() != 0 {
		t.Errorf("got %d uploads of %d bytes, want none", plan.Uploads(), plan.Bytes())
	}
	// L-028: versions do not pile up: content that is there is not stored again, from whichever version it is known.
	back := assets.Plan(shop.sel(t, rootRule)[0], rootPrefix("thirduid"), manifest, first)
	if back.Uploads() != 0 {
		t.Errorf("a revert: got %d uploads, want none", back.Uploads())
	}
	testkit.EqualList(t, "prefixes of the revert", back.Prefixes(),
		[]string{rootPrefix("thirduid"), rootPrefix("firstuid")})
	// L-029: the bytes shared with other versions and the bytes of its own are known.
	if got, want := manifest.Figures(),
		(assets.Figures{Files: 7, Bytes: 9 + 3*3 + 9 + 6 + 3, Own: 12, Shared: 3 + 9 + 6}); got != want {
		t.Errorf("got figures %+v, want %+v", got, want)
	}
	if got, want := assets.Diff(first, manifest),
		(landfall.FileChange{Added: 2, Changed: 1, Removed: 1, Bytes: 3 + 3 - 11}); got != want {
		t.Errorf("got diff %+v, want %+v", got, want)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	known, _ := shop.upload(t, store, rootRule, "firstuid")
	unit := shop.sel(t, rootRule)[0]

	t.Run("content of another app is not used", func(t *testing.T) {
		t.Parallel()
		for _, prefix := range []string{
			assets.Prefix("apps/default/other/", "/", "nextuid2"), assets.Prefix("apps/other/shop/", "/", "nextuid2"),
			assets.Prefix("apps/default/shop2/", "/", "nextuid2"),
		} {
			plan := assets.Plan(unit, prefix, known)
			testkit.EqualList(t, "prefixes", plan.Prefixes(), []string{prefix})
			if plan.Uploads() != 5 {
				t.Errorf("%s: got %d uploads, want all 5", prefix, plan.Uploads())
			}
		}
	})

	t.Run("content of another unit of the app is", func(t *testing.T) {
		t.Parallel()
		if plan := assets.Plan(unit, assets.Prefix("apps/default/shop/", "/x", "nextuid2"), known); plan.Uploads() != 0 {
			t.Errorf("got %d uploads, want none", plan.Uploads())
		}
	})

	// What is being deleted cannot be reserved, so it is stored again.
	t.Run("prefixes can be left out", func(t *testing.T) {
		t.Parallel()
		plan := assets.Plan(unit, rootPrefix("nextuid2"), known.Without(rootPrefix("firstuid")))
		if plan.Uploads() != 5 || len(plan.Prefixes()) != 1 {
			t.Errorf("got %d uploads and prefixes %q, want 5 and its own", plan.Uploads(), plan.Prefixes())
		}
	})

	// The very large file of the seed: one file, at exactly the path of its unit.
	t.Run("a file served at its unit's own path is stored under its name", func(t *testing.T) {
		t.Parallel()
		rule := assets.Rule{Src: "site/index.html", Path: "/docs/start"}
		plan := assets.Plan(shop.sel(t, rule)[0], assets.Prefix("apps/default/shop/", rule.Path, "firstuid"))
		if plan.Uploads() != 1 || plan.Bytes() != 9 {
			t.Errorf("got %d uploads of %d bytes, want 1 of 9", plan.Uploads(), plan.Bytes())
		}
		store := openStore(t)
		manifest, _ := shop.upload(t, store, rule, "firstuid")
		if file, _ := manifest.Lookup("/docs/start"); file.Key != plan.Prefixes()[0]+"start" ||
			file.Type != "text/html; charset=utf-8" {
			t.Errorf("got %+v, want the key start and HTML", file)
		}
		wantServed(t, store, manifest, map[string]string{"/docs/start": "<html>one"})
	})

	t.Run("units have prefixes of their own", func(t *testing.T) {
		t.Parallel()
		seen := map[string]string{}
		for _, name := range []string{"/", "/root", "/ROOT", "/static/js", "/static-js", "/static/js.", "/日",
			"/" + strings.Repeat("x", 300), "/x"} {
			prefix := assets.Prefix("apps/default/shop/", name, "firstuid")
			if other, taken := seen[prefix]; taken {
				t.Errorf("%q and %q share %s", name, other, prefix)
			}
			seen[prefix] = name
			if err := assets.CheckKey(prefix + "x"); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTypes(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	site := tree{
		"site/a.HTML": "x", "site/b.js": "y", "site/page": "<!DOCTYPE html><html>", "site/words": "words",
		"site/raw": "\x00\x01\x02", "site/pic": "\x89PNG\x0d\x0a\x1a\x0a", "site/none": "built:", "site/x.unknown": "z",
		"site/app.wasm": "\x00asm", "site/i.svg": "<svg/>",
	}
	want := map[string]string{
		"/a.HTML": "text/html; charset=utf-8", "/b.js": "text/javascript; charset=utf-8", "/page": "text/html; charset=utf-8",
		"/words": "text/plain; charset=utf-8", "/raw": "application/octet-stream", "/pic": "image/png",
		"/none": "text/plain; charset=utf-8", "/x.unknown": "text/plain; charset=utf-8", "/app.wasm": "application/wasm",
		"/i.svg": "image/svg+xml",
	}
	check := func(t *testing.T, manifest *assets.Manifest, want map[string]string) {
		t.Helper()
		for name, contentType := range want {
			if file, ok := manifest.Lookup(name); !ok || file.Type != contentType {
				t.Errorf("%s: got %q, want %q", name, file.Type, contentType)
			}
		}
	}
	first, _ := site.upload(t, store, rootRule, "firstuid")
	check(t, first, want)

	// The type must not depend on which versions were before: a renamed file is what it would have been from the start.
	renamed := tree{"site/a": "x", "site/b": "y", "site/page.txt": "<!DOCTYPE html><html>", "site/words2": "words"}
	wantRenamed := map[string]string{
		"/a": "text/plain; charset=utf-8", "/b": "text/plain; charset=utf-8", "/page.txt": "text/plain; charset=utf-8",
		"/words2": "text/plain; charset=utf-8",
	}
	second, result := renamed.upload(t, store, rootRule, "nextuid2", first)
	if result.Files != 0 {
		t.Errorf("got %d files stored, want none", result.Files)
	}
	check(t, second, wantRenamed)
	fresh, _ := renamed.upload(t, openStore(t), rootRule, "nextuid2")
	check(t, fresh, wantRenamed)
}

// An upload is killed after each number of stored objects in turn, and repeated: it ends as if nothing had happened.
func TestUploadResumes(t *testing.T) {
	t.Parallel()
	reference := openStore(t)
	want, wantResult := shop.upload(t, reference, rootRule, "firstuid")
	wantData, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	unit := shop.sel(t, rootRule)[0]
	for kill := range wantResult.Files + 2 {
		t.Run(fmt.Sprintf("killed after %d objects", kill), func(t *testing.T) {
			t.Parallel()
			store := openStore(t)
			dying := count(store)
			dying.allowed = kill
			_, _, err := assets.Uploader{Store: dying, Read: shop.read}.Upload(t.Context(),
				assets.Plan(unit, rootPrefix("firstuid")))
			if kill <= wantResult.Files && landfall.KindOf(err) != landfall.Unavailable {
				t.Fatalf("got %v, want the store's Unavailable", err)
			}
			counted := count(store)
			manifest, result := shop.upload(t, counted, rootRule, "firstuid")
			data, err := manifest.Encode()
			if err != nil || !bytes.Equal(data, wantData) || result.Manifest.Key != wantResult.Manifest.Key {
				t.Errorf("got manifest %s at %s, %v, want %s at %s", data, result.Manifest.Key, err, wantData,
					wantResult.Manifest.Key)
			}
			testkit.EqualList(t, "objects", keys(t, store), keys(t, reference))
			missing := wantResult.Files - len(dying.created)
			if slices.Contains(dying.created, wantResult.Manifest.Key) {
				missing++
			}
			if result.Files != missing {
				t.Errorf("got %d files stored by the second attempt, want the %d that were missing", result.Files, missing)
			}
			there := map[string]bool{}
			for _, key := range keys(t, store) {
				there[key] = true
			}
			full := count(store)
			full.allowed = 0 // not even asked to create what is there
			again, _, err := assets.Uploader{Store: full, Read: shop.read, Stored: there}.Upload(t.Context(),
				assets.Plan(unit, rootPrefix("firstuid")))
			if err != nil {
				t.Fatalf("an upload of what is there: %v", err)
			}
			if data, err := again.Encode(); err != nil || !bytes.Equal(data, wantData) {
				t.Errorf("got manifest %s, %v, want %s", data, err, wantData)
			}
		})
	}
}

// Where other bytes lie, whoever put them there, they are left alone and the new ones are stored beside them.
func TestUploadBesideOtherBytes(t *testing.T) {
	t.Parallel()
	const jsDigits, manifest = "0cc175b9", ".manifest.json"
	store := openStore(t)
	others := tree{"index.html": "other", "app.js": "APP", "data/blob": "", manifest: "{}",
		"LICENSE/is/a/folder/here": "other"}
	for name, content := range others {
		put(t, store, rootPrefix("firstuid")+name, content)
	}
	var results []assets.UploadResult
	var manifests []string
	for range 2 { // and again, with what the first attempt left
		got, result := shop.upload(t, store, rootRule, "firstuid")
		wantServed(t, store, got, map[string]string{
			"/index.html": "<html>one", "/app.js": "app", "/copy.js": "app", "/data/blob": "built: \x00\x01",
			"/empty.css": "built:", "/LICENSE": "plain words",
		})
		file, _ := got.Lookup("/copy.js")
		if want := rootPrefix("firstuid") + "app.js~" +
			landfall.DigestOf([]byte("app")).Hex()[:len(jsDigits)]; file.Key != want {
			t.Errorf("got key %s, want %s", file.Key, want)
		}
		data, err := got.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if want := rootPrefix("firstuid") + manifest + "~" +
			landfall.DigestOf(data).Hex()[:len(jsDigits)]; result.Manifest.Key != want {
			t.Errorf("got manifest %s, want %s", result.Manifest.Key, want)
		}
		results, manifests = append(results, result), append(manifests, string(data))
	}
	if manifests[0] != manifests[1] || results[0].Files != 5 || results[1].Files != 0 {
		t.Errorf("got %+v, want the same manifest twice, and nothing stored the second time", results)
	}
	if got := served(t, store, mustLoad(t, store, results[0].Manifest), "/app.js"); got != "app" {
		t.Errorf("the stored manifest serves %q, want app", got)
	}

	taken := openStore(t)
	put(t, taken, rootPrefix("firstuid")+"app.js", "other")
	put(t, taken, rootPrefix("firstuid")+"app.js~"+landfall.DigestOf([]byte("app")).Hex()[:len(jsDigits)], "other, too")
	_, _, err := assets.Uploader{Store: taken, Read: shop.read}.Upload(t.Context(),
		assets.Plan(shop.sel(t, rootRule)[0], rootPrefix("firstuid")))
	if landfall.KindOf(err) != landfall.Conflict {
		t.Errorf("both keys taken: got %v, want Conflict", err)
	}
}

func mustLoad(t *testing.T, store assets.Opener, ref assets.Ref) *assets.Manifest {
	t.Helper()
	manifest, err := assets.Load(t.Context(), store, ref)
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

func TestUploadFails(t *testing.T) {
	t.Parallel()
	upload := func(t *testing.T, commit tree, read func(context.Context, landfall.File) (io.ReadCloser, error)) error {
		t.Helper()
		store := openStore(t)
		plan := assets.Plan(commit.sel(t, rootRule)[0], rootPrefix("firstuid"))
		manifest, result, err := assets.Uploader{Store: store, Read: read}.Upload(t.Context(), plan)
		if err == nil || manifest != nil || result != (assets.UploadResult{}) {
			t.Fatalf("got %v, %+v, %v, want only an error", manifest, result, err)
		}
		if all := keys(t, store); slices.Contains(all, rootPrefix("firstuid")+".manifest.json") {
			t.Errorf("there is a manifest in %q, want none", all)
		}
		return err
	}

	t.Run("a pointer of Git LFS is named and not served", func(t *testing.T) {
		t.Parallel()
		commit := shop.with(tree{"site/big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"})
		wantInvalid(t, upload(t, commit, commit.read), `"site/big.bin"`, "LFS")
	})

	t.Run("a build output that changed after it was recorded", func(t *testing.T) {
		t.Parallel()
		later := shop.with(tree{"site/data/blob": "built: \x00\x02"})
		if err := upload(t, shop, later.read); landfall.KindOf(err) != landfall.Internal ||
			!strings.Contains(landfall.MessageOf(err), "site/data/blob") {
			t.Errorf("got %v, want an Internal error that names the file", err)
		}
	})

	t.Run("a file that is shorter or longer than its size", func(t *testing.T) {
		t.Parallel()
		for _, content := range []string{"<html>on", "<html>one!"} {
			if err := upload(t, shop,
				shop.with(tree{"site/index.html": content}).read); landfall.KindOf(err) != landfall.Internal {
				t.Errorf("got %v, want Internal", err)
			}
		}
	})

	t.Run("an error of the source keeps its kind", func(t *testing.T) {
		t.Parallel()
		for _, kind := range landfall.Kinds() {
			if kind == landfall.Conflict {
				continue // that is the store's word
			}
			err := upload(t, shop, func(context.Context, landfall.File) (io.ReadCloser, error) {
				return nil, &landfall.Error{Kind: kind, Message: "the source says so"}
			})
			if landfall.KindOf(err) != kind || landfall.MessageOf(err) != "the source says so" {
				t.Errorf("got %v (%v), want %v", landfall.KindOf(err), err, kind)
			}
		}
		err := upload(t, shop, func(context.Context, landfall.File) (io.ReadCloser, error) {
			return nil, errors.New("unclassified")
		})
		if landfall.KindOf(err) != landfall.Internal {
			t.Errorf("got %v, want Internal", err)
		}
	})

	t.Run("an ended context is Canceled", func(t *testing.T) {
		t.Parallel()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		plan := assets.Plan(shop.sel(t, rootRule)[0], rootPrefix("firstuid"))
		_, _, err := assets.Uploader{Store: openStore(t), Read: shop.read}.Upload(ended, plan)
		if landfall.KindOf(err) != landfall.Canceled || err == nil {
			t.Errorf("got %v, want Canceled", err)
		}
	})
}

func TestCollector(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	first, _ := shop.upload(t, store, rootRule, "firstuid")
	before := keys(t, store)
	second, _ := shop.with(tree{"site/app.js": "app 2"}).upload(t, store, rootRule, "firstui2", first)
	all, refusal := keys(t, store), errors.New("somebody else's")
	err := assets.Collector{Check: func(context.Context) error {
		return refusal
	}}.DeletePrefix(t.Context(), store, second.Prefix())
	if !errors.Is(err, refusal) {
		t.Errorf("got %v, want what the check said", err)
	}
	testkit.EqualList(t, "objects after a check that refused", keys(t, store), all)
	checks := 0
	err = assets.Collector{Check: func(context.Context) error {
		checks++
		return nil
	}}.DeletePrefix(t.Context(), store, second.Prefix())
	if err != nil || checks != 1 {
		t.Fatalf("got %v after %d checks, want one for one batch", err, checks)
	}
	// L-028: what only the deleted version had is gone, and everything else is there.
	testkit.EqualList(t, "objects", keys(t, store), before)
	wantServed(t, store, first, map[string]string{
		"/index.html": "<html>one", "/app.js": "app", "/copy.js": "app", "/data/blob": "built: \x00\x01",
		"/empty.css": "built:", "/LICENSE": "plain words",
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (assets.Collector{Workers: 1}).DeletePrefix(ended, store,
		first.Prefix()); landfall.KindOf(err) != landfall.Canceled || err == nil {
		t.Errorf("got %v, want Canceled", err)
	}
	if err := (assets.Collector{}).DeletePrefix(t.Context(), store, "/"); landfall.KindOf(err) != landfall.Invalid {
		t.Errorf("got %v, want Invalid: everything is never deleted", err)
	}
}
