package deploy

import (
	"context"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Surplus returns the accessible releases that exceed the number to keep. Each line is counted by itself. Releases with
// equal group digests count as one, which is as young as the newest of them, and they are kept or expired together. It
// never returns a release that is held, or the newest.
func Surplus(releases []landfall.Release, held map[landfall.UID]bool, keep int) []landfall.Release {
	var surplus []landfall.Release
	for _, line := range []landfall.Line{landfall.Production, landfall.Preview} {
		surplus = append(surplus, surplusOf(line, releases, held, keep)...)
	}
	return surplus
}

// sameContent is a set of releases that count as one.
type sameContent struct {
	releases []landfall.Release
	newest   time.Time
	held     bool
}

func surplusOf(line landfall.Line, releases []landfall.Release, held map[landfall.UID]bool,
	keep int) []landfall.Release {
	byDigest := map[landfall.Digest]*sameContent{}
	var sets []*sameContent
	for _, r := range releases {
		if r.Line != line {
			continue
		}
		s, ok := byDigest[r.Digest]
		if !ok {
			s = &sameContent{}
			byDigest[r.Digest] = s
			sets = append(sets, s)
		}
		s.releases = append(s.releases, r)
		s.held = s.held || held[r.ID]
		if r.Created.After(s.newest) {
			s.newest = r.Created
		}
	}
	slices.SortStableFunc(sets, func(a, b *sameContent) int { return a.newest.Compare(b.newest) })
	var surplus []landfall.Release
	excess := len(sets) - keep
	for i, s := range sets {
		if excess <= 0 {
			break
		}
		if newest := i == len(sets)-1; s.held || newest {
			continue
		}
		surplus = append(surplus, s.releases...)
		excess--
	}
	return surplus
}

// ExpireSurplus expires the releases of an app that exceed the number to keep, and returns them.
func ExpireSurplus(ctx context.Context, tx *store.Tx, app landfall.App, at time.Time) ([]landfall.Release, error) {
	releases, err := tx.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	held, err := heldReleases(ctx, tx, app, at)
	if err != nil {
		return nil, err
	}
	surplus := Surplus(releases, held, app.Policy.KeepOrDefault())
	for _, r := range surplus {
		r.Expired = at
		if err := tx.PutRelease(ctx, r); err != nil {
			return nil, err
		}
	}
	return surplus, nil
}

// heldReleases returns the releases that do not expire by themselves: the live one, the one that was live before it,
// that of a canary, and those that tags hold.
func heldReleases(ctx context.Context, tx *store.Tx, app landfall.App, at time.Time) (map[landfall.UID]bool, error) {
	held := map[landfall.UID]bool{app.Live: true}
	previous, err := Previous(ctx, tx, app)
	if err != nil {
		return nil, err
	}
	held[previous] = true
	running, err := tx.RunningReleaseCanary(ctx, app.ID)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return nil, err
	}
	held[running.Release] = true
	tags, err := tx.Tags(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range tags {
		branch, isBranch := t.Ref.Branch()
		if t.Kind == landfall.BranchTag && (at.Sub(t.Moved) > branchTagLife || (isBranch && branch == app.Branch)) {
			continue
		}
		held[t.Release] = true
	}
	return held, nil
}

// Expire makes a release answer 410. Repeating it is safe. Conflict when it is live, or a tag or a canary holds it.
func Expire(ctx context.Context, tx *store.Tx, app landfall.App, id landfall.UID, at time.Time) error {
	const op landfall.Op = "deploy.Expire"
	r, err := tx.Release(ctx, app.ID, id)
	if err != nil || !r.Expired.IsZero() {
		return err
	}
	if app.Live == id {
		return landfall.Errorf(op, landfall.Conflict,
			"release %s is live; make another live first: landfall release live %s RELEASE", id, app.Name)
	}
	running, err := tx.RunningReleaseCanary(ctx, app.ID)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	if err == nil && running.Release == id {
		return landfall.Errorf(op, landfall.Conflict,
			"a canary holds release %s; end it first: landfall release canary %s --stop", id, app.Name)
	}
	tags, err := tx.Tags(ctx, app.ID)
	if err != nil {
		return err
	}
	for _, t := range tags {
		if t.Release == id {
			return landfall.Errorf(op, landfall.Conflict,
				"the tag %q holds release %s; remove it first: landfall release untag %s %s", t.Name, id, app.Name, t.Name)
		}
	}
	r.Expired = at
	return tx.PutRelease(ctx, r)
}

// ExpireUnheld expires those of the given preview releases that nothing holds any more, after their branch was deleted
// or their pull request closed.
func ExpireUnheld(ctx context.Context, tx *store.Tx, app landfall.App, of func(landfall.Release) bool,
	at time.Time) error {
	releases, err := tx.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return err
	}
	held, err := heldReleases(ctx, tx, app, at)
	if err != nil {
		return err
	}
	for _, r := range releases {
		if r.Line != landfall.Preview || held[r.ID] || !of(r) {
			continue
		}
		r.Expired = at
		if err := tx.PutRelease(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
