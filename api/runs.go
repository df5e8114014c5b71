package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// RunPath names a run.
type RunPath struct {
	ID string `path:"id"`
}

func (a *api) registerRuns(h huma.API) {
	register(h, reading("list-runs", "/runs", "Runs, newest first"), a.listRuns)
	register(h, reading("show-run", "/runs/{id}", "One run with its steps, diff and statuses"), a.showRun)
	register(h, reading("run-log", "/runs/{id}/log", "The log as server-sent events, until the run is over"), a.runLog)
	register(h, deploying("retry-run", http.MethodPost, "/runs/{id}/retry", "Run the commit again"), a.retryRun)
	register(h, deploying("cancel-run", http.MethodPost, "/runs/{id}/cancel", "End an unfinished run"), a.cancelRun)
}

func (a *api) listRuns(ctx context.Context, in *struct {
	Paging
	App    string `query:"app" doc:"name of the app; empty: all"`
	Branch string `query:"branch" doc:"only runs of this branch"`
	State  string `query:"state" enum:"queued,running,waiting,succeeded,failed,error,superseded,skipped,cancelled" doc:"only runs in this state"`
}) (*body[page[client.Run]], error) {
	var appID string
	if in.App == "" {
		if err := installation(ctx, landfall.ScopeRead); err != nil {
			return nil, err
		}
	} else {
		app, err := a.app(ctx, in.App, landfall.ScopeRead)
		if err != nil {
			return nil, err
		}
		appID = app.ID
	}
	before, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	runs, err := a.DB.RunsLike(ctx, landfall.Run{App: appID, Branch: in.Branch, State: landfall.RunState(in.State)},
		before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	items := make([]client.Run, 0, len(runs))
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
	return answer(pageOf(items, in.Limit, func(r client.Run) string { return r.Created.Format(time.RFC3339Nano) }), nil)
}

func (a *api) runOf(ctx context.Context, r landfall.Run, app string) client.Run {
	r = a.Runs.View(ctx, r)
	c := client.Run{
		ID: r.ID, App: app, Commit: r.Commit, Branch: r.Branch, State: r.State, Step: r.Step, Reason: r.Reason, UID: r.UID,
		Release: r.Release, Created: r.Created, Started: r.Started, Finished: r.Finished, Stats: r.Stats,
	}
	if r.Release != "" || !r.State.Final() {
		c.URL = a.ReleaseURL(app, r.UID)
	}
	return c
}

// run returns a run and its app for a request that needs the scope on it.
func (a *api) run(ctx context.Context, id string, scope landfall.Scope) (landfall.Run, landfall.App, error) {
	run, err := a.DB.Run(ctx, id)
	if err != nil {
		return run, landfall.App{}, err
	}
	app, err := a.DB.App(ctx, run.App)
	if err == nil && !caller(ctx).Allows(scope, app.ID) {
		err = forbidden(scope, app.Name)
	}
	return run, app, err
}

func (a *api) showRun(ctx context.Context, in *RunPath) (*body[client.Run], error) {
	run, app, err := a.run(ctx, in.ID, landfall.ScopeRead)
	if err != nil {
		return nil, err
	}
	c, err := a.wholeRun(ctx, run, app)
	return answer(c, err)
}

func (a *api) wholeRun(ctx context.Context, run landfall.Run, app landfall.App) (client.Run, error) {
	c := a.runOf(ctx, run, app.Name)
	steps, err := a.DB.Steps(ctx, run.ID)
	if err != nil {
		return c, err
	}
	for _, s := range steps {
		c.Steps = append(c.Steps, client.Step(s))
	}
	if c.Changes, err = a.DB.RunChanges(ctx, run.ID); err != nil {
		return c, err
	}
	reports, err := a.DB.ReportsOf(ctx, app.ID, run.Commit)
	if err != nil {
		return c, err
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
	return c, err
}

func (a *api) retryRun(ctx context.Context, in *struct {
	RunPath
	Rebuild bool `query:"rebuild" doc:"run build commands again"`
}) (*body[client.Run], error) {
	_, app, err := a.run(ctx, in.ID, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
	run, err := a.Runs.Retry(ctx, in.ID, caller(ctx).Name, in.Rebuild)
	return answer(a.runOf(ctx, run, app.Name), err)
}

func (a *api) cancelRun(ctx context.Context, in *RunPath) (*body[client.Run], error) {
	_, app, err := a.run(ctx, in.ID, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
	run, err := a.Runs.Cancel(ctx, in.ID, caller(ctx).Name)
	return answer(a.runOf(ctx, run, app.Name), err)
}

// How log lines are read.
const (
	logPage  = 500
	logEvery = 50 * time.Millisecond
)

func (a *api) runLog(ctx context.Context, in *struct {
	RunPath
	After  int64 `query:"after" doc:"only lines after this number"`
	Follow bool  `query:"follow" default:"true" doc:"wait for more until the run is over"`
}) (*huma.StreamResponse, error) {
	run, app, err := a.run(ctx, in.ID, landfall.ScopeRead)
	if err == nil && in.Follow {
		err = a.waiters.Enter(ctx, caller(ctx))
	}
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "text/event-stream")
		hctx.SetHeader("Cache-Control", "no-store")
		hctx.SetHeader("X-Content-Type-Options", "nosniff")
		w := hctx.BodyWriter()
		flusher, _ := w.(http.Flusher)
		err := a.eachLine(ctx, in.ID, in.After, in.Follow, func(lines []landfall.LogLine) error {
			for _, l := range lines {
				data, err := json.Marshal(l)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", l.Seq, data); err != nil {
					return err
				}
			}
			if flusher != nil {
				flusher.Flush()
			}
			return nil
		})
		if err != nil {
			a.Logger.With(app.LogAttrs()...).With(run.LogAttrs()...).DebugContext(ctx, "a reader of a run's log left",
				"error", err)
		}
	}}, nil
}

// eachLine hands on the lines of a run's log, and with follow waits for more until the run is over.
func (a *api) eachLine(ctx context.Context, id string, after int64, follow bool,
	hand func([]landfall.LogLine) error) error {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	for {
		// The run before its log: lines that were there when it ended are then all seen.
		run, err := a.DB.Run(ctx, id)
		if err != nil {
			return err
		}
		for {
			lines, err := a.DB.Log(ctx, id, after, logPage)
			if err != nil {
				return err
			}
			if err := hand(lines); err != nil {
				return err
			}
			if len(lines) > 0 {
				after = lines[len(lines)-1].Seq
			}
			if len(lines) < logPage {
				break
			}
		}
		if a.Runs.View(ctx, run).State.Final() || !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *api) apply(ctx context.Context, in *struct {
	AppPath
	Body client.Apply
}) (*body[client.Applied], error) {
	app, err := a.app(ctx, in.App, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
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
			return landfall.Push{}, &landfall.Error{Op: "api", Kind: landfall.Invalid,
				Message: fmt.Sprintf("%q cannot be a branch", in.Branch)}
		}
	}
	return landfall.Push{
		App: app.ID, Source: landfall.FromApply, Ref: ref, After: in.Commit, Actor: actor,
		Apply: &landfall.ApplyRequest{Branch: in.Branch, Clean: in.Clean, NoRelease: in.NoRelease, Commit: in.Base},
	}, nil
}
