package execution

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/cron"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/store"
)

// JobEvent is the type of the events of jobs.
const JobEvent = "dev.landfall.job"

// Jobs accepts an execution for each run of a job, in the transaction in which the job moves on: so there is one run
// for each time, whoever stops at whatever moment. A job whose time passed while nobody looked runs once, late.
type Jobs struct {
	Requests

	Now func() time.Time
}

// Run starts what is due until ctx ends.
func (j Jobs) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := j.Pass(ctx); err != nil && ctx.Err() == nil {
			j.Logger.WarnContext(ctx, "jobs wait", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// Pass starts the runs that are due. When one cannot be accepted, its job stays due, and the others of its app wait for
// the next pass with it. A job that can have no run, because its function is gone or takes other data, moves on and
// says so.
func (j Jobs) Pass(ctx context.Context) error {
	const most = 100
	var problems error
	waits := map[string]bool{} // apps
	for limit := most; ; {
		now := j.Now()
		due, err := j.DB.JobsDue(ctx, now, limit)
		if err != nil {
			return errors.Join(problems, err)
		}
		left := 0
		for _, job := range due {
			if !waits[job.App] {
				err := j.start(ctx, job, now)
				problems, waits[job.App] = errors.Join(problems, err), err != nil
			}
			if waits[job.App] {
				left++
			}
		}
		if len(due) < limit {
			return problems
		}
		limit = left + most
	}
}

// start accepts the run of a job that is due.
func (j Jobs) start(ctx context.Context, due landfall.Job, now time.Time) error {
	x, input, problem := j.run(ctx, due)
	switch landfall.KindOf(problem) {
	case landfall.Unavailable, landfall.Canceled, landfall.Internal:
		if problem != nil {
			return problem
		}
	case landfall.Invalid, landfall.NotFound, landfall.Conflict, landfall.Unauthorized, landfall.Forbidden:
	}
	crashpoint.Here("job.due")
	err := j.DB.Update(ctx, func(tx *store.Tx) error {
		job, err := tx.Job(ctx, due.ID)
		if err != nil || job.State != due.State || !job.Next.Equal(due.Next) || !job.Updated.Equal(due.Updated) {
			return landfall.Ignore(err, landfall.NotFound) // somebody was faster
		}
		if problem == nil {
			if err := tx.AcceptExecution(ctx, x, input, waiting()); err != nil {
				return err
			}
		}
		return tx.PutJob(ctx, after(job, now, problem))
	})
	if err == nil {
		crashpoint.Here("execution.accepted")
		j.ring()
	}
	return err
}

// run returns the execution of a job that is due, and its event as it is stored.
func (j Jobs) run(ctx context.Context, due landfall.Job) (landfall.Execution, []byte, error) {
	ref := landfall.Reference{Namespace: due.Namespace, Name: due.Function, Selector: landfall.Latest}
	if due.Number > 0 {
		ref.Selector = strconv.FormatInt(due.Number, 10)
	}
	f, err := j.Find(ctx, ref)
	if err != nil {
		return landfall.Execution{}, nil, err
	}
	in := event.Of(due.Next.UTC().Format(time.RFC3339), "/api/v1/jobs/"+due.ID, JobEvent, due.Next.UTC())
	in.SetSubject(cmp.Or(due.Name, due.ID))
	setJSON(&in, due.Input)
	return j.prepare(ctx, function.Call{Function: f, Event: in})
}

// after returns a job as it is when a run was started, or could not be because of a problem.
func after(job landfall.Job, now time.Time, problem error) landfall.Job {
	job.Updated, job.Next, job.Problem = now, time.Time{}, ""
	if problem != nil {
		job.Problem = cut(landfall.MessageOf(problem), textSize)
	}
	last := job.Count == 1
	job.Count = max(0, job.Count-1)
	if schedule, err := cron.Parse(job.Pattern, ""); err == nil && !last {
		job.Next = schedule.Next(now)
	}
	if job.Next.IsZero() {
		job.State = landfall.JobDone
	}
	return job
}
