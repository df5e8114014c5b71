package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// KeyedRequest is a request with a key, by which the same token may send it again.
type KeyedRequest struct {
	Token    landfall.Digest // hash of the token
	Key      landfall.Digest // of the key
	Request  landfall.Digest // of what is asked for
	Status   int             // of the answer; 0: there is none yet
	Type     string          // of the answer
	Location string          // of the answer
	Answer   string
	Created  time.Time
}

// ClaimKey stores a request with its key, unless there is one with the key that was made after a time, and returns the
// one that is there. The oldest keys of the token go, so that it has at most so many.
func (tx *Tx) ClaimKey(ctx context.Context, r KeyedRequest, after time.Time, most int) (known KeyedRequest, err error) {
	const op landfall.Op = "store.ClaimKey"
	err = tx.exec(ctx, op, `DELETE FROM idempotency_keys WHERE token = $1 AND key = $2 AND created <= $3`, r.Token, r.Key,
		micros(after))
	if err != nil {
		return r, err
	}
	known, err = one(ctx, tx.queries, op, func(row scanner) (k KeyedRequest, err error) {
		var created int64
		err = row.Scan(&k.Token, &k.Key, &k.Request, &k.Status, &k.Type, &k.Location, &k.Answer, &created)
		k.Created = timeOf(created)
		return k, err
	}, `SELECT token, key, request, status, type, location, answer, created FROM idempotency_keys
		WHERE token = $1 AND key = $2`, r.Token, r.Key)
	if !landfall.Is(err, landfall.NotFound) {
		return known, err
	}
	n, err := one(ctx, tx.queries, op, scanValue[int], `SELECT COUNT(*) FROM idempotency_keys WHERE token = $1`, r.Token)
	if err == nil && n >= most {
		err = tx.exec(ctx, op, `DELETE FROM idempotency_keys WHERE token = $1 AND key IN (
			SELECT key FROM idempotency_keys WHERE token = $1 ORDER BY created, key LIMIT $2 + 0)`, r.Token, n-most+1)
	}
	if err != nil {
		return r, err
	}
	return r, tx.exec(ctx, op, `INSERT INTO idempotency_keys (token, key, request, status, type, location, answer, created)
		VALUES ($1, $2, $3, 0, '', '', '', $4)`, r.Token, r.Key, r.Request, micros(r.Created))
}

// AnswerKey stores the answer of a request with a key.
func (tx *Tx) AnswerKey(ctx context.Context, r KeyedRequest) error {
	return tx.exec(ctx, "store.AnswerKey", `UPDATE idempotency_keys SET status = $3, type = $4, location = $5, answer = $6
		WHERE token = $1 AND key = $2`, r.Token, r.Key, r.Status, r.Type, r.Location, r.Answer)
}

// ReleaseKey forgets a request with a key: another one may have it.
func (tx *Tx) ReleaseKey(ctx context.Context, r KeyedRequest) error {
	return tx.exec(ctx, "store.ReleaseKey", `DELETE FROM idempotency_keys WHERE token = $1 AND key = $2`, r.Token, r.Key)
}

// ForgetKeys forgets up to limit requests with keys that were made before a time, and returns how many it forgot.
func (tx *Tx) ForgetKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	const op landfall.Op = "store.ForgetKeys"
	old, err := list(ctx, tx.queries, op, func(row scanner) (r KeyedRequest, err error) {
		return r, row.Scan(&r.Token, &r.Key)
	}, `SELECT token, key FROM idempotency_keys WHERE created < $1 ORDER BY created LIMIT $2 + 0`, micros(before), limit)
	for _, r := range old {
		if err == nil {
			err = tx.ReleaseKey(ctx, r)
		}
	}
	return len(old), err
}
