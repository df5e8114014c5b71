package accept

import (
	"context"
	"slices"
	"time"

	"landfall.dev/landfall"
)

// order of a push beside the head of its reference.
type order int

const (
	newer    order = iota // the head's successor
	repeated              // the reference is there already
	older                 // what the head came after
	unknown               // what was heard proves nothing: the forge will tell
)

// order places the push: by what its reference names now where that is known, others by what was heard.
func (a *acceptance) order(ctx context.Context) (order, error) {
	head, err := a.tx.Head(ctx, a.app.ID, a.push.Ref)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return newer, err
	}
	a.head = head
	if a.currentRefs != nil {
		if now := a.currentRefs[a.push.Ref]; now != a.push.After {
			a.head.SHA = now // what another push of the reference came to, which was the last
			return older, nil
		}
		return newer, nil
	}
	if landfall.KindOf(err) == landfall.NotFound { // the first that was heard of
		a.verifyIf(a.push.Deleted())
		return newer, nil
	}
	placed, err := a.orderFromHistory(ctx)
	_, isTag := a.push.Ref.Tag()
	switch {
	case err != nil:
		return newer, err
	case a.push.Deleted(): // it has no run that could wait for its place
		a.verifyIf(placed != repeated)
		return placed.orNewer(), nil
	case isTag: // seldom moved, and an annotated tag came from a tag's object, which is no head
		a.verifyIf(placed == unknown)
		return placed.orNewer(), nil
	}
	return placed, nil
}

func (o order) orNewer() order {
	if o == unknown {
		return newer
	}
	return o
}

// verifyIf lets the forge be asked soon about the push's reference, when the push was taken at its word.
func (a *acceptance) verifyIf(doubtful bool) {
	if doubtful && a.app.Repository != "" {
		a.tx.Enqueue(TopicPlace, a.app.ID+" "+string(a.push.Ref), time.Time{})
	}
}

// orderFromHistory places the push by what was heard of its reference, where that is a proof. Pushes come in any order, more
// than once or not at all, and a reference may come back to where it was before. But whoever left a place and came to
// another one, over and over, is where they came to once more than they left.
func (a *acceptance) orderFromHistory(ctx context.Context) (order, error) {
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
	case a.head.SHA == a.push.After:
		return newer, nil
	case a.head.SHA == "":
		return unknown, nil // made again, or late news of before the deletion
	case a.head.SHA == a.push.Before && a.push.Deleted():
		return newer, nil
	case a.push.Deleted(): // of what the reference has left since, it is old; of what nobody heard of, it is news
		return orderIf(older)(a.reachedBefore(ctx, a.push.Before))
	case a.head.SHA == a.push.Before && len(waiting) > 0:
		return unknown, nil // one that waits for its place may be the newest
	case a.head.SHA == a.push.Before:
		return orderIf(newer)(a.tx.EndsAt(ctx, a.app.ID, a.push.Ref, a.push.After))
	}
	return orderIf(older)(a.precedesHead(ctx))
}

// orderIf returns a function that makes a proof of an order the order.
func orderIf(o order) func(proof bool, err error) (order, error) {
	return func(proof bool, err error) (order, error) {
		if proof {
			return o, err
		}
		return unknown, err
	}
}

// precedesHead reports whether the head came after the push: a chain of pushes leads from one to the other, and the reference
// ends there. A push from where nobody saw the reference, or one that rewrote history, may have come after all of them.
func (a *acceptance) precedesHead(ctx context.Context) (bool, error) {
	if a.push.Forced {
		return false, nil
	}
	if a.push.Before != "" {
		if came, err := a.reachedBefore(ctx, a.push.Before); !came {
			return false, err
		}
	}
	ends, err := a.tx.EndsAt(ctx, a.app.ID, a.push.Ref, a.head.SHA)
	if !ends {
		return false, err
	}
	for at, seen := a.push.After, map[landfall.CommitSHA]bool{}; !seen[at]; {
		if at == a.head.SHA {
			return true, nil
		}
		seen[at] = true
		next, err := a.tx.NextPush(ctx, a.app.ID, a.push.Ref, at)
		if err != nil {
			return false, landfall.Ignore(err, landfall.NotFound)
		}
		at = next.After
	}
	return false, nil
}

// reachedBefore reports whether a push before this one had left the reference at sha.
func (a *acceptance) reachedBefore(ctx context.Context, sha landfall.CommitSHA) (bool, error) {
	_, err := a.tx.PushTo(ctx, a.app.ID, a.push.Ref, sha, a.push.ID)
	return err == nil, landfall.Ignore(err, landfall.NotFound)
}
