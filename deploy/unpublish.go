package deploy

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Unpublish removes everything by which the releases of a deleted app can be reached: they expire, their tags are
// removed, and nothing is live any more. It returns what it removed.
func Unpublish(ctx context.Context, tx *store.Tx, app *landfall.App, by Mover) (was store.Tombstone, err error) {
	releases, err := tx.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return was, err
	}
	for _, r := range releases {
		was.Releases = append(was.Releases, r.ID)
		r.Expired = by.At
		if err := tx.PutRelease(ctx, r); err != nil {
			return was, err
		}
	}
	if was.Tags, err = tx.Tags(ctx, app.ID); err != nil {
		return was, err
	}
	for _, t := range was.Tags {
		if _, err := RemoveTag(ctx, tx, app.ID, t.Name, by); err != nil {
			return was, err
		}
	}
	was.Live, was.Held = app.Live, app.Held
	if app.Live != "" {
		if err := record(ctx, tx, move(app.ID, landfall.LivePointer, app.Live, "", by)); err != nil {
			return was, err
		}
	}
	if _, err := EndCanary(ctx, tx, app.ID, landfall.ReleaseCanaryEnded, by); err != nil {
		return was, err
	}
	app.Live, app.Held = "", false
	return was, tx.UpdateApp(ctx, *app)
}
