package store

import (
	"context"
	"slices"

	"landfall.dev/landfall"
)

// Installation returns the key of the installation to which the database belongs; empty while it has none.
func (q queries) Installation(ctx context.Context) (string, error) {
	key, err := one(ctx, q, "store.Installation", scanValue[string], `SELECT key FROM installations WHERE id = 1`)
	if landfall.Is(err, landfall.NotFound) {
		return "", nil
	}
	return key, err
}

// ClaimInstallation returns the key of the installation to which the database belongs. If there is none, it sets the
// given key. When several processes start at once, one of them decides.
func (tx *Tx) ClaimInstallation(ctx context.Context, key string) (string, error) {
	err := tx.exec(ctx, "store.ClaimInstallation",
		`INSERT INTO installations (id, key) VALUES (1, $1) ON CONFLICT (id) DO NOTHING`, key)
	if err != nil {
		return "", err
	}
	return tx.Installation(ctx)
}

// SetInstallation sets the key of the installation to which the database belongs.
func (tx *Tx) SetInstallation(ctx context.Context, key string) error {
	return tx.exec(ctx, "store.SetInstallation", `INSERT INTO installations (id, key) VALUES (1, $1)
		ON CONFLICT (id) DO UPDATE SET key = excluded.key`, key)
}

// WithoutObjects reports whether the installation was told to go on although no object of its versions was found.
// SetWithoutObjects records it, once there is a key.
func (q queries) WithoutObjects(ctx context.Context) (bool, error) {
	without, err := one(ctx, q, "store.WithoutObjects", scanValue[bool],
		`SELECT without_objects <> 0 FROM installations WHERE id = 1`)
	if landfall.Is(err, landfall.NotFound) {
		return false, nil
	}
	return without, err
}

// SetWithoutObjects is described at WithoutObjects.
func (tx *Tx) SetWithoutObjects(ctx context.Context, without bool) error {
	return tx.exec(ctx, "store.SetWithoutObjects", `UPDATE installations SET without_objects = $1 WHERE id = 1`, without)
}

// HasContent reports whether a version has objects in the object store.
func (q queries) HasContent(ctx context.Context) (bool, error) {
	n, err := one(ctx, q, "store.HasContent", scanValue[int64],
		`SELECT COUNT(*) FROM (SELECT 1 FROM version_prefixes LIMIT 1) AS found`)
	return n > 0, err
}

// PushedApps returns the apps that are not deleted, have no external repository and were pushed to. Their built-in
// repositories must exist.
func (q queries) PushedApps(ctx context.Context) ([]landfall.App, error) {
	apps, err := q.Apps(ctx)
	if err != nil {
		return nil, err
	}
	with, err := list(ctx, q, "store.Pushed", scanValue[string], `SELECT DISTINCT app FROM heads`)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(apps, func(a landfall.App) bool {
		return !a.Deleted.IsZero() || a.Repository != "" || !slices.Contains(with, a.ID)
	}), nil
}
