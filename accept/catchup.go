package accept

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/store"
)

// CatchUpEvery is how often each repository at a forge is looked at: GitHub, for one, does not deliver again what could
// not be delivered.
const CatchUpEvery = 5 * time.Minute

// WakeCatchUp makes a job for each repository at a forge that apps have, all of them within the given time. A
// repository whose last job of the same round is not over gets none. A start begins a round: the jobs that a process
// had when it was killed count as running for a long time.
func (acceptor *Acceptor) WakeCatchUp(ctx context.Context, round int64, within time.Duration) error {
	return acceptor.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		apps, err := tx.Apps(ctx)
		if err != nil {
			return err
		}
		var repositories []string
		for _, app := range apps {
			if app.Repository != "" && app.Deleted.IsZero() && !slices.Contains(repositories, app.Repository) {
				repositories = append(repositories, app.Repository)
			}
		}
		for i, repository := range repositories {
			var at time.Time
			if within > 0 {
				at = acceptor.Now().Add(within * time.Duration(i) / time.Duration(len(repositories)))
			}
			tx.EnqueueOnceAt(TopicLook, repository, round, at)
		}
		return nil
	})
}

// CatchUp accepts the pushes to an app's repository of which no delivery told: where a branch or tag is elsewhere than
// the last push left it or, if none was told of, than it was at the first look. The first look accepts nothing else. A
// delivery that comes later finds its push made. That a repository cannot be looked at is recorded, and is no error.
func (acceptor *Acceptor) CatchUp(ctx context.Context, appID string) error {
	app, err := acceptor.DB.App(ctx, appID)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	return acceptor.catchUp(ctx, []landfall.App{app})
}

// CatchUpRepository is CatchUp for all apps of a repository. The forge is asked once for those that have the same
// credentials.
func (acceptor *Acceptor) CatchUpRepository(ctx context.Context, repository string) error {
	apps, err := acceptor.DB.Apps(ctx)
	if err != nil {
		return err
	}
	return acceptor.catchUp(ctx, slices.DeleteFunc(apps, func(app landfall.App) bool {
		return app.Repository != repository
	}))
}

func (acceptor *Acceptor) catchUp(ctx context.Context, apps []landfall.App) error {
	var errs []error
	lookers := map[builder.Remote][]looker{}
	for _, app := range apps {
		if app.Repository == "" || !app.Deleted.IsZero() || app.Stopped() {
			continue
		}
		// The store is read first: a push that is accepted meanwhile is seen by its head.
		heads, err := acceptor.DB.Heads(ctx, app.ID)
		if err != nil {
			return err
		}
		remote, err := acceptor.Origin(ctx, app, nil)
		if err != nil {
			errs = append(errs, acceptor.looked(ctx, app, err))
			continue
		}
		remote.Namespace = "" // what a forge says is the same in all
		lookers[remote] = append(lookers[remote], looker{app: app, heads: heads})
	}
	for remote, all := range lookers {
		errs = append(errs, acceptor.lookAt(ctx, remote, all))
	}
	return errors.Join(errs...)
}

// looker is an app that looks at its repository.
type looker struct {
	app   landfall.App
	heads []store.Head // where its references were known to be before
}

// lookAt asks the forge where the references of a repository are, and accepts what apps have missed.
func (acceptor *Acceptor) lookAt(ctx context.Context, remote builder.Remote, all []looker) error {
	errs := make([]error, len(all))
	named, head, err := acceptor.ask(ctx, remote)
	if err != nil {
		for i, l := range all {
			errs[i] = acceptor.looked(ctx, l.app, err)
		}
		return errors.Join(errs...)
	}
	var accepts []func(context.Context, *store.Tx) error
	came := make([][]acceptedPush, len(all))
	for i, l := range all {
		accepts = append(accepts, func(ctx context.Context, tx *store.Tx) (err error) {
			if err := followHead(ctx, tx, l.app, named, head); err != nil {
				return err
			}
			came[i], err = acceptor.acceptMissed(ctx, tx, l.app, l.heads, named)
			return err
		})
	}
	for i, err := range acceptor.DB.UpdateTogether(ctx, accepts...) {
		if err != nil {
			errs[i] = err
			continue
		}
		l := all[i]
		errs[i] = acceptor.looked(ctx, l.app, nil)
		if len(came[i]) > 0 {
			acceptor.logAccepted(ctx, came[i])
			acceptor.Rollout.Refresh(ctx, l.app)
		}
	}
	return errors.Join(errs...)
}

// DefaultForgeLimit is how long a forge has to say where the references of a repository are.
const DefaultForgeLimit = time.Minute

// ask returns where the references of a repository are, and which branch is its default. Unavailable when the forge
// does not say so in time.
func (acceptor *Acceptor) ask(ctx context.Context, r builder.Remote) (named map[landfall.RefName]landfall.CommitSHA,
	head landfall.RefName, err error) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(acceptor.ForgeLimit, DefaultForgeLimit))
	defer cancel()
	return acceptor.Mirrors.Heads(limited, r)
}

// acceptMissed accepts the pushes that lead from where an app's references were known to be, before the repository was
// asked, to where it has them.
func (acceptor *Acceptor) acceptMissed(ctx context.Context, tx *store.Tx, app landfall.App, heads []store.Head,
	named map[landfall.RefName]landfall.CommitSHA) (pushes []acceptedPush, err error) {
	seen, looked, err := tx.SeenRefs(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	if !looked {
		seen = named
		if err := tx.AddSeenRefs(ctx, app.ID, named); err != nil {
			return nil, err
		}
	}
	for _, push := range missed(heads, seen, named) {
		push.App = app.ID
		doubtful, err := acceptor.doubtful(ctx, tx, heads, push)
		if err != nil {
			return nil, err
		}
		if doubtful {
			continue
		}
		run, err := acceptor.accept(ctx, tx, push, named)
		if err == nil && run != "" {
			err = tx.AppendLog(ctx, run, landfall.StepAccept, acceptor.Now(),
				"notice: recovered: no delivery told of this push; it was found in the repository")
		}
		if err != nil {
			return nil, err
		}
		pushes = append(pushes, acceptedPush{app, push, run})
	}
	return pushes, nil
}

// settles is how long a forge may show where a reference was before the last push.
const settles = time.Minute

// doubtful reports whether a push is to be found at the next look, if it was one: another push of its reference was
// accepted meanwhile, or so short a time ago that the forge may show the time before it.
func (acceptor *Acceptor) doubtful(ctx context.Context, tx *store.Tx, heads []store.Head, push landfall.Push) (bool,
	error) {
	now, err := tx.Head(ctx, push.App, push.Ref)
	if landfall.Is(err, landfall.NotFound) {
		return false, nil
	}
	if err != nil || !slices.Contains(heads, now) {
		return true, err
	}
	last, err := tx.Push(ctx, now.Push)
	if err != nil || acceptor.Now().Sub(last.Accepted) > settles {
		return false, err
	}
	if push.Deleted() {
		return true, nil
	}
	_, err = tx.PushTo(ctx, push.App, push.Ref, push.After, now.Push)
	return err == nil, landfall.Ignore(err, landfall.NotFound)
}

// missed returns the pushes that lead from where references were known to be to where they are.
func missed(heads []store.Head, seen, named map[landfall.RefName]landfall.CommitSHA) (pushes []landfall.Push) {
	add := func(ref landfall.RefName, before, after landfall.CommitSHA) {
		if before != after {
			pushes = append(pushes, landfall.Push{Source: landfall.FromWebhook, Ref: ref, Before: before, After: after,
				Actor: "forge"})
		}
	}
	told := map[landfall.RefName]bool{}
	for _, head := range heads {
		told[head.Ref] = true
		if head.SHA.IsZero() {
			head.SHA = ""
		}
		add(head.Ref, head.SHA, named[head.Ref])
	}
	for ref, sha := range named {
		if !told[ref] {
			add(ref, seen[ref], sha)
		}
	}
	slices.SortFunc(pushes, func(a, b landfall.Push) int {
		return cmp.Or(cmp.Compare(rank(a.Ref), rank(b.Ref)), cmp.Compare(a.Ref, b.Ref))
	})
	return pushes
}
