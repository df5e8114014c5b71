package accept

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/secret"
)

// Credential returns what reads an app's repository at its forge, none for one that everybody may read. This is the one
// place where it is chosen: what a person stored for the app goes before what the installation could use by itself.
// It is asked for each time that the repository is, so a credential that ends soon is never kept.
func (acceptor *Acceptor) Credential(ctx context.Context, app landfall.App) (builder.Credential, error) {
	stored, err := acceptor.DB.Credentials(ctx, app.ID)
	return builder.Credential{Username: stored.Username, Password: secret.Text(stored.Password)}, err
}
