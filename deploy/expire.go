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
	holds, err := Holds(ctx, tx, app, at)
	if err != nil {
		return nil, err
	}
	surplus := Surplus(releases, holds.held(), app.Policy.KeepOrDefault())
	if app.OfNamespace() { // nobody goes back to triggers that were replaced by hand
		surplus = slices.DeleteFunc(releases, func(r landfall.Release) bool { return r.ID == app.Live })
	}
	for _, r := range surplus {
		r.Expired = at
		if err := tx.PutRelease(ctx, r); err != nil {
			return nil, err
		}
	}
	return surplus, nil
}

// HoldReasons says for each release that does not expire by itself why not.
type HoldReasons map[landfall.UID][]string

// holdReader is what Holds needs; the database and its transactions have it.
type holdReader interface {
	moveReader
	Tags(ctx context.Context, app string) ([]landfall.Tag, error)
	RunningReleaseCanary(ctx context.Context, app string) (landfall.ReleaseCanary, error)
}

// Holds returns why releases do not expire by themselves: the live one, the one that was live before it, that
// of a canary, and those that tags hold.
func Holds(ctx context.Context, r holdReader, app landfall.App, at time.Time) (HoldReasons, error) {
	held := HoldReasons{}
	add := func(uid landfall.UID, why string) { held[uid] = append(held[uid], why) }
	add(app.Live, landfall.LivePointer)
	previous, err := Previous(ctx, r, app)
	if err != nil {
		return nil, err
	}
	add(previous, "live before")
	running, err := r.RunningReleaseCanary(ctx, app.ID)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return nil, err
	}
	add(running.Release, "a canary")
	tags, err := r.Tags(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range tags {
		branch, isBranch := t.Ref.Branch()
		if t.Kind == landfall.BranchTag && (at.Sub(t.Moved) > branchTagLife || (isBranch && branch == app.Branch)) {
			continue
		}
		why := "tag " + t.Name
		if t.Kind == landfall.BranchTag {
			why += " until " + t.Moved.Add(branchTagLife).UTC().Format(time.DateOnly)
		}
		add(t.Release, why)
	}
	delete(held, "")
	return held, nil
}

func (h HoldReasons) held() map[landfall.UID]bool {
	held := make(map[landfall.UID]bool, len(h))
	for uid := range h {
		held[uid] = true
	}
	return held
}

// ExpiresAfter returns for each accessible release that nothing holds how many more releases of its line, with content
// of their own, can be made before it expires; 0: it expires with the next one, or the next collection.
func ExpiresAfter(releases []landfall.Release, holds HoldReasons, keep int) map[landfall.UID]int {
	after := map[landfall.UID]int{}
	for more := 0; more <= keep; more++ {
		for _, r := range Surplus(releases, holds.held(), keep-more) {
			if _, known := after[r.ID]; !known {
				after[r.ID] = max(more-1, 0)
			}
		}
	}
	return after
}

// Expire makes a release answer 410. Repeating it is safe. Conflict when it is live, or a tag or a canary holds it.
func Expire(ctx context.Context, tx *store.Tx, app landfall.App, id landfall.UID, at time.Time) error {
	r, err := tx.Release(ctx, app.ID, id)
	if err != nil || !r.Expired.IsZero() {
		return err
	}
	if err := CheckExpire(ctx, tx, app, id); err != nil {
		return err
	}
	r.Expired = at
	return tx.PutRelease(ctx, r)
}

// CheckExpire fails with Conflict when a release is live, or a tag or a canary holds it, so that it cannot expire.
func CheckExpire(ctx context.Context, r holdReader, app landfall.App, id landfall.UID) error {
	const op landfall.Op = "deploy.Expire"
	if app.Live == id {
		return landfall.Errorf(op, landfall.Conflict,
			"release %s is live; make another live first: landfall release live %s RELEASE", id, app.Name)
	}
	running, err := r.RunningReleaseCanary(ctx, app.ID)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	if err == nil && running.Release == id {
		return landfall.Errorf(op, landfall.Conflict,
			"a canary holds release %s; end it first: landfall release canary %s --stop", id, app.Name)
	}
	tags, err := r.Tags(ctx, app.ID)
	if err != nil {
		return err
	}
	for _, t := range tags {
		if t.Release == id {
			return landfall.Errorf(op, landfall.Conflict,
				"the tag %q holds release %s; remove it first: landfall release untag %s %s", t.Name, id, app.Name, t.Name)
		}
	}
	return nil
}

// ExpireUnheld expires those of the given preview releases that nothing holds any more, after their branch was deleted
// or their pull request closed.
func ExpireUnheld(ctx context.Context, tx *store.Tx, app landfall.App, of func(landfall.Release) bool,
	at time.Time) error {
	releases, err := tx.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return err
	}
	holds, err := Holds(ctx, tx, app, at)
	if err != nil {
		return err
	}
	for _, r := range releases {
		if r.Line != landfall.Preview || len(holds[r.ID]) > 0 || !of(r) {
			continue
		}
		r.Expired = at
		if err := tx.PutRelease(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
