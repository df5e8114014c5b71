package versioning_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// commits are sets of declarations in which functions share packages and environments.
func commits() *rapid.Generator[[]versioning.Declared] {
	return rapid.Custom(func(t *rapid.T) []versioning.Declared {
		text := rapid.StringN(0, 3, -1)
		names := func(kind landfall.UnitKind, few int) []string {
			return rapid.SliceOfNDistinct(rapid.StringMatching("[a-c]{1,2}"), 0, few, rapid.ID).Draw(t, string(kind))
		}
		var all []versioning.Declared
		for _, kind := range landfall.UnitKinds() {
			for _, name := range names(kind, 3) {
				d := versioning.Declared{Unit: unit(kind, name), Spec: []byte(text.Draw(t, "spec")), Where: "specs/a.yaml:1"}
				switch kind {
				case landfall.PackageUnit, landfall.StaticUnit:
					d.Content = []byte("files " + text.Draw(t, "content"))
				case landfall.FunctionUnit:
					for _, of := range []landfall.UnitKind{landfall.PackageUnit, landfall.EnvironmentUnit} {
						d.Refs = append(d.Refs, unit(of, rapid.StringMatching("[a-c]{1,2}").Draw(t, "reference")))
					}
				case landfall.HTTPTrigger, landfall.TimeTrigger, landfall.QueueTrigger, landfall.AliasUnit,
					landfall.FunctionTagUnit:
					if rapid.Bool().Draw(t, "pinned") {
						d.Pinned = []landfall.Digest{landfall.DigestOf([]byte(text.Draw(t, "pin")))}
					}
				case landfall.EnvironmentUnit, landfall.ConfigUnit, landfall.SecretUnit:
				}
				all = append(all, d)
			}
		}
		return all
	})
}

// digests are those of all units of a commit.
func digests(t tester, declared []versioning.Declared) map[landfall.UnitID]landfall.Digest {
	t.Helper()
	units, err := versioning.Resolve(declared)
	if err != nil {
		t.Fatalf("%v", err)
	}
	all := map[landfall.UnitID]landfall.Digest{}
	for _, u := range units {
		all[u.Unit] = u.Digest
	}
	return all
}

// inForce is what a commit puts in force, as far as diffs go.
func inForce(t tester, declared []versioning.Declared) []landfall.GroupUnit {
	t.Helper()
	units, err := versioning.Resolve(declared)
	if err != nil {
		t.Fatalf("%v", err)
	}
	all := make([]landfall.GroupUnit, 0, len(units))
	for _, u := range units {
		all = append(all, landfall.GroupUnit{Unit: u.Unit, UID: "aaaaaaaa", Number: 1, Digest: u.Digest})
	}
	return all
}

// clone copies declarations so that one can be changed.
func clone(declared []versioning.Declared) []versioning.Declared {
	all := slices.Clone(declared)
	for i := range all {
		all[i].Spec, all[i].Refs, all[i].Pinned, all[i].Content =
			slices.Clone(all[i].Spec), slices.Clone(all[i].Refs), slices.Clone(all[i].Pinned), slices.Clone(all[i].Content)
	}
	return all
}

// The order in which files, documents and references are read does not count.
func TestOrderDoesNotCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		declared := commits().Draw(t, "commit")
		shuffled := rapid.Permutation(clone(declared)).Draw(t, "shuffled")
		for i := range shuffled {
			if len(shuffled[i].Refs) > 1 {
				shuffled[i].Refs = rapid.Permutation(shuffled[i].Refs).Draw(t, "references")
			}
			shuffled[i].Where = "elsewhere.yaml:99"
		}
		was, is := inForce(t, declared), inForce(t, shuffled)
		// V4: the order of documents and of references does not matter
		testkit.Same(t, "what is in force", is, was)
		for _, c := range versioning.Diff(was, is) {
			// V4: a commit compared with itself has no change
			if c.Change != landfall.Unchanged {
				t.Fatalf("got %+v, want no change", c)
			}
		}
		mixed := rapid.Permutation(slices.Clone(was)).Draw(t, "mixed")
		// V4: nor does the order in which a group version's units are listed
		testkit.Same(t, "the group's digest", versioning.GroupDigest(mixed), versioning.GroupDigest(was))
		testkit.Same(t, "the diff in any order", versioning.Diff(mixed, was), versioning.Diff(was, was))
	})
}

// A change of what counts changes the digests of the unit and of those that refer to it, and no others.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		declared := commits().Draw(t, "commit")
		if len(declared) == 0 {
			return
		}
		changed := clone(declared)
		i := rapid.IntRange(0, len(changed)-1).Draw(t, "unit")
		d := &changed[i]
		switch what := rapid.SampledFrom([]string{"spec", "content", "pin", "reference"}).Draw(t, "what"); {
		case what == "content" && d.Content != nil:
			d.Content = append(d.Content, '.')
		case what == "pin":
			d.Pinned = append(d.Pinned, landfall.DigestOf([]byte("pin")))
		case what == "reference":
			d.Refs = append(d.Refs, fn("undeclared"))
		default:
			d.Spec = append(d.Spec, '.')
		}
		before, after := digests(t, declared), digests(t, changed)
		for _, other := range changed {
			want := other.Unit == d.Unit || slices.Contains(other.Refs, d.Unit)
			// V4: a digest changes when something that counts changes, and only then
			if got := before[other.Unit] != after[other.Unit]; got != want {
				t.Fatalf("%s changed and %s refers to it %t: got another digest %t, want %t", d.Unit, other.Unit, want, got, want)
			}
		}
		if got, want := versioning.GroupDigest(inForce(t, changed)) == versioning.GroupDigest(inForce(t, declared)),
			false; got != want {
			t.Fatalf("the group's digest stayed the same when %s changed", d.Unit)
		}
	})
}

// A unit that is renamed, together with what refers to it, is what it was.
func TestNamesDoNotCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		declared := commits().Draw(t, "commit")
		renamed := clone(declared)
		for i := range renamed {
			renamed[i].Unit.Name += "-aub"
			for j, ref := range renamed[i].Refs {
				if slices.ContainsFunc(declared, func(d versioning.Declared) bool { return d.Unit == ref }) {
					renamed[i].Refs[j].Name += "-aub"
				}
			}
		}
		before, after := digests(t, declared), digests(t, renamed)
		for _, d := range declared {
			// B-088: names, which versions suffix, are not compared
			testkit.Same(t, d.Unit.String(), after[unit(d.Unit.Kind, d.Unit.Name+"-aub")], before[d.Unit])
		}
	})
}

// Parts that run into each other are told apart.
func TestPartsAreToldApart(t *testing.T) {
	t.Parallel()
	seen := map[landfall.Digest]string{}
	for _, d := range []versioning.Declared{
		{Unit: fn("f"), Spec: []byte("ab"), Content: []byte("c")},
		{Unit: fn("f"), Spec: []byte("a"), Content: []byte("bc")},
		{Unit: fn("f"), Spec: []byte("abc")},
		{Unit: fn("f"), Content: []byte("abc")},
		{Unit: pkg("f"), Spec: []byte("abc")},
		{Unit: fn("f"), Spec: []byte("abc"), Refs: []landfall.UnitID{pkg("p")}},
		{Unit: fn("f"), Spec: []byte("abc"), Refs: []landfall.UnitID{pkg("q")}},
		{Unit: fn("f"), Spec: []byte("abc"), Refs: []landfall.UnitID{pkg("p"), pkg("q")}},
		{Unit: fn("f"), Spec: []byte("abc"), Refs: []landfall.UnitID{unit(landfall.EnvironmentUnit, "p")}},
		{Unit: fn("f"), Spec: []byte("abc"), Pinned: []landfall.Digest{"sha256:1"}},
		{Unit: fn("f"), Spec: []byte("abc"), Pinned: []landfall.Digest{"sha256:1", "sha256:1"}},
		{Unit: fn("f"), Spec: []byte("abc"), Content: []byte("sha256:1")},
	} {
		digest, what := digests(t, []versioning.Declared{d})[d.Unit], fmt.Sprintf("%+v", d)
		if was, taken := seen[digest]; taken {
			t.Errorf("%s and %s have one digest", was, what)
		}
		seen[digest] = what
	}
}

// The digests of today are those of every later version of this program: versions that are stored go on to be found.
func TestDigestIsStable(t *testing.T) {
	t.Parallel()
	hash := func(parts ...string) landfall.Digest {
		h := sha256.New()
		for _, p := range parts {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
			h.Write([]byte(p))
		}
		return landfall.Digest("sha256:" + hex.EncodeToString(h.Sum(nil)))
	}
	p := versioning.Declared{Unit: pkg("p"), Spec: []byte(`{"a":1}`), Content: []byte("files")}
	f := versioning.Declared{Unit: fn("f"), Spec: []byte(`{"b":2}`),
		Refs:   []landfall.UnitID{unit(landfall.EnvironmentUnit, "e"), pkg("p")},
		Pinned: []landfall.Digest{"sha256:pin"}}
	wantP := hash("landfall/1", "package", `{"a":1}`, "files")
	environment := landfall.DigestOf([]byte("undeclared environment e"))
	wantF := hash("landfall/1", "function", `{"b":2}`, string(wantP), string(environment), "sha256:pin", "")
	testkit.Same(t, "digests", digests(t, []versioning.Declared{f, p}),
		map[landfall.UnitID]landfall.Digest{pkg("p"): wantP, fn("f"): wantF})
	testkit.Same(t, "the group's", versioning.GroupDigest(inForce(t, []versioning.Declared{p, f})),
		hash("landfall/1", "function", "f", string(wantF), "package", "p", string(wantP)))
	testkit.Same(t, "of one package", string(wantP),
		"sha256:77e3aff9a8c0a6d0d32969b6541df92eccc3154532136420942bd07a07117f10")
}

// What a commit declares wrongly is said with its place, before anything is compared.
func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	at := func(where string, id landfall.UnitID, refs ...landfall.UnitID) versioning.Declared {
		return versioning.Declared{Unit: id, Refs: refs, Where: where}
	}
	for _, c := range []struct {
		name     string
		declared []versioning.Declared
		words    []string
	}{
		{"two of one name", []versioning.Declared{at("a.yaml:1", fn("f")), at("a.yaml:5", pkg("f")), at("b.yaml:7", fn("f"))},
			[]string{"b.yaml:7", "function f", "twice", "a.yaml:1"}},
		{"one that refers to itself", []versioning.Declared{at("a.yaml:1", fn("f"), fn("f"))},
			[]string{"a.yaml:1", "function f", "itself"}},
		{"a circle", []versioning.Declared{at("a.yaml:1", fn("f"), fn("g")), at("a.yaml:2", fn("g"), fn("h")),
			at("a.yaml:3", fn("h"), fn("f"))},
			[]string{"a.yaml:", "itself"}},
	} {
		units, err := versioning.Resolve(c.declared)
		// B-086: all of a commit is read and checked before anything of it is applied
		testkit.Kind(t, c.name, err, landfall.Invalid, c.words...)
		if units != nil {
			t.Errorf("%s: got %d units beside the error, want none", c.name, len(units))
		}
	}
	// Two that refer to one are no circle, and a unit may refer to what nobody declares.
	if _, err := versioning.Resolve([]versioning.Declared{
		at("a:1", fn("f"), pkg("p"), pkg("q")), at("a:2", fn("g"), pkg("p")), at("a:3", pkg("p"), pkg("q")),
		at("a:4", pkg("q"), pkg("none"))}); err != nil {
		t.Errorf("a shared reference: %v", err)
	}
	testkit.Same(t, "of nothing", len(digests(t, nil)), 0)
}

// Units come in the order in which trackers show them.
func TestResolveOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		declared := commits().Draw(t, "commit")
		units := inForce(t, declared)
		if len(units) != len(declared) {
			t.Fatalf("got %d units of %d declarations", len(units), len(declared))
		}
		for i := 1; i < len(units); i++ {
			a, b := units[i-1].Unit, units[i].Unit
			ka, kb := slices.Index(landfall.UnitKinds(), a.Kind), slices.Index(landfall.UnitKinds(), b.Kind)
			if ka > kb || (ka == kb && a.Name >= b.Name) {
				t.Fatalf("got %s before %s", a, b)
			}
		}
	})
}

// A unit that is declared by itself among others has the digest that it has when all are declared.
func TestResolveAmong(t *testing.T) {
	t.Parallel()
	declared := []versioning.Declared{
		{Unit: landfall.UnitID{Kind: landfall.PackageUnit, Name: "p"}, Spec: []byte(`{"p":1}`)},
		{Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: "f"}, Spec: []byte(`{"f":1}`), Refs: []landfall.UnitID{
			{Kind: landfall.EnvironmentUnit, Name: "nowhere"}, {Kind: landfall.PackageUnit, Name: "p"}}},
	}
	all := digests(t, declared)
	for _, d := range declared {
		u, err := versioning.ResolveAmong(d, inForce(t, declared))
		if err != nil || u.Digest != all[d.Unit] {
			t.Errorf("%s: got %s, %v, want %s", d.Unit, u.Digest, err, all[d.Unit])
		}
	}
}
