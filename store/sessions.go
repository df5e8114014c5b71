package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// CreateSession signs in the holder of a token until the given time: whoever has secret then acts with the token. Only
// the secret's digest is stored. Sessions that are over by now are deleted.
func (tx *Tx) CreateSession(ctx context.Context, secret string, token landfall.Token, now, expires time.Time) error {
	const op landfall.Op = "store.CreateSession"
	if err := tx.exec(ctx, op, `DELETE FROM sessions WHERE expires <= $1`, micros(now)); err != nil {
		return err
	}
	return tx.exec(ctx, op, `INSERT INTO sessions (hash, token, expires) VALUES ($1, $2, $3)`,
		landfall.DigestOf([]byte(secret)), token.Hash, micros(expires))
}

// SessionToken returns the token of a session. NotFound when the session is not known or over, or the token no longer
// exists; Unauthorized when the token has expired.
func (db *DB) SessionToken(ctx context.Context, secret string, now time.Time) (landfall.Token, error) {
	t, err := one(ctx, db.queries, "store.SessionToken", scanToken, `SELECT `+tokenColumns+`
		FROM sessions s JOIN tokens t ON t.hash = s.token WHERE s.hash = $1 AND s.expires > $2`,
		landfall.DigestOf([]byte(secret)), micros(now))
	return db.used(ctx, t, now, err)
}

// DeleteSession ends a session, with its visits. It does nothing when the session is over.
func (tx *Tx) DeleteSession(ctx context.Context, secret string) error {
	const op landfall.Op = "store.DeleteSession"
	hash := landfall.DigestOf([]byte(secret))
	if err := tx.exec(ctx, op, `DELETE FROM visits WHERE session = $1`, hash); err != nil {
		return err
	}
	return tx.exec(ctx, op, `DELETE FROM sessions WHERE hash = $1`, hash)
}
