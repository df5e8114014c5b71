package upkeep_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/upkeep"
)

const day = 24 * time.Hour

// many is how many old records there are of each kind: more than one transaction forgets.
const many = 25

// newRecords returns a shop with records of each kind, some from two days before now, and one that is new. Executions
// are of a version that exists.
func newRecords(t *testing.T) *shop {
	t.Helper()
	s := newShop(t)
	now := noon.Add(2 * day)
	s.upkeep.Now = func() time.Time { return now }
	ctx := t.Context()
	s.Update(func(tx *store.Tx) error {
		app, err := tx.App(ctx, accepttest.AppID)
		_, made := tx.CreateUnit(ctx, app, function)
		err = errors.Join(err, made, release(ctx, tx, app, "release", map[landfall.UnitID][]string{function: nil}))
		for i := range many + 1 {
			at := noon
			if i == many {
				at = now
			}
			id := fmt.Sprintf("%02d", i)
			run := landfall.Run{ID: "run" + id, App: app.ID, Commit: landfall.CommitSHA(strings.Repeat(id, 20)),
				State: landfall.RunFailed, Step: landfall.StepBuild, UID: landfall.UID("aaaaaa" + id), Created: at, Finished: at}
			x := landfall.Execution{ID: "execution" + id, AppID: app.ID, Namespace: app.Namespace,
				Function: function.Name, Number: 1, State: landfall.ExecutionSucceeded, Created: at, Started: at, Finished: at}
			err = errors.Join(err, tx.CreateRun(ctx, run), tx.AppendLog(ctx, run.ID, run.Step, at, "a line"),
				tx.PutToken(ctx, landfall.Token{Hash: landfall.DigestOf([]byte(id)), Name: "token" + id, Scope: landfall.ScopeRead,
					Created: at, Expires: at}),
				tx.CreateDelivery(ctx, landfall.Delivery{ID: "delivery" + id, Event: "ping", Received: at}),
				tx.RecordExecutions(ctx, at, []store.ExecutionRecord{{Execution: x, Log: []string{"a line\n"}}}))
		}
		return err
	})
	return s
}

// kept returns how many records of each kind there are: runs, runs whose log is whole, deliveries, executions, tokens.
func (s *shop) kept() [5]int {
	s.T.Helper()
	ctx, db := s.T.Context(), s.Receiver.DB
	runs := testkit.Must(db.Runs(ctx, accepttest.AppID, landfall.Run{}, 100))(s.T)
	whole := slices.DeleteFunc(slices.Clone(runs), func(r landfall.Run) bool {
		log := testkit.Must(db.Log(ctx, r.ID, 0, 10))(s.T)
		if len(log) != 1 {
			s.T.Errorf("the log of %s has the lines %+v, want one", r.ID, log)
			return true
		}
		return log[0].Text == "(the log was removed: LANDFALL_KEEP_LOGS is 1d)"
	})
	return [5]int{len(runs), len(whole), len(testkit.Must(db.Deliveries(ctx, landfall.Delivery{}, 100))(s.T)),
		len(testkit.Must(db.ExecutionsFrom(ctx, "", 100))(s.T)), len(testkit.Must(db.Tokens(ctx))(s.T))}
}

// Of each kind goes what is older than it is kept, and nothing else; what is kept for ever stays.
func TestForget(t *testing.T) {
	t.Parallel()
	const all = many + 1
	for name, test := range map[string]struct {
		keep upkeep.Retention
		want [5]int
	}{
		"nothing": {upkeep.Retention{}, [5]int{all, all, all, all, all}},
		"young": {upkeep.Retention{Runs: 3 * day, Logs: 3 * day, Deliveries: 3 * day, Executions: 3 * day},
			[5]int{all, all, all, all, all}},
		"runs":       {upkeep.Retention{Runs: day}, [5]int{1, 1, all, all, 1}},
		"logs":       {upkeep.Retention{Logs: day}, [5]int{all, 1, all, all, all}},
		"deliveries": {upkeep.Retention{Deliveries: day}, [5]int{all, all, 1, all, all}},
		"executions": {upkeep.Retention{Executions: day}, [5]int{all, all, all, 1, all}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRecords(t)
			s.upkeep.Retention = test.keep
			for range 2 {
				if err := s.upkeep.Forget(t.Context()); err != nil {
					t.Fatal(err)
				}
				testkit.Equal(t, "runs, logs, deliveries, executions, tokens", s.kept(), test.want)
			}
		})
	}
}

// What deliveries said goes after three days, whatever is kept of the deliveries.
func TestForgetPayloads(t *testing.T) {
	t.Parallel()
	s := newRecords(t)
	now := s.upkeep.Now()
	old := landfall.Delivery{ID: "old", Received: now.Add(-landfall.KeepPayloads - time.Hour)}
	young := landfall.Delivery{ID: "young", Received: now.Add(-landfall.KeepPayloads + time.Hour)}
	s.Update(func(tx *store.Tx) error {
		return errors.Join(tx.KeepPayload(t.Context(), old, "one", []byte("{}"), 100),
			tx.KeepPayload(t.Context(), young, "one", []byte("{}"), 100))
	})
	s.upkeep.Retention = upkeep.Retention{}
	if err := s.upkeep.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := s.Receiver.DB.Payload(t.Context(), "", "old")
	testkit.Kind(t, "after three days", err, landfall.NotFound)
	testkit.Equal(t, "before", string(testkit.Must(s.Receiver.DB.Payload(t.Context(), "", "young"))(t)), "{}")
}

// sweeps counts how often uploads were swept.
type sweeps struct{ count int }

// Sweep implements upkeep.Uploads.
func (s *sweeps) Sweep() error {
	s.count++
	return nil
}

// Uploads that nobody finishes are looked for whenever old records are, and not only when another one begins.
func TestForgetUploads(t *testing.T) {
	t.Parallel()
	s, uploads := newShop(t), &sweeps{}
	s.upkeep.Uploads = uploads
	if err := s.upkeep.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "sweeps", uploads.count, 1)
}

// What nobody can ask for any more goes, however young it is: the executions of a version that is gone.
func TestForgetWhatIsGone(t *testing.T) {
	t.Parallel()
	s := newRecords(t)
	s.Update(func(tx *store.Tx) error {
		row, err := tx.Unit(t.Context(), s.app(), function)
		return errors.Join(err, tx.DeleteVersion(t.Context(), row.ID, 1))
	})
	if err := s.upkeep.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "runs, logs, deliveries, executions, tokens", s.kept(),
		[5]int{many + 1, many + 1, many + 1, 0, many + 1})
}

// Old records are looked for as often as the shortest-lived kind needs it, and at most each minute.
func TestRetentionEvery(t *testing.T) {
	t.Parallel()
	for want, r := range map[time.Duration]upkeep.Retention{
		upkeep.CollectEvery: {Runs: 90 * day, Logs: 30 * day},
		5 * time.Minute:     {Runs: 90 * day, Executions: 5 * time.Minute},
		time.Minute:         {Logs: time.Second},
	} {
		testkit.Equal(t, fmt.Sprintf("how often %+v is looked at", r), r.Every(), want)
	}
	testkit.Equal(t, "how often nothing is looked at", upkeep.Retention{}.Every(), upkeep.CollectEvery)
}
