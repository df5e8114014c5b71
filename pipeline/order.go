package pipeline

import (
	"context"
	"errors"
	"slices"

	"landfall.dev/landfall"
)

// order of a push beside the head of its reference.
type order int

const (
	newer    order = iota // the head's successor
	repeated              // the reference is there already
	older                 // what the head came after
	unknown               // pushes between are missing: ancestry, or the forge itself, will tell, once the commit is here
)

// order places the push: one to the built-in remote by what its reference names now, others by the chain of pushes,
// before → after.
func (a *acceptance) order(ctx context.Context) (order, error) {
	head, err := a.tx.Head(ctx, a.app.ID, a.push.Ref)
	if ignoreNotFound(err) != nil {
		return newer, err
	}
	a.head = head
	if a.named != nil {
		if now := a.named[a.push.Ref]; now != a.push.After {
			a.head.SHA = now // what another push of the reference came to, which was the last
			return older, nil
		}
		return newer, nil
	}
	if err != nil {
		return newer, ignoreNotFound(err)
	}
	last, err := a.tx.Push(ctx, a.head.Push)
	if err != nil {
		return newer, err
	}
	waiting, err := a.tx.Unplaced(ctx, a.app.ID, a.push.Ref)
	if err != nil {
		return newer, err
	}
	switch {
	case slices.ContainsFunc(waiting, func(w landfall.Push) bool { return w.Before == a.push.Before && w.After == a.push.After }):
		return unknown, nil // told again: it will have the same place
	case a.head.SHA == a.push.After && (a.push.PullRequest != nil || a.push.Before == last.Before):
		return repeated, nil
	case a.head.SHA == a.push.Before && a.push.After == last.Before && last.PullRequest == nil:
		return a.orderOfReverse(ctx)
	case a.head.SHA == a.push.After:
		return newer, nil
	case a.head.SHA == a.push.Before:
		return a.orderOfNext(ctx, waiting)
	case a.push.Deleted():
		// A deletion of what the reference has left since is old; of what nobody heard of, it is news.
		left, err := a.came(ctx, a.push.Before, a.push.ID)
		if left {
			return older, err
		}
		return unknown, err
	}
	placed, err := a.orderByChain(ctx)
	if _, isTag := a.push.Ref.Tag(); isTag && placed == unknown {
		// An annotated tag came from a tag's object, which is no head, and a tag may be moved back: ancestry says nothing.
		return newer, err
	}
	return placed, err
}

// orderOfNext places a push that follows the head. What comes after it may be here already, and wait for its place: that is
// the head then. Beside others that wait, nothing is certain.
func (a *acceptance) orderOfNext(ctx context.Context, waiting []landfall.Push) (order, error) {
	if len(waiting) == 0 || a.push.Deleted() {
		return newer, nil
	}
	for _, next := range waiting {
		if next.Before == a.push.After {
			a.head.Push, a.head.SHA = next.ID, next.After
			return older, errors.Join(a.tx.SetBeside(ctx, next.ID, 0), a.tx.SetHead(ctx, next), a.p.withdrawOthers(ctx, a.tx, next))
		}
	}
	return unknown, nil
}

// orderByChain tells whether the head, a push that waits for its place, or what led to one of them, started from where the
// push ends: then the push came before.
func (a *acceptance) orderByChain(ctx context.Context) (order, error) {
	for at, seen := a.push.After, map[landfall.CommitSHA]bool{}; !seen[at]; {
		seen[at] = true
		next, err := a.tx.NextPush(ctx, a.app.ID, a.push.Ref, at)
		if err != nil {
			return unknown, ignoreNotFound(err)
		}
		if next.ID == a.head.Push || next.Beside != 0 {
			a.head.Push, a.head.SHA = next.ID, next.After
			return older, nil
		}
		at = next.After
	}
	return unknown, nil
}

// orderOfReverse places a push that goes from b to a beside a head that went from a to b: either may be the last. A
// reference that was pushed there and back is where it came to more often than it left.
func (a *acceptance) orderOfReverse(ctx context.Context) (order, error) {
	here, err := a.tx.Visits(ctx, a.app.ID, a.push.Ref, a.push.After)
	if err != nil {
		return unknown, err
	}
	there, err := a.tx.Visits(ctx, a.app.ID, a.push.Ref, a.push.Before)
	switch {
	case here > 0 && there <= 0:
		return newer, err
	case there > 0 && here <= 0:
		return older, err
	}
	return unknown, err // pushes are missing, or were told twice
}

// came reports whether a push before the one with the given ID had left the reference at sha.
func (a *acceptance) came(ctx context.Context, sha landfall.CommitSHA, before int64) (bool, error) {
	_, err := a.tx.PushTo(ctx, a.app.ID, a.push.Ref, sha, before)
	return err == nil, ignoreNotFound(err)
}
