package assets_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/assetstest"
)

// oddNames are names that git keeps, those of the stores' suite among them.
func oddNames() []string {
	return append(assetstest.Names(),
		".manifest.json", ".manifest.json~12345678", "%2Emanifest.json", "app.js", "app.js~0cc175b9", "\xff\xfe", "\xc3(",
		"a\xffb/c", strings.Repeat("m", 255), strings.Repeat("k", 2000), strings.Repeat("deep/", 600)+"end",
		strings.Repeat("%", 120), "%long-x")
}

func TestNames(t *testing.T) {
	t.Parallel()
	site, want := tree{}, map[string]string{}
	for i, name := range oddNames() {
		site["site/"+name] = fmt.Sprintf("bytes of %d", i)
		want["/"+name] = fmt.Sprintf("bytes of %d", i)
	}
	store := openStore(t)
	manifest, result := site.upload(t, store, rootRule, "firstuid")
	// N-014: names with spaces, Unicode, newlines, case twins, leading dashes and %2e survive into keys and back.
	wantServed(t, store, manifest, want)
	// N-014: and through the stored manifest.
	wantServed(t, store, mustLoad(t, store, result.Manifest), want)
	if want := rootPrefix("firstuid") + ".manifest.json"; result.Manifest.Key != want {
		t.Errorf("got the manifest at %s, want %s: a file of that name makes way", result.Manifest.Key, want)
	}
	distinct := map[string]bool{}
	for _, file := range manifest.Files() {
		distinct[file.Key] = true
	}
	if len(distinct) != len(want) {
		t.Errorf("got %d keys, want %d", len(distinct), len(want))
	}
	// N-020: all of them lie below the version's prefix.
	for key := range maps.Keys(distinct) {
		if !strings.HasPrefix(key, rootPrefix("firstuid")) || assets.CheckKey(key) != nil {
			t.Errorf("key %q is not below the prefix", key)
		}
	}
}
