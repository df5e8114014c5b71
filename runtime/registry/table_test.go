package registry_test

import (
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
)

const (
	firstCommit  = landfall.CommitSHA("3f9c1ab000000000000000000000000000000001")
	secondCommit = landfall.CommitSHA("3f9c1ab111111111111111111111111111111111")
	thirdCommit  = landfall.CommitSHA("77aa00bb11223344556677889900aabbccddeeff")
)

// shop has a release of each sort: live, rebuilt, tagged; the tag old is that of an expired one.
func shop() registry.App {
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	return registry.App{
		ID: "app-1", Name: "shop", Live: "bbbbbbb2", Latest: "ccccccc2",
		Releases: []registry.Release{
			{ID: "aaaaaaa2", Commit: firstCommit, Created: day(1), LiveUntil: day(2)},
			{ID: "bbbbbbb2", Commit: secondCommit, Created: day(2), LiveUntil: day(3), Units: []registry.Unit{
				{Path: "/", Manifest: "root"}, {Path: "static/js/", Manifest: "js"}, {Path: "/static", Manifest: "static"},
			}},
			{ID: "ccccccc2", Commit: thirdCommit, Created: day(3)},
			{ID: "ddddddd2", Commit: thirdCommit, Created: day(4), LiveUntil: day(5)},
		},
		Tags: map[string]landfall.UID{
			"beta": "ccccccc2", "v1.2.0": "bbbbbbb2", "old": "zzzzzzz2",
			strings.Repeat("long", 20): "ccccccc2",
		},
		KeepFiles: time.Hour,
	}
}

// label returns RELEASE of APP--RELEASE.DOMAIN.
func label(selector string) string {
	return strings.TrimPrefix(landfall.JoinedLabel("shop", selector), "shop--")
}

// A label is looked up as release id, then tag, then latest and live, then commit.
func TestResolve(t *testing.T) {
	t.Parallel()
	table := registry.New([]registry.App{shop(), {ID: "app-2", Name: "gone", Deleted: true}, {ID: "app-3", Name: "empty"}})
	long := strings.Repeat("long", 20)
	for _, c := range []struct {
		name, app, selector string
		joined              bool
		outcome             registry.Outcome
		release             landfall.UID
	}{
		{"live", "shop", "", false, registry.Found, "bbbbbbb2"},
		{"live by name", "shop", "live", false, registry.Found, "bbbbbbb2"},
		{"latest", "shop", "latest", false, registry.Found, "ccccccc2"},
		{"id", "shop", "ccccccc2", false, registry.Found, "ccccccc2"},
		{"id, joined", "shop", "ccccccc2", true, registry.Found, "ccccccc2"},
		{"unknown id", "shop", "eeeeeee2", false, registry.UnknownRelease, ""},
		{"tag", "shop", "beta", false, registry.Found, "ccccccc2"},
		{"tag as a slug", "shop", landfall.ReleaseLabel("v1.2.0"), false, registry.Found, "bbbbbbb2"},
		{"tag's letters without the hash", "shop", "v1-2-0", false, registry.UnknownRelease, ""},
		{"tag of an expired release", "shop", "old", false, registry.ExpiredRelease, "zzzzzzz2"},
		{"long tag", "shop", landfall.ReleaseLabel(long), false, registry.Found, "ccccccc2"},
		{"long tag, joined", "shop", label(long), true, registry.Found, "ccccccc2"},
		{"long tag, the other form's label", "shop", landfall.ReleaseLabel(long), true, registry.UnknownRelease, ""},
		{"commit", "shop", string(secondCommit), false, registry.Found, "bbbbbbb2"},
		{"commit, joined and therefore whole", "shop", string(secondCommit), true, registry.Found, "bbbbbbb2"},
		{"commit's newest release", "shop", string(thirdCommit), false, registry.Found, "ddddddd2"},
		{"7 digits of a commit", "shop", "77aa00b", false, registry.Found, "ddddddd2"},
		{"6 digits of a commit", "shop", "77aa00", false, registry.UnknownRelease, ""},
		{"8 digits that tell two commits apart", "shop", "3f9c1ab0", false, registry.Found, "aaaaaaa2"},
		{"7 digits that two commits share", "shop", "3f9c1ab", false, registry.AmbiguousCommit, ""},
		{"digits past the last commit", "shop", "fffffff", false, registry.UnknownRelease, ""},
		{"capital digits", "shop", "77AA00B", false, registry.UnknownRelease, ""},
		{"41 digits", "shop", string(thirdCommit) + "0", false, registry.UnknownRelease, ""},
		{"unknown app", "shoq", "", false, registry.UnknownApp, ""},
		{"release of an unknown app", "shoq", "bbbbbbb2", false, registry.UnknownApp, ""},
		{"deleted app", "gone", "", false, registry.DeletedApp, ""},
		{"release of a deleted app", "gone", "bbbbbbb2", false, registry.DeletedApp, ""},
		{"app without releases", "empty", "", false, registry.NoLive, ""},
		{"latest of an app without releases", "empty", "latest", false, registry.UnknownRelease, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := table.Resolve(c.app, c.selector, c.joined)
			var release landfall.UID
			if got.Release != nil {
				release = got.Release.ID
			}
			if got.Outcome != c.outcome || release != c.release {
				t.Errorf("got outcome %d of %q, want %d of %q", got.Outcome, release, c.outcome, c.release)
			}
		})
	}
}

// A release id goes before a tag of that name, and a tag before a commit.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	app := registry.App{ID: "1", Name: "shop", Releases: []registry.Release{
		{ID: "abcdef23", Commit: firstCommit}, {ID: "bbbbbbb2", Commit: "abcdef2300000000000000000000000000000000"},
		{ID: "ccccccc2"},
	}, Tags: map[string]landfall.UID{"abcdef23": "ccccccc2", "3f9c1ab": "ccccccc2"}}
	table := registry.New([]registry.App{app})
	if got := table.Resolve("shop", "abcdef23", false).Release.ID; got != "abcdef23" {
		t.Errorf("got release %s for an id that is also a tag and a commit, want the release of that id", got)
	}
	if got := table.Resolve("shop", "3f9c1ab", false).Release.ID; got != "ccccccc2" {
		t.Errorf("got release %s for a tag that is also a commit, want the tag's", got)
	}
}

// Only the live release's own addresses know which releases were live before, and these are newest first.
func TestPast(t *testing.T) {
	t.Parallel()
	table := registry.New([]registry.App{shop()})
	var got []landfall.UID
	past := table.Resolve("shop", "", false).Past
	for _, r := range past.Releases {
		got = append(got, r.ID)
	}
	if len(got) != 2 || got[0] != "ddddddd2" || got[1] != "aaaaaaa2" {
		t.Errorf("got past releases %v, want the two that were live and are not, the one that was live last first", got)
	}
	if past.KeepFiles != time.Hour || past.SignedIn {
		t.Errorf("got files kept for %v and signed in %v, want what the app says", past.KeepFiles, past.SignedIn)
	}
	if past := table.Resolve("shop", "bbbbbbb2", false).Past; past.Releases != nil || past.KeepFiles != 0 {
		t.Errorf("got %+v at a release's own address, want nothing", past)
	}
}

// Of an app whose previews are for those who signed in, only the live release is for everybody, by whatever address.
func TestSignedIn(t *testing.T) {
	t.Parallel()
	app := shop()
	app.SignedIn = true
	table := registry.New([]registry.App{app})
	for selector, want := range map[string]bool{"": false, "live": false, "bbbbbbb2": false, "beta": true, "latest": true,
		"aaaaaaa2": true, "3f9c1ab0": true} {
		if got := table.Resolve("shop", selector, false); got.Outcome != registry.Found || got.SignedIn != want {
			t.Errorf("%q: got %+v, want that it is only for who signed in: %t", selector, got, want)
		}
	}
}

// Units are in the order in which they are asked, and the caller's slice stays as it was.
func TestUnits(t *testing.T) {
	t.Parallel()
	app := shop()
	units := registry.New([]registry.App{app}).Resolve("shop", "", false).Release.Units
	if len(units) != 3 || units[0].Path != "/static/js" || units[1].Path != "/static" || units[2].Path != "/" {
		t.Errorf("got units %v, want /static/js, /static, /", units)
	}
	if app.Releases[1].Units[0].Path != "/" {
		t.Errorf("got %v in the caller's slice, want it unchanged", app.Releases[1].Units)
	}
}

// What only live releases have is told apart, and a trigger is found by its release.
func TestLiveTriggers(t *testing.T) {
	t.Parallel()
	trigger := func(release landfall.UID, id string) *registry.Trigger {
		return &registry.Trigger{Trigger: landfall.Trigger{Resources: landfall.Resources{Memory: 7}}, Name: "hook",
			Release: release, Function: &landfall.Function{ID: id, Resources: landfall.Resources{Memory: 1, KeepWarm: 2}}}
	}
	first, second := trigger("first", "hello 1"), trigger("second", "hello 2")
	table := registry.New([]registry.App{
		{ID: "shop", Name: "shop", Live: "second", Releases: []registry.Release{
			{ID: "first", Triggers: []*registry.Trigger{first}}, {ID: "second", Triggers: []*registry.Trigger{second}},
		}},
		{ID: "gone", Name: "gone", Live: "third", Deleted: true, Releases: []registry.Release{
			{ID: "third", Triggers: []*registry.Trigger{trigger("third", "hello 3")}},
		}},
	})
	live := table.Live()
	if f := live["hello 2"]; len(live) != 1 || f == nil || f.Resources != (landfall.Resources{Memory: 7, KeepWarm: 2}) {
		t.Errorf("live: got %+v", live)
	}
	for _, c := range []struct {
		release  landfall.UID
		trigger  string
		function string
		want     *registry.Trigger
	}{
		{"first", "hook", "hello 1", first},
		{"first", "hook", "hello 2", nil},
		{"first", "other", "hello 1", nil},
		{"third", "hook", "hello 3", nil},
	} {
		if got := table.Trigger(c.release, c.trigger, c.function); got != c.want {
			t.Errorf("%s of %s: got %+v, want %+v", c.trigger, c.release, got, c.want)
		}
	}
}
