package accept

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// closePreviews lets only people who are signed in see the releases of an app that are not live, because its repository
// is private now, and they show what nobody else should see any more.
func closePreviews(ctx context.Context, tx *store.Tx, app landfall.App) error {
	if app.Previews != landfall.PreviewsPublic {
		return nil
	}
	app.Previews = landfall.PreviewsSignedIn
	if err := tx.UpdateApp(ctx, app); err != nil {
		return err
	}
	_, err := tx.Changed(ctx, app.ID)
	return err
}
