package accept

import (
	"context"
	"fmt"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// askForPullsAfter is how long after a push the forge is asked for pull requests: it tells of most by itself.
const askForPullsAfter = 2 * time.Second

// askForPulls has the forge asked which pull requests a pushed commit belongs to, if a pull request may have been
// missed: one of a branch that was there before the push, and one that was merged when no delivery told of the push.
func (a *acceptance) askForPulls(ctx context.Context, run string) error {
	branch, isBranch := a.push.Ref.Branch()
	missed := a.push.Delivery == ""
	switch {
	case a.push.Source != landfall.FromWebhook, a.push.PullRequest != nil, !isBranch, a.push.Ref.OfMergeQueue(),
		a.app.GitHub.ID == 0, !missed && (branch == a.app.Branch || a.push.Before == ""):
		return nil
	}
	if reports, err := a.by.Runs.Reports(ctx, a.tx); err != nil || !reports {
		return err
	}
	return a.tx.AskForPulls(ctx, landfall.PullQuestion{App: a.app.ID, Commit: a.push.After, Ref: a.push.Ref, Run: run,
		NextAt: a.push.Accepted.Add(askForPullsAfter)})
}

// PullQuestions is the store's queue of questions for pull requests, without those that the store answers by now.
type PullQuestions struct {
	store.PullQuestions

	Acceptor *Acceptor
}

// Due returns what the store's Due does, without the questions that need no request any more; these end.
func (p PullQuestions) Due(ctx context.Context, now time.Time, limit int) ([]landfall.PullQuestion, error) {
	for {
		due, err := p.PullQuestions.Due(ctx, now, limit)
		if err != nil {
			return nil, err
		}
		answered := 0
		for _, q := range due {
			known, err := p.isKnown(ctx, q)
			if err == nil && known {
				answered++
				err = p.Drop(ctx, q)
			}
			if err != nil {
				return nil, err
			}
		}
		if answered == 0 {
			return due, nil
		}
	}
}

// isKnown reports whether a question need not be asked: its app is gone, its branch has another head since, the pull
// request was told of, or none can be closed by the push to the production branch.
func (p PullQuestions) isKnown(ctx context.Context, q landfall.PullQuestion) (bool, error) {
	app, err := p.DB.App(ctx, q.App)
	if err != nil || !app.Deleted.IsZero() || app.Stopped() {
		return true, landfall.Ignore(err, landfall.NotFound)
	}
	head, err := p.DB.Head(ctx, q.App, q.Ref)
	if err != nil || head.SHA != q.Commit {
		return true, landfall.Ignore(err, landfall.NotFound)
	}
	if branch, _ := q.Ref.Branch(); branch == app.Branch {
		open, err := p.DB.OpenPullsInto(ctx, app.ID, branch)
		return open == 0, err
	}
	pulls, err := p.DB.PullRequestsAt(ctx, q.App, q.Commit)
	return len(pulls) > 0, err
}

// Drop gives up a question.
func (p PullQuestions) Drop(ctx context.Context, q landfall.PullQuestion) error {
	return p.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error { return tx.EndPullQuestion(ctx, q) })
}

// Answer takes what the forge says of a commit as if deliveries had told of it: an open pull request of the branch is
// opened here, too, and one that is open here and was merged is closed. Forks have to be told of.
func (p PullQuestions) Answer(ctx context.Context, q landfall.PullQuestion, pulls []landfall.FoundPull) error {
	var app landfall.App
	changed := false
	err := p.DB.UpdateAsLeader(ctx, func(tx *store.Tx) (err error) {
		if err := tx.EndPullQuestion(ctx, q); err != nil {
			return err
		}
		if app, err = tx.ActiveApp(ctx, q.App); err != nil {
			return landfall.Ignore(err, landfall.NotFound)
		}
		for _, pull := range pulls {
			if err := p.take(ctx, tx, app, q, pull); err != nil {
				return err
			}
		}
		changed = tx.HasChanged(app.ID)
		return nil
	})
	if err == nil && changed {
		p.Acceptor.Rollout.Refresh(ctx, app)
	}
	return err
}

// take takes one pull request.
func (p PullQuestions) take(ctx context.Context, tx *store.Tx, app landfall.App, q landfall.PullQuestion,
	pull landfall.FoundPull) error {
	known, err := tx.PullRequest(ctx, app.ID, pull.Number)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	opens := !pull.Closed && pull.Head == q.Ref && pull.Commit == q.Commit
	closes := pull.Merged && known.Open
	if pull.Fork || !opens && !closes {
		return nil
	}
	event := webhook.PullRequest{PullRequest: pull.PullRequest, Head: pull.Head, Commit: pull.Commit, Actor: pull.Author,
		Merged: pull.Merged, At: pull.At}
	receiver := WebhookReceiver{Acceptor: p.Acceptor}
	if _, err := receiver.pullRequest(ctx, tx, app, event, webhook.Event{}); err != nil {
		return err
	}
	says := fmt.Sprintf("notice: no delivery told of pull request %d; GitHub names it for this commit", pull.Number)
	return tx.AppendLog(ctx, q.Run, landfall.StepAccept, p.Acceptor.Now(), says)
}
