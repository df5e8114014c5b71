package accept

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Reconcile accepts what the built-in remote's repositories have and the store does not: pushes whose references moved
// before the process was killed, and which were not stored. It also applies deletions from that time. It leaves out,
// until later, an app whose repository cannot be read or never had the commits that were accepted last.
func (acceptor *Acceptor) Reconcile(ctx context.Context) error {
	apps, err := acceptor.DB.Apps(ctx)
	if err != nil {
		return err
	}
	for _, app := range apps {
		if !app.Deleted.IsZero() || app.Repository != "" {
			continue
		}
		if err := acceptor.reconcileApp(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

// retryReadAfter is when a repository that could not be read is read again.
const retryReadAfter = time.Minute

// RetryUnrecorded accepts the pushes that could not be stored when the store failed.
func (acceptor *Acceptor) RetryUnrecorded(ctx context.Context) error {
	var errs []error
	acceptor.unrecorded.Range(func(id, since any) bool {
		if since, ok := since.(time.Time); ok && acceptor.Now().Before(since) {
			return true
		}
		acceptor.unrecorded.Delete(id) // deleted before reading: a push that comes meanwhile is read next time
		app, err := acceptor.DB.App(ctx, fmt.Sprint(id))
		if err == nil {
			err = acceptor.reconcileApp(ctx, app)
		}
		if err = landfall.Ignore(err, landfall.NotFound); err != nil { // an app may have been deleted meanwhile
			acceptor.unrecorded.Store(id, acceptor.Now())
			errs = append(errs, err)
		}
		return true
	})
	return errors.Join(errs...)
}

// deferApp goes on without an app whose repository could not be read, and has it read again later. A repository that
// does not exist has nothing to accept: it was never pushed to, or is gone, which deletes no branch. Canceled when ctx
// ended.
func (acceptor *Acceptor) deferApp(ctx context.Context, app landfall.App, err error) error {
	if ctx.Err() != nil {
		return &landfall.Error{Op: "accept.Reconcile", Kind: landfall.Canceled, Err: ctx.Err()}
	}
	if landfall.KindOf(err) != landfall.NotFound {
		acceptor.Logger.With(app.LogAttrs()...).ErrorContext(ctx,
			"the repository is left out: what moved in it was not accepted",
			"repository", acceptor.Remote.Path(app.ID), "error", err)
		// git may have failed for lack of memory or disk space
		acceptor.unrecorded.LoadOrStore(app.ID, acceptor.Now().Add(retryReadAfter))
	}
	return nil
}

// checkCopy fails when the repository never had the commits that were accepted last: then it is an older copy of the
// right one, and nothing has moved in it since.
func (acceptor *Acceptor) checkCopy(ctx context.Context, app landfall.App, refs []landfall.RefName,
	known map[landfall.RefName]store.Head) error {
	var accepted []landfall.CommitSHA
	for _, ref := range refs {
		if sha := known[ref].SHA; !sha.IsZero() {
			accepted = append(accepted, sha)
		}
	}
	lacks, err := acceptor.Remote.Lacks(ctx, app.ID, accepted)
	if err != nil || len(lacks) == 0 {
		return err
	}
	return landfall.Errorf("accept.Reconcile", landfall.Internal,
		"the repository lacks %s, which was accepted: it is an older copy; "+
			"bring the newer one back, or push its branches again from a clone", lacks[0].Short())
}

func (acceptor *Acceptor) reconcileApp(ctx context.Context, app landfall.App) error {
	// The store is read first, so a push that is accepted meanwhile appears in the store's next answer, and is not
	// undone.
	heads, err := acceptor.DB.Heads(ctx, app.ID)
	if err != nil {
		return err
	}
	found, err := acceptor.Remote.Heads(ctx, app.ID)
	if err != nil {
		return acceptor.deferApp(ctx, app, err)
	}
	known := make(map[landfall.RefName]store.Head, len(heads))
	for _, h := range heads {
		known[h.Ref] = h
		if _, ok := found[h.Ref]; !ok && !h.SHA.IsZero() {
			found[h.Ref] = ""
		}
	}
	var refs []landfall.RefName
	for ref, sha := range found {
		if was := known[ref].SHA; was != sha && (!was.IsZero() || !sha.IsZero()) &&
			!strings.HasPrefix(string(ref), landfall.ApplyPrefix) {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b landfall.RefName) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	if len(refs) == 0 {
		return nil
	}
	if err := acceptor.checkCopy(ctx, app, refs, known); err != nil {
		return acceptor.deferApp(ctx, app, err)
	}
	acceptor.Logger.With(app.LogAttrs()...).InfoContext(ctx,
		"accepting pushes that moved references before they were stored", "references", refs)
	var pushes []acceptedPush
	err = acceptor.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		pushes = nil
		for _, ref := range refs {
			head, err := tx.Head(ctx, app.ID, ref)
			if err != nil && landfall.KindOf(err) != landfall.NotFound {
				return err
			}
			if head.Push != known[ref].Push {
				continue // a push was accepted meanwhile
			}
			push := landfall.Push{
				App: app.ID, Source: landfall.FromRemote, Ref: ref, Before: head.SHA, After: found[ref], Actor: "git"}
			run, err := acceptor.accept(ctx, tx, push, found)
			if err != nil {
				return err
			}
			pushes = append(pushes, acceptedPush{app, push, run})
		}
		return nil
	})
	if err == nil {
		acceptor.logAccepted(ctx, pushes)
	}
	return err
}
