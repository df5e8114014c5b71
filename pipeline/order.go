package pipeline

import (
	"context"

	"landfall.dev/landfall"
)

// order of a push beside the head of its reference.
type order int

const (
	newer    order = iota // the head's successor
	repeated              // the reference is there already
	older                 // what the head came after
	unknown               // pushes between are missing: ancestry, or the forge itself, will tell
)

// order places the push by the chain of pushes: before → after.
func (a *acceptance) order(ctx context.Context) (order, error) {
	var err error
	if a.head, err = a.tx.Head(ctx, a.app.ID, a.push.Ref); err != nil {
		return newer, ignoreNotFound(err)
	}
	last, err := a.tx.Push(ctx, a.head.Push)
	if err != nil {
		return newer, err
	}
	switch {
	case a.head.SHA == a.push.After && (a.push.PullRequest != nil || a.push.Before == last.Before):
		return repeated, nil
	case a.head.SHA == a.push.Before && a.push.After == last.Before && last.PullRequest == nil:
		return a.orderOfReverse(ctx, last)
	case a.head.SHA == a.push.Before, a.head.SHA == a.push.After:
		return newer, nil
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

// orderByChain tells whether the head, or what led to it, started from where the push ends: then the push came before.
func (a *acceptance) orderByChain(ctx context.Context) (order, error) {
	for at, seen := a.push.After, map[landfall.CommitSHA]bool{}; !seen[at]; {
		seen[at] = true
		next, err := a.tx.NextPush(ctx, a.app.ID, a.push.Ref, at)
		if err != nil {
			return unknown, ignoreNotFound(err)
		}
		if next.ID == a.head.Push {
			return older, nil
		}
		at = next.After
	}
	return unknown, nil
}

// orderOfReverse places a push that goes from b to a beside a head that went from a to b: either may be the first. What
// the reference was before tells, if it is known.
func (a *acceptance) orderOfReverse(ctx context.Context, last landfall.Push) (order, error) {
	followed, err := a.came(ctx, last.Before, last.ID)
	if followed || err != nil {
		return newer, err // the head followed on what was there
	}
	missing, err := a.came(ctx, last.After, last.ID)
	switch {
	case err != nil:
		return newer, err
	case missing:
		return older, nil // between what was there and the head, this one was missing
	case last.Deleted():
		return unknown, nil // made and deleted, or deleted and made again
	}
	return newer, nil
}

// came reports whether a push before the one with the given ID had left the reference at sha.
func (a *acceptance) came(ctx context.Context, sha landfall.CommitSHA, before int64) (bool, error) {
	_, err := a.tx.PushTo(ctx, a.app.ID, a.push.Ref, sha, before)
	return err == nil, ignoreNotFound(err)
}
