package store

import (
	"context"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
)

//nolint:gosec // G101: they are names of columns, and no credentials
const tokenColumns = `t.hash, t.name, t.scope, t.app, t.namespace, t.created, t.expires, t.used,
	COALESCE((SELECT STRING_AGG(a.id, ' ') FROM apps a
		WHERE t.namespace <> '' AND a.namespace = t.namespace AND a.deleted = 0), '')`

func scanToken(row scanner) (landfall.Token, error) {
	var t landfall.Token
	var created, expires, used int64
	var apps string
	err := row.Scan(&t.Hash, &t.Name, &t.Scope, &t.App, &t.Namespace, &created, &expires, &used, &apps)
	t.Created, t.Expires, t.Used = timeOf(created), timeOf(expires), timeOf(used)
	if apps != "" {
		t.Apps = strings.Fields(apps)
	}
	return t, err
}

// PutToken stores a token, or replaces what is stored for it. It writes nothing when nothing changed.
func (tx *Tx) PutToken(ctx context.Context, t landfall.Token) error {
	return tx.exec(ctx, "store.PutToken", `INSERT INTO tokens (hash, name, scope, app, namespace, created, expires)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (hash) DO UPDATE SET name = excluded.name, scope = excluded.scope, app = excluded.app,
			namespace = excluded.namespace, expires = excluded.expires
			WHERE tokens.name <> excluded.name OR tokens.scope <> excluded.scope OR tokens.app <> excluded.app
				OR tokens.namespace <> excluded.namespace OR tokens.expires <> excluded.expires`,
		t.Hash, t.Name, t.Scope, t.App, t.Namespace, micros(t.Created), micros(t.Expires))
}

// Token returns the token whose text is secret, and notes that it is used now. NotFound when it is not known,
// Unauthorized when it has expired.
func (db *DB) Token(ctx context.Context, secret string, now time.Time) (landfall.Token, error) {
	t, err := one(ctx, db.queries, "store.Token", scanToken, `SELECT `+tokenColumns+` FROM tokens t WHERE t.hash = $1`,
		landfall.DigestOf([]byte(secret)))
	return db.used(ctx, t, now, err)
}

// usedEvery is how often it is noted at most that a token is used.
const usedEvery = 10 * time.Minute

// used returns a token that was read, unless it has expired, and notes that it is used now.
func (db *DB) used(ctx context.Context, t landfall.Token, now time.Time, err error) (landfall.Token, error) {
	switch {
	case err != nil:
		return t, err
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return landfall.Token{}, landfall.Errorf("store.Token", landfall.Unauthorized,
			"the token %s expired on %s: ask for another one (landfall token create)", t.Name, t.Expires.Format(time.DateOnly))
	case now.Sub(t.Used) >= usedEvery && db.uses.begin(t.Hash, now):
		go db.note(context.WithoutCancel(ctx), t.Hash, now)
	}
	return t, nil
}

// uses are the notes that tokens are used, which are written in the background: nobody who uses one waits for a write,
// however long the database takes none.
type uses struct {
	mu      sync.Mutex
	closed  bool
	closing chan struct{} // is closed when no more notes are wanted
	tried   map[landfall.Digest]time.Time
	writing sync.WaitGroup
}

// begin reports whether a use is to be noted: it was not tried lately. The caller ends it by writing.Done.
func (u *uses) begin(token landfall.Digest, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, tried := u.tried[token]; u.closed || tried && now.Sub(last) < usedEvery {
		return false
	}
	if u.tried == nil {
		u.tried, u.closing = map[landfall.Digest]time.Time{}, make(chan struct{})
	}
	u.tried[token] = now
	u.writing.Add(1)
	return true
}

// noteLimit is how long a note may take: the database has more to do than to be waited for.
const noteLimit = 2 * time.Second

// note writes that a token was used. What cannot be noted, for instance on a full disk, or because the database is
// being closed, is noted at a later use.
func (db *DB) note(ctx context.Context, token landfall.Digest, at time.Time) {
	defer db.uses.writing.Done()
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	go func() {
		select {
		case <-db.uses.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	_ = db.engine.note(ctx, `UPDATE tokens SET used = $2 WHERE hash = $1`, string(token), micros(at))
}

// close ends the notes that are being written, and takes no more.
func (u *uses) close() {
	u.mu.Lock()
	if !u.closed && u.closing != nil {
		close(u.closing)
	}
	u.closed = true
	u.mu.Unlock()
	u.writing.Wait()
}

// Tokens returns all tokens, by name.
func (q queries) Tokens(ctx context.Context) ([]landfall.Token, error) {
	return list(ctx, q, "store.Tokens", scanToken, `SELECT `+tokenColumns+` FROM tokens t ORDER BY t.name, t.hash`)
}

// ReplaceToken stores a token and deletes every other one with its name.
func (tx *Tx) ReplaceToken(ctx context.Context, t landfall.Token) error {
	if err := tx.exec(ctx, "store.ReplaceToken", `DELETE FROM tokens WHERE name = $1 AND hash <> $2`, t.Name,
		t.Hash); err != nil {
		return err
	}
	return tx.PutToken(ctx, t)
}

// ForgetToken deletes the token with a name, if there is one. Sessions that began with it end.
func (tx *Tx) ForgetToken(ctx context.Context, name string) error {
	return tx.revoke(ctx, "store.ForgetToken", `t.name = $1`, name)
}

// revoke deletes the tokens for which a condition holds, with the sessions of people who signed in by them.
func (tx *Tx) revoke(ctx context.Context, op landfall.Op, condition, arg string) error {
	for _, statement := range []string{
		`DELETE FROM visits WHERE session IN
			(SELECT s.hash FROM sessions s JOIN tokens t ON t.hash = s.token WHERE ` + condition + `)`,
		`DELETE FROM sessions WHERE token IN (SELECT t.hash FROM tokens t WHERE ` + condition + `)`,
		`DELETE FROM tokens WHERE hash IN (SELECT t.hash FROM tokens t WHERE ` + condition + `)`,
	} {
		if err := tx.exec(ctx, op, statement, arg); err != nil {
			return err
		}
	}
	return nil
}

// ForgetTokens deletes up to limit tokens that expired before a time, the first to expire first, and returns how many
// it deleted.
func (tx *Tx) ForgetTokens(ctx context.Context, before time.Time, limit int) (int, error) {
	const op landfall.Op = "store.ForgetTokens"
	old, err := list(ctx, tx.queries, op, scanToken, `SELECT `+tokenColumns+` FROM tokens t
		WHERE t.expires > 0 AND t.expires < $1 ORDER BY t.expires LIMIT $2 + 0`, micros(before), limit)
	if err != nil {
		return 0, err
	}
	for _, t := range old {
		if err := tx.revoke(ctx, op, `t.hash = $1`, string(t.Hash)); err != nil {
			return 0, err
		}
	}
	return len(old), nil
}
