package runs

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// Retry makes a new run of a commit whose run is over, and returns it. It moves the pointers of the references whose
// head is still the commit, and no others. With rebuild, build commands run again. Conflict while a run of the commit
// is unfinished.
func (r *Runs) Retry(ctx context.Context, id, actor string, rebuild bool) (landfall.Run, error) {
	var made string
	err := r.DB.Update(ctx, func(tx *store.Tx) (err error) {
		made, err = r.RetryIn(ctx, tx, id, actor, rebuild)
		return err
	})
	if err != nil {
		return landfall.Run{}, err
	}
	return r.DB.Run(ctx, made)
}

// RetryIn is Retry in the caller's transaction, and returns the ID of the new run.
func (r *Runs) RetryIn(ctx context.Context, tx *store.Tx, id, actor string, rebuild bool) (made string, err error) {
	run, err := tx.Run(ctx, id)
	if err != nil {
		return "", err
	}
	return r.rerun(ctx, tx, run.App, retry{of: run, commit: run.Commit, actor: actor, rebuild: rebuild})
}

// retry is a request for a new run of a commit that had one.
type retry struct {
	of      landfall.Run // zero: it is made for a group version
	commit  landfall.CommitSHA
	actor   string
	rebuild bool
	expect  landfall.UID // the group version that must be the result of the run
}

// rerun makes a new run of a commit for the references whose head is the commit.
func (r *Runs) rerun(ctx context.Context, tx *store.Tx, appID string, of retry) (string, error) {
	app, err := tx.ActiveApp(ctx, appID)
	if err != nil {
		return "", err
	}
	last, err := lastPush(ctx, tx, appID, of.commit, of.of.Fork)
	if err != nil {
		return "", err
	}
	if last.OfFork() {
		return r.rerunFork(ctx, tx, app, last, of)
	}
	last.App, last.After, last.Actor, last.Accepted = appID, of.commit, of.actor, r.Now()
	run, err := New(ctx, tx, app, last)
	if err != nil {
		return "", err
	}
	run.Rebuild, run.Expect = of.rebuild, of.expect
	var pushes []landfall.Push
	if of.expect != "" {
		run.UID = of.expect
	} else if pushes, err = pushesAtHead(ctx, tx, appID, of.commit); err != nil {
		return "", err
	} else if last.Apply != nil {
		pushes = append(pushes, last)
	}
	return run.ID, r.Queue(ctx, tx, app, run, "Queued again by "+of.actor, pushes...)
}

// lastPush returns the newest push of the runs of a commit. Conflict while one of them is unfinished.
func lastPush(ctx context.Context, tx *store.Tx, appID string, commit landfall.CommitSHA,
	fork int) (last landfall.Push, err error) {
	runs, err := tx.RunsOfFork(ctx, appID, commit, fork)
	if err != nil {
		return last, err
	}
	for _, run := range runs {
		if !run.State.Final() {
			return last, landfall.Errorf("runs.Retry", landfall.Conflict, "run %s of this commit is still %s", run.ID, run.State)
		}
		refs, err := tx.RunRefs(ctx, run.ID)
		if err != nil {
			return last, err
		}
		for _, ref := range refs {
			if last, err = tx.Push(ctx, ref.Push); err != nil {
				return last, err
			}
		}
	}
	return last, nil
}

// pushesAtHead returns the pushes of the references whose head is a commit.
func pushesAtHead(ctx context.Context, tx *store.Tx, appID string, commit landfall.CommitSHA) ([]landfall.Push, error) {
	heads, err := tx.Heads(ctx, appID)
	if err != nil {
		return nil, err
	}
	var pushes []landfall.Push
	for _, head := range heads {
		if head.SHA != commit {
			continue
		}
		push, err := tx.Push(ctx, head.Push)
		if err != nil {
			return nil, err
		}
		pushes = append(pushes, push)
	}
	return pushes, nil
}

// MakeReachable makes a group version reachable, or reachable again. When all of it is still stored, it does so at once
// and run is empty. Otherwise a run stores it again, and fails unless the digests are the recorded ones.
func (r *Runs) MakeReachable(ctx context.Context, app landfall.App, uid landfall.UID, actor string) (run string,
	err error) {
	err = r.DB.Update(ctx, func(tx *store.Tx) error {
		if app, err = tx.ActiveApp(ctx, app.ID); err != nil {
			return err
		}
		group, err := tx.Group(ctx, app.ID, uid)
		if err != nil {
			return err
		}
		whole, err := deploy.MakeReachable(ctx, tx, app, group, r.Now())
		if err != nil || whole {
			return err
		}
		if group.Fork != 0 {
			return landfall.Errorf("runs.MakeReachable", landfall.Conflict, "%s was made of the fork of pull request %d, and "+
				"is not stored whole any more: a push to the pull request makes it again, once that is approved", uid, group.Fork)
		}
		commit, err := tx.CommitOf(ctx, app.ID, uid)
		if err != nil {
			return err
		}
		run, err = r.rerun(ctx, tx, app.ID, retry{commit: commit, actor: actor, expect: uid})
		return err
	})
	if err == nil {
		r.Rollout.Show(ctx, app)
	}
	return run, err
}
