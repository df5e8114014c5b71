package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// CreateSession signs the holder of a token in until the given time: whoever has secret is then taken for them. Only its
// digest is kept. Sessions that are over by now are forgotten.
func (tx *Tx) CreateSession(ctx context.Context, secret string, token landfall.Token, now, expires time.Time) error {
	const op landfall.Op = "store.CreateSession"
	if err := tx.exec(ctx, op, `DELETE FROM sessions WHERE expires <= $1`, micros(now)); err != nil {
		return err
	}
	return tx.exec(ctx, op, `INSERT INTO sessions (hash, token, expires) VALUES ($1, $2, $3)`,
		landfall.DigestOf([]byte(secret)), token.Hash, micros(expires))
}

// SessionToken returns the token of a session. NotFound when it is not known or over, or the token is not known any more.
func (q queries) SessionToken(ctx context.Context, secret string, now time.Time) (landfall.Token, error) {
	return one(ctx, q, "store.SessionToken", scanToken, `SELECT t.hash, t.name, t.scope, t.app, t.created
		FROM sessions s JOIN tokens t ON t.hash = s.token WHERE s.hash = $1 AND s.expires > $2`,
		landfall.DigestOf([]byte(secret)), micros(now))
}

// DeleteSession ends a session, with its visits; one that is over already stays so.
func (tx *Tx) DeleteSession(ctx context.Context, secret string) error {
	const op landfall.Op = "store.DeleteSession"
	hash := landfall.DigestOf([]byte(secret))
	if err := tx.exec(ctx, op, `DELETE FROM visits WHERE session = $1`, hash); err != nil {
		return err
	}
	return tx.exec(ctx, op, `DELETE FROM sessions WHERE hash = $1`, hash)
}
