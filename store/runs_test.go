package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testRuns(t *testing.T, open opener) {
	t.Helper()
	t.Run("a run is what was stored", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		run := landfall.Run{ID: "r1", App: app.ID, Commit: sha1, Branch: "main", State: landfall.RunWaiting,
			Step: landfall.StepAccept, Reason: "It waits.", UID: "abcdefgh", Release: "bcdefghi", Rebuild: true,
			Expect: "cdefghij", Attempt: 3, Created: noon, Started: after(1), Finished: after(2)}
		update(t, db, func(tx *store.Tx) error { return tx.CreateRun(ctx, run) })
		testkit.Same(t, "Run", testkit.Must(db.Run(ctx, "r1"))(t), run)
		testkit.Same(t, "its diff", testkit.Must(db.RunChanges(ctx, "r1"))(t), []landfall.UnitChange{})
		testkit.Same(t, "its failures", testkit.Must(db.Failures(ctx, "r1"))(t), 0)
		_, err := db.Run(ctx, "r9")
		testkit.Kind(t, "no run", err, landfall.NotFound, "r9")
		_, err = db.RunChanges(ctx, "r9")
		testkit.Kind(t, "the diff of no run", err, landfall.NotFound)
		_, err = db.Failures(ctx, "r9")
		testkit.Kind(t, "the failures of no run", err, landfall.NotFound)
	})
	t.Run("how a run ends", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		run := newRun(t, db, app, "r1", sha1, noon)
		changes := []landfall.UnitChange{{Unit: function("f"), Change: landfall.Changed, Before: "a", After: "b", Number: 2},
			{Unit: static("/"), Change: landfall.Added, Files: &landfall.FileChange{Added: 3, Bytes: -4}}}
		update(t, db, func(tx *store.Tx) error { return tx.SetChanges(ctx, "r1", changes) })
		testkit.Same(t, "its diff", testkit.Must(db.RunChanges(ctx, "r1"))(t), changes)
		run.State, run.Reason, run.Release, run.UID, run.Finished = landfall.RunSucceeded, "Released", "abcdefgh",
			"abcdefgh", after(9)
		run.Stats = landfall.RunStats{Files: 1, FilesUploaded: 2, Bytes: 3, BytesUploaded: 4, UnitsChanged: 5, UnitsTotal: 6,
			Built: 7, Cached: 8}
		update(t, db, func(tx *store.Tx) error { return tx.FinishRun(ctx, run) })
		testkit.Same(t, "after the end", testkit.Must(db.Run(ctx, "r1"))(t), run)
		again := run
		again.State, again.Reason = landfall.RunFailed, "It failed."
		err := db.Update(ctx, func(tx *store.Tx) error { return tx.FinishRun(ctx, again) })
		testkit.Kind(t, "a second end", err, landfall.Conflict, "over")
		testkit.Same(t, "after the second end", testkit.Must(db.Run(ctx, "r1"))(t), run)
		again.ID = "r9"
		err = db.Update(ctx, func(tx *store.Tx) error { return tx.FinishRun(ctx, again) })
		testkit.Kind(t, "the end of no run", err, landfall.Conflict)
	})
	t.Run("lists", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		testkit.Same(t, "the oldest of none", testkit.Must(db.OldestUnfinished(ctx))(t), time.Time{})
		for i := range 5 {
			newRun(t, db, app, fmt.Sprintf("r%d", i), []landfall.CommitSHA{sha1, sha2}[i%2], after(i))
		}
		newRun(t, db, other, "o", sha1, after(2))
		ids := func(runs []landfall.Run) (all []string) {
			for _, r := range runs {
				all = append(all, r.ID)
			}
			return all
		}
		testkit.Same(t, "of the app", ids(testkit.Must(db.Runs(ctx, app.ID, landfall.Run{}, 3))(t)),
			[]string{"r4", "r3", "r2"})
		testkit.Same(t, "the next page", ids(testkit.Must(db.Runs(ctx, app.ID, landfall.Run{Created: after(2)}, 3))(t)),
			[]string{"r1", "r0"})
		testkit.Same(t, "the next page, which begins with a run as old as the last one",
			ids(testkit.Must(db.Runs(ctx, "", landfall.Run{Created: after(2), ID: "r2"}, 2))(t)), []string{"o", "r1"})
		testkit.Same(t, "of all", ids(testkit.Must(db.Runs(ctx, "", landfall.Run{Created: after(4)}, 3))(t)),
			[]string{"r3", "r2", "o"})
		testkit.Same(t, "of a commit", ids(testkit.Must(db.RunsOfCommit(ctx, app.ID, sha1))(t)), []string{"r4", "r2", "r0"})
		end(t, db, "r0", after(9))
		testkit.Same(t, "unfinished", ids(testkit.Must(db.UnfinishedOfApp(ctx, app.ID))(t)), []string{"r1", "r2", "r3", "r4"})
		testkit.Same(t, "the oldest", testkit.Must(db.OldestUnfinished(ctx))(t), after(1))
		like := func(like landfall.Run) []string {
			return ids(testkit.Must(db.RunsLike(ctx, like, landfall.Run{}, 2))(t))
		}
		testkit.Same(t, "in a state", like(landfall.Run{State: landfall.RunSuperseded}), []string{"r0"})
		testkit.Same(t, "of a branch, the newest", like(landfall.Run{App: app.ID, Branch: "main"}), []string{"r4", "r3"})
		testkit.Same(t, "of no branch", like(landfall.Run{Branch: "feature"}), nil)
	})
	t.Run("which pushes want a run", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		newRun(t, db, app, "r1", sha1, noon)
		newRun(t, db, app, "r2", sha2, noon)
		p1 := newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, After: sha1})
		p2 := newPush(t, db, landfall.Push{App: app.ID, Ref: "refs/heads/f", After: sha1})
		p3 := newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, After: sha2})
		want := func(run string, pushes ...landfall.Push) {
			for _, p := range append(pushes, pushes...) { // again: nothing happens
				update(t, db, func(tx *store.Tx) error { return tx.AddRunRef(t.Context(), run, p) })
			}
		}
		want("r1", p2, p1)
		want("r2", p3)
		ref1, ref2 := store.RunRef{Run: "r1", Push: p1.ID, Ref: mainRef}, store.RunRef{Run: "r1", Push: p2.ID, Ref: p2.Ref}
		testkit.Same(t, "of a run", testkit.Must(db.RunRefs(ctx, "r1"))(t), []store.RunRef{ref1, ref2})
		testkit.Same(t, "older runs of the reference", testkit.Must(db.UnfinishedOfRef(ctx, app.ID, mainRef, p3.ID))(t),
			[]store.RunRef{ref1})
		withdraw := func(ref store.RunRef) (left int) {
			update(t, db, func(tx *store.Tx) error {
				var err error
				left, err = tx.WithdrawRunRef(t.Context(), ref)
				return err
			})
			return left
		}
		testkit.Same(t, "left after one was withdrawn", withdraw(ref1), 1)
		testkit.Same(t, "older runs after that", testkit.Must(db.UnfinishedOfRef(ctx, app.ID, mainRef, p3.ID))(t), nil)
		testkit.Same(t, "left after the other", withdraw(ref2), 0)
		ref1.Withdrawn, ref2.Withdrawn = true, true
		testkit.Same(t, "of the run after that", testkit.Must(db.RunRefs(ctx, "r1"))(t), []store.RunRef{ref1, ref2})
		end(t, db, "r2", after(1))
		testkit.Same(t, "runs that are over", testkit.Must(db.UnfinishedOfRef(ctx, app.ID, mainRef, 0))(t), nil)
	})
	t.Run("whether a UID is taken", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		run := newRun(t, db, app, "r1", sha1, noon)
		g := newGroup(t, db, app, "gggggggg", "")
		u := newUnit(t, db, app, function("f"))
		newVersion(t, db, u, g.UID, true)
		update(t, db, func(tx *store.Tx) error {
			return tx.PutTag(ctx, landfall.Tag{App: app.ID, Name: "tttttttt", Kind: landfall.HandTag, Release: g.UID,
				Moved: noon})
		})
		labelled := landfall.Version{Number: 7, UID: "vvvvvvvv", Label: "llllllll", Created: noon}
		update(t, db, func(tx *store.Tx) error { return tx.CreateVersion(ctx, u.ID, labelled) })
		for _, c := range []struct {
			name   string
			app    landfall.App
			uid    landfall.UID
			commit landfall.CommitSHA
			want   bool
		}{
			{"free", app, "aaaaaaaa", sha2, false},
			{"reserved by a run of another commit", app, run.UID, sha2, true},
			{"reserved by a run of the commit", app, run.UID, sha1, false},
			{"a group version of another commit", app, g.UID, sha2, true},
			{"a group version of the commit", app, g.UID, sha1, false},
			{"a tag", app, "tttttttt", sha1, true},
			{"a label", app, "llllllll", sha1, true},
			{"of another app", other, g.UID, sha2, false},
		} {
			// V3: a uid that is taken is not given again
			testkit.Same(t, c.name, testkit.Must(db.UIDTaken(ctx, c.app.ID, c.uid, c.commit))(t), c.want)
		}
		proposals := []landfall.UID{"tttttttt", "llllllll", run.UID, g.UID, "aaaaaaaa"}
		propose := func(n int) landfall.UID { return proposals[n] }
		// V3: whoever needs a uid gets the first that is free
		testkit.Same(t, "the first free one for a commit", testkit.Must(db.FreeUID(ctx, app.ID, sha1, propose))(t), run.UID)
		testkit.Same(t, "the first that nothing has", testkit.Must(db.FreeUID(ctx, app.ID, "", propose))(t), "aaaaaaaa")
		testkit.Same(t, "the first of another app", testkit.Must(db.FreeUID(ctx, other.ID, "", propose))(t), "tttttttt")
	})
}

// end ends a run as superseded.
func end(t testing.TB, db *store.DB, id string, at time.Time) {
	t.Helper()
	run := testkit.Must(db.Run(t.Context(), id))(t)
	run.State, run.Finished = landfall.RunSuperseded, at
	update(t, db, func(tx *store.Tx) error { return tx.FinishRun(t.Context(), run) })
}

func testLogs(t *testing.T, open opener) {
	t.Helper()
	t.Run("steps", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		newRun(t, db, app, "r1", sha1, noon)
		first, _ := lease(t, db, "r1", "w", noon, after(10))
		for range 2 { // a step that is started twice keeps its start
			update(t, db, func(tx *store.Tx) error {
				return tx.StartStep(ctx, "r1", first.Attempt, landfall.StepFetch, after(1))
			})
		}
		second, _ := lease(t, db, "r1", "w", after(10), after(20))
		err := db.Update(ctx, func(tx *store.Tx) error {
			return tx.StartStep(ctx, "r1", first.Attempt, landfall.StepRead, after(11))
		})
		testkit.Kind(t, "a step of a worker that lost the run", err, landfall.Conflict)
		update(t, db, func(tx *store.Tx) error {
			return tx.StartStep(ctx, "r1", second.Attempt, landfall.StepFetch, after(12))
		})
		update(t, db, func(tx *store.Tx) error {
			return tx.EndStep(ctx, "r1", second.Attempt, landfall.StepFetch, after(13), "It is gone.")
		})
		testkit.Same(t, "where the run is", testkit.Must(db.Run(ctx, "r1"))(t).Step, landfall.StepFetch)
		update(t, db, func(tx *store.Tx) error {
			return tx.EndStep(ctx, "r1", second.Attempt, landfall.StepPlan, after(13), "")
		}) // never started
		end(t, db, "r1", after(14))
		err = db.Update(ctx, func(tx *store.Tx) error {
			return tx.StartStep(ctx, "r1", second.Attempt, landfall.StepRead, after(15))
		})
		testkit.Kind(t, "a step of a run that is over", err, landfall.Conflict)
		for range 2 {
			update(t, db, func(tx *store.Tx) error {
				return tx.RecordStep(ctx, "r1", second.Attempt, landfall.StepSwap, after(16), after(17))
			})
		}
		testkit.Same(t, "Steps", testkit.Must(db.Steps(ctx, "r1"))(t), []landfall.StepRecord{
			{Step: landfall.StepFetch, Attempt: first.Attempt, Started: after(1)},
			{Step: landfall.StepFetch, Attempt: second.Attempt, Started: after(12), Finished: after(13), Message: "It is gone."},
			{Step: landfall.StepSwap, Attempt: second.Attempt, Started: after(16), Finished: after(17)},
		})
	})
	t.Run("log lines", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		write := func(run string, step landfall.Step, lines ...string) {
			update(t, db, func(tx *store.Tx) error { return tx.AppendLog(t.Context(), run, step, noon, lines...) })
		}
		write("r1", landfall.StepFetch, "a", "b\x1b[31m")
		write("r2", landfall.StepFetch, "other")
		write("r1", landfall.StepRead)
		write("r1", landfall.StepRead, "c")
		line := func(seq int64, step landfall.Step, text string) landfall.LogLine {
			return landfall.LogLine{Seq: seq, Time: noon, Step: step, Text: text}
		}
		testkit.Same(t, "all", testkit.Must(db.Log(ctx, "r1", 0, 10))(t), []landfall.LogLine{
			line(1, landfall.StepFetch, "a"), line(2, landfall.StepFetch, "b\x1b[31m"), line(3, landfall.StepRead, "c")})
		testkit.Same(t, "the middle", testkit.Must(db.Log(ctx, "r1", 1, 1))(t),
			[]landfall.LogLine{line(2, landfall.StepFetch, "b\x1b[31m")})
		testkit.Same(t, "beyond the end", testkit.Must(db.Log(ctx, "r1", 3, 10))(t), nil)
	})
	t.Run("a log has an end", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		const limit = 20_000
		lines := make([]string, limit-2)
		for i := range 3 {
			update(t, db, func(tx *store.Tx) error { return tx.AppendLog(ctx, "r1", landfall.StepBuild, noon, lines...) })
			lines = []string{"x", "y", "z"}
			got := testkit.Must(db.Log(ctx, "r1", limit-2, 10))(t)
			if i == 0 {
				testkit.Same(t, "before the limit", got, nil)
				continue
			}
			if len(got) != 2 || got[0].Text != "x" || got[1].Seq != limit || got[1].Text == "y" {
				t.Errorf("at the limit: got %+v, want one more line and one that says that the log is cut", got)
			}
		}
		for _, end := range []func(tx *store.Tx) error{
			func(tx *store.Tx) error { return tx.EndLog(ctx, "r1", landfall.StepBuild, noon, "why", "failed") },
			func(tx *store.Tx) error { return tx.AppendLog(ctx, "r1", landfall.StepAccept, noon, "a note") },
		} {
			update(t, db, end)
			got := testkit.Must(db.Log(ctx, "r1", limit, 10))(t)
			if len(got) != 2 || got[0].Text != "why" || got[1].Text != "failed" {
				t.Errorf("beyond the limit: got %+v, want what the run came to, as the last lines", got)
			}
		}
	})
}

func testReports(t *testing.T, open opener) {
	t.Helper()
	t.Run("the outbox", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		box := store.Outbox{DB: db}
		say := func(state landfall.StatusState, commit landfall.CommitSHA, context string, next time.Time) {
			update(t, db, func(tx *store.Tx) error {
				return tx.CreateReport(t.Context(), landfall.Report{App: "a", Run: "r",
					Repository: landfall.GitHubRepository{ID: 1, Owner: "o", Name: "n"},
					Commit:     commit, Context: context, State: state, Description: "Queued", Target: "http://t",
					NextAt: next})
			})
		}
		owe := func(commit landfall.CommitSHA, context string, next time.Time) {
			say(landfall.StatusPending, commit, context, next)
		}
		owe(sha1, "landfall/a", noon)
		owe(sha1, "landfall/a", noon)
		owe(sha1, "landfall/b", noon)
		owe(sha2, "landfall/a", after(5))
		testkit.Same(t, "as stored", testkit.Must(db.ReportsOf(ctx, "a", sha1))(t)[0],
			landfall.Report{ID: 1, App: "a", Run: "r",
				Repository: landfall.GitHubRepository{ID: 1, Owner: "o", Name: "n"}, Commit: sha1, Context: "landfall/a",
				State: landfall.StatusPending, Description: "Queued", Target: "http://t", NextAt: noon})
		due := func(at time.Time, limit int) (ids []int64) {
			for _, r := range testkit.Must(box.Due(ctx, at, limit))(t) {
				ids = append(ids, r.ID)
			}
			return ids
		}
		testkit.Same(t, "due: of a commit and context only the oldest", due(noon, 10), []int64{1, 3})
		testkit.Same(t, "due: not more than asked for", due(noon, 1), []int64{1})
		testkit.Same(t, "due before their time", due(noon.Add(-time.Microsecond), 10), nil)
		testkit.Same(t, "due later", due(after(5), 10), []int64{1, 3, 4})
		say(landfall.StatusSuccess, sha2, "landfall/b", after(5))
		testkit.Same(t, "due: final states first", due(after(5), 10), []int64{5, 1, 3, 4})
		if err := box.Drop(ctx, 5, "gone"); err != nil {
			t.Fatal(err)
		}
		if err := box.Postpone(ctx, 1, after(3), "down"); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "due when the oldest is postponed: nothing overtakes it", due(noon, 10), []int64{3})
		if err := box.Sent(ctx, after(4), 1); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "due when the oldest is sent", due(noon, 10), []int64{2, 3})
		if err := box.Drop(ctx, 2, "gone"); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "due when one is dropped", due(noon, 10), []int64{3})
		reports := testkit.Must(db.ReportsOf(ctx, "a", sha1))(t)
		sent, dropped := reports[0], reports[1]
		if sent.Attempts != 2 || !sent.Sent.Equal(after(4)) || sent.Problem != "" || sent.Dropped ||
			!sent.NextAt.Equal(after(3)) {
			t.Errorf("the sent report: got %+v, want 2 attempts, its time, and no problem", sent)
		}
		if dropped.Attempts != 1 || !dropped.Sent.IsZero() || dropped.Problem != "gone" || !dropped.Dropped {
			t.Errorf("the dropped report: got %+v, want 1 attempt and its problem", dropped)
		}
		if len(reports) != 3 || reports[2].Attempts != 0 {
			t.Errorf("the reports of the commit: got %+v, want 3, the last of them not tried", reports)
		}
	})
	t.Run("pending states that a later report follows", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		box := store.Outbox{DB: db}
		say := func(state landfall.StatusState, commit landfall.CommitSHA) {
			update(t, db, func(tx *store.Tx) error {
				return tx.CreateReport(t.Context(), landfall.Report{App: "a", Run: "r", Commit: commit, Context: "c", State: state,
					NextAt: noon})
			})
		}
		say(landfall.StatusPending, sha1)
		say(landfall.StatusSuccess, sha1)
		say(landfall.StatusPending, sha2)
		if err := box.DropOvertaken(ctx); err != nil {
			t.Fatal(err)
		}
		due := testkit.Must(box.Due(ctx, noon, 10))(t)
		if len(due) != 2 || due[0].State != landfall.StatusSuccess || due[1].Commit != sha2 {
			t.Errorf("due: got %+v, want the final state of the first commit, and that the second one is pending", due)
		}
		dropped := testkit.Must(db.ReportsOf(ctx, "a", sha1))(t)[0]
		if !dropped.Dropped || !strings.Contains(dropped.Problem, "later state") {
			t.Errorf("the pending state of the first commit: got %+v, want it given up, with the reason", dropped)
		}
	})
	t.Run("what a log says of a report that is due", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		newRun(t, db, app, "r1", sha1, noon)
		newRun(t, db, app, "r2", sha2, noon)
		for _, p := range []landfall.Push{{Delivery: ""}, {Delivery: "d2", Trace: "t2"}, {Delivery: "d1", Trace: "t1"}} {
			p.App, p.Ref, p.After = app.ID, mainRef, sha1
			p = newPush(t, db, p)
			update(t, db, func(tx *store.Tx) error { return tx.AddRunRef(ctx, "r1", p) })
		}
		for _, run := range []string{"r1", "r2"} {
			update(t, db, func(tx *store.Tx) error {
				return tx.CreateReport(ctx, landfall.Report{App: app.ID, Run: run, Commit: landfall.CommitSHA(run), NextAt: noon})
			})
		}
		due := testkit.Must(store.Outbox{DB: db}.Due(ctx, noon, 10))(t)
		if len(due) != 2 || due[0].AppName != "shop" || due[0].Delivery != "d2" || due[1].AppName != "shop" ||
			due[1].Delivery != "" {
			t.Errorf("Due: got %+v, want the app's name, and the first delivery that brought the commit", due)
		}
		testkit.Same(t, "traces of the reports", []string{due[0].Trace, due[1].Trace}, []string{"t2", ""})
		testkit.Same(t, "TraceOf", testkit.Must(db.TraceOf(ctx, "r1"))(t), "t2")
		testkit.Same(t, "TraceOf a run that nobody traced", testkit.Must(db.TraceOf(ctx, "r2"))(t), "")
		testkit.Same(t, "DeliveryOf", testkit.Must(db.DeliveryOf(ctx, "r1"))(t), "d2")
		testkit.Same(t, "DeliveryOf a run that no delivery brought", testkit.Must(db.DeliveryOf(ctx, "r2"))(t), "")
	})
	t.Run("an event of one commit does not wait for another", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		for _, app := range []string{"a", "b"} {
			for range 2 {
				update(t, db, func(tx *store.Tx) error {
					return tx.CreateReport(ctx, landfall.Report{App: app, Commit: sha1, Context: "landfall", NextAt: noon})
				})
			}
		}
		if got := testkit.Must((store.Outbox{DB: db}).Due(ctx, noon, 10))(t); len(got) != 2 || got[0].App == got[1].App {
			t.Errorf("Due: got %+v, want one of each app", got)
		}
	})
}
