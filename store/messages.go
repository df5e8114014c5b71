package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// MessageOutcome is the result of a message that a trigger took.
type MessageOutcome struct {
	Failures int
	Done     bool
}

// MessageOutcome returns what is known of a message; the zero outcome when nothing is.
func (q queries) MessageOutcome(ctx context.Context, app, trigger, message string) (MessageOutcome, error) {
	o, err := one(ctx, q, "store.MessageOutcome", func(row scanner) (MessageOutcome, error) {
		var o MessageOutcome
		return o, row.Scan(&o.Failures, &o.Done)
	}, `SELECT failures, done FROM messages WHERE app = $1 AND trigger_name = $2 AND message = $3`, app, trigger, message)
	if landfall.Is(err, landfall.NotFound) {
		return MessageOutcome{}, nil
	}
	return o, err
}

// SetMessageOutcome stores the outcome of a message, in place of the earlier one.
func (tx *Tx) SetMessageOutcome(ctx context.Context, app, trigger, message string, o MessageOutcome,
	now time.Time) error {
	return tx.exec(ctx, "store.SetMessageOutcome", `INSERT INTO messages (app, trigger_name, message, failures, done, at)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (app, trigger_name, message) DO UPDATE SET failures = excluded.failures, done = excluded.done,
		at = excluded.at`,
		app, trigger, message, o.Failures, o.Done, micros(now))
}

// ForgetMessages deletes outcomes that were stored before a time; done and others are the times for messages that are
// done and for all others.
func (tx *Tx) ForgetMessages(ctx context.Context, done, others time.Time) error {
	const op landfall.Op = "store.ForgetMessages"
	if err := tx.exec(ctx, op, `DELETE FROM messages WHERE done = 1 AND at < $1`, micros(done)); err != nil {
		return err
	}
	return tx.exec(ctx, op, `DELETE FROM messages WHERE done = 0 AND at < $1`, micros(others))
}
