package deploy_test

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func TestCheckTag(t *testing.T) {
	t.Parallel()
	taken := func(uid landfall.UID) bool { return uid == "owf2k7qa" }
	for name, why := range map[string]string{
		"beta": "", "v1.2.0": "", "release/2026": "", "BETA": "", "alive": "", "latest-beta": "", "Live": "", "prod": "",
		"pr": "", "branch": "", "123456": "", "abcdef": "", "abcdefg": "", "ABCDEF1": "", "日本": "",
		strings.Repeat("x", 250): "", "aaaaaaag1": "",
		"bcdefghi": "", // looks like a release's id, and is none's
		"deadbee":  "commit", "1234567": "commit", strings.Repeat("a", 40): "commit", strings.Repeat("a", 41): "",
		"":     "needs a name",
		"live": "reserved", "latest": "reserved", "all": "reserved",
		"branch-x": "follow", "branch-": "follow", "pr-1": "follow", "pr-": "follow", "pr-x": "follow",
		"owf2k7qa": "id of a release", strings.Repeat("x", 251): "250", "a\x00b": "control", "a\nb": "control", "a\u2003": "spaces",
		"a\x1b[31m": "control", "a\x7f": "control", "a\u009b31m": "control", "a\xff": "UTF-8",
	} {
		err := deploy.CheckTag(name, taken)
		if why == "" {
			if err != nil {
				t.Errorf("CheckTag(%q): got the error %v, want none", name, err)
			}
			continue
		}
		testkit.Kind(t, "CheckTag of "+name, err, landfall.Invalid, "cannot be a tag", why)
	}
}

// The tags that pushes move are labels of host names, one for each branch, and nobody can make them by hand.
func TestBranchTags(t *testing.T) {
	t.Parallel()
	none := func(landfall.UID) bool { return false }
	rapid.Check(t, func(t *rapid.T) {
		branch := rapid.StringN(1, 100, -1).Draw(t, "branch")
		tag := deploy.BranchTag(branch)
		if got := landfall.ReleaseLabel(tag); got != tag || len(tag) > 63 || !strings.HasPrefix(tag, "branch-") {
			t.Fatalf("BranchTag(%q): got %q, whose label is %q, want a label that begins branch-", branch, tag, got)
		}
		if deploy.CheckTag(tag, none) == nil ||
			deploy.CheckTag(deploy.PullTag(rapid.IntRange(0, 1e9).Draw(t, "number")), none) == nil {
			t.Fatalf("%q can be made by hand", tag)
		}
		if twin := strings.ToUpper(branch); twin != branch && deploy.BranchTag(twin) == tag {
			t.Fatalf("%q and %q have one tag %q", branch, twin, tag)
		}
	})
	for branch, want := range map[string]string{"main": "branch-main", "feature-x": "branch-feature-x"} {
		testkit.Same(t, "BranchTag", deploy.BranchTag(branch), want)
	}
	testkit.Same(t, "PullTag", deploy.PullTag(12), "pr-12")
}

func TestTags(t *testing.T) {
	t.Parallel()
	t.Run("a tag moves, and every move is kept", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b")
		s.tag(t, "beta", "a")
		s.now = s.now.Add(day)
		s.tag(t, "beta", "b")
		tag, err := s.db.Tag(t.Context(), s.app.ID, "beta")
		if err != nil {
			t.Fatal(err)
		}
		// D-055: the tag, and its address with it, stays the same when it moves
		testkit.Same(t, "the tag", tag, landfall.Tag{App: s.app.ID, Name: "beta", Kind: landfall.HandTag, Release: "b",
			Moved: s.now})
		testkit.Same(t, "moves", s.moves(t, "tag beta"), []string{">a tagged", "a>b tagged"})
		s.now = s.now.Add(day)
		s.tag(t, "beta", "b")
		testkit.Same(t, "moves when it stays", len(s.moves(t, "tag beta")), 2)
		tag.Moved = s.now
		again, err := s.db.Tag(t.Context(), s.app.ID, "beta")
		if err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "the tag when it stays: it was used now", again, tag)
		testkit.Same(t, "live", s.stored(t).Live, "b")
	})
	t.Run("a tag never names what cannot be reached", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b")
		s.group(t, "unreleased")
		if err := s.expire(t, "a"); err != nil {
			t.Fatal(err)
		}
		set := func(release landfall.UID) error {
			return s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) error {
				return deploy.SetTag(ctx, tx, landfall.Tag{App: app.ID, Name: "beta", Kind: landfall.HandTag, Release: release},
					s.by("tagged"))
			})
		}
		// V2: a tag never points at something expired
		testkit.Kind(t, "an expired release", set("a"), landfall.Conflict, "release a is expired")
		testkit.Kind(t, "no release", set("unreleased"), landfall.NotFound, "unreleased")
		testkit.Same(t, "moves", len(s.moves(t, "tag beta")), 0)
	})
	t.Run("a removed tag is gone, and that is kept too", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a")
		s.tag(t, "beta", "a")
		for i, want := range []bool{true, false} {
			s.update(t, func(tx *store.Tx) error {
				removed, err := deploy.RemoveTag(t.Context(), tx, s.app.ID, "beta", s.by("untagged"))
				testkit.Same(t, "RemoveTag", removed, want)
				return err
			})
			testkit.Same(t, "moves", s.moves(t, "tag beta"), []string{">a tagged", "a> untagged"})
			if _, err := s.db.Tag(t.Context(), s.app.ID, "beta"); landfall.KindOf(err) != landfall.NotFound {
				t.Errorf("after removal %d: got the error %v, want no tag", i+1, err)
			}
		}
	})
}
