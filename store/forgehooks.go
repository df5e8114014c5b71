package store

import (
	"context"

	"landfall.dev/landfall"
)

const hookStateColumns = `app, owner, name, forge_id, made, secret, tag, looked, since, problem, mended, mended_at`

func scanHookState(row scanner) (landfall.HookState, error) {
	var s landfall.HookState
	var looked, since, mended int64
	err := row.Scan(&s.App, &s.Repository.Owner, &s.Repository.Name, &s.ID, &s.Made, &s.Secret, &s.Tag, &looked, &since,
		&s.Problem, &s.Mended, &mended)
	s.Looked, s.Since, s.MendedAt = timeOf(looked), timeOf(since), timeOf(mended)
	return s, err
}

// HookState returns what is known of the webhook of an app at its forge. NotFound when nothing is.
func (q queries) HookState(ctx context.Context, app string) (landfall.HookState, error) {
	return one(ctx, q, "store.HookState", scanHookState, `SELECT `+hookStateColumns+` FROM forge_hooks WHERE app = $1`, app)
}

// HookStates returns what is known of all webhooks of apps.
func (q queries) HookStates(ctx context.Context) ([]landfall.HookState, error) {
	return list(ctx, q, "store.HookStates", scanHookState, `SELECT `+hookStateColumns+` FROM forge_hooks ORDER BY app`)
}

// PutHookState stores what is known of the webhook of an app at its forge.
func (tx *Tx) PutHookState(ctx context.Context, s landfall.HookState) error {
	return tx.exec(ctx, "store.PutHookState", `INSERT INTO forge_hooks (`+hookStateColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (app) DO UPDATE SET owner = excluded.owner, name = excluded.name, forge_id = excluded.forge_id,
			made = excluded.made, secret = excluded.secret, tag = excluded.tag, looked = excluded.looked,
			since = excluded.since, problem = excluded.problem, mended = excluded.mended, mended_at = excluded.mended_at`,
		s.App, s.Repository.Owner, s.Repository.Name, s.ID, s.Made, s.Secret, s.Tag, micros(s.Looked), micros(s.Since),
		s.Problem, s.Mended, micros(s.MendedAt))
}

// DeleteHookState forgets the webhook of an app at its forge.
func (tx *Tx) DeleteHookState(ctx context.Context, app string) error {
	return tx.exec(ctx, "store.DeleteHookState", `DELETE FROM forge_hooks WHERE app = $1`, app)
}

// AskDelivery records that the forge is asked to deliver again what it could not deliver.
func (tx *Tx) AskDelivery(ctx context.Context, d landfall.Delivery, apps ...string) error {
	known, err := tx.Delivery(ctx, d.Hook, d.ID)
	if landfall.Is(err, landfall.NotFound) {
		d.Asked = 1
		return tx.CreateDelivery(ctx, d, apps...)
	}
	if err != nil || !known.Unmatched {
		return err
	}
	return tx.exec(ctx, "store.AskDelivery", `UPDATE deliveries SET asked = asked + 1 WHERE hook = $1 AND id = $2`, d.Hook,
		d.ID)
}
