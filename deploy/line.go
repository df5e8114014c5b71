package deploy

import (
	"context"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// applyReader is what is needed to tell lines apart; the database and its transactions have it.
type applyReader interface {
	AppliesOf(ctx context.Context, app string, group landfall.UID) ([]landfall.Apply, error)
}

// LineOf returns the line to which a group version belongs: production if an apply of production had it.
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
	gone, err := missing(ctx, tx, g)
	return len(gone) == 0, err
}

// missing returns the units of a group version whose versions do not exist any more, or lack their files.
func missing(ctx context.Context, tx *store.Tx, g landfall.Group) (gone []string, err error) {
	units, err := tx.GroupUnits(ctx, g.App, g.UID)
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		v, err := tx.VersionByNumber(ctx, u.UnitID, u.Number)
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return nil, err
		}
		if err != nil || u.Unit.Kind == landfall.StaticUnit && v.Content == nil {
			gone = append(gone, u.Unit.String())
		}
	}
	return gone, nil
}

// MakeReachable makes a group version reachable, or reachable again. When a part of it is not stored any more, it does
// nothing and reports false.
func MakeReachable(ctx context.Context, tx *store.Tx, app landfall.App, g landfall.Group, at time.Time) (bool, error) {
	if complete, err := isComplete(ctx, tx, g); err != nil || !complete {
		return false, err
	}
	budget, err := NewBudget(ctx, tx, app)
	if err != nil {
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
	if err := budget.Check(ctx); err != nil {
		return false, err
	}
	CollectSoon(tx, app.ID)
	_, err = tx.Changed(ctx, app.ID)
	return true, err
}

// RandomUID returns a UID that no release or version of an app has.
func RandomUID(ctx context.Context, tx *store.Tx, app string) (landfall.UID, error) {
	return tx.FreeUID(ctx, app, "", func(int) landfall.UID { return landfall.NewUID() })
}

// TopicCollect is the topic of the jobs that collect what nothing of an app holds any more. The job has the app's ID.
const TopicCollect = "keep/collect"

// CollectSoon enqueues a collection of an app, for when the transaction that let something go is committed. A
// collection that is running may have looked already, so this is a job of its own.
func CollectSoon(tx *store.Tx, appID string) {
	tx.Enqueue(TopicCollect, appID, time.Time{})
}
