package accept

import (
	"context"
	"errors"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Place finds out where a reference of an external repository is, by asking the forge. It is called when the known
// pushes do not prove their order. After that the waiting pushes have their place, and a missing push is made up for.
func (acceptor *Acceptor) Place(ctx context.Context, appID string, ref landfall.RefName) error {
	var app landfall.App
	for placed := false; !placed; {
		// The store is read first: a push that is accepted meanwhile may be newer than the forge's answer, which is
		// then asked for again.
		head, err := acceptor.DB.Head(ctx, appID, ref)
		if err != nil {
			return err
		}
		waiting, err := acceptor.DB.Unplaced(ctx, appID, ref)
		if err != nil {
			return err
		}
		if app, err = acceptor.DB.App(ctx, appID); err != nil {
			return err
		}
		remote, err := acceptor.Origin(ctx, app, nil)
		if err != nil {
			return err
		}
		named, _, err := acceptor.ask(ctx, remote)
		if err != nil {
			return err
		}
		err = acceptor.DB.Update(ctx, func(tx *store.Tx) error {
			now, err := tx.Head(ctx, appID, ref)
			if placed = err == nil && now == head; !placed {
				return err
			}
			return acceptor.placeAll(ctx, tx, appID, head, waiting, named)
		})
		if err != nil {
			return err
		}
	}
	acceptor.Rollout.Refresh(ctx, app)
	return nil
}

// placeAll gives waiting pushes, newest first, their place: the one that ends at the commit which the reference names
// is the head. If neither it nor the head does, that push was lost, or will still be reported.
func (acceptor *Acceptor) placeAll(
	ctx context.Context, tx *store.Tx, appID string, head store.Head, waiting []landfall.Push,
	named map[landfall.RefName]landfall.CommitSHA,
) error {
	last, err := tx.Push(ctx, head.Push)
	if err != nil {
		return err
	}
	for _, push := range slices.Backward(waiting) {
		if err := tx.SetConcurrentHead(ctx, push.ID, 0); err != nil {
			return err
		}
		if push.After == named[head.Ref] {
			last = push
		}
	}
	if last.After != named[head.Ref] {
		_, err := acceptor.accept(ctx, tx, landfall.Push{
			App: appID, Source: landfall.FromWebhook, Ref: head.Ref, Before: head.SHA, After: named[head.Ref], Actor: "forge"},
			named)
		return err
	}
	return errors.Join(tx.SetHead(ctx, last), acceptor.withdrawOthers(ctx, tx, last))
}
