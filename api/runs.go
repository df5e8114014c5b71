package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// RunPath names a run.
type RunPath struct {
	ID string `path:"id"`
}

// find returns a run and its app.
func (p RunPath) find(ctx context.Context, a *api, scope landfall.Scope) (run ownRun, err error) {
	if run.Run, err = a.DB.Run(ctx, p.ID); err != nil {
		return run, err
	}
	run.app, err = a.DB.App(ctx, run.App)
	if err == nil && !caller(ctx).Allows(scope, run.app.ID) {
		err = forbidden(scope, run.app.Name)
	}
	return run, err
}

func (a *api) registerRuns(h huma.API) {
	register(h, reading("list-runs", "/runs", "Runs, newest first"), a.listRuns)
	registerOn(a, h, reading("show-run", "/runs/{id}", "One run with its steps, diff and statuses"), a.showRun)
	registerOn(a, h, reading("run-log", "/runs/{id}/log", "The log as server-sent events, until the run is over"),
		a.runLog)
	registerOn(a, h, deploying("retry-run", http.MethodPost, "/runs/{id}/retry", "Run the commit again"), a.retryRun)
	a.registerApprovals(h)
	registerOn(a, h, deploying("cancel-run", http.MethodPost, "/runs/{id}/cancel", "End an unfinished run"), a.cancelRun)
}

// ownRun is a run and its app.
type ownRun struct {
	landfall.Run
	app landfall.App
}

func (a *api) listRuns(ctx context.Context, in *struct {
	Paging
	App    string `query:"app" doc:"name of the app; empty: all"`
	Branch string `query:"branch" doc:"only runs of this branch"`
	State  string `query:"state" enum:"queued,running,waiting,succeeded,failed,error,superseded,skipped,cancelled,declined,expired" doc:"only runs in this state"`
}) (*body[page[client.Run]], error) {
	var appID string
	if in.App == "" {
		if err := readsAll(ctx); err != nil {
			return nil, err
		}
	} else {
		app, err := a.app(ctx, in.App, landfall.ScopeRead)
		if err != nil {
			return nil, err
		}
		appID = app.ID
	}
	at, id, _ := strings.Cut(in.Cursor, "_") // a page may begin at a time, too
	created, err := parseCursor(at)
	if err != nil {
		return nil, err
	}
	runs, err := a.DB.RunsLike(ctx, landfall.Run{App: appID, Branch: in.Branch, State: landfall.RunState(in.State)},
		landfall.Run{Created: created, ID: id}, in.Limit+1)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	var items []client.Run
	for _, run := range runs {
		if names[run.App] == "" {
			app, err := a.DB.App(ctx, run.App)
			if err != nil {
				return nil, err
			}
			names[run.App] = app.Name
		}
		items = append(items, a.runOf(ctx, run, names[run.App]))
	}
	return answer(pageOf(items, in.Limit, func(r client.Run) string {
		return r.Created.Format(time.RFC3339Nano) + "_" + r.ID
	}), nil)
}

func (a *api) runOf(ctx context.Context, r landfall.Run, app string) client.Run {
	r = a.Runs.View(ctx, r)
	c := client.Run{
		ID: r.ID, App: app, Commit: r.Commit, Branch: r.Branch, State: r.State, Step: r.Step, Reason: r.Reason, UID: r.UID,
		Release: r.Release, Created: r.Created, Started: r.Started, Finished: r.Finished, Stats: r.Stats, Fork: r.Fork,
		Approval: r.Approval,
	}
	if r.Release != "" || !r.State.Final() {
		c.URL = a.ReleaseURL(app, r.UID)
	}
	return c
}

func (a *api) showRun(ctx context.Context, run ownRun, _ *RunPath) (*body[client.Run], error) {
	c := a.runOf(ctx, run.Run, run.app.Name)
	steps, err := a.DB.Steps(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		c.Steps = append(c.Steps, client.Step(s))
	}
	if c.Changes, err = a.DB.RunChanges(ctx, run.ID); err != nil {
		return nil, err
	}
	reports, err := a.DB.ReportsOf(ctx, run.App, run.Commit)
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		if r.Run == run.ID {
			c.Statuses = append(c.Statuses, client.CommitStatus{
				State: r.State, Context: r.Context, Description: r.Description, Target: r.Target, Sent: r.Sent, Problem: r.Problem})
		}
	}
	refs, err := a.DB.RunRefs(ctx, run.ID)
	for _, ref := range refs {
		if !ref.Withdrawn {
			c.References = append(c.References, string(ref.Ref))
		}
	}
	return answer(c, err)
}

func (a *api) retryRun(ctx context.Context, of ownRun, in *struct {
	RunPath
	Rebuild bool `query:"rebuild" doc:"run build commands again"`
}) (*body[client.Run], error) {
	run, err := a.Runs.Retry(ctx, of.ID, caller(ctx).Name, in.Rebuild)
	return answer(a.runOf(ctx, run, of.app.Name), err)
}

func (a *api) cancelRun(ctx context.Context, of ownRun, _ *RunPath) (*body[client.Run], error) {
	run, err := a.Runs.Cancel(ctx, of.ID, caller(ctx).Name)
	return answer(a.runOf(ctx, run, of.app.Name), err)
}

// How log lines are read.
const (
	logPage  = 500
	logEvery = 50 * time.Millisecond
)

func (a *api) runLog(ctx context.Context, run ownRun, in *struct {
	RunPath
	After  int64 `query:"after" doc:"only lines after this number"`
	Follow bool  `query:"follow" default:"true" doc:"wait for more until the run is over"`
}) (*huma.StreamResponse, error) {
	if in.Follow {
		if err := a.waiters.Enter(ctx, caller(ctx)); err != nil {
			return nil, err
		}
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "text/event-stream")
		hctx.SetHeader("Cache-Control", "no-store")
		hctx.SetHeader("X-Content-Type-Options", "nosniff")
		w := hctx.BodyWriter()
		err := eachPiece(ctx, w, in.After, in.Follow, logEvery, func(after int64) ([]landfall.LogLine, bool, error) {
			now, err := a.DB.Run(ctx, run.ID) // before its log: lines that were there when it ended are then all seen
			if err != nil {
				return nil, false, err
			}
			lines, err := a.DB.Log(ctx, run.ID, after, logPage)
			return lines, a.Runs.View(ctx, now).State.Final(), err
		}, func(l landfall.LogLine) (int64, error) { return l.Seq, writeEvent(w, l.Seq, l) })
		if err != nil {
			a.Logger.With(run.app.LogAttrs()...).With(run.LogAttrs()...).DebugContext(ctx, "a reader of a run's log left",
				"error", err)
		}
	}}, nil
}

func (a *api) apply(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.Apply
}) (*body[client.Applied], error) {
	push, err := applyPush(app, in.Body, caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	if in.Body.DryRun {
		preview, err := a.DryRun(ctx, app, push)
		return answer(client.Applied{Changes: preview.Changes, Complete: preview.Complete, Files: preview.Files,
			Log: preview.Log}, err)
	}
	id, err := a.Acceptor.Apply(ctx, app, push)
	if err != nil {
		return nil, err
	}
	run, err := a.DB.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	c := a.runOf(ctx, run, app.Name)
	return answer(client.Applied{Run: &c}, nil)
}

// applyPush is the push that an apply makes.
func applyPush(app landfall.App, in client.Apply, actor string) (landfall.Push, error) {
	ref, err := landfall.ParseRefName(landfall.ApplyPrefix + in.ID)
	if err != nil {
		return landfall.Push{}, err
	}
	if _, err := landfall.ParseCommitSHA(string(in.Commit)); err != nil {
		return landfall.Push{}, err
	}
	if in.Branch != "" {
		if _, err := landfall.ParseRefName(landfall.BranchPrefix + in.Branch); err != nil {
			return landfall.Push{}, landfall.Errorf("api", landfall.Invalid, "%q cannot be a branch", in.Branch)
		}
	}
	return landfall.Push{
		App: app.ID, Source: landfall.FromApply, Ref: ref, After: in.Commit, Actor: actor,
		Apply: &landfall.ApplyRequest{Branch: in.Branch, Clean: in.Clean, NoRelease: in.NoRelease, Commit: in.Base},
	}, nil
}
