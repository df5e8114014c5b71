package pipeline

import (
	"context"
	"errors"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// fetch settles the place of the run's pushes among those of their references, and brings the commit into the mirror.
func (w *worker) fetch(ctx context.Context) error {
	pushes, err := w.pushes(ctx, w.DB)
	if err != nil {
		return err
	}
	if err := w.place(ctx, pushes); err != nil {
		return err
	}
	remote, err := w.remote(ctx, w.app, pushes)
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
		return w.learnBranch(ctx, remote)
	}
	return nil
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

// remote says where the commit of an app's pushes comes from.
func (p *Pipeline) remote(ctx context.Context, app landfall.App, pushes []landfall.Push) (builder.Remote, error) {
	remote := builder.Remote{Namespace: app.Namespace, URL: app.Repository}
	local := app.Repository == ""
	for _, push := range pushes {
		local = local || push.Apply != nil
	}
	if local && p.Elsewhere != nil {
		remote.URL, remote.Password = p.Elsewhere.URL(app.Name), p.Elsewhere.Password
		return remote, nil
	}
	if local {
		remote.Local = p.Remote.Path(app.ID)
		return remote, nil
	}
	credentials, err := p.DB.Credentials(ctx, app.ID)
	remote.Username, remote.Password = credentials.Username, secret.Text(credentials.Password)
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

// place settles the place of pushes that wait for it.
func (w *worker) place(ctx context.Context, pushes []landfall.Push) error {
	asked := map[landfall.RefName]bool{}
	for _, push := range pushes {
		if push.Beside == 0 || asked[push.Ref] {
			continue
		}
		asked[push.Ref] = true
		if err := w.Place(ctx, push.App, push.Ref); err != nil {
			return err
		}
	}
	if len(asked) == 0 {
		return nil
	}
	return w.DB.Update(ctx, func(tx *store.Tx) error { return tx.Fence(ctx, w.run.ID, w.run.Attempt) }) // it may be superseded
}

// Place settles where a reference of a repository elsewhere is: where the forge says. It is asked when what was heard does
// not prove the order of the pushes. Those that wait for their place have it then, and what nobody told is made good.
func (p *Pipeline) Place(ctx context.Context, appID string, ref landfall.RefName) error {
	var app landfall.App
	for placed := false; !placed; {
		// The store first: a push that is accepted meanwhile may be newer than the forge's answer, which is then asked for again.
		head, err := p.DB.Head(ctx, appID, ref)
		if err != nil {
			return err
		}
		waiting, err := p.DB.Unplaced(ctx, appID, ref)
		if err != nil {
			return err
		}
		if app, err = p.DB.App(ctx, appID); err != nil {
			return err
		}
		remote, err := p.remote(ctx, app, nil)
		if err != nil {
			return err
		}
		named, _, err := p.Mirrors.Heads(ctx, remote)
		if err != nil {
			return err
		}
		err = p.DB.Update(ctx, func(tx *store.Tx) error {
			now, err := tx.Head(ctx, appID, ref)
			if placed = err == nil && now == head; !placed {
				return err
			}
			return p.placeAll(ctx, tx, appID, head, waiting, named)
		})
		if err != nil {
			return err
		}
	}
	p.Rollout.Refresh(ctx, app)
	return nil
}

// placeAll gives pushes that wait, newest first, their place: the one that came to what the reference names is the head. If
// none did, and the head neither, then that push was lost, or will be told.
func (p *Pipeline) placeAll(
	ctx context.Context, tx *store.Tx, appID string, head store.Head, waiting []landfall.Push, named map[landfall.RefName]landfall.CommitSHA,
) error {
	last, err := tx.Push(ctx, head.Push)
	if err != nil {
		return err
	}
	for _, push := range slices.Backward(waiting) {
		if err := tx.SetBeside(ctx, push.ID, 0); err != nil {
			return err
		}
		if push.After == named[head.Ref] {
			last = push
		}
	}
	if last.After != named[head.Ref] {
		_, err := p.accept(ctx, tx, landfall.Push{
			App: appID, Source: landfall.FromWebhook, Ref: head.Ref, Before: head.SHA, After: named[head.Ref], Actor: "forge"}, named)
		return err
	}
	return errors.Join(tx.SetHead(ctx, last), p.withdrawOthers(ctx, tx, last))
}
