package deploy

import (
	"context"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// NewSecret is a request for a new version of a secret.
type NewSecret struct {
	Name      string
	Value     secret.Text
	Preview   bool // every branch except production uses it
	Build     bool // builds use it, and no function does
	NoRelease bool // only a version is made
	Actor     string
}

// SetSecretResult is the result of SetSecret.
type SetSecretResult struct {
	Version landfall.Version
	Created bool         // false: the secret already had the value
	Release landfall.UID // the release with the new version; empty: none was made
	Note    string       // why no release was made, or what else people should know
}

// SetSecret makes a version of a secret, unless the last version has the same value, and a release of the app's last
// version with it. When the release cannot be made, there is no version either. Unavailable when this process has no
// key.
func (editor *Editor) SetSecret(ctx context.Context, app landfall.App, s NewSecret) (set SetSecretResult, err error) {
	if err := secret.CheckName(s.Name); err != nil {
		return set, err
	}
	if err := secret.CheckValue(s.Value); err != nil {
		return set, err
	}
	kind := secret.Spec{Build: s.Build, Preview: s.Preview}
	if s.Build {
		if err := secret.CheckBuild(s.Name, s.Value); err != nil {
			return set, err
		}
	}
	if editor.Secrets == nil {
		return set, NoKey("deploy.SetSecret")
	}
	owner := secret.Owner{App: app.ID, Name: s.Name}
	v := landfall.Version{Unit: landfall.UnitID{Kind: landfall.SecretUnit, Name: s.Name}, Spec: kind.JSON(),
		Production: true}
	content := secret.Content{Actor: s.Actor}
	if content.Sealed, err = editor.Secrets.Seal(owner, s.Value); err != nil {
		return set, err
	}
	if v.Content, err = content.JSON(); err != nil {
		return set, err
	}
	units, err := versioning.Resolve([]versioning.Declared{{Unit: v.Unit, Spec: v.Spec,
		Content: editor.Secrets.Fingerprint(owner, s.Value)}})
	if err != nil {
		return set, err
	}
	v.Digest = units[0].Digest
	err = editor.DB.Update(ctx, func(tx *store.Tx) error {
		set, err = editor.setSecret(ctx, tx, app.ID, v, s)
		return err
	})
	if err == nil && set.Release != "" {
		editor.Rollout.Show(ctx, app)
	}
	return set, err
}

// NoKey returns the error of a process that cannot read secrets.
func NoKey(op landfall.Op) error {
	return landfall.Errorf(op, landfall.Unavailable, "this server has no key for secrets: processes with different roles "+
		"share one, LANDFALL_SECRET_KEY or LANDFALL_SECRET_KEY_FILE")
}

func (editor *Editor) setSecret(ctx context.Context, tx *store.Tx, appID string, v landfall.Version,
	s NewSecret) (set SetSecretResult, err error) {
	app, err := tx.ActiveApp(ctx, appID)
	if err != nil {
		return set, err
	}
	row, err := editor.secretRow(ctx, tx, app, v.Unit)
	if err != nil {
		return set, err
	}
	uid, err := RandomUID(ctx, tx, app.ID)
	if err != nil {
		return set, err
	}
	newest, err := tx.NewestVersion(ctx, row.ID, v.Spec)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return set, err
	}
	set.Version, err = newest, nil
	if !editor.sameValue(app, set.Version, s) {
		row.LastNumber++
		row.Retired = false
		v.Namespace, v.App, v.Number, v.UID, v.Created = app.Namespace, app.ID, row.LastNumber, uid, editor.Now()
		if err := tx.UpdateUnit(ctx, row); err != nil {
			return set, err
		}
		if err := tx.CreateVersion(ctx, row.ID, v); err != nil {
			return set, err
		}
		set.Version, set.Created = v, true
	}
	switch {
	case s.Build && s.Preview:
		set.Note = "the next build of each branch but production gets it"
	case s.Build:
		set.Note = "the next build gets it"
	case s.NoRelease:
		set.Note = "the next release uses it"
	case s.Preview:
		set.Note = "the next release of each branch but production uses it"
	default:
		err = editor.releaseSecrets(ctx, tx, app, &set, uid, s)
	}
	return set, err
}

// secretRow returns the row of a secret, and makes it when the secret is new. Conflict when the app has too many.
func (editor *Editor) secretRow(ctx context.Context, tx *store.Tx, app landfall.App,
	id landfall.UnitID) (store.Unit, error) {
	row, err := tx.Unit(ctx, app, id)
	if err == nil || landfall.KindOf(err) != landfall.NotFound {
		return row, err
	}
	owned, err := tx.UnitsOf(ctx, app.ID)
	if err != nil {
		return row, err
	}
	owned = slices.DeleteFunc(owned, func(u store.Unit) bool { return u.Unit.Kind != landfall.SecretUnit })
	if len(owned) >= secret.MaxCount {
		return row, landfall.Errorf("deploy.SetSecret", landfall.Conflict,
			"%s has had %d secrets, which is as many as an app can have", app.Name, secret.MaxCount)
	}
	return tx.CreateUnit(ctx, app, id)
}

// sameValue reports whether a version still has the given value. A value that cannot be opened any more counts as
// different.
func (editor *Editor) sameValue(app landfall.App, v landfall.Version, s NewSecret) bool {
	if v.Content == nil {
		return false
	}
	content, err := secret.ReadContent(v.Content)
	if err != nil || !content.Revoked.IsZero() {
		return false
	}
	value, err := editor.Secrets.Open(secret.Owner{App: app.ID, Name: s.Name}, content.Sealed)
	return err == nil && value == s.Value
}

// releaseSecrets makes a group version of what production applied last, with the current secrets, and releases it as a
// push does.
func (editor *Editor) releaseSecrets(ctx context.Context, tx *store.Tx, app landfall.App, set *SetSecretResult,
	uid landfall.UID, s NewSecret) error {
	last, err := tx.LastApply(ctx, app.ID, "", time.Time{})
	if err != nil {
		set.Note = "nothing of the app was applied yet; the next release uses it"
		return landfall.Ignore(err, landfall.NotFound)
	}
	base, err := tx.Group(ctx, app.ID, last.Group)
	if err != nil {
		return err
	}
	units, err := tx.GroupUnits(ctx, app.ID, base.UID)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(units, func(u store.GroupUnit) bool { return u.Unit == set.Version.Unit }) {
		set.Note = "no function of production names it, so no release was made"
		return nil
	}
	e := edit{by: editor, tx: tx, app: app, base: base, units: units, uid: uid, actor: s.Actor}
	set.Release, set.Note, err = e.release(ctx, "Set the secret "+s.Name)
	if err != nil && landfall.KindOf(err) == landfall.Conflict {
		err = &landfall.Error{Op: "deploy.SetSecret", Kind: landfall.Conflict, Err: err,
			Message: landfall.MessageOf(err) + "; or give --no-release"}
	}
	return err
}

// RevokeSecret deletes the value of a version for ever. No release with the version can become live any more, and the
// functions of those that still answer are not run. It does nothing when the version was revoked before. Conflict while
// the live release has it.
func (editor *Editor) RevokeSecret(ctx context.Context, app landfall.App, name, selector,
	actor string) (v landfall.Version, err error) {
	err = editor.DB.Update(ctx, func(tx *store.Tx) error {
		if app, err = tx.ActiveApp(ctx, app.ID); err != nil {
			return err
		}
		row, err := secretOf(ctx, tx, app, name)
		if err != nil {
			return err
		}
		if err := saysWhich(row.Unit, selector); err != nil {
			return err
		}
		if v, err = versioning.Select(ctx, tx, row, selector); err != nil {
			return err
		}
		content, err := secret.ReadContent(v.Content)
		if err != nil || !content.Revoked.IsZero() {
			return err
		}
		live, err := tx.SecretsOf(ctx, app.ID, app.Live)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(live, func(s store.GroupSecret) bool { return s.Name == name && s.Number == v.Number }) {
			return landfall.Errorf("deploy.RevokeSecret", landfall.Conflict,
				"the live release %s uses %s (no. %d): give it another value first, with landfall secret set %s %s", app.Live,
				row.Unit, v.Number, app.Name, name)
		}
		content.Sealed, content.Revoked, content.RevokedBy = nil, editor.Now(), actor
		if v.Content, err = content.JSON(); err != nil {
			return err
		}
		if err := tx.MarkVersion(ctx, row.ID, v); err != nil {
			return err
		}
		_, err = tx.Changed(ctx, app.ID)
		return err
	})
	if err == nil {
		editor.Rollout.Show(ctx, app)
	}
	return v, err
}

// secretOf returns the row of a secret that has versions. NotFound, with a sentence, when there is none.
func secretOf(ctx context.Context, tx *store.Tx, app landfall.App, name string) (store.Unit, error) {
	missing := landfall.Errorf("deploy.secret", landfall.NotFound, "%s has no secret %q", app.Name, name)
	row, err := tx.Unit(ctx, app, landfall.UnitID{Kind: landfall.SecretUnit, Name: name})
	if landfall.Is(err, landfall.NotFound) {
		return row, missing
	}
	if err != nil {
		return row, err
	}
	_, there, err := tx.HasVersions(ctx, row.ID)
	if err == nil && !there {
		err = missing
	}
	return row, err
}

// DeleteSecret deletes all versions of a secret. Conflict, with the releases, while accessible ones use it, and while
// something leads to a version of a function that needs it. Its numbers continue when it is made again.
func (editor *Editor) DeleteSecret(ctx context.Context, app landfall.App, name string) error {
	return editor.DB.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.ActiveApp(ctx, app.ID); err != nil {
			return err
		}
		row, err := secretOf(ctx, tx, app, name)
		if err != nil {
			return err
		}
		holders, err := tx.ReleasesWith(ctx, row.ID)
		if err != nil {
			return err
		}
		if len(holders) > 0 {
			names := make([]string, len(holders))
			for i, uid := range holders {
				names[i] = string(uid)
			}
			return landfall.Errorf("deploy.DeleteSecret", landfall.Conflict, "%s is used by %s: %s; push without it and expire "+
				"them (landfall release expire), or revoke a value (landfall secret revoke)", row.Unit,
				landfall.Count(len(holders), "release"), strings.Join(names, ", "))
		}
		if err := checkReaders(ctx, tx, app, name); err != nil {
			return err
		}
		return dropVersions(ctx, tx, row)
	})
}

// checkReaders fails with Conflict when a version of one of the app's functions reads a secret, and something leads to
// it that is no release with it.
func checkReaders(ctx context.Context, tx *store.Tx, app landfall.App, name string) error {
	versions, err := tx.NamedVersions(ctx, app.ID)
	if err != nil {
		return err
	}
	pinned, err := Pinned(ctx, tx, app)
	if err != nil {
		return err
	}
	for to := range pinned {
		v, err := tx.VersionByNumber(ctx, to.Unit, to.Number)
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return err
		}
		if err == nil && v.Unit.Kind == landfall.FunctionUnit && v.App == app.ID {
			versions = append(versions, v)
		}
	}
	for _, v := range versions {
		f, err := spec.ReadFunctionVersion(v.Spec)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(f.Secrets, func(s landfall.SealedSecret) bool { return s.Name == name }) {
			return landfall.Errorf("deploy.DeleteSecret", landfall.Conflict, "secret %s is used by %s:%d, to which an alias, a "+
				"function tag, a trigger, a job, a webhook or an execution leads (landfall function version delete %[2]s %[3]d "+
				"says which): delete that first, or revoke a value (landfall secret revoke)", name, v.Unit.Name, v.Number)
		}
	}
	return nil
}

func dropVersions(ctx context.Context, tx *store.Tx, row store.Unit) error {
	versions, err := tx.Versions(ctx, row.ID, true)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if err := tx.DeleteVersion(ctx, row.ID, v.Number); err != nil {
			return err
		}
	}
	return nil
}

// DropSecrets deletes all secrets of an app.
func DropSecrets(ctx context.Context, tx *store.Tx, app landfall.App) error {
	owned, err := tx.UnitsOf(ctx, app.ID)
	if err != nil {
		return err
	}
	for _, row := range owned {
		if row.Unit.Kind != landfall.SecretUnit {
			continue
		}
		if err := dropVersions(ctx, tx, row); err != nil {
			return err
		}
	}
	return nil
}
