package store

import (
	"cmp"
	"context"
	"math"
	"time"

	"landfall.dev/landfall"
)

const aliasQuery = `SELECT a.name, a.percent, v.number, v.uid, COALESCE(o.number, 0), COALESCE(o.uid, ''), a.moved, a.sticky,
	a.declared
	FROM aliases a
	JOIN versions v ON v.unit = a.unit AND v.number = a.number
	LEFT JOIN versions o ON o.unit = a.unit AND o.number = a.other`

func scanAlias(row scanner) (landfall.Alias, error) {
	var a landfall.Alias
	var first, other landfall.AliasShare
	var moved int64
	err := row.Scan(&a.Name, &first.Percent, &first.Number, &first.UID, &other.Number, &other.UID, &moved,
		&a.Sticky, &a.Declared)
	a.Moved, a.Shares = timeOf(moved), []landfall.AliasShare{first}
	if other.Number > 0 {
		const all = 100
		other.Percent = all - first.Percent
		a.Shares = append(a.Shares, other)
	}
	return a, err
}

// PutAlias stores an alias of a unit, new or moved. Its versions must be there.
func (tx *Tx) PutAlias(ctx context.Context, unit string, a landfall.Alias) error {
	var other int64
	if len(a.Shares) > 1 {
		other = a.Shares[1].Number
	}
	return tx.exec(ctx, "store.PutAlias",
		`INSERT INTO aliases (unit, name, number, percent, other, moved, sticky, declared)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (unit, name) DO UPDATE SET number = excluded.number, percent = excluded.percent, other = excluded.other,
		moved = excluded.moved, sticky = excluded.sticky, declared = excluded.declared`,
		unit, a.Name, a.Shares[0].Number, a.Shares[0].Percent, other, micros(a.Moved), a.Sticky, a.Declared)
}

// DeleteAlias removes an alias.
func (tx *Tx) DeleteAlias(ctx context.Context, unit, name string) error {
	return tx.exec(ctx, "store.DeleteAlias", `DELETE FROM aliases WHERE unit = $1 AND name = $2`, unit, name)
}

// Alias returns an alias of a unit. NotFound, with a sentence, when there is none.
func (q queries) Alias(ctx context.Context, unit, name string) (landfall.Alias, error) {
	const op landfall.Op = "store.Alias"
	a, err := one(ctx, q, op, scanAlias, aliasQuery+` WHERE a.unit = $1 AND a.name = $2`, unit, name)
	if landfall.Is(err, landfall.NotFound) {
		return a, landfall.Errorf(op, landfall.NotFound, "there is no alias %q", name)
	}
	return a, err
}

// Aliases returns the aliases of a unit by name.
func (q queries) Aliases(ctx context.Context, unit string) ([]landfall.Alias, error) {
	return list(ctx, q, "store.Aliases", scanAlias, aliasQuery+` WHERE a.unit = $1 ORDER BY a.name`, unit)
}

// AliasMove is one move of an alias.
type AliasMove struct {
	ID       int64 // is set when it is read
	Alias    string
	From, To string // as landfall.Alias says it; empty when it was new, and when it was removed
	Actor    string
	Reason   string
	At       time.Time
}

// CreateAliasMove records that an alias of a unit moved. Of all aliases of a unit the newest 1,000 moves are kept.
func (tx *Tx) CreateAliasMove(ctx context.Context, unit string, m AliasMove) error {
	const op landfall.Op = "store.CreateAliasMove"
	const most = 1000
	id, err := tx.next(ctx, "alias_moves")
	if err != nil {
		return err
	}
	err = tx.exec(ctx, op, `INSERT INTO alias_moves (id, unit, alias, moved_from, moved_to, actor, at, reason)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, id, unit, m.Alias, m.From, m.To, m.Actor, micros(m.At), m.Reason)
	if err != nil {
		return err
	}
	return tx.exec(ctx, op, `DELETE FROM alias_moves WHERE unit = $1 AND id IN (
		SELECT o.id FROM alias_moves o WHERE o.unit = $1 ORDER BY o.id DESC LIMIT $2 + 0 OFFSET $2 + 0)`, unit, most)
}

// AliasMoves returns the moves of an alias of a unit whose ID is less than before, newest first; for 0 the newest.
func (q queries) AliasMoves(ctx context.Context, unit, alias string, before int64, limit int) ([]AliasMove, error) {
	return list(ctx, q, "store.AliasMoves", func(row scanner) (AliasMove, error) {
		m, at := AliasMove{Alias: alias}, int64(0)
		err := row.Scan(&m.ID, &m.From, &m.To, &m.Actor, &at, &m.Reason)
		m.At = timeOf(at)
		return m, err
	}, `SELECT id, moved_from, moved_to, actor, at, reason FROM alias_moves WHERE unit = $1 AND alias = $2 AND id < $3
		ORDER BY id DESC LIMIT $4 + 0`, unit, alias, cmp.Or(before, math.MaxInt64), limit)
}
