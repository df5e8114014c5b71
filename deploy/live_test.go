package deploy_test

import (
	"context"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	create := func(t *testing.T, s *shop, g landfall.Group, line landfall.Line) landfall.Release {
		t.Helper()
		var made landfall.Release
		s.update(t, func(tx *store.Tx) error {
			var err error
			made, err = deploy.Create(t.Context(), tx, g, line, s.now)
			return err
		})
		testkit.Same(t, "the stored release", s.release(t, g.UID), made)
		return made
	}
	t.Run("a release shows its group version", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		g := s.group(t, "a")
		g.Commit, g.Branch = "1111111111111111111111111111111111111111", "f"
		// D-041: an app version without a release cannot be reached
		if _, err := s.db.Release(t.Context(), s.app.ID, g.UID); landfall.KindOf(err) != landfall.NotFound {
			t.Errorf("before: got the error %v, want no release", err)
		}
		// D-030: a release is an app version that can be reached
		testkit.Same(t, "the release", create(t, s, g, landfall.Preview),
			landfall.Release{ID: g.UID, App: s.app.ID, Line: landfall.Preview, Digest: g.Digest, Commit: g.Commit, Branch: "f",
				Created: s.now})
		testkit.Same(t, "accessible releases", s.accessible(t), "a")
		testkit.Same(t, "live", s.stored(t).Live, "")
	})
	t.Run("what is accessible only goes from preview to production", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		g := s.group(t, "a")
		first := create(t, s, g, landfall.Preview)
		s.group(t, "later")
		testkit.Same(t, "again", create(t, s, g, landfall.Preview), first)
		first.Line = landfall.Production
		testkit.Same(t, "by production", create(t, s, g, landfall.Production), first)
		testkit.Same(t, "by a branch after that", create(t, s, g, landfall.Preview), first)
		testkit.Same(t, "by production again", create(t, s, g, landfall.Production), first)
	})
	t.Run("what expired is as young as it is made accessible", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 2)
		s.push(t, "a", "b")
		a := s.release(t, "a")
		if err := s.expire(t, "a"); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "accessible releases", s.accessible(t), "b")
		s.now = s.now.Add(day)
		a.Created = s.now
		// D-044: a release keeps its id, and what it was
		testkit.Same(t, "the release", create(t, s,
			landfall.Group{UID: "a", App: s.app.ID, Digest: "sha256:0", Branch: "other"}, landfall.Preview), a)
		testkit.Same(t, "accessible releases after that", s.accessible(t), "b a")
	})
}

func TestLive(t *testing.T) {
	t.Parallel()
	t.Run("the newest release of production is live, and every move is kept", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		for _, name := range []string{"a", "b", "c"} {
			s.push(t, name)
			// D-052: unless live is set to another, the latest release is live
			testkit.Same(t, "live", s.stored(t).Live, landfall.UID(name))
			newest, err := s.db.AccessibleReleases(t.Context(), s.app.ID)
			if err != nil {
				t.Fatal(err)
			}
			// D-051: the latest release is the newest
			testkit.Same(t, "the newest", newest[0].ID, landfall.UID(name))
			testkit.Same(t, "it was live", newest[0].WasLive, true)
		}
		testkit.Same(t, "moves", s.moves(t, landfall.LivePointer), []string{">a push of a", "a>b push of b", "b>c push of c"})
	})
	t.Run("a move to where live is does nothing", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b")
		before := s.moves(t, "")
		if err := s.promote(t, "b"); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "moves", s.moves(t, ""), before)
	})
	t.Run("live never moves to what cannot be reached", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b", "c")
		s.group(t, "unreleased")
		if err := s.expire(t, "a"); err != nil {
			t.Fatal(err)
		}
		for what, move := range map[string]func(testing.TB, landfall.UID) error{"rollback": s.rollback,
			"promotion": s.promote} {
			// V2: live never points at something that expired
			testkit.Kind(t, what+" to an expired release", move(t, "a"), landfall.Conflict, "release a is expired",
				"release create shop --version a")
			// D-041: nor at an app version without a release
			testkit.Kind(t, what+" to what has no release", move(t, "unreleased"), landfall.NotFound, "unreleased")
			testkit.Kind(t, what+" to nothing", move(t, "nothing"), landfall.NotFound, "nothing")
		}
		testkit.Same(t, "live", s.stored(t).Live, "c")
		testkit.Same(t, "held", s.stored(t).Held, false)
	})
	t.Run("the hold is stored, and ends with a promotion or a resume", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b")
		s.hold(t, true)
		testkit.Same(t, "held", s.stored(t).Held, true)
		s.push(t, "c")
		// L-035: while live is held, releases are made and live stays
		testkit.Same(t, "live and accessible", string(s.stored(t).Live)+" of "+s.accessible(t), "b of a b c")
		if err := s.promote(t, "c"); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "held after the promotion", s.stored(t).Held, false)
		testkit.Same(t, "live after the promotion", s.stored(t).Live, "c")
		s.hold(t, true)
		s.push(t, "d")
		s.hold(t, false)
		testkit.Same(t, "live after the resume: it moves nothing", s.stored(t).Live, "c")
		s.push(t, "e")
		testkit.Same(t, "live after the next push", s.stored(t).Live, "e")
		s.hold(t, true)
		if err := s.promote(t, "e"); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "held after a promotion of what is live", s.stored(t).Held, false)
	})
}

func TestRollback(t *testing.T) {
	t.Parallel()
	t.Run("to the release before, and held there", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b", "c")
		if err := s.rollback(t, ""); err != nil {
			t.Fatal(err)
		}
		// D-002: the app goes back to the version before
		testkit.Same(t, "live", s.stored(t).Live, "b")
		testkit.Same(t, "held", s.stored(t).Held, true)
		s.push(t, "d")
		// L-001: a push after it does not undo it
		testkit.Same(t, "live after a push", s.stored(t).Live, "b")
		testkit.Same(t, "accessible", s.accessible(t), "a b c d")
		testkit.Same(t, "moves", s.moves(t, landfall.LivePointer),
			[]string{">a push of a", "a>b push of b", "b>c push of c", "c>b rolled back"})
	})
	t.Run("twice goes back two releases", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b", "c")
		for _, want := range []landfall.UID{"b", "a"} {
			if err := s.rollback(t, ""); err != nil {
				t.Fatal(err)
			}
			testkit.Same(t, "live", s.stored(t).Live, want)
		}
		err := s.rollback(t, "")
		testkit.Kind(t, "a third time", err, landfall.Conflict, "shop has no earlier live release",
			"release rollback shop RELEASE")
		testkit.Same(t, "live after that", s.stored(t).Live, "a")
		s.hold(t, false)
		s.push(t, "d")
		if err := s.rollback(t, ""); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "live when a push came between", s.stored(t).Live, "a")
	})
	t.Run("to a whole version whose release expired", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b", "c")
		if err := s.expire(t, "a"); err != nil {
			t.Fatal(err)
		}
		group := func(uid landfall.UID) error {
			return s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) (err error) {
				if err = deploy.RollbackGroup(ctx, tx, app, uid, s.by("rolled back")); err == nil {
					app.Changed, err = tx.Changed(ctx, app.ID)
				}
				return err
			})
		}
		// L-038: it is accessible and live at once
		if err := group("a"); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "live", s.stored(t).Live, "a")
		testkit.Same(t, "held", s.stored(t).Held, true)
		testkit.Same(t, "expired", s.release(t, "a").Expired.IsZero(), true)
		testkit.Same(t, "moves", s.moves(t, landfall.LivePointer)[3], "c>a rolled back")
		s.group(t, "never")
		if err := group("never"); err != nil { // released
			t.Fatal(err)
		}
		testkit.Same(t, "live", s.stored(t).Live, "never")
		lost := s.group(t, "lost")
		s.update(t, func(tx *store.Tx) error {
			row, err := tx.CreateUnit(t.Context(), s.app, landfall.UnitID{Kind: landfall.FunctionUnit, Name: "cart"})
			if err != nil {
				return err
			}
			unit := store.GroupUnit{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: row.Unit, Number: 1, UID: "lost"}}
			lost.UID = "lostunit"
			return tx.CreateGroup(t.Context(), lost, []store.GroupUnit{unit})
		})
		// L-038: or it is said why not, and nothing has moved
		testkit.Kind(t, "what is not stored", group("lostunit"), landfall.Conflict, "what it had of function cart is not stored",
			"landfall release create shop --version lostunit")
		testkit.Same(t, "live after that", s.stored(t).Live, "never")
		testkit.Kind(t, "no version", group("nowhere"), landfall.NotFound, "no app version nowhere")
	})
	t.Run("to a release by name", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b", "c")
		if err := s.rollback(t, "a"); err != nil {
			t.Fatal(err)
		}
		// L-032: one id is enough, however far back
		testkit.Same(t, "live", s.stored(t).Live, "a")
		testkit.Same(t, "held", s.stored(t).Held, true)
		// L-032: and the release that failed can be removed
		if err := s.expire(t, "c"); err != nil {
			t.Errorf("Expire: %v", err)
		}
		if err := s.rollback(t, "b"); err != nil { // forward again, and still held
			t.Fatal(err)
		}
		testkit.Same(t, "live", s.stored(t).Live, "b")
		testkit.Same(t, "moves", s.moves(t, landfall.LivePointer)[3:], []string{"c>a rolled back", "a>b rolled back"})
	})
	t.Run("what expired is passed over", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b", "c", "d")
		for _, id := range []landfall.UID{"b", "c"} {
			if err := s.expire(t, id); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.rollback(t, ""); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "live", s.stored(t).Live, "a")
	})
	t.Run("there is nothing before the first release, or before any", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		testkit.Kind(t, "without a release", s.rollback(t, ""), landfall.Conflict, "no earlier live release")
		s.push(t, "a")
		testkit.Kind(t, "with one", s.rollback(t, ""), landfall.Conflict, "no earlier live release")
		testkit.Same(t, "held", s.stored(t).Held, false)
	})
	t.Run("a rollback to what is live holds it", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b")
		if err := s.rollback(t, "b"); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "held", s.stored(t).Held, true)
	})
	t.Run("releases that were live in turn do not make a circle", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b")
		for _, id := range []landfall.UID{"a", "b", "a", "b"} {
			if err := s.promote(t, id); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.rollback(t, ""); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "live", s.stored(t).Live, "a")
	})
	t.Run("after a promotion of an older release, to what was live before that", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b", "c")
		if err := s.promote(t, "a"); err != nil {
			t.Fatal(err)
		}
		s.push(t, "d")
		// D-002: the version before is the one that visitors had before, and so on backwards, however it became live
		s.goesBack(t, "a", "c", "b", "a")
		testkit.Kind(t, "once more", s.rollback(t, ""), landfall.Conflict, "shop has no earlier live release")
		if err := s.promote(t, "c"); err != nil {
			t.Fatal(err)
		}
		s.goesBack(t, "a")
	})
	t.Run("what was rolled back from is not gone back to, unless it became live again", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b", "c", "d")
		s.goesBack(t, "c")
		if err := s.promote(t, "d"); err != nil {
			t.Fatal(err)
		}
		s.goesBack(t, "c", "b")
		s.hold(t, false)
		s.push(t, "e")
		s.goesBack(t, "b", "a")
	})
	t.Run("from a release by name, to what was live before it", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b", "c", "d")
		if err := s.rollback(t, "b"); err != nil {
			t.Fatal(err)
		}
		s.goesBack(t, "a")
		for _, id := range []landfall.UID{"d", "c"} { // forward again, by name
			if err := s.rollback(t, id); err != nil {
				t.Fatal(err)
			}
		}
		s.goesBack(t, "d", "a")
		testkit.Kind(t, "once more", s.rollback(t, ""), landfall.Conflict, "shop has no earlier live release")
	})
	t.Run("all of it is one transaction", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, 10)
		s.push(t, "a", "b")
		err := s.try(t, func(ctx context.Context, tx *store.Tx, app *landfall.App) error {
			if err := deploy.Rollback(ctx, tx, app, "", s.by("rolled back")); err != nil {
				return err
			}
			return context.Canceled
		})
		if err == nil {
			t.Fatal("got no error")
		}
		testkit.Same(t, "live", s.stored(t).Live, "b")
		testkit.Same(t, "moves", len(s.moves(t, "")), 2)
	})
}
