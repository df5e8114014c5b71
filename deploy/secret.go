package deploy

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// checkSecrets fails with Conflict, and names the secret, when a group version needs one that was revoked or deleted.
func checkSecrets(ctx context.Context, tx *store.Tx, app string, group landfall.UID) error {
	secrets, err := tx.SecretsOf(ctx, app, group)
	if err != nil {
		return err
	}
	for _, s := range secrets {
		what := "was deleted"
		if s.Content != nil {
			content, err := secret.ReadContent(s.Content)
			if err != nil {
				return err
			}
			if content.Revoked.IsZero() {
				continue
			}
			what = "was revoked by " + content.RevokedBy
		}
		return landfall.Errorf("deploy.checkSecrets", landfall.Conflict, "release %s needs the secret %s (no. %d), which "+
			"%s: choose another release, or set the secret again and release anew", group, s.Name, s.Number, what)
	}
	return nil
}
