package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// KeepPayload stores what a delivery said. Of one account, those are deleted after which there are limit bytes and
// more.
func (tx *Tx) KeepPayload(ctx context.Context, d landfall.Delivery, account string, body []byte, limit int64) error {
	const op landfall.Op = "store.KeepPayload"
	err := tx.exec(ctx, op, `INSERT INTO delivery_payloads (hook, delivery, account, upto, received, body)
		SELECT $1, $2, $3, COALESCE((SELECT MAX(upto) FROM delivery_payloads WHERE account = $3), 0) + CAST($4 AS BIGINT),
			CAST($5 AS BIGINT), $6`,
		d.Hook, d.ID, account, len(body), micros(d.Received), body)
	if err != nil {
		return err
	}
	return tx.exec(ctx, op, `DELETE FROM delivery_payloads WHERE account = $1
		AND upto <= (SELECT MAX(upto) FROM delivery_payloads WHERE account = $1) - CAST($2 AS BIGINT)`, account, limit)
}

// Payload returns what a delivery said, as it was stored. NotFound when that is not kept.
func (q queries) Payload(ctx context.Context, hook, delivery string) ([]byte, error) {
	return one(ctx, q, "store.Payload", scanValue[[]byte],
		`SELECT body FROM delivery_payloads WHERE hook = $1 AND delivery = $2`, hook, delivery)
}

// ForgetPayloads deletes up to limit payloads that came before a time, the oldest first, and returns how many it
// deleted.
func (tx *Tx) ForgetPayloads(ctx context.Context, before time.Time, limit int) (int, error) {
	const op landfall.Op = "store.ForgetPayloads"
	old, err := list(ctx, tx.queries, op, scanDeliveryKey, `SELECT hook, delivery FROM delivery_payloads
		WHERE received < $1 ORDER BY received LIMIT $2 + 0`, micros(before), limit)
	if err != nil {
		return 0, err
	}
	for _, d := range old {
		if err := tx.deletePayload(ctx, d.Hook, d.ID); err != nil {
			return 0, err
		}
	}
	return len(old), nil
}

func scanDeliveryKey(row scanner) (d landfall.Delivery, err error) {
	err = row.Scan(&d.Hook, &d.ID)
	return d, err
}

func (tx *Tx) deletePayload(ctx context.Context, hook, delivery string) error {
	return tx.exec(ctx, "store.deletePayload", `DELETE FROM delivery_payloads WHERE hook = $1 AND delivery = $2`, hook,
		delivery)
}
