package accept

import (
	"context"
	"errors"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// These are the names under which what reads an app's repository is sealed. No secret of an app can have them.
const (
	tokenName = "token of the repository"
	keyName   = "deploy key of the repository"
)

// Credential returns what reads an app's repository at its forge, none for one that everybody may read. This is the one
// place where it is chosen: what a person stored for the app goes before what the installation could use by itself.
// It is asked for each time that the repository is, so a credential that ends soon is never kept. Conflict, which says
// what to do, when what is stored cannot be opened.
func (acceptor *Acceptor) Credential(ctx context.Context, app landfall.App) (c builder.Credential, err error) {
	stored, err := acceptor.DB.Credentials(ctx, app.ID)
	if err != nil {
		return c, err
	}
	if builder.IsSSH(app.Repository) {
		c.HostKeys = strings.Join(stored.HostKeys, "\n")
		if stored.Key != nil {
			c.Key, err = acceptor.unseal(app, keyName, stored.Key, "landfall app key "+app.Name+" --rotate")
		}
		return c, err
	}
	if stored.App && stored.Token == nil && stored.Password == "" && acceptor.GitHub != nil {
		c.Password, err = acceptor.GitHub.Contents(ctx, app)
		return c, err
	}
	c.Username, c.Password = stored.Username, secret.Text(stored.Password)
	if stored.Token != nil {
		c.Password, err = acceptor.unseal(app, tokenName, stored.Token,
			"landfall app set "+app.Name+" --repo-token-file FILE")
	}
	return c, err
}

// unseal opens what seal made. again is the command that stores another one.
func (acceptor *Acceptor) unseal(app landfall.App, name string, sealed []byte, again string) (secret.Text, error) {
	const op landfall.Op = "accept.Credential"
	if acceptor.Secrets == nil {
		return "", deploy.NoKey(op)
	}
	value, err := acceptor.Secrets.Open(secret.Owner{App: app.ID, Name: name}, sealed)
	if err != nil {
		err = landfall.Wrapf(op, landfall.Conflict, err,
			"the %s cannot be opened, because it was sealed under another key than this server has: store it again (%s)",
			name, again)
	}
	return value, err
}

func (acceptor *Acceptor) seal(app, name string, value secret.Text) ([]byte, error) {
	if acceptor.Secrets == nil {
		return nil, deploy.NoKey("accept.seal")
	}
	return acceptor.Secrets.Seal(secret.Owner{App: app, Name: name}, value)
}

// SetToken stores the password or token for an app's repository, sealed; an empty one removes it. username nil: it
// stays. Unavailable when this process has no key.
func (acceptor *Acceptor) SetToken(ctx context.Context, tx *store.Tx, app string, username *string,
	token secret.Text) error {
	c, err := tx.Credentials(ctx, app)
	if err != nil {
		return err
	}
	if username != nil {
		c.Username = *username
	}
	c.Password, c.Token, c.TokenSet = "", nil, time.Time{}
	if token != "" {
		if c.Token, err = acceptor.seal(app, tokenName, token); err != nil {
			return err
		}
		c.TokenSet = acceptor.Now()
	}
	return tx.SetCredentials(ctx, app, c)
}

// SealCredentials seals the tokens that earlier versions of Landfall stored as they are. Without a key they stay.
func (acceptor *Acceptor) SealCredentials(ctx context.Context) error {
	if acceptor.Secrets == nil {
		return nil
	}
	open, err := acceptor.DB.OpenCredentials(ctx)
	var errs []error
	for _, app := range open {
		errs = append(errs, acceptor.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
			c, err := tx.Credentials(ctx, app)
			if err != nil || c.Password == "" {
				return err
			}
			return acceptor.SetToken(ctx, tx, app, nil, secret.Text(c.Password))
		}))
	}
	return errors.Join(append(errs, err)...)
}
