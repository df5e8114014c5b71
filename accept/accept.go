package accept

import (
	"context"
	"fmt"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
)

// Accept stores a push and its consequences in the caller's transaction, and returns the run of its commit. There is no
// run when the push only removed something, or moved something that belongs to no release.
func (acceptor *Acceptor) Accept(ctx context.Context, tx *store.Tx, push landfall.Push) (run string, err error) {
	return acceptor.accept(ctx, tx, push, nil)
}

// accept is Accept for a push to the built-in remote; named is what the remote's references name now.
func (acceptor *Acceptor) accept(
	ctx context.Context, tx *store.Tx, push landfall.Push, named map[landfall.RefName]landfall.CommitSHA,
) (run string, err error) {
	app, err := tx.ActiveApp(ctx, push.App)
	if err != nil {
		return "", err
	}
	if app.OfNamespace() && (push.Apply == nil || len(push.Apply.Versions) == 0) {
		return "", landfall.Errorf("accept.Accept", landfall.Conflict,
			"%s is a namespace: its functions and packages are made by hand (landfall function version create)", app.Name)
	}
	push.Accepted = acceptor.Now()
	for _, sha := range []*landfall.CommitSHA{&push.Before, &push.After} {
		if sha.IsZero() {
			*sha = ""
		}
	}
	if push, err = tx.CreatePush(ctx, push); err != nil {
		return "", err
	}
	crashpoint.Here("accept.pushed")
	a := acceptance{by: acceptor, tx: tx, app: app, push: push, currentRefs: named}
	if branch := firstBranch(app, push); branch != "" {
		a.app.Branch = branch
		if err := tx.UpdateApp(ctx, a.app); err != nil {
			return "", err
		}
	}
	run, err = a.accept(ctx)
	crashpoint.Here("accept.stored")
	return run, err
}

// firstBranch returns the branch that becomes an app's production branch because it is the first that is pushed to the
// built-in remote.
func firstBranch(app landfall.App, push landfall.Push) string {
	if app.Branch != "" || app.Repository != "" || push.Deleted() {
		return ""
	}
	if push.Apply != nil {
		return push.Apply.Branch
	}
	if branch, ok := push.Ref.Branch(); ok {
		return branch
	}
	return ""
}

// acceptance is one push that is being stored.
type acceptance struct {
	by   *Acceptor
	tx   *store.Tx
	app  landfall.App
	push landfall.Push
	head store.Head // of the push's reference, before the push

	// currentRefs is what references of the built-in remote name now; nil for a push from another source.
	currentRefs map[landfall.RefName]landfall.CommitSHA
	position    order
}

func (a *acceptance) accept(ctx context.Context) (string, error) {
	if a.push.Source == landfall.FromApply {
		return a.assignRun(ctx)
	}
	if tag, ok := a.push.Ref.Tag(); ok && !a.push.Deleted() {
		if err := deploy.CheckTag(tag, deploy.TakenUID(ctx, a.tx, a.app.ID)); err != nil {
			return a.recordIgnored(ctx, landfall.MessageOf(err))
		}
	}
	order, err := a.order(ctx)
	if err != nil {
		return "", err
	}
	a.position = order
	switch {
	case order != newer && order != unknown && a.push.Deleted():
		return "", nil
	case order == repeated:
		return a.assignExistingRun(ctx)
	case order == older:
		return a.assignOlderRun(ctx)
	}
	if order == unknown && !a.push.Deleted() { // the push becomes the head only when it has its place, see place
		if err := a.tx.SetConcurrentHead(ctx, a.push.ID, a.head.Push); err != nil {
			return "", err
		}
		return a.assignRun(ctx)
	}
	if err := a.tx.SetHead(ctx, a.push); err != nil {
		return "", err
	}
	if err := a.by.withdrawOthers(ctx, a.tx, a.push); err != nil {
		return "", err
	}
	if a.push.Deleted() {
		return "", a.applyDeletion(ctx)
	}
	return a.assignRun(ctx)
}

// recordIgnored records why the push's reference gets no release, in the log of its commit's run or in a run of its
// own.
func (a *acceptance) recordIgnored(ctx context.Context, why string) (string, error) {
	if err := a.tx.SetHead(ctx, a.push); err != nil {
		return "", err
	}
	earlier, err := a.tx.RunsOfCommit(ctx, a.app.ID, a.push.After)
	if err != nil {
		return "", err
	}
	if len(earlier) == 0 {
		return a.createEnded(ctx, landfall.RunSkipped, why)
	}
	return earlier[0].ID, a.tx.AppendLog(ctx, earlier[0].ID, landfall.StepAccept, a.push.Accepted, "notice: "+why)
}

// assignRun gives the push the run of its commit: one that is not over, one that succeeded, or a new one.
func (a *acceptance) assignRun(ctx context.Context) (string, error) {
	earlier, err := a.tx.RunsOfCommit(ctx, a.app.ID, a.push.After)
	if err != nil {
		return "", err
	}
	for _, run := range earlier {
		if !run.State.Final() {
			return run.ID, a.tx.AddRunRef(ctx, run.ID, a.push)
		}
		if run.State != landfall.RunSucceeded || !a.joinable() {
			continue
		}
		joined, err := a.join(ctx, run)
		if joined || err != nil {
			return run.ID, err
		}
	}
	if reason := a.skipReason(); reason != "" {
		return a.createEnded(ctx, landfall.RunSkipped, reason)
	}
	return a.create(ctx)
}

// joinable reports whether an earlier run that succeeded serves this push. A private commit is its own. A push that
// waits for its place must not move pointers yet.
func (a *acceptance) joinable() bool {
	return a.position != unknown && (a.push.Apply == nil || a.push.Apply.Clean)
}

// join moves the push's pointers to what a succeeded run made. It reports false when that is gone.
func (a *acceptance) join(ctx context.Context, run landfall.Run) (bool, error) {
	group, err := a.tx.Group(ctx, a.app.ID, run.UID)
	if err != nil {
		return false, landfall.Ignore(err, landfall.NotFound)
	}
	release, err := a.tx.Release(ctx, a.app.ID, group.UID)
	noRelease := a.push.Apply != nil && a.push.Apply.NoRelease
	switch {
	case err != nil && landfall.KindOf(err) != landfall.NotFound:
		return false, err
	case err == nil && !release.Expired.IsZero() && a.mergesQueued(run):
		// the merge queue's group ended before its base branch was heard to have the commit
		whole, err := deploy.MakeReachable(ctx, a.tx, a.app, group, a.push.Accepted)
		if err != nil || !whole {
			return false, landfall.Ignore(err, landfall.Conflict)
		}
	case (err != nil || !release.Expired.IsZero()) && !noRelease:
		return false, nil
	}
	if complete, err := a.tx.GroupComplete(ctx, a.app.ID, group.UID); err != nil || !complete {
		return false, err
	}
	units, err := a.tx.GroupUnits(ctx, a.app.ID, group.UID)
	if err != nil {
		return false, err
	}
	if still, err := deploy.SecretsUnchanged(ctx, a.tx, a.app, units,
		deploy.LineOfPush(a.app, a.push)); err != nil || !still {
		return false, err
	}
	err = deploy.CheckRelease(ctx, a.tx, a.app, group.UID)
	if err == nil {
		err = deploy.CheckNewAliases(ctx, a.tx, a.app, units)
	}
	if err != nil {
		// a run of its own tells so
		return false, landfall.Ignore(landfall.Ignore(err, landfall.Conflict), landfall.Invalid)
	}
	if err := a.tx.AddRunRef(ctx, run.ID, a.push); err != nil {
		return false, err
	}
	u := deploy.RefUpdate{
		Tx: a.tx, App: &a.app, Group: group, Units: units, Release: !noRelease, ReleaseURL: a.by.Runs.ReleaseURL,
		Now: a.by.Now}
	if err := u.Point(ctx, a.push); err != nil {
		return false, err
	}
	_, notes, err := u.Settle(ctx)
	if err != nil {
		return false, err
	}
	return true, a.tx.AppendLog(ctx, run.ID, landfall.StepAccept, a.push.Accepted, notes...)
}

// mergesQueued reports whether the push brings the commit of a merge queue's run to the branch for which that was.
func (a *acceptance) mergesQueued(run landfall.Run) bool {
	branch, _ := a.push.Ref.Branch()
	base, queued := landfall.QueueBase(run.Branch)
	return queued && base == branch
}

// skipReason says why the push gets no release; empty when it gets one.
func (a *acceptance) skipReason() string {
	branch, ok := a.push.Ref.Branch()
	if base, queued := landfall.QueueBase(branch); queued {
		branch = base
	}
	if !ok || len(a.app.Policy.Branches) == 0 || branch == a.app.Branch || a.push.Apply != nil {
		return ""
	}
	if slices.ContainsFunc(a.app.Policy.Branches, func(glob string) bool {
		return doublestar.MatchUnvalidated(glob, branch)
	}) {
		return ""
	}
	return fmt.Sprintf("the branch %s gets no releases (release.branches)", branch)
}

// create makes a new run for the push's commit.
func (a *acceptance) create(ctx context.Context) (string, error) {
	run, err := runs.New(ctx, a.tx, a.app, a.push)
	if err != nil {
		return "", err
	}
	if err := a.by.Runs.Queue(ctx, a.tx, a.app, run, "Queued", a.push); err != nil {
		return "", err
	}
	return run.ID, a.askForPulls(ctx, run.ID)
}

// assignOlderRun gives a push that came late the run it would have had: a run that a newer push superseded.
func (a *acceptance) assignOlderRun(ctx context.Context) (string, error) {
	earlier, err := a.tx.RunsOfCommit(ctx, a.app.ID, a.push.After)
	if err != nil {
		return "", err
	}
	if len(earlier) > 0 {
		return earlier[0].ID, nil
	}
	id, err := a.createEnded(ctx, landfall.RunSuperseded, supersededBy(a.head.SHA))
	if err != nil {
		return "", err
	}
	_, err = a.tx.WithdrawRunRef(ctx, store.RunRef{Run: id, Push: a.push.ID}) // as if the newer one had come later
	return id, err
}

// assignExistingRun gives a push that moved nothing the run that its commit has, in whatever state: a commit is tried
// again only by a retry. Only the tag of a pull request that was opened since is moved.
func (a *acceptance) assignExistingRun(ctx context.Context) (string, error) {
	earlier, err := a.tx.RunsOfCommit(ctx, a.app.ID, a.push.After)
	if err != nil {
		return "", err
	}
	if len(earlier) == 0 || !earlier[0].State.Final() {
		return a.assignRun(ctx)
	}
	release, err := a.tx.Release(ctx, a.app.ID, earlier[0].Release)
	if err != nil || !release.Expired.IsZero() {
		return earlier[0].ID, landfall.Ignore(err, landfall.NotFound)
	}
	u := deploy.RefUpdate{Tx: a.tx, App: &a.app, Group: landfall.Group{UID: release.ID}}
	by := deploy.Mover{Actor: a.push.Actor, Reason: "push of " + a.push.After.Short(), At: a.push.Accepted}
	if err := u.PullTags(ctx, a.push, by); err != nil {
		return "", err
	}
	_, err = a.tx.Changed(ctx, a.app.ID)
	return earlier[0].ID, err
}

// createEnded makes a run that is over before it begins.
func (a *acceptance) createEnded(ctx context.Context, state landfall.RunState, reason string) (string, error) {
	run, err := runs.New(ctx, a.tx, a.app, a.push)
	if err != nil {
		return "", err
	}
	run.State = landfall.RunQueued
	if err := a.tx.CreateRun(ctx, run); err != nil {
		return "", err
	}
	if err := a.tx.AddRunRef(ctx, run.ID, a.push); err != nil {
		return "", err
	}
	run.State, run.Reason = state, reason
	return run.ID, a.by.Runs.End(ctx, a.tx, a.app, run)
}

// applyDeletion removes what the deleted reference held.
func (a *acceptance) applyDeletion(ctx context.Context) error {
	by := deploy.Mover{Actor: a.push.Actor, At: a.push.Accepted}
	if a.push.Ref.OfMergeQueue() {
		return a.endQueued(ctx)
	}
	if branch, ok := a.push.Ref.Branch(); ok {
		by.Reason = "branch deleted"
		return a.by.dropTag(ctx, a.tx, a.app, deploy.BranchTag(branch), by, func(r landfall.Release) bool {
			return r.Branch == branch
		})
	}
	tag, _ := a.push.Ref.Tag()
	held, err := a.tx.Tag(ctx, a.app.ID, tag)
	// there is none, or it was set by hand, or belongs to a branch or a pull request
	if err != nil || held.Ref != a.push.Ref {
		return landfall.Ignore(err, landfall.NotFound)
	}
	by.Reason = "git tag deleted"
	return a.by.dropTag(ctx, a.tx, a.app, tag, by, func(landfall.Release) bool { return false })
}

// endQueued expires the releases of a merge queue's group that nothing holds. Their content goes with the next
// collection, and not before: the base branch may get the very commit.
func (a *acceptance) endQueued(ctx context.Context) error {
	branch, _ := a.push.Ref.Branch()
	err := deploy.ExpireUnheld(ctx, a.tx, a.app, func(r landfall.Release) bool { return r.Branch == branch },
		a.push.Accepted)
	if err != nil {
		return err
	}
	_, err = a.tx.Changed(ctx, a.app.ID)
	return err
}

// dropTag removes a tag, and expires the preview releases that came with it and that nothing else holds.
func (acceptor *Acceptor) dropTag(ctx context.Context, tx *store.Tx, app landfall.App, name string, by deploy.Mover,
	with func(landfall.Release) bool) error {
	old, err := tx.Tag(ctx, app.ID, name)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	if _, err := deploy.RemoveTag(ctx, tx, app.ID, name, by); err != nil {
		return err
	}
	err = deploy.ExpireUnheld(ctx, tx, app, func(r landfall.Release) bool { return r.ID == old.Release || with(r) }, by.At)
	if err != nil {
		return err
	}
	deploy.CollectSoon(tx, app.ID)
	_, err = tx.Changed(ctx, app.ID)
	return err
}

// withdrawOthers withdraws the push's reference from the unfinished runs of older pushes, and supersedes the runs that
// no push wants any more. It does not touch pushes that wait for their place.
func (acceptor *Acceptor) withdrawOthers(ctx context.Context, tx *store.Tx, push landfall.Push) error {
	refs, err := tx.UnfinishedOfRef(ctx, push.App, push.Ref, push.ID)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		run, err := tx.Run(ctx, ref.Run)
		if err != nil {
			return err
		}
		if run.Commit == push.After {
			continue
		}
		left, err := tx.WithdrawRunRef(ctx, ref)
		if err != nil {
			return err
		}
		if left > 0 {
			continue
		}
		if err := acceptor.supersede(ctx, tx, run, push.After); err != nil {
			return err
		}
	}
	return nil
}

func (acceptor *Acceptor) supersede(ctx context.Context, tx *store.Tx, run landfall.Run, by landfall.CommitSHA) error {
	app, err := tx.App(ctx, run.App)
	if err != nil {
		return err
	}
	run.State, run.Reason = landfall.RunSuperseded, supersededBy(by)
	if _, queued := landfall.QueueBase(run.Branch); queued && by.IsZero() {
		run.Reason = "Superseded: the merge queue is done with it"
	}
	return acceptor.Runs.End(ctx, tx, app, run)
}

func supersededBy(sha landfall.CommitSHA) string {
	if sha.IsZero() {
		return "Superseded: the branch was deleted"
	}
	return "Superseded by " + sha.Short()
}
