package versioning_test

import (
	"encoding/json"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

func TestLatest(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	commits := func(code string) []versioning.Declared {
		return append(without(code), declareTrigger("t", "bar:latest"))
	}
	s.must(t, change{uid: uid, units: commits("1")})
	s.must(t, change{uid: aub, units: commits("2")})
	tracker := s.versions(t, fn("bar"))
	latest, err := s.find(t, landfall.FunctionUnit, "bar:latest")
	if err != nil {
		t.Fatal(err)
	}
	// Latest is the version that was made last.
	testkit.Same(t, "what latest means", latest.UID, aub)
	// B-057: which is found through the tracker
	testkit.Same(t, "the tracker", s.tracker(t, fn("bar")), "uidaaaaa aubaaaaa")
	// B-058: it is the last of its list
	testkit.Same(t, "the last of the tracker", tracker[len(tracker)-1], latest)
	// B-059: the trigger did not change, and its function moved on, with both versions still there
	testkit.Same(t, "the trigger's tracker", s.tracker(t, unit(landfall.HTTPTrigger, "t")), string(uid))
	testkit.Same(t, "versions of the function", len(tracker), 2)
	for _, text := range []string{"bar", "bar:", "bar:0", "bar:latest", "default/bar"} {
		testkit.Same(t, text, s.found(t, landfall.FunctionUnit, text), string(aub))
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for i, uid := range []landfall.UID{uid, aub} {
		s.must(t, change{uid: uid, units: without(string(rune('1' + i)))})
	}
	s.app.Live = uid
	s.update(t, func(tx *store.Tx) error { return tx.UpdateApp(t.Context(), s.app) })
	first := s.versions(t, fn("bar"))[0]
	s.update(t, func(tx *store.Tx) error { // what people make by hand: with a label, and of the same content
		row, err := tx.Unit(t.Context(), s.app, fn("bar"))
		if err != nil {
			return err
		}
		for number, label := range map[int64]string{3: "v1.0.0", 4: "+5", 5: "99999999999999999999x"} {
			v := first
			v.Number, v.UID, v.Label, v.Spec = number, landfall.NewUID(), label, json.RawMessage(`{}`)
			if number != 3 {
				v.Digest = landfall.DigestOf([]byte(label))
			}
			if err := tx.CreateVersion(t.Context(), row.ID, v); err != nil {
				return err
			}
		}
		return nil
	})
	for text, number := range map[string]int64{
		"bar:" + string(uid): 1, "bar:1": 1, "bar:live": 1, "bar:2": 2, "bar:latest": 2, "bar:v1.0.0": 3, "bar:3": 3,
		"bar:+5": 4, "bar:5": 5, "bar:99999999999999999999x": 5, "bar:02": 2,
		"bar:" + string(first.Digest): 3, // the newest of those that have it
	} {
		v, err := s.find(t, landfall.FunctionUnit, text)
		if err != nil || v.Number != number {
			t.Errorf("%s: got number %d and the error %v, want %d", text, v.Number, err, number)
		}
	}
	for text, words := range map[string][]string{
		"bar:9":                      {"function bar", `"9"`},
		"bar:-1":                     {"function bar"},
		"bar:9999999999999999999999": {"function bar"},
		"bar:1.0.0":                  {`"v1.0.0"`},
		"bar:uidaaaab":               {`"uidaaaaa"`},
		"bar:nothing like it":        {"no. 5"},
		"bar:sha256:0":               {"function bar"},
		"bar:prod": {`function bar has no version or alias "prod"; the newest is`,
			"(no. 5); it has no aliases"},
		"none":                        {"function none", `"default"`},
		"other/bar":                   {"function bar", `"other"`},
		"src:" + string(aub):          {"function src"}, // a package
		"bar:" + string(first.Commit): {"function bar"},
	} {
		_, err := s.find(t, landfall.FunctionUnit, text)
		testkit.Kind(t, text, err, landfall.NotFound, words...)
	}
	testkit.Same(t, "a package", s.found(t, landfall.PackageUnit, "src:1"), string(uid))
}
