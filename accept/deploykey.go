package accept

import (
	"context"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// Reach is how a person wants a repository to be read.
type Reach struct {
	Username string
	Token    secret.Text
	HostKeys []string // of a host for ssh, see builder.CheckHostKeys
}

// ReadsBySSH reports whether an app's repository is read by ssh, with a deploy key.
func ReadsBySSH(app landfall.App) bool { return builder.IsSSH(app.Repository) }

// KeyPage is where the forge takes the public half of an app's deploy key; empty when it is not known.
func KeyPage(app landfall.App) string { return builder.KeyPage(app.Repository) }

// HostFingerprints shows the keys that the host of an app's repository may have, see builder.HostFingerprints.
func HostFingerprints(app landfall.App, given []string) []string {
	return builder.HostFingerprints(app.Repository, given)
}

// NewCredentials stores how the repository of a new app is read. By ssh it makes the deploy key. Kinds: Invalid for
// what does not fit the address; Unavailable when this process has no key to seal with.
func (acceptor *Acceptor) NewCredentials(ctx context.Context, tx *store.Tx, app landfall.App, r Reach) error {
	const op landfall.Op = "accept.NewCredentials"
	switch {
	case !ReadsBySSH(app) && len(r.HostKeys) > 0:
		return landfall.Errorf(op, landfall.Invalid, "host keys are for repositories that are read by ssh "+
			"(git@HOST:PATH); %s is read over https: leave them out", app.Repository)
	case !ReadsBySSH(app):
		return acceptor.SetToken(ctx, tx, app.ID, &r.Username, r.Token)
	case r.Username != "" || r.Token != "":
		return landfall.Errorf(op, landfall.Invalid, "a user name and a token are for repositories that are read over "+
			"https; %s is read by ssh, with a deploy key that is made with the app: leave them out", app.Repository)
	case len(r.HostKeys) == 0 && !builder.HasKnownHost(app.Repository):
		return landfall.Errorf(op, landfall.Invalid, "the host of %s is not known: compare what ssh-keyscan prints of it "+
			"with what the host publishes, and give that, too (--host-key-file FILE)", app.Repository)
	}
	if err := acceptor.SetHostKeys(ctx, tx, app, r.HostKeys); err != nil {
		return err
	}
	return acceptor.SetKey(ctx, tx, app, "")
}

// SetKey stores the private half of an app's deploy key, sealed; without one it makes a new key. Kinds: Invalid for a
// key that cannot be used, and for an app whose repository is not read by ssh.
func (acceptor *Acceptor) SetKey(ctx context.Context, tx *store.Tx, app landfall.App, private secret.Text) error {
	comment := "landfall " + app.Name
	return acceptor.changeSSH(ctx, tx, app, func(c *store.Credentials) (err error) {
		if private == "" {
			if private, err = builder.NewKey(comment); err != nil {
				return err
			}
		}
		public, err := builder.PublicKeyOf(private, comment)
		if err != nil {
			return err
		}
		c.PublicKey, c.Fingerprint, c.KeySet = public.Line, public.Fingerprint, acceptor.Now()
		c.Key, err = acceptor.seal(app.ID, keyName, private)
		return err
	})
}

// DropKey removes an app's deploy key.
func (acceptor *Acceptor) DropKey(ctx context.Context, tx *store.Tx, app landfall.App) error {
	return acceptor.changeSSH(ctx, tx, app, func(c *store.Credentials) error {
		c.Key, c.PublicKey, c.Fingerprint, c.KeySet = nil, "", "", time.Time{}
		return nil
	})
}

// SetHostKeys says which keys the host of an app's repository may have; none: those that are built in.
func (acceptor *Acceptor) SetHostKeys(ctx context.Context, tx *store.Tx, app landfall.App, keys []string) error {
	return acceptor.changeSSH(ctx, tx, app, func(c *store.Credentials) (err error) {
		c.HostKeys, err = builder.CheckHostKeys(keys)
		return err
	})
}

func (acceptor *Acceptor) changeSSH(ctx context.Context, tx *store.Tx, app landfall.App,
	change func(*store.Credentials) error) error {
	if !ReadsBySSH(app) {
		return landfall.Errorf("accept.changeSSH", landfall.Invalid, "the repository of %s is not read by ssh, so it needs "+
			"no deploy key: landfall app set %s --repo-token-file FILE stores a token for it", app.Name, app.Name)
	}
	c, err := tx.Credentials(ctx, app.ID)
	if err == nil {
		err = change(&c)
	}
	if err != nil {
		return err
	}
	return tx.SetCredentials(ctx, app.ID, c)
}
