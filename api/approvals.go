package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
)

// WaitingPath names a run that waits for approval, by its id or by its commit.
type WaitingPath struct {
	ID string `path:"id" doc:"of the run, or 7 or more digits of its commit"`
}

// find returns a run and its app. By its commit it finds a run that waits, in the apps that the token may change.
func (p WaitingPath) find(ctx context.Context, a *api, scope landfall.Scope) (ownRun, error) {
	run, err := RunPath(p).find(ctx, a, scope)
	if !landfall.Is(err, landfall.NotFound) {
		return run, err
	}
	found, other := runs.Waiting(ctx, visible{a.DB, scope}, "", p.ID, 0)
	if landfall.Is(other, landfall.Invalid) {
		return run, err // it is no commit either
	}
	if other != nil {
		return run, other
	}
	return RunPath{ID: found.ID}.find(ctx, a, scope)
}

// visible are the runs of the apps on which a caller has a scope.
type visible struct {
	*store.DB

	scope landfall.Scope
}

// WaitingRuns returns those of the store that the caller of ctx may change.
func (v visible) WaitingRuns(ctx context.Context, app, commit string) ([]landfall.Run, error) {
	all, err := v.DB.WaitingRuns(ctx, app, commit)
	var own []landfall.Run
	for _, run := range all {
		if caller(ctx).Allows(v.scope, run.App) {
			own = append(own, run)
		}
	}
	return own, err
}

func (a *api) registerApprovals(h huma.API) {
	registerOn(a, h, deploying("approve-run", http.MethodPost, "/runs/{id}/approve",
		"Approve the commit of a fork: it is built and gets a release"), a.approveRun)
	registerOn(a, h, deploying("decline-run", http.MethodPost, "/runs/{id}/decline",
		"Decline the commit of a fork: it is not built"), a.declineRun)
}

// ways are what the record of an approval says of the ways through the API.
func ways() map[string]string {
	return map[string]string{"api": "the API", "cli": "landfall run approve", "page": "the page of the run"}
}

func (a *api) approveRun(ctx context.Context, of ownRun, in *struct {
	WaitingPath
	Via string `query:"via" enum:"api,cli,page" default:"api" doc:"for the record: with what it is approved"`
}) (*body[client.Run], error) {
	return a.decide(ctx, of, func(ctx context.Context, tx *store.Tx) error {
		return a.Runs.Approve(ctx, tx, of.ID, landfall.Approval{By: caller(ctx).Name, Via: ways()[in.Via]})
	})
}

func (a *api) declineRun(ctx context.Context, of ownRun, in *struct {
	WaitingPath
	Body client.Decline
}) (*body[client.Run], error) {
	return a.decide(ctx, of, func(ctx context.Context, tx *store.Tx) error {
		return a.Runs.Decline(ctx, tx, of.ID, caller(ctx).Name, in.Body.Reason)
	})
}

// decide does something in one transaction, and shows the run after it.
func (a *api) decide(ctx context.Context, of ownRun, do func(context.Context, *store.Tx) error) (*body[client.Run],
	error) {
	if err := a.DB.Update(ctx, func(tx *store.Tx) error { return do(ctx, tx) }); err != nil {
		return nil, err
	}
	run, err := a.DB.Run(ctx, of.ID)
	return answer(a.runOf(ctx, run, of.app.Name), err)
}
