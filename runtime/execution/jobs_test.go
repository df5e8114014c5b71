package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// due is when the jobs of the tests run first.
var due = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

// jobs are jobs of a function, with a clock.
type jobs struct {
	*fixture
	execution.Jobs
	now  time.Time
	find func(ref landfall.Reference) (*landfall.Function, error)
}

func newJobs(t *testing.T) *jobs {
	t.Helper()
	j := &jobs{fixture: newFixture(t), now: due,
		find: func(ref landfall.Reference) (*landfall.Function, error) {
			if ref.Namespace != "default" || ref.Name != "hello" {
				return nil, &landfall.Error{Kind: landfall.NotFound, Message: "there is no function " + ref.Name}
			}
			f := hello()
			f.App = "shop"
			return f, nil
		}}
	j.Jobs = execution.Jobs{Now: func() time.Time { return j.now }, Requests: execution.Requests{Recorder: j.Recorder,
		Find: func(_ context.Context, ref landfall.Reference) (*landfall.Function, error) { return j.find(ref) }}}
	err := j.db.Update(t.Context(), func(tx *store.Tx) error {
		app := landfall.App{ID: "shop", Namespace: "default", Name: "shop", Branch: "main", Created: due}
		if err := errors.Join(tx.EnsureNamespace(t.Context(), "default", 1), tx.CreateApp(t.Context(), app)); err != nil {
			return err
		}
		_, err := tx.CreateUnit(t.Context(), app, landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// put stores a job that is due.
func (j *jobs) put(id, pattern string, count int64) landfall.Job {
	j.t.Helper()
	ctx := j.t.Context()
	row := testkit.Must(j.db.UnitInNamespace(ctx, "default", landfall.UnitID{Kind: landfall.FunctionUnit,
		Name: "hello"}))(j.t)
	job := landfall.Job{FunctionUse: landfall.FunctionUse{ID: id, Unit: row.ID, Number: 3, Created: due, Updated: due},
		Name: "nightly", Input: json.RawMessage(`{"a":1}`), Pattern: pattern, Next: due, Count: count,
		State: landfall.JobRunning}
	if err := j.db.Update(ctx, func(tx *store.Tx) error { return tx.PutJob(ctx, job) }); err != nil {
		j.t.Fatal(err)
	}
	return job
}

// pass starts what is due at a time, and returns how many executions there are.
func (j *jobs) pass(now time.Time) int {
	j.t.Helper()
	j.now = now
	if err := j.Pass(j.t.Context()); err != nil {
		j.t.Fatal(err)
	}
	return j.started()
}

func (j *jobs) started() int {
	j.t.Helper()
	return len(testkit.Must(j.db.ExecutionsLike(j.t.Context(), landfall.Execution{AppID: "shop"}, landfall.Execution{},
		100))(j.t))
}

// A job has an execution for each of its times until its count is over, however often and by however many it is looked
// for.
func TestJobs(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	j.put("minutely", "* * * * *", 2)
	testkit.Equal(t, "before it is due", j.pass(due.Add(-time.Second)), 0)
	j.now = due.Add(time.Second)
	var group errgroup.Group
	for range 4 {
		group.Go(func() error { return j.Pass(t.Context()) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "the first time, looked for by four", j.started(), 1)
	x := testkit.Must(j.db.ExecutionsLike(t.Context(), landfall.Execution{AppID: "shop"}, landfall.Execution{}, 1))(t)[0]
	testkit.Equal(t, "its event", x.Event, landfall.ExecutionEvent{Source: "/api/v1/jobs/minutely", Type: execution.JobEvent,
		ID: "2026-02-03T12:00:00Z"})
	// C-013: the record of the execution has the version of the job
	testkit.Equal(t, "its version", x.Number, 3)
	testkit.Equal(t, "its input", x.Input, int64(len(`{"a":1}`)))
	job := testkit.Must(j.db.Job(t.Context(), "minutely"))(t)
	testkit.Equal(t, "what is left", fmt.Sprint(job.Count, job.State, job.Next), fmt.Sprint(1, landfall.JobRunning,
		due.Add(time.Minute)))
	testkit.Equal(t, "an hour later, when nobody looked", j.pass(due.Add(time.Hour)), 2)
	job = testkit.Must(j.db.Job(t.Context(), "minutely"))(t)
	testkit.Equal(t, "the end", fmt.Sprint(job.Count, job.State, job.Next.IsZero()), fmt.Sprint(0, landfall.JobDone, true))
	testkit.Equal(t, "after the end", j.pass(due.Add(2*time.Hour)), 2)

	j.put("once", "", 1)
	testkit.Equal(t, "one that runs once, and late", j.pass(due.Add(3*time.Hour)), 3)
	testkit.Equal(t, "its end", testkit.Must(j.db.Job(t.Context(), "once"))(t).State, landfall.JobDone)
}

// A job whose function is gone moves on and says so; one that cannot be started now stays due.
func TestJobsThatCannotRun(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	j.put("minutely", "* * * * *", 0)
	found := j.find
	j.find = func(landfall.Reference) (*landfall.Function, error) {
		return nil, &landfall.Error{Kind: landfall.Unavailable, Message: "the database is away"}
	}
	j.now = due
	testkit.Kind(t, "while the database is away", j.Pass(t.Context()), landfall.Unavailable)
	testkit.Equal(t, "its time", testkit.Must(j.db.Job(t.Context(), "minutely"))(t).Next.Equal(due), true)
	j.find = func(landfall.Reference) (*landfall.Function, error) {
		return nil, &landfall.Error{Kind: landfall.NotFound, Message: "there is no function hello"}
	}
	testkit.Equal(t, "when its function is gone", j.pass(due), 0)
	job := testkit.Must(j.db.Job(t.Context(), "minutely"))(t)
	testkit.Equal(t, "what it says", fmt.Sprint(job.Problem, job.State, job.Next), fmt.Sprint("there is no function hello",
		landfall.JobRunning, due.Add(time.Minute)))
	j.find = found
	testkit.Equal(t, "when it is there again", j.pass(due.Add(time.Minute)), 1)
	testkit.Equal(t, "what it says then", testkit.Must(j.db.Job(t.Context(), "minutely"))(t).Problem, "")
	paused := testkit.Must(j.db.Job(t.Context(), "minutely"))(t)
	paused.State = landfall.JobPaused
	if err := j.db.Update(t.Context(), func(tx *store.Tx) error { return tx.PutJob(t.Context(), paused) }); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "while it pauses", j.pass(due.Add(time.Hour)), 1)
}

// One app's jobs that cannot be started now, however many they are, keep nothing of another app's back.
func TestJobsOfOthers(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	const more = 150 // than are looked at in one go
	for n := range more {
		j.put(fmt.Sprintf("waits-%03d", n), "* * * * *", 0)
	}
	ctx := t.Context()
	err := j.db.Update(ctx, func(tx *store.Tx) error {
		app := landfall.App{ID: "zoo", Namespace: "zoos", Name: "zoo", Branch: "main", Created: due}
		if err := errors.Join(tx.EnsureNamespace(ctx, "zoos", 1), tx.CreateApp(ctx, app)); err != nil {
			return err
		}
		row, err := tx.CreateUnit(ctx, app, landfall.UnitID{Kind: landfall.FunctionUnit, Name: "feed"})
		if err != nil {
			return err
		}
		at := due.Add(time.Second)
		return tx.PutJob(ctx, landfall.Job{FunctionUse: landfall.FunctionUse{ID: "feeds", Unit: row.ID, Created: due, Updated: due},
			Pattern: "0 * * * *", Next: at, State: landfall.JobRunning})
	})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	j.find = func(ref landfall.Reference) (*landfall.Function, error) {
		if ref.Namespace == "default" {
			asked++
			return nil, &landfall.Error{Kind: landfall.Unavailable, Message: "too much of this app waits"}
		}
		f := hello()
		f.App, f.Namespace, f.Name = "zoo", "zoos", "feed"
		return f, nil
	}
	j.now = due.Add(time.Minute)
	testkit.Kind(t, "what it says", j.Pass(ctx), landfall.Unavailable)
	testkit.Equal(t, "how often the first app was tried", asked, 1)
	fed := testkit.Must(j.db.ExecutionsLike(ctx, landfall.Execution{AppID: "zoo"}, landfall.Execution{}, 10))(t)
	testkit.Equal(t, "runs of the other app", len(fed), 1)
	testkit.Equal(t, "the first app's time", testkit.Must(j.db.Job(ctx, "waits-000"))(t).Next.Equal(due), true)
}
