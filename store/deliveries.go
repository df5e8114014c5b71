package store

import (
	"context"
	"encoding/json"
	"math"

	"landfall.dev/landfall"
)

// CreateHook stores a hook that was made for one app.
func (tx *Tx) CreateHook(ctx context.Context, h landfall.Hook, at int64) error {
	return tx.exec(ctx, "store.CreateHook", `INSERT INTO hooks (id, app, secret, created) VALUES ($1, $2, $3, $4)`,
		h.ID, h.App, h.Secret, at)
}

// SetHookSecret gives a hook a new secret. NotFound when there is no such hook.
func (tx *Tx) SetHookSecret(ctx context.Context, id, secret string) error {
	return tx.execOne(ctx, "store.SetHookSecret",
		landfall.Error{Kind: landfall.NotFound, Message: "there is no such hook"},
		`UPDATE hooks SET secret = $2 WHERE id = $1`, id, secret)
}

func scanHook(row scanner) (landfall.Hook, error) {
	var h landfall.Hook
	err := row.Scan(&h.ID, &h.App, &h.Secret)
	return h, err
}

// Hook returns a hook by id. NotFound when there is none.
func (q queries) Hook(ctx context.Context, id string) (landfall.Hook, error) {
	return one(ctx, q, "store.Hook", scanHook, `SELECT id, app, secret FROM hooks WHERE id = $1`, id)
}

// HookOf returns the hook of an app. NotFound when it has none.
func (q queries) HookOf(ctx context.Context, app string) (landfall.Hook, error) {
	return one(ctx, q, "store.HookOf", scanHook,
		`SELECT id, app, secret FROM hooks WHERE app = $1 ORDER BY created LIMIT 1`, app)
}

const deliveryColumns = `hook, id, event, digest, decision, runs, received, unmatched, repository, asked`

func scanDelivery(row scanner) (landfall.Delivery, error) {
	var d landfall.Delivery
	var runs string
	var received int64
	if err := row.Scan(&d.Hook, &d.ID, &d.Event, &d.Digest, &d.Decision, &runs, &received, &d.Unmatched,
		&d.Repository, &d.Asked); err != nil {
		return d, err
	}
	d.Received = timeOf(received)
	return d, json.Unmarshal([]byte(runs), &d.Runs)
}

// CreateDelivery stores a delivery. For the installation's hook it also stores the ids of the apps that it concerned.
// Conflict when the same hook and id are stored already.
func (tx *Tx) CreateDelivery(ctx context.Context, d landfall.Delivery, apps ...string) error {
	const op landfall.Op = "store.CreateDelivery"
	runs, err := json.Marshal(d.Runs)
	if err != nil {
		return err
	}
	err = tx.exec(ctx, op, `INSERT INTO deliveries (`+deliveryColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		d.Hook, d.ID, d.Event, d.Digest, d.Decision, string(runs), micros(d.Received), d.Unmatched, d.Repository, d.Asked)
	for _, app := range apps {
		if err == nil && d.Hook == "" {
			err = tx.exec(ctx, op, `INSERT INTO shared_deliveries (delivery, app) VALUES ($1, $2)`, d.ID, app)
		}
	}
	return err
}

// RecordDelivery stores a delivery that does nothing, if its hook has the secret. The installation's hook has no row,
// so its secret is not compared; for its deliveries, the apps whose confirmed repository the delivery names are
// recorded. It reports whether it stored the delivery. It does not when the hook is gone or has another secret, or when
// the same hook and id are stored already.
func (tx *Tx) RecordDelivery(ctx context.Context, d landfall.Delivery, secret string) (bool, error) {
	const op landfall.Op = "store.RecordDelivery"
	err := tx.execOne(ctx, op, landfall.Error{Kind: landfall.NotFound}, `INSERT INTO deliveries (`+deliveryColumns+`)
		SELECT $1, $2, $3, $4, $5, 'null', CAST($6 AS BIGINT), 0, CAST($8 AS BIGINT), 0 WHERE $1 = '' OR EXISTS (SELECT 1
		FROM hooks WHERE id = $1 AND secret = $7)
		ON CONFLICT (hook, id) DO NOTHING`, d.Hook, d.ID, d.Event, d.Digest, d.Decision, micros(d.Received), secret,
		d.Repository)
	if landfall.Is(err, landfall.NotFound) {
		return false, nil
	}
	if err == nil && d.Hook == "" && d.Repository != 0 {
		err = tx.exec(ctx, op, `INSERT INTO shared_deliveries (delivery, app)
			SELECT $1, id FROM apps WHERE github_id = $2 AND github_confirmed = 1 AND deleted = 0`, d.ID, d.Repository)
	}
	return err == nil, err
}

// DeleteDelivery forgets a delivery and what it said, so that it can be judged again.
func (tx *Tx) DeleteDelivery(ctx context.Context, hook, id string) error {
	const op landfall.Op = "store.DeleteDelivery"
	if err := tx.deletePayload(ctx, hook, id); err != nil {
		return err
	}
	if err := tx.exec(ctx, op, `DELETE FROM deliveries WHERE hook = $1 AND id = $2`, hook, id); err != nil || hook != "" {
		return err
	}
	return tx.exec(ctx, op, `DELETE FROM shared_deliveries WHERE delivery = $1`, id)
}

// Delivery returns a delivery. NotFound when it was not received yet.
func (q queries) Delivery(ctx context.Context, hook, id string) (landfall.Delivery, error) {
	return one(ctx, q, "store.Delivery", scanDelivery,
		`SELECT `+deliveryColumns+` FROM deliveries WHERE hook = $1 AND id = $2`, hook, id)
}

// deliveriesBefore follows a condition on deliveries, in parentheses: those before a delivery, newest first, or the
// newest before none. Its arguments are what before returns, and how many.
const deliveriesBefore = ` AND (received, hook, id) < ($1, $2, $3) ORDER BY received DESC, hook DESC, id DESC
	LIMIT $4 + 0`

func before(d landfall.Delivery) (received int64, hook, id string) {
	if d.Received.IsZero() {
		return math.MaxInt64, "", ""
	}
	return micros(d.Received), d.Hook, d.ID
}

// Deliveries returns deliveries, newest first: those that come after last there, or the newest when that is empty.
func (q queries) Deliveries(ctx context.Context, last landfall.Delivery, limit int) ([]landfall.Delivery, error) {
	received, hook, id := before(last)
	return list(ctx, q, "store.Deliveries", scanDelivery,
		`SELECT `+deliveryColumns+` FROM deliveries WHERE 1 = 1`+deliveriesBefore, received, hook, id, limit)
}

// DeliveriesOf is Deliveries of those that concern an app, to its own hook or to the installation's.
func (q queries) DeliveriesOf(ctx context.Context, app, own string, last landfall.Delivery,
	limit int) ([]landfall.Delivery, error) {
	received, hook, id := before(last)
	return list(ctx, q, "store.DeliveriesOf", scanDelivery, `SELECT `+deliveryColumns+` FROM deliveries
		WHERE (hook = $6 OR (hook = '' AND id IN (SELECT delivery FROM shared_deliveries WHERE app = $5)))`+
		deliveriesBefore, received, hook, id, limit, app, own)
}

// DeliveriesNamed returns the deliveries with an id, that to the installation's hook first: GitHub delivers one event
// to all hooks under the same id.
func (q queries) DeliveriesNamed(ctx context.Context, id string) ([]landfall.Delivery, error) {
	return list(ctx, q, "store.DeliveriesNamed", scanDelivery, `SELECT `+deliveryColumns+` FROM deliveries
		WHERE id = $1 AND hook IN (SELECT '' UNION ALL SELECT id FROM hooks) ORDER BY hook`, id)
}

// AppsOfDelivery returns the ids of the apps that a delivery concerns: that of its hook, or those for which one to the
// installation's hook was when it came.
func (q queries) AppsOfDelivery(ctx context.Context, d landfall.Delivery) ([]string, error) {
	return list(ctx, q, "store.AppsOfDelivery", scanValue[string], `SELECT app FROM hooks WHERE id = $1
		UNION ALL SELECT app FROM shared_deliveries WHERE $1 = '' AND delivery = $2`, d.Hook, d.ID)
}
