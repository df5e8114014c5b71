package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/cron"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

func (a *api) registerJobs(h huma.API) {
	const all, one = "/jobs", "/jobs/{id}"
	register(h, reading("list-jobs", all, "Jobs of functions, newest first"), a.listJobs)
	register(h, deploying("create-job", http.MethodPost, all,
		"Have a function run at times").answering(http.StatusCreated).making("{id}"), a.createJob)
	registerOn(a, h, reading("show-job", one, "One job"), a.showJob)
	registerOn(a, h, deploying("update-job", http.MethodPut, one,
		"Change a job that is not over, let it pause or go on, or cancel it"), a.updateJob)
	registerOn(a, h, deploying("delete-job", http.MethodDelete, one,
		"Delete a job; what it started goes on").answering(http.StatusNoContent), a.deleteJob)
}

// mostUses is how many jobs that are not over a function may have, and how many webhooks: each holds a version.
const mostUses = 100

// use finds the function of which a job or a webhook is to be made, and the number of the version: 0 for the latest.
// Invalid for a name that can move from one version to another: what is made holds its version.
func (a *api) use(ctx context.Context, tx *store.Tx, ref landfall.Reference) (u landfall.FunctionUse, err error) {
	row, err := tx.UnitInNamespace(ctx, ref.Namespace, landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name})
	if err == nil && !caller(ctx).Allows(landfall.ScopeDeploy, row.App) { // it is another app's since the request came
		err = forbidden(landfall.ScopeDeploy, row.Unit.String())
	}
	if err != nil {
		return u, err
	}
	now := a.now()
	u = landfall.FunctionUse{ID: newID(ctx), Unit: row.ID, App: row.App, Namespace: row.Namespace, Function: ref.Name,
		Created: now, Updated: now}
	v, err := versioning.Select(ctx, tx, row, ref.Selector)
	if err == nil {
		err = versioning.CheckWhole(ctx, tx, v)
	}
	if err != nil {
		return u, err
	}
	switch ref.Selector {
	case "", "0", landfall.Latest:
		return u, nil
	}
	_, aliased := versioning.FindAlias(ctx, tx, ref.Namespace, ref)
	if aliased == nil || ref.Selector == landfall.LivePointer {
		return u, landfall.Errorf("api", landfall.Invalid, "%s moves from version to version: name a version by its number, "+
			"uid or label, or the latest by 0", ref)
	}
	u.Number = v.Number
	return u, nil
}

// crowded fails with Conflict when a function has as many jobs or webhooks as may be.
func crowded(count int, err error, what string) error {
	if err == nil && count >= mostUses {
		err = landfall.Errorf("api", landfall.Conflict,
			"the function has %d %ss, which is as many as may be: delete one first",
			count, what)
	}
	return err
}

// usesShown says which jobs or webhooks a page has.
type usesShown struct {
	unit   string               // of one function; empty: of all
	apps   []string             // for which the token has a scope; nil: all
	before landfall.FunctionUse // the last of the page before
}

// usesIn says which jobs or webhooks a token with a scope is shown.
func (a *api) usesIn(ctx context.Context, in *UsePaging, scope landfall.Scope) (u usesShown, err error) {
	if u.before.Created, u.before.ID, err = readCursor(in.Cursor); err != nil {
		return u, err
	}
	switch token := caller(ctx); {
	case token.App != "":
		u.apps = []string{token.App}
	case token.Namespace != "":
		u.apps = append([]string{}, token.Apps...)
	}
	if in.Namespace != "" {
		if u.apps, err = a.appsOf(ctx, in.Namespace, u.apps); err != nil {
			return u, err
		}
	}
	if in.Function == "" {
		return u, nil
	}
	ref, err := a.named(ctx, client.FunctionName{Function: in.Function}, scope)
	if err != nil {
		return u, err
	}
	row, err := a.DB.UnitInNamespace(ctx, ref.Namespace, landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name})
	u.unit = row.ID
	return u, err
}

// appsOf returns those of some apps, of all for nil, that are in a namespace.
func (a *api) appsOf(ctx context.Context, namespace string, some []string) ([]string, error) {
	apps, err := a.DB.Apps(ctx)
	if err != nil {
		return nil, err
	}
	all := []string{}
	for _, app := range apps {
		if app.Namespace == namespace && (some == nil || slices.Contains(some, app.ID)) {
			all = append(all, app.ID)
		}
	}
	return all, nil
}

// UsePaging is a page of jobs or webhooks.
type UsePaging struct {
	Paging
	Function  string `query:"function" doc:"NAME or NAMESPACE/NAME; empty: of all functions"`
	Namespace string `query:"namespace" doc:"empty: of all that the token sees"`
}

// JobPath names a job.
type JobPath struct {
	ID string `path:"id"`
}

// find returns a job.
func (p JobPath) find(ctx context.Context, a *api, scope landfall.Scope) (landfall.Job, error) {
	job, err := a.DB.Job(ctx, p.ID)
	if err == nil && !caller(ctx).Allows(scope, job.App) {
		err = landfall.Errorf("api", landfall.NotFound, "there is no job %s", p.ID)
	}
	return job, err
}

func (a *api) listJobs(ctx context.Context, in *UsePaging) (*body[page[client.Job]], error) {
	shown, err := a.usesIn(ctx, in, landfall.ScopeRead)
	if err != nil {
		return nil, err
	}
	jobs, err := a.DB.Jobs(ctx, shown.unit, shown.apps, shown.before, in.Limit+1)
	return answer(pageOf(listOf(jobs, jobOf).Items, in.Limit, func(j client.Job) string {
		return cursorOf(j.Created, j.ID)
	}), err)
}

func usedOf(u landfall.FunctionUse) client.Used {
	return client.Used{ID: u.ID, Function: u.Function, Namespace: u.Namespace, Number: u.Number, Created: u.Created,
		Updated: u.Updated}
}

func jobOf(j landfall.Job) client.Job {
	return client.Job{Used: usedOf(j.FunctionUse), Name: j.Name, Input: j.Input, Pattern: j.Pattern, First: j.First,
		Next: j.Next, Count: j.Count, Status: j.State, Problem: j.Problem}
}

func (a *api) showJob(_ context.Context, job landfall.Job, _ *JobPath) (*body[client.Job], error) {
	return answer(jobOf(job), nil)
}

// keptJobs is how many jobs of a function that are over are kept: each may have a megabyte of input.
const keptJobs = 100

func (a *api) createJob(ctx context.Context, in *struct{ Body client.NewJob }) (*body[client.Job], error) {
	job, there, err := made(ctx, a.DB.Job)
	if err != nil || there {
		return answer(jobOf(job), err)
	}
	n := in.Body
	ref, err := a.named(ctx, n.FunctionName, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
	next, err := a.firstRun(n)
	if err != nil {
		return nil, err
	}
	err = a.DB.Update(ctx, func(tx *store.Tx) error {
		u, err := a.use(ctx, tx, ref)
		if err != nil {
			return err
		}
		count, err := tx.CountJobs(ctx, u.Unit)
		if err := crowded(count, err, "job"); err != nil {
			return err
		}
		if err := tx.TrimJobs(ctx, u.Unit, keptJobs); err != nil {
			return err
		}
		job = landfall.Job{FunctionUse: u, Name: n.Name, Input: n.Input, Pattern: n.Pattern, Next: next, Count: n.Count,
			State: landfall.JobRunning}
		if n.First != "" {
			job.First = next
		}
		if n.Pattern == "" {
			job.Count = 1
		}
		return tx.PutJob(ctx, job)
	})
	return answer(jobOf(job), err)
}

// firstRun returns when a new job runs first. Invalid when what it says of time makes no sense.
func (a *api) firstRun(n client.NewJob) (time.Time, error) {
	switch {
	case n.Pattern == "" && n.First == "":
		return time.Time{}, landfall.Errorf("api", landfall.Invalid, "say when the job runs: in pattern, such as 0 3 * * *, "+
			"or once in first_execution_time")
	case n.Pattern == "" && n.Count > 1:
		return time.Time{}, landfall.Errorf("api", landfall.Invalid, "a job that runs %d times needs a pattern", n.Count)
	}
	var next time.Time
	var err error
	if n.Pattern != "" {
		if next, err = a.nextBy(n.Pattern); err != nil {
			return next, err
		}
	}
	if n.First != "" {
		next, err = a.future("first_execution_time", n.First)
	}
	return next, err
}

// nextBy returns when a pattern is due next. Invalid when it is none, or never is.
func (a *api) nextBy(pattern string) (time.Time, error) {
	schedule, err := cron.Parse(pattern, "")
	if err != nil {
		return time.Time{}, landfall.Errorf("api", landfall.Invalid, "the pattern %q: %s", pattern, landfall.MessageOf(err))
	}
	next := schedule.Next(a.Now())
	if next.IsZero() {
		err = landfall.Errorf("api", landfall.Invalid, "the pattern %q is never due", pattern)
	}
	return next, err
}

// future reads a time that is yet to come.
func (a *api) future(field, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.ParseInLocation("2006-01-02T15:04:05", text, time.UTC)
	}
	if err != nil {
		return at, landfall.Errorf("api", landfall.Invalid, "%s is %q; right would be a time such as 2030-01-02T03:04:05Z",
			field, text)
	}
	if !at.After(a.Now()) {
		return at, landfall.Errorf("api", landfall.Invalid, "%s is %s, which is over", field, text)
	}
	return at.UTC(), nil
}

func (a *api) updateJob(ctx context.Context, job landfall.Job, in *struct {
	JobPath
	Body client.JobChange
}) (*body[client.Job], error) {
	err := a.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if job, err = tx.Job(ctx, job.ID); err != nil {
			return err
		}
		if job.State.Final() {
			return landfall.Errorf("api", landfall.Conflict, "the job is %s: make another one", job.State)
		}
		if err := a.changeJob(&job, in.Body); err != nil {
			return err
		}
		return tx.PutJob(ctx, job)
	})
	return answer(jobOf(job), err)
}

// changeJob changes a job that is not over.
func (a *api) changeJob(job *landfall.Job, c client.JobChange) (err error) {
	if c.Name != nil {
		job.Name = *c.Name
	}
	if len(c.Input) > 0 {
		job.Input = c.Input
	}
	if c.Pattern != "" && job.Pattern == "" {
		return landfall.Errorf("api", landfall.Invalid, "the job runs once: make another one with a pattern")
	}
	resumes := job.State == landfall.JobPaused && c.Status == string(landfall.JobRunning)
	if c.Pattern != "" {
		job.Pattern = c.Pattern
	}
	if job.Pattern != "" && (c.Pattern != "" || resumes) {
		if job.Next, err = a.nextBy(job.Pattern); err != nil {
			return err
		}
	}
	if c.Next != "" {
		if job.Next, err = a.future("next_execution_time", c.Next); err != nil {
			return err
		}
	}
	if c.Status != "" {
		job.State = landfall.JobState(c.Status)
	}
	if job.State == landfall.JobCancelled {
		job.Next = time.Time{}
	}
	job.Updated = a.now()
	return nil
}

func (a *api) deleteJob(ctx context.Context, job landfall.Job, _ *JobPath) (*struct{}, error) {
	return nil, a.DB.Update(ctx, func(tx *store.Tx) error { return tx.DeleteJob(ctx, job.ID) })
}
