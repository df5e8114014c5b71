package deploy

import (
	"context"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// applyReader is what telling lines apart reads; the database and its transactions have it.
type applyReader interface {
	AppliesOf(ctx context.Context, app string, group landfall.UID) ([]landfall.Apply, error)
}

// LineOf tells which line a group version belongs to: production if an apply of production had it.
func LineOf(ctx context.Context, r applyReader, g landfall.Group) (landfall.Line, error) {
	applies, err := r.AppliesOf(ctx, g.App, g.UID)
	if err != nil {
		return "", err
	}
	for _, a := range applies {
		if a.Line == landfall.Production {
			return landfall.Production, nil
		}
	}
	return landfall.Preview, nil
}

// WantsRelease reports whether a push asks for more than versions.
func WantsRelease(p landfall.Push) bool { return p.Apply == nil || !p.Apply.NoRelease }

// isComplete reports whether every version of a group version exists with its content.
func isComplete(ctx context.Context, tx *store.Tx, g landfall.Group) (bool, error) {
	complete, err := tx.GroupComplete(ctx, g.App, g.UID)
	if err != nil || !complete {
		return false, err
	}
	units, err := tx.GroupUnits(ctx, g.App, g.UID)
	if err != nil {
		return false, err
	}
	for _, u := range units {
		if u.Unit.Kind != landfall.StaticUnit {
			continue
		}
		v, err := tx.VersionByNumber(ctx, u.UnitID, u.Number)
		if err != nil || v.Content == nil {
			return false, err
		}
	}
	return true, nil
}

// MakeReachable makes a group version reachable, or reachable again, unless something of it is not stored any more: then it does nothing, and
// reports false.
func MakeReachable(ctx context.Context, tx *store.Tx, app landfall.App, g landfall.Group, at time.Time) (bool, error) {
	if complete, err := isComplete(ctx, tx, g); err != nil || !complete {
		return false, err
	}
	line, err := LineOf(ctx, tx, g)
	if err != nil {
		return false, err
	}
	if _, err := Create(ctx, tx, g, line, at); err != nil {
		return false, err
	}
	if _, err := ExpireSurplus(ctx, tx, app, at); err != nil {
		return false, err
	}
	CollectSoon(tx, app.ID)
	_, err = tx.Changed(ctx, app.ID)
	return true, err
}

// RandomUID returns a UID that nothing of an app has.
func RandomUID(ctx context.Context, tx *store.Tx, app string) (landfall.UID, error) {
	return tx.FreeUID(ctx, app, "", func(int) landfall.UID { return landfall.NewUID() })
}

// TopicCollect is the topic of the jobs that collect what nothing holds any more of an app, whose ID the job has.
const TopicCollect = "keep/collect"

// CollectSoon rings for a collection of an app once the transaction is committed: something was let go in it. A collection that is at
// work may have looked already, so this is a job of its own.
func CollectSoon(tx *store.Tx, appID string) {
	tx.Enqueue(TopicCollect, appID, time.Time{})
}
