package pipeline

import (
	"context"
	"errors"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/store"
)

// fetch brings the run's commit into the mirror, and settles its place among the pushes of its references.
func (w *worker) fetch(ctx context.Context) error {
	pushes, err := w.pushes(ctx, w.DB)
	if err != nil {
		return err
	}
	remote, err := w.remote(ctx, pushes)
	if err != nil {
		return err
	}
	var ref landfall.RefName
	if len(pushes) > 0 {
		ref = pushes[len(pushes)-1].Ref
	}
	if w.mirror, err = w.Mirrors.Fetch(ctx, remote, ref, w.run.Commit); err != nil {
		return err
	}
	crashpoint.Here("fetch.fetched")
	if w.info, err = w.mirror.Commit(w.run.Commit); err != nil {
		return err
	}
	if w.app.Branch == "" && w.app.Repository != "" {
		if err := w.learnBranch(ctx, remote); err != nil {
			return err
		}
	}
	return w.place(ctx, pushes)
}

// pushReader is what reading a run's pushes needs.
type pushReader interface {
	RunRefs(ctx context.Context, run string) ([]store.RunRef, error)
	Push(ctx context.Context, id int64) (landfall.Push, error)
}

// pushes returns the pushes that still want the run, oldest first.
func (w *worker) pushes(ctx context.Context, r pushReader) ([]landfall.Push, error) {
	refs, err := r.RunRefs(ctx, w.run.ID)
	if err != nil {
		return nil, err
	}
	var pushes []landfall.Push
	for _, ref := range refs {
		if ref.Withdrawn {
			continue
		}
		push, err := r.Push(ctx, ref.Push)
		if err != nil {
			return nil, err
		}
		pushes = append(pushes, push)
	}
	return pushes, nil
}

// remote says where the run's commit comes from.
func (w *worker) remote(ctx context.Context, pushes []landfall.Push) (builder.Remote, error) {
	remote := builder.Remote{Namespace: w.app.Namespace, URL: w.app.Repository}
	local := w.app.Repository == ""
	for _, push := range pushes {
		local = local || push.Apply != nil
	}
	if local {
		remote.Local = w.Remote.Path(w.app.ID)
		return remote, nil
	}
	credentials, err := w.DB.Credentials(ctx, w.app.ID)
	remote.Username, remote.Password = credentials.Username, builder.Secret(credentials.Password)
	return remote, err
}

// learnBranch takes the remote's HEAD as the production branch, which nobody set.
func (w *worker) learnBranch(ctx context.Context, remote builder.Remote) error {
	_, head, err := w.Mirrors.Heads(ctx, remote)
	if err != nil {
		return err
	}
	branch, ok := head.Branch()
	if !ok {
		return nil
	}
	return w.DB.Update(ctx, func(tx *store.Tx) error {
		if w.app, err = tx.App(ctx, w.app.ID); err != nil || w.app.Branch != "" {
			return err
		}
		w.app.Branch = branch
		return tx.UpdateApp(ctx, w.app)
	})
}

// place settles whether a push that the chain of pushes could not place is newer than the head of its reference, and than
// others that wait for their place: the one whose commit another one descends from is older; among strangers the one that
// was accepted last is newer.
func (w *worker) place(ctx context.Context, pushes []landfall.Push) error {
	for _, push := range pushes {
		for push.Beside != 0 {
			head, err := w.DB.Head(ctx, push.App, push.Ref)
			if err != nil {
				return err
			}
			newest, err := w.newest(ctx, push, head)
			if err != nil {
				return err
			}
			err = w.DB.Update(ctx, func(tx *store.Tx) error {
				push, err = w.decide(ctx, tx, push.ID, head, newest)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// newest returns the push itself, or one that it is older than: the head, or one that waits for its place.
func (w *worker) newest(ctx context.Context, push landfall.Push, head store.Head) (landfall.Push, error) {
	last, err := w.DB.Push(ctx, head.Push)
	if err != nil {
		return push, err
	}
	waiting, err := w.DB.Unplaced(ctx, push.App, push.Ref)
	if err != nil {
		return push, err
	}
	for _, other := range append([]landfall.Push{last}, waiting...) {
		if other.ID == push.ID {
			continue
		}
		if older, err := w.isOlder(ctx, push, other); older || err != nil {
			return other, err
		}
	}
	return push, nil
}

// isOlder reports whether a push came before another one. Beside a deletion, and beside a push that goes the same way in
// the other direction, what the forge has now tells.
func (w *worker) isOlder(ctx context.Context, push, other landfall.Push) (bool, error) {
	switch {
	case other.Deleted(), other.Before == push.After && other.After == push.Before:
		remote, err := w.remote(ctx, []landfall.Push{push})
		if err != nil {
			return false, err
		}
		heads, _, err := w.Mirrors.Heads(ctx, remote)
		return heads[push.Ref] == other.After, err
	case other.After == push.After:
		return false, nil
	}
	older, err := w.mirror.IsAncestor(ctx, push.After, other.After)
	return older, ignoreNotFound(err)
}

// decide stores the place of a push: the newest is the head. It returns the push, and stores nothing when there is another
// head than it was compared with, or the push has its place.
func (w *worker) decide(ctx context.Context, tx *store.Tx, id int64, compared store.Head, newest landfall.Push) (landfall.Push, error) {
	if err := tx.Fence(ctx, w.run.ID, w.run.Attempt); err != nil {
		return landfall.Push{}, err
	}
	push, err := tx.Push(ctx, id)
	if err != nil || push.Beside == 0 {
		return push, err
	}
	head, err := tx.Head(ctx, push.App, push.Ref)
	if err != nil || head != compared {
		return push, err
	}
	push.Beside = 0
	if err := tx.SetBeside(ctx, push.ID, 0); err != nil {
		return push, err
	}
	if newest.ID == push.ID {
		return push, errors.Join(tx.SetHead(ctx, push), w.withdrawOthers(ctx, tx, push))
	}
	left, err := tx.WithdrawRunRef(ctx, store.RunRef{Run: w.run.ID, Push: push.ID})
	if err != nil || left > 0 {
		return push, err
	}
	return push, w.supersede(ctx, tx, w.run, newest.After)
}
