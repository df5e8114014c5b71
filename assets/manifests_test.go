package assets_test

import (
	"fmt"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/test/testkit"
)

func TestManifestsAreKept(t *testing.T) {
	t.Parallel()

	t.Run("one is read once", func(t *testing.T) {
		t.Parallel()
		store := count(openStore(t))
		other, beside := shop.upload(t, store, rootRule, "otheruid")
		want, result := shop.upload(t, store, rootRule, "firstuid")
		store.opened = nil
		manifests := &assets.Manifests{Store: store}
		wantKept(t, manifests, beside.Manifest, other)
		for range 100 {
			wantKept(t, manifests, result.Manifest, want)
		}
		wantKept(t, manifests, beside.Manifest, other)
		testkit.EqualList(t, "opened", store.opened, []string{beside.Manifest.Key, result.Manifest.Key})
	})

	t.Run("one that was just stored is not read", func(t *testing.T) {
		t.Parallel()
		store := count(openStore(t))
		manifests := &assets.Manifests{Store: store}
		first, result := shop.upload(t, store, rootRule, "firstuid")
		manifests.Keep(result.Manifest, first)
		again, second := shop.with(tree{"site/new": "new"}).upload(t, openStore(t), rootRule, "firstuid")
		// the first was collected, and its place taken
		testkit.EqualList(t, "key", []string{second.Manifest.Key}, []string{result.Manifest.Key})
		manifests.Keep(second.Manifest, again)
		wantKept(t, manifests, second.Manifest, again)
		wantKept(t, manifests, result.Manifest, first)
		testkit.EqualList(t, "opened", store.opened, nil)
	})

	t.Run("one that says something else than it should is an error", func(t *testing.T) {
		t.Parallel()
		store := openStore(t)
		_, result := shop.upload(t, store, rootRule, "firstuid")
		other := assets.Ref{Key: result.Manifest.Key, Digest: landfall.DigestOf([]byte("other"))}
		manifests := &assets.Manifests{Store: store}
		if _, err := manifests.Load(t.Context(), other); err == nil || !strings.Contains(err.Error(), string(other.Digest)) {
			t.Errorf("got %v, want an error with the digest", err)
		}
		if _, err := manifests.Load(t.Context(), assets.ParseRef(result.Manifest.String())); err != nil {
			t.Errorf("got %v for the reference that was written and read", err)
		}
	})

	t.Run("one that is not there is NotFound, each time", func(t *testing.T) {
		t.Parallel()
		manifests := &assets.Manifests{Store: openStore(t)}
		for range 2 {
			if _, err := manifests.Load(t.Context(),
				assets.Ref{Key: rootPrefix("absentid") + ".manifest.json"}); landfall.KindOf(err) != landfall.NotFound {
				t.Errorf("got %v, want NotFound", err)
			}
		}
	})

	// The figure is what memory is for them: far more uploads, and far larger ones, may have been.
	t.Run("those that were not used for longest are let go", func(t *testing.T) {
		t.Parallel()
		large := tree{}
		for i := range 30_000 {
			large[fmt.Sprintf("site/%d", i)] = "the same"
		}
		for name, test := range map[string]struct {
			content tree
			uploads int
		}{"many": {shop, 65}, "large": {large, 2}} {
			store := count(openStore(t))
			manifests := &assets.Manifests{Store: store}
			var refs []assets.Ref
			for i := range test.uploads {
				manifest, result := test.content.upload(t, store, rootRule, landfall.UID(fmt.Sprintf("upload%02d", i)))
				manifests.Keep(result.Manifest, manifest)
				refs = append(refs, result.Manifest)
			}
			store.opened = nil
			for _, ref := range []assets.Ref{refs[test.uploads-1], refs[0]} {
				if _, err := manifests.Load(t.Context(), ref); err != nil {
					t.Fatal(err)
				}
			}
			testkit.EqualList(t, name+": opened", store.opened, []string{refs[0].Key})
		}
	})
}

// wantKept checks what is loaded.
func wantKept(t *testing.T, manifests *assets.Manifests, ref assets.Ref, want *assets.Manifest) {
	t.Helper()
	got, err := manifests.Load(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	testkit.EqualList(t, "files", got.Files(), want.Files())
}
