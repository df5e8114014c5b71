package accept

import (
	"context"
	"slices"
	"time"

	"landfall.dev/landfall"
)

// order says where a push stands relative to the head of its reference.
type order int

const (
	newer    order = iota // the push came after the head
	repeated              // the reference is there already
	older                 // the head came after the push
	unknown               // the known pushes prove nothing: the forge must be asked
)

// order orders the push: by what its reference names now if that is known, otherwise by the known pushes.
func (a *acceptance) order(ctx context.Context) (order, error) {
	head, err := a.tx.Head(ctx, a.app.ID, a.push.Ref)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return newer, err
	}
	a.head = head
	if a.currentRefs != nil {
		if now := a.currentRefs[a.push.Ref]; now != a.push.After {
			a.head.SHA = now // the result of another push of the reference, which was the last
			return older, nil
		}
		return newer, nil
	}
	if landfall.KindOf(err) == landfall.NotFound { // this is the first known push
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
	case isTag: // tags seldom move, and Before of an annotated tag is a tag object, which is no head
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

// verifyIf makes the job that asks the forge about the push's reference soon, when the order of the push is doubtful.
func (a *acceptance) verifyIf(doubtful bool) {
	if doubtful && a.app.Repository != "" {
		a.tx.Enqueue(TopicPlace, a.app.ID+" "+string(a.push.Ref), time.Time{})
	}
}

// orderFromHistory orders the push by the known pushes of its reference, if they prove the order. Pushes come in any
// order, more than once or not at all, and a reference may come back to an earlier commit. But a reference is at the
// commit to which it came once more than it left.
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
	case slices.ContainsFunc(waiting, func(w landfall.Push) bool {
		return w.Before == a.push.Before && w.After == a.push.After
	}):
		return unknown, nil // reported again: it will get the same place
	case a.head.SHA == a.push.After && (a.push.PullRequest != nil || a.push.Before == last.Before):
		return repeated, nil
	case a.head.SHA == a.push.After:
		return newer, nil
	case a.head.SHA == "":
		return unknown, nil // pushed again, or a late report from before the deletion
	case a.head.SHA == a.push.Before && a.push.Deleted():
		return newer, nil
	// a deletion from a commit that the reference has left since is old; one from an unknown commit is new
	case a.push.Deleted():
		return orderIf(older)(a.reachedBefore(ctx, a.push.Before))
	case a.head.SHA == a.push.Before && len(waiting) > 0:
		return unknown, nil // a push that waits for its place may be the newest
	case a.head.SHA == a.push.Before:
		return orderIf(newer)(a.tx.EndsAt(ctx, a.app.ID, a.push.Ref, a.push.After))
	}
	return orderIf(older)(a.precedesHead(ctx))
}

// orderIf returns a function that returns the order o if there is a proof of it.
func orderIf(o order) func(proof bool, err error) (order, error) {
	return func(proof bool, err error) (order, error) {
		if proof {
			return o, err
		}
		return unknown, err
	}
}

// precedesHead reports whether the head came after the push: a chain of pushes leads from the push to the head, and the
// reference ends there. A push from an unknown commit, or one that rewrote history, may have come after all of them.
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

// reachedBefore reports whether a push before this one left the reference at sha.
func (a *acceptance) reachedBefore(ctx context.Context, sha landfall.CommitSHA) (bool, error) {
	_, err := a.tx.PushTo(ctx, a.app.ID, a.push.Ref, sha, a.push.ID)
	return err == nil, landfall.Ignore(err, landfall.NotFound)
}
