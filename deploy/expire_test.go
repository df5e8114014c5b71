package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// line makes releases of a line, oldest first: "a", "b" and so on by their content, where "a" and "a-2" have the same.
func line(l landfall.Line, names string) (releases []landfall.Release) {
	for i, name := range strings.Fields(names) {
		content, _, _ := strings.Cut(name, "-")
		releases = append(releases, landfall.Release{ID: landfall.UID(name), Line: l, Digest: landfall.Digest(content),
			Created: noon.Add(time.Duration(i) * time.Hour)})
	}
	return releases
}

func ids(releases []landfall.Release) string {
	all := make([]string, 0, len(releases))
	for _, r := range releases {
		all = append(all, string(r.ID))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestSurplus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		prod, prev, held string
		keep             int
		want             string
	}{
		{"nothing", "", "", "", 2, ""},
		{"as many as are kept", "a b c", "", "", 3, ""},
		{"one more: the oldest", "a b c d", "", "", 3, "a"},
		{"many more", "a b c d e f", "", "", 2, "a b c d"},
		{"the lines are counted by themselves", "a b", "c d", "", 2, ""},
		{"one more of branches", "a b", "c d e", "", 2, "c"},
		{"one more of each", "a b c", "d e f", "", 2, "a d"},
		{"what is held stays, and counts", "a b c d", "", "a", 3, "b"},
		{"all old ones are held", "a b c d", "", "a b c", 2, ""},
		{"the newest stays, though nothing else may go", "a b c d", "", "a b c", 3, ""},
		{"equal content counts once", "a a-2 b c", "", "", 3, ""},
		{"equal content goes whole", "a a-2 b c", "", "", 2, "a a-2"},
		{"equal content is as young as the newest of it", "a b c a-2", "", "", 2, "b"},
		{"equal content is held whole", "a a-2 b c", "", "a-2", 2, "b"},
		{"equal content of two lines is two", "a b c", "a d e", "a", 2, "b d"},
	} {
		releases := append(line(landfall.Production, c.prod), line(landfall.Preview, c.prev)...)
		held := map[landfall.UID]bool{}
		for id := range strings.FieldsSeq(c.held) {
			held[landfall.UID(id)] = true
		}
		if got := ids(deploy.Surplus(releases, held, c.keep)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// What may expire is only ever the oldest of its line beyond what is kept, whole sets of equal content, and nothing
// that is held.
func TestSurplusProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(t, "releases")
		ages := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		})).Draw(t, "ages")
		var releases []landfall.Release
		held := map[landfall.UID]bool{}
		for i, age := range ages {
			id := landfall.UID(fmt.Sprintf("r%d", i))
			releases = append(releases, landfall.Release{
				ID: id, Line: rapid.SampledFrom([]landfall.Line{landfall.Production, landfall.Preview}).Draw(t, "line"),
				Digest:  landfall.Digest(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "content"))),
				Created: noon.Add(time.Duration(age) * time.Hour)})
			held[id] = rapid.IntRange(0, 4).Draw(t, "held") == 0
		}
		keep := rapid.IntRange(2, 6).Draw(t, "keep")
		gone := map[landfall.UID]bool{}
		for _, r := range deploy.Surplus(releases, held, keep) {
			if gone[r.ID] || held[r.ID] {
				t.Fatalf("%s: got it twice, or though it is held", r.ID)
			}
			gone[r.ID] = true
		}
		if got := ids(deploy.Surplus(rapid.Permutation(releases).Draw(t, "shuffled"), held,
			keep)); got != ids(deploy.Surplus(releases, held, keep)) {
			t.Fatalf("in another order: got %s, want %s", got, ids(deploy.Surplus(releases, held, keep)))
		}
		for _, l := range []landfall.Line{landfall.Production, landfall.Preview} {
			own := slices.DeleteFunc(slices.Clone(releases), func(r landfall.Release) bool { return r.Line != l })
			checkLine(t, own, held, gone, keep)
			alone := slices.DeleteFunc(deploy.Surplus(releases, held, keep), func(r landfall.Release) bool {
				return r.Line != l
			})
			if got, want := ids(deploy.Surplus(own, held, keep)), ids(alone); got != want {
				t.Fatalf("%s without the other line: got %s, want %s", l, got, want)
			}
		}
	})
}

// checkLine checks one line of what Surplus said.
func checkLine(t *rapid.T, releases []landfall.Release, held, gone map[landfall.UID]bool, keep int) {
	t.Helper()
	type set struct {
		newest     time.Time
		held, gone bool
		n, away    int
	}
	sets := map[landfall.Digest]*set{}
	var newest time.Time
	for _, r := range releases {
		s := sets[r.Digest]
		if s == nil {
			s = &set{}
			sets[r.Digest] = s
		}
		s.n++
		s.held = s.held || held[r.ID]
		if gone[r.ID] {
			s.gone = true
			s.away++
		}
		if r.Created.After(s.newest) {
			s.newest = r.Created
		}
		if r.Created.After(newest) {
			newest = r.Created
		}
	}
	left, away := 0, 0
	for digest, s := range sets {
		switch {
		case s.gone && (s.away != s.n || s.held || s.newest.Equal(newest)):
			t.Fatalf("content %s: %d of %d go, held %t, the newest %t", digest, s.away, s.n, s.held, s.newest.Equal(newest))
		case s.gone:
			away++
		default:
			left++
		}
	}
	mayGo := 0 // what is left, and nothing forbids that it goes
	for _, s := range sets {
		if s.gone || s.held || s.newest.Equal(newest) {
			continue
		}
		mayGo++
		for _, other := range sets {
			if other.gone && other.newest.After(s.newest) {
				t.Fatalf("content of %s goes before content of %s", other.newest, s.newest)
			}
		}
	}
	if (left > keep && mayGo > 0) || (left < keep && away > 0) {
		t.Fatalf("%d of %d are left, of which %d could go, want %d", left, left+away, mayGo, keep)
	}
}

func TestExpireSurplus(t *testing.T) {
	t.Parallel()
	t.Run("one release too many expires the oldest", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 3)
		s.push(t, "a", "b", "c")
		testkit.Same(t, "with as many as are kept", s.accessible(t), "a b c")
		s.push(t, "d")
		// D-032: with a limit of 3, the fourth expires the oldest
		testkit.Same(t, "with one more", s.accessible(t), "b c d")
		testkit.Same(t, "when the oldest expired", s.release(t, "a").Expired, s.now)
		s.push(t, "e", "f", "g")
		// D-031: however many are made
		testkit.Same(t, "with many more", s.accessible(t), "e f g")
		if _, err := s.db.Group(t.Context(), s.app.ID, "a"); err != nil {
			t.Errorf("the app version of an expired release: %v", err)
		}
	})
	t.Run("branches do not use up what production keeps", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		s.push(t, "a", "b")
		s.preview(t, "f", "c", "d", "e", "g")
		testkit.Same(t, "accessible", s.accessible(t), "a b e g")
		s.push(t, "h")
		testkit.Same(t, "after another push", s.accessible(t), "b e g h")
	})
	t.Run("app versions without a release do not count", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		s.push(t, "a")
		for _, name := range []string{"u", "v", "w"} {
			s.group(t, name)
		}
		s.push(t, "b")
		// D-043: what is made with --no-release uses up nothing
		testkit.Same(t, "accessible", s.accessible(t), "a b")
	})
	t.Run("a revert is the release that it goes back to", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		s.push(t, "a", "b", "a-2")
		testkit.Same(t, "accessible", s.accessible(t), "a b a-2")
		s.push(t, "c")
		testkit.Same(t, "after one more", s.accessible(t), "a a-2 c")
	})
	t.Run("what is tagged does not expire", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		s.push(t, "a", "b")
		s.tag(t, "beta", "a")
		s.push(t, "c", "d", "e")
		// D-053: a tagged release outlives newer ones
		testkit.Same(t, "accessible", s.accessible(t), "a d e")
		s.update(t, func(tx *store.Tx) error {
			_, err := deploy.RemoveTag(t.Context(), tx, s.app.ID, "beta", s.by("untagged"))
			return err
		})
		s.push(t, "f")
		testkit.Same(t, "without the tag", s.accessible(t), "e f")
	})
	t.Run("live and the release before it do not expire", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		s.push(t, "a", "b")
		s.hold(t, true)
		s.push(t, "c", "d", "e")
		// D-056: live is a tag that holds its release
		testkit.Same(t, "accessible", s.accessible(t), "a b e")
		if err := s.rollback(t, ""); err != nil {
			t.Errorf("to the release before live: %v", err)
		}
		s.push(t, "f")
		testkit.Same(t, "after a rollback, live and the newest", s.accessible(t), "a f")
	})
	t.Run("nor does what was live before a promotion", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		s.push(t, "a", "b")
		if err := s.promote(t, "a"); err != nil {
			t.Fatal(err)
		}
		s.hold(t, true)
		s.push(t, "c", "d", "e")
		testkit.Same(t, "accessible", s.accessible(t), "a b e")
		s.goesBack(t, "b")
	})
}

// What holds a preview release, and for how long, told by the clock.
func TestHolds(t *testing.T) {
	t.Parallel()
	// surplus makes two more releases, x and y, where two are kept, and returns what is accessible then.
	surplus := func(t *testing.T, s *shop, at time.Time) string {
		t.Helper()
		s.now = at
		for _, name := range []string{"x", "y"} {
			g := s.group(t, name)
			s.update(t, func(tx *store.Tx) error {
				_, err := deploy.Create(t.Context(), tx, g, landfall.Preview, s.now)
				return err
			})
		}
		s.update(t, func(tx *store.Tx) error {
			_, err := deploy.ExpireSurplus(t.Context(), tx, s.app, at)
			return err
		})
		return s.accessible(t)
	}
	const life = 90 * day
	t.Run("a branch's tag for 90 days after its last push", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			after time.Duration
			want  string
		}{{day, "a y"}, {life, "a y"}, {life + time.Microsecond, "x y"}} {
			s := newShop(t, 2)
			s.preview(t, "f", "a")
			testkit.Same(t, "after "+c.after.String(), surplus(t, s, s.now.Add(c.after)), c.want)
		}
	})
	t.Run("a push of the same begins the days again", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		s.preview(t, "f", "a")
		s.now = s.now.Add(life)
		s.update(t, func(tx *store.Tx) error {
			tag := landfall.Tag{App: s.app.ID, Name: "branch-f", Kind: landfall.BranchTag, Release: "a", Ref: "refs/heads/f"}
			return deploy.SetTag(t.Context(), tx, tag, s.by("push"))
		})
		testkit.Same(t, "after 90 days more", surplus(t, s, s.now.Add(life)), "a y")
	})
	t.Run("production's own branch tag holds nothing", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		s.preview(t, "main", "a")
		testkit.Same(t, "after a day", surplus(t, s, s.now.Add(day)), "x y")
	})
	t.Run("other tags hold without end", func(t *testing.T) {
		t.Parallel()
		for _, kind := range []landfall.TagKind{landfall.HandTag, landfall.GitTag, landfall.PullTag} {
			s := newShop(t, 2)
			g := s.group(t, "a")
			s.update(t, func(tx *store.Tx) error {
				if _, err := deploy.Create(t.Context(), tx, g, landfall.Preview, s.now); err != nil {
					return err
				}
				return deploy.SetTag(t.Context(), tx,
					landfall.Tag{App: s.app.ID, Name: "t", Kind: kind, Release: "a", Ref: "refs/heads/main"}, s.by("tagged"))
			})
			// D-053: a tagged release does not expire by itself
			testkit.Same(t, string(kind), surplus(t, s, s.now.Add(1000*day)), "a y")
		}
	})
}

func TestExpire(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	s.push(t, "a", "b", "c")
	s.tag(t, "beta", "a")
	// D-056: live does not expire
	testkit.Kind(t, "live", s.expire(t, "c"), landfall.Conflict, "release c is live", "release live shop")
	// D-053: nor does what is tagged
	testkit.Kind(t, "a tagged release", s.expire(t, "a"), landfall.Conflict, `"beta"`, "release untag shop beta")
	testkit.Kind(t, "no release", s.expire(t, "none"), landfall.NotFound, "none")
	testkit.Same(t, "accessible", s.accessible(t), "a b c")
	if err := s.expire(t, "b"); err != nil {
		t.Fatal(err)
	}
	expired := s.release(t, "b")
	testkit.Same(t, "when it expired", expired.Expired, s.now)
	s.now = s.now.Add(day)
	if err := s.expire(t, "b"); err != nil {
		t.Errorf("again: %v", err)
	}
	testkit.Same(t, "the release after that", s.release(t, "b"), expired)
	testkit.Same(t, "accessible at the end", s.accessible(t), "a c")
}

// A branch that is deleted, or a pull request that is closed, lets go of its releases.
func TestExpireReleased(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	s.push(t, "a")
	s.preview(t, "f", "b", "c", "d", "e")
	s.preview(t, "g", "h")
	s.push(t, "i") // merged
	s.tag(t, "beta", "c")
	merged := landfall.Group{UID: "d", App: s.app.ID}
	s.update(t, func(tx *store.Tx) error {
		_, err := deploy.Create(t.Context(), tx, merged, landfall.Production, s.now)
		return err
	})
	drop := func(branch string) {
		s.update(t, func(tx *store.Tx) error {
			_, err := deploy.RemoveTag(t.Context(), tx, s.app.ID, deploy.BranchTag(branch), s.by("branch deleted"))
			if err != nil {
				return err
			}
			return deploy.ExpireUnheld(t.Context(), tx, s.app, func(r landfall.Release) bool {
				return r.Branch == branch
			}, s.now)
		})
	}
	drop("f")
	// L-030: the releases of a deleted branch expire at once, unless something else holds them
	testkit.Same(t, "accessible", s.accessible(t), "a c d h i")
	testkit.Same(t, "when one expired", s.release(t, "e").Expired, s.now)
	if err := s.promote(t, "h"); err != nil {
		t.Fatal(err)
	}
	drop("g")
	// V2: live never points at something that expired
	testkit.Same(t, "accessible when live is of the deleted branch", s.accessible(t), "a c d h i")
}

// Of what nothing holds it is known how many more releases can be made before it expires.
func TestExpiresAfter(t *testing.T) {
	t.Parallel()
	s := newShop(t, 4)
	s.push(t, "a", "b", "c", "d")
	releases := testkit.Must(s.db.AccessibleReleases(t.Context(), s.app.ID))(t)
	holds := testkit.Must(deploy.Holds(t.Context(), s.db, s.app, s.now))(t)
	testkit.Same(t, "what holds", holds, deploy.HoldReasons{"d": {"live"}, "c": {"live before"}})
	after := deploy.ExpiresAfter(releases, holds, 4)
	testkit.Same(t, "how many more", after, map[landfall.UID]int{"a": 0, "b": 1})
	s.app.Held = true
	s.push(t, "e")
	testkit.Same(t, "accessible then", s.accessible(t), "b c d e")
	s.push(t, "f")
	testkit.Same(t, "accessible then", s.accessible(t), "c d e f")
}
