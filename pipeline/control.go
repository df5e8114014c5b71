package pipeline

import (
	"context"
	"fmt"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Cancel ends an unfinished run. Conflict when it is over.
func (p *Pipeline) Cancel(ctx context.Context, id, actor string) (landfall.Run, error) {
	err := p.DB.Update(ctx, func(tx *store.Tx) error {
		run, err := tx.Run(ctx, id)
		if err != nil {
			return err
		}
		if run.State.Final() {
			return &landfall.Error{Op: "pipeline.Cancel", Kind: landfall.Conflict, Message: fmt.Sprintf("the run is over: %s", run.State)}
		}
		app, err := tx.App(ctx, run.App)
		if err != nil {
			return err
		}
		run.State, run.Reason = landfall.RunCancelled, "Cancelled by "+actor
		return p.end(ctx, tx, app, run)
	})
	if err != nil {
		return landfall.Run{}, err
	}
	return p.DB.Run(ctx, id)
}

// Retry makes a new run of a commit whose run is over, and returns it. It moves the pointers of the references whose
// head the commit still is, and no others. With rebuild, build commands run again. Conflict while a run of the commit
// is unfinished.
func (p *Pipeline) Retry(ctx context.Context, id, actor string, rebuild bool) (landfall.Run, error) {
	var made string
	err := p.DB.Update(ctx, func(tx *store.Tx) error {
		run, err := tx.Run(ctx, id)
		if err != nil {
			return err
		}
		made, err = p.again(ctx, tx, run.App, retry{commit: run.Commit, actor: actor, rebuild: rebuild})
		return err
	})
	if err != nil {
		return landfall.Run{}, err
	}
	return p.DB.Run(ctx, made)
}

// retry asks for a new run of a commit that had one.
type retry struct {
	commit  landfall.CommitSHA
	actor   string
	rebuild bool
	expect  landfall.UID // the group version that the run must come to
}

// again makes a new run of a commit, wanted by the references whose head the commit is.
func (p *Pipeline) again(ctx context.Context, tx *store.Tx, appID string, r retry) (string, error) {
	app, err := tx.ActiveApp(ctx, appID)
	if err != nil {
		return "", err
	}
	runs, err := tx.RunsOfCommit(ctx, appID, r.commit)
	if err != nil {
		return "", err
	}
	var last landfall.Push
	for _, run := range runs {
		if !run.State.Final() {
			return "", &landfall.Error{Op: "pipeline.Retry", Kind: landfall.Conflict, Message: fmt.Sprintf("run %s of this commit is still %s", run.ID, run.State)}
		}
		refs, err := tx.RunRefs(ctx, run.ID)
		if err != nil {
			return "", err
		}
		for _, ref := range refs {
			if last, err = tx.Push(ctx, ref.Push); err != nil {
				return "", err
			}
		}
	}
	last.App, last.After, last.Actor, last.Accepted = appID, r.commit, r.actor, p.Now()
	a := acceptance{p: p, tx: tx, app: app, push: last}
	run, err := a.newRun(ctx)
	if err != nil {
		return "", err
	}
	run.State, run.Rebuild, run.Expect = landfall.RunQueued, r.rebuild, r.expect
	if r.expect != "" {
		run.UID = r.expect
	}
	if err := tx.CreateRun(ctx, run); err != nil {
		return "", err
	}
	heads, err := tx.Heads(ctx, appID)
	if err != nil {
		return "", err
	}
	for _, head := range heads {
		if head.SHA != r.commit || r.expect != "" {
			continue
		}
		push, err := tx.Push(ctx, head.Push)
		if err != nil {
			return "", err
		}
		if err := tx.AddRunRef(ctx, run.ID, push); err != nil {
			return "", err
		}
	}
	if last.Apply != nil && r.expect == "" {
		if err := tx.AddRunRef(ctx, run.ID, last); err != nil {
			return "", err
		}
	}
	if err := p.owe(ctx, tx, app, run, landfall.StatusPending, "Queued again by "+r.actor, ""); err != nil {
		return "", err
	}
	tx.Enqueue(topicRun, run.ID, time.Time{})
	return run.ID, nil
}

// Reach makes a group version reachable (again). When everything of it is stored still, that is done at once and run is
// empty; else a run stores it again, which fails unless it comes to the recorded digests.
func (p *Pipeline) Reach(ctx context.Context, app landfall.App, uid landfall.UID, actor string) (run string, err error) {
	err = p.DB.Update(ctx, func(tx *store.Tx) error {
		if app, err = tx.ActiveApp(ctx, app.ID); err != nil {
			return err
		}
		group, err := tx.Group(ctx, app.ID, uid)
		if err != nil {
			return err
		}
		whole, err := deploy.Whole(ctx, tx, group)
		if err != nil {
			return err
		}
		if !whole {
			commit, err := tx.CommitOf(ctx, app.ID, uid)
			if err != nil {
				return err
			}
			run, err = p.again(ctx, tx, app.ID, retry{commit: commit, actor: actor, expect: uid})
			return err
		}
		line, err := deploy.LineOf(ctx, tx, group)
		if err != nil {
			return err
		}
		if _, err := deploy.Create(ctx, tx, group, line, p.Now()); err != nil {
			return err
		}
		if _, err := deploy.ExpireSurplus(ctx, tx, app, p.Now()); err != nil {
			return err
		}
		deploy.CollectSoon(tx, app.ID)
		_, err = tx.Changed(ctx, app.ID)
		return err
	})
	if err == nil {
		p.Rollout.Show(ctx, app)
	}
	return run, err
}

// Preview is what a commit would come to: the diff, without anything being built, stored or moved.
type Preview struct {
	Changes  []landfall.UnitChange
	Complete bool                 // false when a build command would make files whose digests are not known before
	Files    *landfall.FileChange // of the commit as a whole, when it is not complete; nil when it cannot be known
	Log      []string
}

// DryRun plans a commit of the built-in remote without storing anything. Errors are those of a run.
func (p *Pipeline) DryRun(ctx context.Context, app landfall.App, push landfall.Push) (Preview, error) {
	hide, err := p.redactor(ctx, app, nil)
	if err != nil {
		return Preview{}, err
	}
	w := &worker{Pipeline: p, logger: p.Logger, app: app, run: landfall.Run{App: app.ID, Commit: push.After}, hide: hide}
	defer w.close()
	preview, err := w.dryRun(ctx, push)
	if err != nil {
		err = w.hidden(err)
	}
	return preview, err
}

func (w *worker) dryRun(ctx context.Context, push landfall.Push) (Preview, error) {
	remote, err := w.remote(ctx, w.app, []landfall.Push{push})
	if err != nil {
		return Preview{}, err
	}
	if w.mirror, err = w.Mirrors.Fetch(ctx, remote, push.Ref, push.After); err != nil {
		return Preview{}, err
	}
	if w.info, err = w.mirror.Commit(push.After); err != nil {
		return Preview{}, err
	}
	if err := w.read(ctx); err != nil {
		return Preview{}, err
	}
	if err := w.checkOwners(ctx); err != nil {
		return Preview{}, err
	}
	if err := w.pinSecrets(ctx, []landfall.Push{push}); err != nil {
		return Preview{}, err
	}
	if err := w.readBaseOf(ctx, []landfall.Push{push}); err != nil {
		return Preview{}, err
	}
	if w.builds() {
		files, err := w.previewCommit(ctx)
		return Preview{Files: files, Log: w.takeLog()}, err
	}
	if err := w.planUnits(ctx, w.files); err != nil {
		return Preview{}, err
	}
	if err := w.previewFiles(ctx); err != nil {
		return Preview{}, err
	}
	return Preview{Changes: w.changes, Complete: true, Log: w.takeLog()}, nil
}

// checkRecorded fails when a commit whose release was recorded comes to other digests: what builds it is not the same
// any more.
func checkRecorded(recorded []store.GroupUnit, units []versioning.Unit) error {
	was := make(map[landfall.UnitID]landfall.Digest, len(recorded))
	for _, u := range recorded {
		was[u.Unit] = u.Digest
	}
	for _, u := range units {
		if was[u.Unit] != u.Digest {
			return &landfall.Error{Op: "pipeline.commit", Kind: landfall.Conflict, Message: fmt.Sprintf(
				"%s comes out differently than when this release was made; push a new commit, or run retry --rebuild", u.Unit)}
		}
	}
	return nil
}
