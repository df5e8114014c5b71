package accept

import (
	"context"
	"crypto/hmac"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// checkInstallation fails with Unauthorized when a delivery to the hook of all repositories was verified with a secret
// that does not count any more. Where GitHub tells that an installation of the GitHub App changed, it notes that:
// tokens that were issued before are not used any more.
func (r WebhookReceiver) checkInstallation(ctx context.Context, tx *store.Tx, event webhook.Event) error {
	if event.Delivery.Hook != "" {
		return nil
	}
	if !sameSecret(event.Secret, r.InstallationSecret) {
		app, err := tx.GitHubApp(ctx)
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return err
		}
		counts := ""
		if err == nil {
			secret, err := r.GitHub.WebhookSecret(app)
			if err != nil {
				return err
			}
			counts = secret.Reveal()
		}
		if !sameSecret(event.Secret, counts) {
			return landfall.Errorf("accept.Accept", landfall.Unauthorized, "the hook has another secret than before")
		}
	}
	if !event.Installation {
		return nil
	}
	return tx.NoteGitHubChange(ctx, event.Delivery.Received)
}

// sameSecret compares secrets in a time that says nothing about either.
func sameSecret(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }
