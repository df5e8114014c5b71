package assets_test

import (
	"fmt"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
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
		wantKept(t, manifests, beside.Key, other)
		for range 100 {
			wantKept(t, manifests, result.Key, want)
		}
		wantKept(t, manifests, beside.Key, other)
		wantEqual(t, "opened", store.opened, []string{beside.Key, result.Key})
	})

	t.Run("one that was just stored is not read", func(t *testing.T) {
		t.Parallel()
		store := count(openStore(t))
		manifests := &assets.Manifests{Store: store}
		first, result := shop.upload(t, store, rootRule, "firstuid")
		manifests.Keep(result.Key, first)
		again, _ := shop.with(tree{"site/new": "new"}).upload(t, openStore(t), rootRule, "firstuid")
		manifests.Keep(result.Key, again) // the first was collected, and its place taken
		wantKept(t, manifests, result.Key, again)
		wantEqual(t, "opened", store.opened, nil)
	})

	t.Run("one that is not there is NotFound, each time", func(t *testing.T) {
		t.Parallel()
		manifests := &assets.Manifests{Store: openStore(t)}
		for range 2 {
			if _, err := manifests.Load(t.Context(), rootPrefix("absentid")+".manifest.json"); landfall.KindOf(err) != landfall.NotFound {
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
			var keys []string
			for i := range test.uploads {
				manifest, result := test.content.upload(t, store, rootRule, landfall.UID(fmt.Sprintf("upload%02d", i)))
				manifests.Keep(result.Key, manifest)
				keys = append(keys, result.Key)
			}
			store.opened = nil
			for _, key := range []string{keys[test.uploads-1], keys[0]} {
				if _, err := manifests.Load(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			wantEqual(t, name+": opened", store.opened, keys[:1])
		}
	})
}

// wantKept checks what is loaded of a key.
func wantKept(t *testing.T, manifests *assets.Manifests, key string, want *assets.Manifest) {
	t.Helper()
	got, err := manifests.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "files", got.Files(), want.Files())
}
