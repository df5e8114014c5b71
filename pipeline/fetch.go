package pipeline

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/store"
)

// checkout is a commit in a mirror.
type checkout struct {
	*attempt

	mirror *builder.Mirror
	info   builder.CommitInfo
}

// fetch settles the place of the run's pushes among those of their references, and brings the commit into the mirror. What it returns
// is to be closed, also with an error.
func (w *attempt) fetch(ctx context.Context) (checkout, error) {
	pushes, err := w.pushes(ctx, w.DB)
	if err != nil {
		return checkout{}, err
	}
	if err := w.place(ctx, pushes); err != nil {
		return checkout{}, err
	}
	remote, err := w.Acceptor.Origin(ctx, w.app, pushes)
	if err != nil {
		return checkout{}, err
	}
	var ref landfall.RefName
	if len(pushes) > 0 {
		ref = pushes[len(pushes)-1].Ref
	}
	c := checkout{attempt: w}
	if c.mirror, err = w.Mirrors.Fetch(ctx, remote, ref, w.run.Commit); err != nil {
		return c, err
	}
	crashpoint.Here("fetch.fetched")
	if c.info, err = c.mirror.Commit(w.run.Commit); err != nil || w.app.Branch != "" || w.app.Repository == "" {
		return c, err
	}
	return c, w.learnBranch(ctx, remote)
}

// pushReader is what reading a run's pushes needs.
type pushReader interface {
	RunRefs(ctx context.Context, run string) ([]store.RunRef, error)
	Push(ctx context.Context, id int64) (landfall.Push, error)
}

// pushes returns the pushes that still want the run, oldest first.
func (w *attempt) pushes(ctx context.Context, r pushReader) ([]landfall.Push, error) {
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

// learnBranch takes the remote's HEAD as the production branch, which nobody set.
func (w *attempt) learnBranch(ctx context.Context, remote builder.Remote) error {
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

// place settles the place of pushes that wait for it.
func (w *attempt) place(ctx context.Context, pushes []landfall.Push) error {
	asked := map[landfall.RefName]bool{}
	for _, push := range pushes {
		if push.ConcurrentHead == 0 || asked[push.Ref] {
			continue
		}
		asked[push.Ref] = true
		if err := w.Acceptor.Place(ctx, push.App, push.Ref); err != nil {
			return err
		}
	}
	if len(asked) == 0 {
		return nil
	}
	return w.DB.Update(ctx, func(tx *store.Tx) error { return tx.Fence(ctx, w.run.ID, w.run.Attempt) }) // it may be superseded
}
