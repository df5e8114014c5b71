package store

import (
	"context"

	"landfall.dev/landfall"
)

func scanToken(row scanner) (landfall.Token, error) {
	var t landfall.Token
	var created int64
	err := row.Scan(&t.Hash, &t.Name, &t.Scope, &t.App, &created)
	t.Created = timeOf(created)
	return t, err
}

// PutToken stores a token, or replaces what is stored for it. It writes nothing when nothing changed.
func (tx *Tx) PutToken(ctx context.Context, t landfall.Token) error {
	return tx.exec(ctx, "store.PutToken", `INSERT INTO tokens (hash, name, scope, app, created) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (hash) DO UPDATE SET name = excluded.name, scope = excluded.scope, app = excluded.app
			WHERE tokens.name <> excluded.name OR tokens.scope <> excluded.scope OR tokens.app <> excluded.app`,
		t.Hash, t.Name, t.Scope, t.App, micros(t.Created))
}

// Token returns the token whose text is secret. NotFound when it is not known.
func (q queries) Token(ctx context.Context, secret string) (landfall.Token, error) {
	return one(ctx, q, "store.Token", scanToken,
		`SELECT hash, name, scope, app, created FROM tokens WHERE hash = $1`, landfall.DigestOf([]byte(secret)))
}

// ReplaceToken stores a token and deletes every other one with its name.
func (tx *Tx) ReplaceToken(ctx context.Context, t landfall.Token) error {
	if err := tx.exec(ctx, "store.ReplaceToken", `DELETE FROM tokens WHERE name = $1 AND hash <> $2`, t.Name,
		t.Hash); err != nil {
		return err
	}
	return tx.PutToken(ctx, t)
}

// ForgetToken deletes the token with a name, if there is one.
func (tx *Tx) ForgetToken(ctx context.Context, name string) error {
	return tx.exec(ctx, "store.ForgetToken", `DELETE FROM tokens WHERE name = $1`, name)
}
