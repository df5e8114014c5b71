package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testExecutions(t *testing.T, open opener) {
	t.Helper()
	t.Run("records", testExecutionRecords(open))
	t.Run("leases", testExecutionLeases(open))
	t.Run("fair", testExecutionsFair(open))
	t.Run("lost", testExecutionsLost(open))
	t.Run("waiting", testExecutionsWaiting(open))
	t.Run("trimmed", testExecutionsTrimmed(open))
	t.Run("holds", testExecutionsHold(open))
	t.Run("dead", testDeadLetters(open))
	t.Run("dead and lost", testLostLetters(open))
	t.Run("dead and trimmed", testDeadLettersTrimmed(open))
}

// execution is one that began some seconds after noon.
func execution(app landfall.App, id string, created int) landfall.Execution {
	return landfall.Execution{
		ID: id, AppID: app.ID, App: app.Name, Namespace: "default", Function: "hello", Version: "owf2k7qa", Number: 2,
		Group: "owf2k7qa", Release: "owf2k7qa", Trigger: "hello",
		Event: landfall.ExecutionEvent{Source: "/me", Type: "greet", ID: "7"}, State: landfall.ExecutionRunning,
		Created: after(created), Started: after(created), Input: 3,
	}
}

// ended is an execution that succeeded a second later.
func ended(x landfall.Execution) landfall.Execution {
	x.State, x.Finished, x.Output, x.Duration = landfall.ExecutionSucceeded, x.Started.Add(time.Second), 4, 1000
	return x
}

// record stores what a process knows of executions.
func record(t *testing.T, db *store.DB, process string, log []string, all ...landfall.Execution) {
	t.Helper()
	records := []store.ExecutionRecord{}
	for _, x := range all {
		records = append(records, store.ExecutionRecord{Execution: x, Process: process, Until: after(30), Log: log})
	}
	update(t, db, func(tx *store.Tx) error { return tx.RecordExecutions(t.Context(), noon, records) })
}

// texts returns the texts of a log.
func texts(log []landfall.ExecutionLog) string {
	var all strings.Builder
	for _, l := range log {
		all.WriteString(l.Text)
	}
	return all.String()
}

func testExecutionRecords(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		first, other := execution(app, "a", 1), execution(app, "b", 1)
		record(t, db, "p", []string{"one\n"}, first, other)
		testkit.Same(t, "one that runs", testkit.Must(db.Execution(ctx, "a"))(t), first)
		testkit.Kind(t, "to delete it", db.Update(ctx, func(tx *store.Tx) error {
			return tx.DeleteExecution(ctx, "a")
		}), landfall.Conflict)
		first = ended(first)
		first.Log = 8
		record(t, db, "p", []string{"two\n"}, first)
		testkit.Same(t, "one that is over", testkit.Must(db.Execution(ctx, "a"))(t), first)
		log := testkit.Must(db.ExecutionLog(ctx, "a", 0, 10))(t)
		testkit.Same(t, "its log", texts(log), "one\ntwo\n")
		testkit.Same(t, "the rest of its log", texts(testkit.Must(db.ExecutionLog(ctx, "a", log[0].Seq, 10))(t)), "two\n")
		// What executions logged is found by the function's version
		testkit.Same(t, "the log of the version", texts(testkit.Must(db.FunctionLog(ctx, "default", "hello", 2, 0, 10))(t)),
			"one\none\ntwo\n")
		testkit.Same(t, "the log of another", texts(testkit.Must(db.FunctionLog(ctx, "default", "hello", 1, 0, 10))(t)), "")

		// What is over stays as it is, and nobody else changes what one process runs.
		over := ended(first)
		over.State, over.Message = landfall.ExecutionFailed, "once more"
		record(t, db, "p", nil, over)
		testkit.Same(t, "one that is over, and ends again", testkit.Must(db.Execution(ctx, "a"))(t), first)
		record(t, db, "q", nil, ended(other))
		testkit.Same(t, "one that another process ends", testkit.Must(db.Execution(ctx, "b"))(t), other)

		third := execution(app, "c", 2)
		third.Number, third.Function = 3, "bye"
		record(t, db, "p", nil, ended(third))
		for _, c := range []struct {
			like landfall.Execution
			want string
		}{
			{landfall.Execution{}, "c b a"},
			{landfall.Execution{AppID: app.ID}, "c b a"},
			{landfall.Execution{AppID: "other"}, ""},
			{landfall.Execution{Namespace: "default", Function: "hello"}, "b a"},
			{landfall.Execution{Namespace: "default", Function: "hello", Number: 1}, ""},
			{landfall.Execution{State: landfall.ExecutionSucceeded}, "c a"},
		} {
			got := []string{}
			page := testkit.Must(db.ExecutionsLike(ctx, c.like, landfall.Execution{}, 1))(t)
			for len(page) > 0 {
				got = append(got, page[0].ID)
				page = testkit.Must(db.ExecutionsLike(ctx, c.like, page[0], 1))(t)
			}
			testkit.Same(t, fmt.Sprintf("those like %+v", c.like), strings.Join(got, " "), c.want)
		}

		for i, id := range []string{"6fa550c9-f498-4727", "6fa550ca-0000-4727", "6fa550c9-f499-4727"} {
			record(t, db, "p", nil, ended(execution(app, id, 5+i)))
		}
		for prefix, want := range map[string]string{
			"6fa550c9": "6fa550c9-f498-4727 6fa550c9-f499-4727", "6fa550c9-f499": "6fa550c9-f499-4727", "6fa550c8": "",
			"6fa550c9-f498-4727": "6fa550c9-f498-4727",
		} {
			got := []string{}
			for _, x := range testkit.Must(db.ExecutionsFrom(ctx, prefix, 10))(t) {
				got = append(got, x.ID)
			}
			testkit.Same(t, "those from "+prefix, strings.Join(got, " "), want)
		}
		testkit.Same(t, "the first of them", len(testkit.Must(db.ExecutionsFrom(ctx, "6fa550c9", 1))(t)), 1)
		for _, id := range []string{"6fa550c9-f498-4727", "6fa550ca-0000-4727", "6fa550c9-f499-4727"} {
			update(t, db, func(tx *store.Tx) error { return tx.DeleteExecution(ctx, id) })
		}

		update(t, db, func(tx *store.Tx) error { return tx.DeleteExecution(ctx, "a") })
		testkit.Kind(t, "one that was deleted", second(db.Execution(ctx, "a")), landfall.NotFound)
		testkit.Same(t, "its log", texts(testkit.Must(db.ExecutionLog(ctx, "a", 0, 10))(t)), "")
		testkit.Same(t, "forgotten", forget(t, db, func(tx *store.Tx) (int, error) {
			return tx.ForgetExecutions(ctx, after(4), 10)
		}), 1)
		testkit.Kind(t, "one that is old", second(db.Execution(ctx, "c")), landfall.NotFound)
		testkit.Same(t, "one that is not over", testkit.Must(db.Execution(ctx, "b"))(t), other)
	}
}

// accept stores executions that wait.
func accept(t *testing.T, db *store.DB, all ...landfall.Execution) {
	t.Helper()
	for _, x := range all {
		x.State, x.Async, x.Started = landfall.ExecutionQueued, true, time.Time{}
		update(t, db, func(tx *store.Tx) error {
			return tx.AcceptExecution(t.Context(), x, []byte(`{"id":"`+x.ID+`"}`), store.WaitingLimit{Count: 100, Bytes: 1000})
		})
	}
}

// leaseSome gives executions to a process, and returns their ids.
func leaseSome(t *testing.T, db *store.DB, process string, room int) (ids string, all []store.LeasedExecution) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		var err error
		all, err = tx.LeaseExecutions(t.Context(), process, after(10), after(40), room)
		return err
	})
	names := []string{}
	for _, x := range all {
		names = append(names, x.ID)
	}
	return strings.Join(names, " "), all
}

func testExecutionLeases(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		shop, other := newApp(t, db, "shop"), newApp(t, db, "other")
		accept(t, db, execution(shop, "a", 1), execution(shop, "b", 2), execution(shop, "c", 3), execution(other, "d", 4),
			execution(other, "late", 11))
		testkit.Same(t, "whether one is due", testkit.Must(db.ExecutionsDue(ctx, after(1)))(t), true)
		testkit.Same(t, "whether one was due before", testkit.Must(db.ExecutionsDue(ctx, noon))(t), false)
		testkit.Same(t, "whether one is due when the clock was set back by an hour",
			testkit.Must(db.ExecutionsDue(ctx, after(-3600)))(t), true)
		ids, leased := leaseSome(t, db, "p", 4)
		testkit.Same(t, "leased", ids, "a b d")
		testkit.Same(t, "what is to be answered", string(leased[0].Input), `{"id":"a"}`)
		testkit.Same(t, "state", leased[0].State, landfall.ExecutionRunning)
		ids, _ = leaseSome(t, db, "p", 1)
		testkit.Same(t, "leased while there is room for another app only", ids, "")

		update(t, db, func(tx *store.Tx) error { return tx.ReturnExecution(ctx, leased[0].Execution, "p", after(9), false) })
		testkit.Same(t, "attempts of one that was given back", testkit.Must(db.Execution(ctx, "a"))(t).Attempt, int64(0))
		x := ended(leased[1].Execution)
		x.Result = []byte(`{"answer":1}`)
		record(t, db, "p", nil, x)
		got := testkit.Must(db.Execution(ctx, "b"))(t)
		testkit.Same(t, "its result", string(got.Result), `{"answer":1}`)
		ids, _ = leaseSome(t, db, "q", 10)
		testkit.Same(t, "leased by another process", ids, "c a")
	}
}

// However much two apps have waiting before it, and however long that takes, a third one is run at once.
func testExecutionsFair(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db := open(t)
		const workers = 16
		room := workers
		atWork := map[string]int{}
		for i, name := range []string{"slow", "slower", "third", "fourth"} {
			app := newApp(t, db, name)
			for j := range 20 {
				accept(t, db, execution(app, fmt.Sprint(name, j), i))
			}
			_, leased := leaseSome(t, db, "p", room)
			for _, x := range leased {
				atWork[x.App]++
			}
			room -= len(leased)
			if atWork[name] == 0 || room < 0 {
				t.Errorf("%s: %v are at work, and there is room for %d", name, atWork, room)
			}
		}
		testkit.Same(t, "at work of who came first", atWork["slow"], workers/2)
	}
}

func testExecutionsLost(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		accept(t, db, execution(app, "a", 1))
		record(t, db, "p", nil, execution(app, "sync", 1))
		const attempts = 2
		seen := func(process string) []store.RunningExecution {
			return slices.DeleteFunc(testkit.Must(db.RunningExecutions(ctx))(t), func(x store.RunningExecution) bool {
				return x.Process != process
			})
		}
		release := func(dead []store.RunningExecution, now time.Time) int {
			return forget(t, db, func(tx *store.Tx) (int, error) { return tx.ReleaseExecutions(ctx, dead, now, attempts) })
		}
		_, leased := leaseSome(t, db, "p", 9)
		testkit.Same(t, "lost of another", release(seen("q"), after(20)), 0)
		before := seen("p")
		update(t, db, func(tx *store.Tx) error {
			return tx.RecordExecutions(ctx, noon, []store.ExecutionRecord{
				{Execution: leased[0].Execution, Process: "p", Until: after(50)},
				{Execution: execution(app, "sync", 1), Process: "p", Until: after(50)},
			})
		})
		testkit.Same(t, "lost after a sign of life", release(before, after(45)), 0)
		testkit.Same(t, "lost by an earlier life", release(seen("p"), after(45)), 2)
		gone := testkit.Must(db.Execution(ctx, "sync"))(t)
		testkit.Same(t, "one that nobody accepted", gone.State, landfall.ExecutionFailed)
		testkit.Same(t, "its reason", gone.Reason, "lost")
		testkit.Same(t, "one that was accepted", testkit.Must(db.Execution(ctx, "a"))(t).State, landfall.ExecutionQueued)

		update(t, db, func(tx *store.Tx) error {
			_, err := tx.LeaseExecutions(ctx, "q", after(50), after(60), 9)
			return err
		})
		testkit.Same(t, "lost by a process that is dead", release(seen("q"), after(61)), 1)
		testkit.Same(t, "one that was tried often", testkit.Must(db.Execution(ctx, "a"))(t).State, landfall.ExecutionFailed)
	}
}

func testExecutionsWaiting(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "other")
		accept(t, db, execution(app, "a", 1))
		try := func(x landfall.Execution, most store.WaitingLimit) error {
			return db.Update(ctx, func(tx *store.Tx) error { return tx.AcceptExecution(ctx, x, []byte("12345"), most) })
		}
		testkit.Kind(t, "one too many", try(execution(app, "b", 1), store.WaitingLimit{Count: 1, Bytes: 100}),
			landfall.Unavailable, "1 executions of the app wait")
		testkit.Kind(t, "bytes too many", try(execution(app, "b", 1), store.WaitingLimit{Count: 2, Bytes: 14}),
			landfall.Unavailable)
		if err := try(execution(other, "b", 1), store.WaitingLimit{Count: 1, Bytes: 5}); err != nil {
			t.Errorf("another app: %v", err)
		}
		update(t, db, func(tx *store.Tx) error { return tx.DeleteExecution(ctx, "a") })
		ids, _ := leaseSome(t, db, "p", 9)
		testkit.Same(t, "leased when one was deleted", ids, "")
	}
}

func testExecutionsTrimmed(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		var last landfall.Execution
		for i := range 5 {
			x := execution(app, fmt.Sprint(i), i)
			x.Log = 10
			last = x
			record(t, db, "p", []string{"0123456789"}, ended(x))
		}
		record(t, db, "p", []string{"0123456789"}, execution(app, "runs", 0))
		kept := func() string {
			var all []string
			for _, x := range testkit.Must(db.ExecutionsLike(ctx, landfall.Execution{}, landfall.Execution{}, 10))(t) {
				all = append(all, fmt.Sprint(x.ID, len(testkit.Must(db.ExecutionLog(ctx, x.ID, 0, 10))(t))))
			}
			return strings.Join(all, " ")
		}
		testkit.Same(t, "logs removed", forget(t, db, func(tx *store.Tx) (int, error) {
			return tx.TrimExecutionLogs(ctx, last, 25, 10)
		}), 3)
		testkit.Same(t, "kept", kept(), "41 31 20 10 runs1 00")
		testkit.Same(t, "whether it is said", testkit.Must(db.Execution(ctx, "2"))(t).LogGone, true)
		testkit.Same(t, "records removed", forget(t, db, func(tx *store.Tx) (int, error) {
			return tx.TrimExecutions(ctx, last, 3, 1)
		}), 1)
		testkit.Same(t, "kept", kept(), "41 31 20 runs1 00")
		gone := testkit.Must(db.OrphanExecutions(ctx))(t)
		testkit.Same(t, "what is gone", gone, []landfall.Execution{{Namespace: "default", Function: "hello", Number: 2}})
		testkit.Same(t, "removed of it", forget(t, db, func(tx *store.Tx) (int, error) {
			return tx.ForgetOrphanExecutions(ctx, gone[0], 9)
		}), 4)
		testkit.Same(t, "kept", kept(), "runs1")

		app.Deleted = noon
		update(t, db, func(tx *store.Tx) error { return tx.UpdateApp(ctx, app) })
		for _, x := range testkit.Must(db.OrphanExecutions(ctx))(t) {
			testkit.Same(t, "an app that is gone while its content is there", x.AppID, "")
		}
		update(t, db, func(tx *store.Tx) error { return tx.SetRemoved(ctx, app.ID, noon) })
		gone = testkit.Must(db.OrphanExecutions(ctx))(t)
		testkit.Same(t, "what is gone with its app", gone[0], landfall.Execution{AppID: app.ID})
		record(t, db, "p", nil, ended(execution(app, "runs", 0)))
		testkit.Same(t, "removed of it", forget(t, db, func(tx *store.Tx) (int, error) {
			return tx.ForgetOrphanExecutions(ctx, gone[0], 9)
		}), 1)
		testkit.Same(t, "kept", kept(), "")
	}
}

func testExecutionsHold(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		var unit store.Unit
		update(t, db, func(tx *store.Tx) error {
			var err error
			if unit, err = tx.CreateUnit(ctx, app, landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"}); err != nil {
				return err
			}
			v := landfall.Version{Unit: unit.Unit, UID: "owf2k7qa", Number: 2, Spec: []byte("{}"), Created: noon}
			return tx.CreateVersion(ctx, unit.ID, v)
		})
		held := func() int { return len(testkit.Must(db.HeldVersions(ctx, unit.ID))(t)) }
		testkit.Same(t, "held by nothing", held(), 0)
		record(t, db, "p", nil, execution(app, "a", 1))
		// While an execution of it runs, a version is not deleted
		testkit.Same(t, "held by an execution that runs", held(), 1)
		testkit.Same(t, "what nothing keeps", len(testkit.Must(db.UnheldVersions(ctx, app.ID, store.UnitNumber{}, 1000))(t)), 0)
		record(t, db, "p", nil, ended(execution(app, "a", 1)))
		testkit.Same(t, "held by one that is over", held(), 0)
		testkit.Same(t, "what nothing keeps then", len(testkit.Must(db.UnheldVersions(ctx, app.ID, store.UnitNumber{}, 1000))(t)), 1)
		testkit.Same(t, "gone while the version is there", len(testkit.Must(db.OrphanExecutions(ctx))(t)), 0)
	}
}
