package pipeline

import (
	"context"
	"slices"
	"strings"

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

// fetch finds the place of the run's pushes among those of their references, and brings the commit into the mirror. The
// caller closes the result, even with an error.
func (a *attempt) fetch(ctx context.Context) (checkout, error) {
	pushes, err := a.pushes(ctx, a.DB)
	if err != nil {
		return checkout{}, err
	}
	if err := a.place(ctx, pushes); err != nil {
		return checkout{}, err
	}
	remote, err := a.Acceptor.Origin(ctx, a.app, pushes)
	if err != nil {
		return checkout{}, err
	}
	var ref landfall.RefName
	if len(pushes) > 0 {
		ref = pushes[len(pushes)-1].Ref
	}
	c := checkout{attempt: a}
	if c.mirror, err = a.Mirrors.FetchSince(ctx, remote, ref, a.run.Commit, a.run.Ready()); err != nil {
		return c, err
	}
	crashpoint.Here("fetch.fetched")
	if c.info, err = c.mirror.Commit(a.run.Commit); err != nil {
		return c, err
	}
	if a.app.Branch == "" && a.app.Repository != "" {
		if err := a.learnBranch(ctx, remote); err != nil {
			return c, err
		}
	}
	if c.skips(pushes) {
		return c, &skipError{"the commit's message has " + skipWords + " (landfall run retry --rebuild runs it all the same)"}
	}
	return c, nil
}

// skips reports whether the commit's message says that its pushes want no release.
func (c checkout) skips(pushes []landfall.Push) bool {
	applied := slices.ContainsFunc(pushes, func(p landfall.Push) bool { return p.Apply != nil })
	return !applied && !c.run.Rebuild && strings.Contains(strings.ToLower(c.info.Text), skipWords)
}

// skipWords, anywhere in a commit's message, say that its push wants no release.
const skipWords = "[skip landfall]"

// pushReader is what is needed to read a run's pushes.
type pushReader interface {
	RunRefs(ctx context.Context, run string) ([]store.RunRef, error)
	Push(ctx context.Context, id int64) (landfall.Push, error)
}

// pushes returns the pushes that still want the run, oldest first.
func (a *attempt) pushes(ctx context.Context, r pushReader) ([]landfall.Push, error) {
	refs, err := r.RunRefs(ctx, a.run.ID)
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

// learnBranch takes the remote's HEAD as the production branch when nobody has set one.
func (a *attempt) learnBranch(ctx context.Context, remote builder.Remote) error {
	_, head, err := a.Mirrors.Heads(ctx, remote)
	if err != nil {
		return err
	}
	branch, ok := head.Branch()
	if !ok {
		return nil
	}
	return a.DB.Update(ctx, func(tx *store.Tx) error {
		if a.app, err = tx.App(ctx, a.app.ID); err != nil || a.app.Branch != "" {
			return err
		}
		a.app.Branch, a.app.BranchFound = branch, true
		return tx.UpdateApp(ctx, a.app)
	})
}

// place finds the place of pushes that wait for it.
func (a *attempt) place(ctx context.Context, pushes []landfall.Push) error {
	asked := map[landfall.RefName]bool{}
	for _, push := range pushes {
		if push.ConcurrentHead == 0 || asked[push.Ref] {
			continue
		}
		asked[push.Ref] = true
		if err := a.Acceptor.Place(ctx, push.App, push.Ref); err != nil {
			return err
		}
	}
	if len(asked) == 0 {
		return nil
	}
	// the run may be superseded
	return a.DB.Update(ctx, func(tx *store.Tx) error { return tx.Fence(ctx, a.run.ID, a.run.Attempt) })
}
