package store_test

import (
	"fmt"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// dies is an execution that was accepted, and failed for good a second after its last attempt began.
func dies(x landfall.Execution) landfall.Execution {
	x = ended(x)
	x.State, x.Dead, x.Reason = landfall.ExecutionFailed, true, "exit"
	return x
}

// letters names the dead letters, the newest first.
func letters(t *testing.T, db *store.DB) string {
	t.Helper()
	var ids []string
	like := landfall.Execution{Dead: true}
	for _, x := range testkit.Must(db.ExecutionsLike(t.Context(), like, landfall.Execution{}, 100))(t) {
		ids = append(ids, x.ID)
	}
	return strings.Join(ids, " ")
}

// facts returns values with blanks between them.
func facts(values ...any) string { return strings.TrimSpace(fmt.Sprintln(values...)) }

func testDeadLetters(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		x := execution(app, "a", 1)
		x.Retries = 1
		accept(t, db, x)
		_, leased := leaseSome(t, db, "p", 9)
		fails := leased[0].Execution
		fails.State, fails.Message, fails.Next, fails.Started = landfall.ExecutionQueued, "no", after(20), after(10)
		record(t, db, "p", []string{"one\n"}, fails)
		waits := testkit.Must(db.Execution(ctx, "a"))(t)
		testkit.Same(t, "what is shown of one that waits", facts(waits.State, waits.Attempt, waits.Retries, waits.Message,
			waits.Next.Equal(after(20))), "queued 1 1 no true")
		testkit.Same(t, "due too soon", testkit.Must(db.ExecutionsDue(ctx, after(19)))(t), false)

		update(t, db, func(tx *store.Tx) (err error) {
			leased, err = tx.LeaseExecutions(ctx, "q", after(20), after(50), 9)
			return err
		})
		testkit.Same(t, "the event of the retry", string(leased[0].Input), `{"id":"a"}`)
		record(t, db, "p", nil, dies(fails))
		testkit.Same(t, "after the late word of another process", testkit.Must(db.Execution(ctx, "a"))(t).State,
			landfall.ExecutionRunning)
		record(t, db, "q", nil, dies(leased[0].Execution))
		testkit.Same(t, "dead letters", letters(t, db), "a")

		resend := func(most store.WaitingLimit) error {
			return db.Update(ctx, func(tx *store.Tx) error { return tx.ResendExecution(ctx, "a", after(60), most) })
		}
		testkit.Kind(t, "while too many wait", resend(store.WaitingLimit{Count: 9, Bytes: 3}), landfall.Unavailable)
		testkit.Same(t, "dead letters", letters(t, db), "a")
		room := store.WaitingLimit{Count: 9, Bytes: 100}
		if err := resend(room); err != nil {
			t.Fatal(err)
		}
		testkit.Kind(t, "twice", resend(room), landfall.Conflict, "only a dead letter can be sent again")
		testkit.Same(t, "dead letters", letters(t, db), "")
		sent := testkit.Must(db.Execution(ctx, "a"))(t)
		testkit.Same(t, "one that was sent again", facts(sent.State, sent.Attempt, sent.Earlier, sent.Reason,
			sent.Finished.IsZero(), sent.Next.IsZero(), sent.Sent.Equal(after(60))), "queued 2 2  true true true")
		update(t, db, func(tx *store.Tx) (err error) {
			leased, err = tx.LeaseExecutions(ctx, "q", after(60), after(90), 9)
			return err
		})
		record(t, db, "q", nil, ended(leased[0].Execution))
		testkit.Kind(t, "one that succeeded", resend(room), landfall.Conflict, "is succeeded")
		testkit.Kind(t, "nothing", db.Update(ctx, func(tx *store.Tx) error {
			return tx.ResendExecution(ctx, "none", noon, room)
		}), landfall.NotFound)
	}
}

// What a process that died ran is tried as often as the function says, and each time that it is sent again.
func testLostLetters(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		x := execution(newApp(t, db, "shop"), "a", 1)
		x.Retries = 3
		accept(t, db, x)
		for round := range 2 {
			for attempt := range 4 {
				_, leased := leaseSome(t, db, "p", 9)
				if len(leased) != 1 {
					t.Fatalf("round %d, attempt %d: %d were leased, want one", round, attempt, len(leased))
				}
				forget(t, db, func(tx *store.Tx) (int, error) {
					running, err := tx.RunningExecutions(ctx)
					if err != nil {
						return 0, err
					}
					return tx.ReleaseExecutions(ctx, running, noon, 2)
				})
			}
			lost := testkit.Must(db.Execution(ctx, "a"))(t)
			testkit.Same(t, "what is left of it", facts(lost.State, lost.Reason, lost.Dead), "failed lost true")
			update(t, db, func(tx *store.Tx) error {
				return tx.ResendExecution(ctx, "a", noon, store.WaitingLimit{Count: 9, Bytes: 100})
			})
		}
	}
}

func testDeadLettersTrimmed(open opener) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		for i := range 5 {
			accept(t, db, execution(app, fmt.Sprint(i), i))
			_, leased := leaseSome(t, db, "p", 9)
			x := leased[0].Execution
			x.Started = after(10 + i)
			record(t, db, "p", nil, dies(x))
		}
		record(t, db, "p", nil, ended(execution(app, "fine", 9)))
		trim := func(most store.WaitingLimit) func(tx *store.Tx) (int, error) {
			return func(tx *store.Tx) (int, error) { return tx.TrimDeadLetters(ctx, app.ID, most, 9) }
		}
		const letter = int64(len(`{"id":"0"}`))
		testkit.Same(t, "too many", forget(t, db, trim(store.WaitingLimit{Count: 4, Bytes: 100})), 1)
		testkit.Same(t, "left", letters(t, db), "4 3 2 1")
		testkit.Same(t, "too large", forget(t, db, trim(store.WaitingLimit{Count: 4, Bytes: 3 * letter})), 1)
		testkit.Same(t, "left", letters(t, db), "4 3 2")
		testkit.Same(t, "the record of one that is none any more", testkit.Must(db.Execution(ctx, "0"))(t).Reason, "exit")
		version := execution(app, "", 0)
		testkit.Same(t, "other records removed", forget(t, db, func(tx *store.Tx) (int, error) {
			return tx.TrimExecutions(ctx, version, 0, 9)
		}), 3)
		testkit.Same(t, "left", letters(t, db), "4 3 2")
		version.Dead = true
		testkit.Same(t, "dead letters removed", forget(t, db, func(tx *store.Tx) (int, error) {
			return tx.TrimExecutions(ctx, version, 1, 9)
		}), 2)
		testkit.Same(t, "left", letters(t, db), "4")
	}
}
