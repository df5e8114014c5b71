package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// Visit is what a code allows a person to begin who is signed in at the control host.
type Visit struct {
	Host      string          // of a release: the only host where the code is valid
	Challenge landfall.Digest // of a value that the browser holds; the code is valid in this browser only
	Path      string          // where the visit begins
}

// CreateVisit stores a code, which is valid until the given time, for the session with a secret. Only digests of both
// are stored. Codes and visits that are over by now are deleted. So are the session's oldest visits beyond a limit that
// nobody needs: a person who returns to one of them passes the control host again and notices nothing.
func (tx *Tx) CreateVisit(ctx context.Context, code, session string, v Visit, now, expires time.Time) error {
	const op landfall.Op = "store.CreateVisit"
	const most = 200 // for each session
	of := landfall.DigestOf([]byte(session))
	if err := tx.exec(ctx, op, `DELETE FROM visits WHERE expires <= $1`, micros(now)); err != nil {
		return err
	}
	err := tx.exec(ctx, op, `DELETE FROM visits WHERE session = $1 AND hash IN (
		SELECT o.hash FROM visits o WHERE o.session = $1 ORDER BY o.expires DESC, o.hash LIMIT $2 + 0 OFFSET $3 + 0)`, of,
		most, most-1)
	if err != nil {
		return err
	}
	return tx.exec(ctx, op,
		`INSERT INTO visits (hash, session, host, challenge, path, expires) VALUES ($1, $2, $3, $4, $5, $6)`,
		landfall.DigestOf([]byte(code)), of, v.Host, v.Challenge, v.Path, micros(expires))
}

// BeginVisit turns a code into a visit at a host: whoever has secret then acts as the person for whom the code was
// made. It returns where the visit begins, and when the session ends, with which the visit ends. NotFound when the code
// is not known, over or used, or belongs to another host or browser, or its session has ended.
func (tx *Tx) BeginVisit(ctx context.Context, code, host, nonce, secret string, now time.Time) (path string,
	expires time.Time, err error) {
	const op landfall.Op = "store.BeginVisit"
	expires, err = one(ctx, tx.queries, op, scanTime, `SELECT s.expires FROM visits v JOIN sessions s ON s.hash = v.session
		WHERE v.hash = $1 AND s.expires > $2`, landfall.DigestOf([]byte(code)), micros(now))
	if err != nil {
		return "", expires, err
	}
	path, err = one(ctx, tx.queries, op, scanValue[string], `UPDATE visits SET hash = $1, challenge = '', expires = $2
		WHERE hash = $3 AND host = $4 AND challenge = $5 AND expires > $6 RETURNING path`,
		landfall.DigestOf([]byte(secret)), micros(expires), landfall.DigestOf([]byte(code)), host,
		landfall.DigestOf([]byte(nonce)), micros(now))
	return path, expires, err
}

func scanTime(row scanner) (time.Time, error) {
	var at int64
	err := row.Scan(&at)
	return timeOf(at), err
}

// VisitToken returns the token of the person who has secret and visits a host. NotFound when there is no such visit, or
// the person is not signed in any more; Unauthorized when the token of the session has expired.
func (db *DB) VisitToken(ctx context.Context, secret, host string, now time.Time) (landfall.Token, error) {
	t, err := one(ctx, db.queries, "store.VisitToken", scanToken, `SELECT `+tokenColumns+`
		FROM visits v JOIN sessions s ON s.hash = v.session JOIN tokens t ON t.hash = s.token
		WHERE v.hash = $1 AND v.host = $2 AND v.challenge = '' AND s.expires > $3`, landfall.DigestOf([]byte(secret)), host,
		micros(now))
	return db.used(ctx, t, now, err)
}
