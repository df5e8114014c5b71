package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// forget deletes and returns how many were deleted.
func forget(t *testing.T, db *store.DB, f func(tx *store.Tx) (int, error)) (n int) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		var err error
		n, err = f(tx)
		return err
	})
	return n
}

func testRetention(t *testing.T, open opener) {
	t.Helper()
	t.Run("runs", testForgetRuns(open))
	t.Run("logs", testForgetLogs(open))
	t.Run("deliveries", testForgetDeliveries(open))
	t.Run("tokens", testForgetTokens(open))
}

func testForgetRuns(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, deleted := newApp(t, db, "shop"), newApp(t, db, "gone")
		// ended stores a run that ended, with something of every kind.
		ended := func(app landfall.App, id string, uid landfall.UID, finished int) {
			run := newRun(t, db, app, id, landfall.CommitSHA("c"+id), noon)
			push := newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, After: run.Commit})
			run.State, run.Release, run.UID, run.Finished = landfall.RunSucceeded, uid, uid, after(finished)
			if uid == "" {
				run.State, run.UID = landfall.RunFailed, landfall.NewUID()
			}
			update(t, db, func(tx *store.Tx) error {
				leased, err := tx.Lease(ctx, id, "w", after(1), after(2), 9)
				if err != nil {
					return err
				}
				if err := tx.AddRunRef(ctx, id, push); err != nil {
					return err
				}
				if err := tx.StartStep(ctx, id, leased.Attempt, landfall.StepRead, noon); err != nil {
					return err
				}
				if err := tx.AppendLog(ctx, id, landfall.StepRead, noon, "a line"); err != nil {
					return err
				}
				if err := tx.CreateReport(ctx, landfall.Report{App: app.ID, Run: id, Commit: run.Commit, Context: id,
					NextAt: noon}); err != nil {
					return err
				}
				return tx.FinishRun(ctx, run)
			})
		}
		group := func(app landfall.App, uid landfall.UID, clean bool) landfall.Group {
			g := landfall.Group{UID: uid, App: app.ID, Digest: landfall.DigestOf([]byte(uid)), Commit: sha1, Clean: clean,
				Created: noon}
			update(t, db, func(tx *store.Tx) error { return tx.CreateGroup(ctx, g, nil) })
			return g
		}
		ended(app, "failed", "", 10)
		ended(app, "live", "llllllll", 11)
		newRelease(t, db, group(app, "llllllll", true), false)
		ended(app, "expired", "eeeeeeee", 12)
		newRelease(t, db, group(app, "eeeeeeee", true), true)
		ended(app, "dirty", "dddddddd", 13)
		group(app, "dddddddd", false)
		ended(deleted, "of a deleted app", "gggggggg", 14)
		newRelease(t, db, group(deleted, "gggggggg", true), false)
		ended(app, "owing", "", 15)
		ended(app, "head", "", 16)
		ended(deleted, "head of a deleted app", "", 17)
		for app, head := range map[string]landfall.CommitSHA{app.ID: "chead", deleted.ID: "chead of a deleted app"} {
			update(t, db, func(tx *store.Tx) error {
				return tx.SetHead(ctx, landfall.Push{App: app, Ref: mainRef, After: head})
			})
		}
		ended(app, "young", "", 100)
		newRun(t, db, app, "unfinished", sha1, noon)
		update(t, db, func(tx *store.Tx) error {
			deleted.Deleted = noon
			return errors.Join(tx.UpdateApp(ctx, deleted), tx.SetRemoved(ctx, deleted.ID, noon))
		})
		box := store.Outbox{DB: db}
		for _, r := range testkit.Must(box.Due(ctx, noon, 100))(t) {
			if r.Run == "owing" {
				continue
			}
			if err := box.Sent(ctx, after(20), r.ID); err != nil {
				t.Fatal(err)
			}
		}
		old := func(tx *store.Tx) (int, error) { return tx.ForgetRuns(ctx, after(50), 2) }
		testkit.Same(t, "forgotten: not more than asked for", forget(t, db, old), 2)
		_, err := db.Run(ctx, "failed")
		testkit.Kind(t, "the oldest run", err, landfall.NotFound)
		testkit.Same(t, "forgotten: the rest", forget(t, db, old), 2)
		testkit.Same(t, "forgotten: nothing is left", forget(t, db, old), 0)
		var left []string
		for _, r := range testkit.Must(db.Runs(ctx, "", landfall.Run{}, 100))(t) {
			left = append(left, r.ID)
		}
		testkit.Same(t, "kept", left, []string{"young", "unfinished", "owing", "live", "head", "dirty"})
		for _, v := range testkit.Must(db.Violations(ctx))(t) {
			if strings.Contains(v.Problem, "has no run") {
				t.Errorf("after what is old was forgotten: %+v", v)
			}
		}
		testkit.Same(t, "steps of a run that is gone", len(testkit.Must(db.Steps(ctx, "failed"))(t)), 0)
		testkit.Same(t, "log of a run that is gone", len(testkit.Must(db.Log(ctx, "failed", 0, 9))(t)), 0)
		testkit.Same(t, "reports of a run that is gone", len(testkit.Must(db.ReportsOf(ctx, app.ID, "cfailed"))(t)), 0)
		testkit.Same(t, "pushes of a run that is gone", len(testkit.Must(db.RunRefs(ctx, "failed"))(t)), 0)
		testkit.Same(t, "the push itself stays: the order of a branch rests on it",
			testkit.Must(db.Push(ctx, 1))(t).After, "cfailed")
		testkit.Same(t, "log of a run that is kept", len(testkit.Must(db.Log(ctx, "live", 0, 9))(t)), 1)
		testkit.Same(t, "reports of a run that is kept", len(testkit.Must(db.ReportsOf(ctx, app.ID, "clive"))(t)), 1)
		testkit.Same(t, "the commit of a dirty work tree is known still",
			testkit.Must(db.CommitOf(ctx, app.ID, "dddddddd"))(t), "cdirty")
	}
}

func testForgetLogs(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		for i := range 3 {
			id := fmt.Sprintf("r%d", i)
			newRun(t, db, app, id, sha1, noon)
			update(t, db, func(tx *store.Tx) error { return tx.AppendLog(ctx, id, landfall.StepBuild, noon, "one", "two") })
		}
		end(t, db, "r1", after(10))
		end(t, db, "r2", after(100))
		old := func(tx *store.Tx) (int, error) { return tx.ForgetLogs(ctx, after(50), 9, "removed", after(60)) }
		text := func(run string) (lines []string) {
			for _, l := range testkit.Must(db.Log(ctx, run, 0, 9))(t) {
				lines = append(lines, l.Text)
			}
			return lines
		}
		testkit.Same(t, "removed", forget(t, db, old), 1)
		testkit.Same(t, "of an unfinished run", text("r0"), []string{"one", "two"})
		testkit.Same(t, "of an old run", text("r1"), []string{"removed"})
		testkit.Same(t, "of a young run", text("r2"), []string{"one", "two"})
		testkit.Same(t, "once", forget(t, db, old), 0)
		update(t, db, func(tx *store.Tx) error {
			return tx.AppendLog(ctx, "r1", landfall.StepAccept, after(70), "a push joined")
		})
		testkit.Same(t, "what is said later stands behind it", text("r1"), []string{"removed", "a push joined"})
	}
}

func testForgetDeliveries(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		for i := range 4 {
			update(t, db, func(tx *store.Tx) error {
				return tx.CreateDelivery(ctx, landfall.Delivery{ID: fmt.Sprintf("d%d", i), Hook: "h", Event: "push",
					Received: after(i)})
			})
		}
		old := func(tx *store.Tx) (int, error) { return tx.ForgetDeliveries(ctx, after(3), 2) }
		testkit.Same(t, "not more than asked for", forget(t, db, old), 2)
		testkit.Same(t, "the rest", forget(t, db, old), 1)
		testkit.Same(t, "nothing is left", forget(t, db, old), 0)
		left := testkit.Must(db.Deliveries(ctx, landfall.Delivery{}, 9))(t)
		if len(left) != 1 || left[0].ID != "d3" {
			t.Errorf("got %+v, want the youngest", left)
		}
	}
}

func testForgetTokens(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		for i, expires := range []time.Time{{}, after(1), after(2), after(3), after(9)} {
			name := fmt.Sprintf("t%d", i)
			token := landfall.Token{Hash: landfall.DigestOf([]byte(name)), Name: name, Scope: landfall.ScopeRead, Created: noon,
				Expires: expires}
			update(t, db, func(tx *store.Tx) error {
				return errors.Join(tx.PutToken(ctx, token), tx.CreateSession(ctx, name, token, noon, after(99)))
			})
		}
		old := func(tx *store.Tx) (int, error) { return tx.ForgetTokens(ctx, after(9), 2) }
		testkit.Same(t, "not more than asked for", forget(t, db, old), 2)
		testkit.Same(t, "the rest", forget(t, db, old), 1)
		testkit.Same(t, "nothing is left", forget(t, db, old), 0)
		var left []string
		for _, token := range testkit.Must(db.Tokens(ctx))(t) {
			left = append(left, token.Name)
		}
		testkit.Same(t, "what never expires, and what did later", left, []string{"t0", "t4"})
		_, err := db.SessionToken(ctx, "t1", noon)
		testkit.Kind(t, "a session of one that is gone", err, landfall.NotFound)
	}
}
