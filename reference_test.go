package landfall_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
)

func TestParseReference(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]landfall.Reference{
		"hello":               {Name: "hello", Selector: landfall.Latest},
		"hello:":              {Name: "hello", Selector: landfall.Latest},
		"hello:0":             {Name: "hello", Selector: landfall.Latest},
		"hello:latest":        {Name: "hello", Selector: landfall.Latest},
		"hello:live":          {Name: "hello", Selector: "live"},
		"hello:3":             {Name: "hello", Selector: "3"},
		"hello:owf2k7qa":      {Name: "hello", Selector: "owf2k7qa"},
		"hello:v1.0.0":        {Name: "hello", Selector: "v1.0.0"},
		"hello:a/b":           {Name: "hello", Selector: "a/b"},
		"hello:sha256:abc":    {Name: "hello", Selector: "sha256:abc"},
		"shop/hello":          {Namespace: "shop", Name: "hello", Selector: landfall.Latest},
		"shop/hello:2":        {Namespace: "shop", Name: "hello", Selector: "2"},
		"shop/hello:sha256:a": {Namespace: "shop", Name: "hello", Selector: "sha256:a"},
	} {
		got, err := landfall.ParseReference(text)
		if err != nil || got != want {
			t.Errorf("ParseReference(%q): got %+v and the error %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", ":3", "/", "/hello", "shop/", "shop/:3", "a/b/c", "a/b/c:1", "/:1"} {
		if got, err := landfall.ParseReference(text); err == nil || landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("ParseReference(%q): got %+v and the error %v, want an Invalid error", text, got, err)
		}
	}
}

// What is parsed is written so that it parses to the same, and what is written is short.
func TestReferenceRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`([ab]/)?[ab]{1,2}(:[ab0:/]{0,3})?`), rapid.String()).Draw(t, "text")
		first, err := landfall.ParseReference(text)
		if err != nil {
			return
		}
		again, err := landfall.ParseReference(first.String())
		if err != nil || again != first {
			t.Fatalf("%q parses to %+v, which is written %q and parses to %+v (%v)", text, first, first.String(), again, err)
		}
		if len(first.String()) > len(text) {
			t.Fatalf("%q is written %q, which is longer", text, first.String())
		}
	})
}

// The words of the vocabulary that lists and loops rely on.
func TestVocabulary(t *testing.T) {
	t.Parallel()
	// D-021: the moving parts are the tenant configuration, function configuration, to which secrets, aliases and
	// function tags belong, and static assets, and nothing else
	if got, want := landfall.UnitKinds(), []landfall.UnitKind{
		landfall.FunctionUnit, landfall.PackageUnit, landfall.EnvironmentUnit, landfall.AliasUnit,
		landfall.FunctionTagUnit, landfall.HTTPTrigger, landfall.TimeTrigger, landfall.QueueTrigger, landfall.ConfigUnit, landfall.StaticUnit, landfall.SecretUnit,
	}; !slices.Equal(got, want) {
		t.Errorf("kinds of units: got %v, want %v", got, want)
	}
	shared := 0
	for _, kind := range landfall.UnitKinds() {
		if kind.InNamespace() {
			shared++
		}
	}
	if shared != 2 || !landfall.FunctionUnit.InNamespace() || !landfall.PackageUnit.InNamespace() {
		t.Errorf("kinds whose names are unique in their namespace: got %d, want functions and packages", shared)
	}
	if got, want := (landfall.UnitID{Kind: landfall.HTTPTrigger, Name: "home"}).String(),
		"http-trigger home"; got != want {
		t.Errorf("a unit: got %q, want %q", got, want)
	}
	v := landfall.Version{Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"}, UID: "owf2k7qa"}
	if got, want := v.ObjectName(), "hello-owf2k7qa"; got != want {
		t.Errorf("a version's object: got %q, want %q", got, want)
	}
	for state, want := range map[landfall.RunState]bool{
		landfall.RunQueued: false, landfall.RunRunning: false, landfall.RunWaiting: false, landfall.RunSucceeded: true,
		landfall.RunFailed: true, landfall.RunError: true, landfall.RunSuperseded: true, landfall.RunSkipped: true,
		landfall.RunCancelled: true,
	} {
		if got := state.Final(); got != want {
			t.Errorf("%s is final: got %t, want %t", state, got, want)
		}
	}
	for keep, want := range map[int]int{0: 10, 1: 2, 2: 2, 3: 3, 50: 50} {
		if got := (landfall.ReleasePolicy{Keep: keep}).KeepOrDefault(); got != want {
			t.Errorf("keep %d: got %d, want %d", keep, got, want)
		}
	}
}

func TestParseDigest(t *testing.T) {
	t.Parallel()
	d := landfall.DigestOf([]byte("landfall"))
	if got, err := landfall.ParseDigest(string(d)); err != nil || got != d {
		t.Errorf("a digest: got %q and the error %v, want %q", got, err, d)
	}
	// As sha256sum prints it.
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := landfall.DigestOf(nil); string(got) != "sha256:"+empty || got.Hex() != empty {
		t.Errorf("of nothing: got %q, want sha256:%s", got, empty)
	}
	for _, s := range []string{"", d.Hex(), "sha256:", "sha256:" + d.Hex()[:63], string(d) + "0", "sha1:" + d.Hex(),
		"sha256:" + d.Hex()[:63] + "G"} {
		if got, err := landfall.ParseDigest(s); err == nil || landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("ParseDigest(%q): got %q and the error %v, want an Invalid error", s, got, err)
		}
	}
}
