package store

import (
	"context"
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

// Reserve makes a run hold prefixes of its own, and records new ones. It returns those that it cannot hold because they
// are being deleted: their content cannot be relied on, and nothing can be stored there now.
func (tx *Tx) Reserve(ctx context.Context, run, app string, prefixes []string, at time.Time) (refused []string,
	err error) {
	for _, p := range prefixes {
		err := tx.exec(ctx, "store.Reserve", `INSERT INTO prefixes (prefix, app, deleting, created) VALUES ($1, $2, 0, $3)
			ON CONFLICT (prefix) DO NOTHING`, p, app, micros(at))
		if err != nil {
			return nil, err
		}
	}
	return tx.Share(ctx, run, prefixes)
}

// Share makes a run hold prefixes that earlier versions use. It returns those that it cannot hold because they are
// being deleted or are gone: the run must store their content under a prefix of its own.
func (tx *Tx) Share(ctx context.Context, run string, prefixes []string) (refused []string, err error) {
	const op landfall.Op = "store.Share"
	for _, p := range prefixes {
		there, err := one(ctx, tx.queries, op, scanValue[int64],
			`SELECT COUNT(*) FROM prefixes WHERE prefix = $1 AND deleting = 0`, p)
		if err != nil {
			return nil, err
		}
		if there == 0 {
			refused = append(refused, p)
			continue
		}
		err = tx.exec(ctx, op, `INSERT INTO reservations (run, prefix) VALUES ($1, $2) ON CONFLICT (run, prefix) DO NOTHING`,
			run, p)
		if err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// DropReservations ends all reservations of a run.
func (tx *Tx) DropReservations(ctx context.Context, run string) error {
	return tx.exec(ctx, "store.DropReservations", `DELETE FROM reservations WHERE run = $1`, run)
}

// PointInto records that a version uses prefixes.
func (tx *Tx) PointInto(ctx context.Context, unit string, number int64, prefixes []string) error {
	for _, p := range prefixes {
		err := tx.exec(ctx, "store.PointInto", `INSERT INTO version_prefixes (unit, number, prefix) VALUES ($1, $2, $3)
			ON CONFLICT (unit, number, prefix) DO NOTHING`, unit, number, p)
		if err != nil {
			return err
		}
	}
	return nil
}

// PrefixesOf returns the prefixes that a version uses.
func (q queries) PrefixesOf(ctx context.Context, unit string, number int64) ([]string, error) {
	return list(ctx, q, "store.PrefixesOf", scanValue[string],
		`SELECT prefix FROM version_prefixes WHERE unit = $1 AND number = $2 ORDER BY prefix`, unit, number)
}

// MarkDeleting marks the prefixes of an app that nothing holds, and returns all marked ones. A prefix is held by a
// reservation, by a version of an accessible release, or by any version of a kind that keeps its content while it
// exists. The versions that used a marked prefix no longer have stored content. The check and the mark are one
// transaction.
func (tx *Tx) MarkDeleting(ctx context.Context, app string) ([]string, error) {
	const op landfall.Op = "store.MarkDeleting"
	err := tx.exec(ctx, op, `UPDATE prefixes SET deleting = 1 WHERE app = $1 AND deleting = 0
		AND NOT EXISTS (SELECT 1 FROM reservations rs WHERE rs.prefix = prefixes.prefix)
		AND NOT EXISTS (SELECT 1 FROM version_prefixes vp JOIN units u ON u.id = vp.unit WHERE vp.prefix = prefixes.prefix
			AND (u.kind <> 'static' OR EXISTS (SELECT 1 FROM group_units gu JOIN releases r ON r.app = gu.app AND r.uid = gu.grp
				WHERE gu.unit = vp.unit AND gu.number = vp.number AND r.expired = 0)))`, app)
	if err != nil {
		return nil, err
	}
	err = tx.exec(ctx, op,
		`UPDATE versions SET content = '' WHERE (unit, number) IN (SELECT vp.unit, vp.number FROM version_prefixes vp
		JOIN prefixes p ON p.prefix = vp.prefix WHERE p.app = $1 AND p.deleting = 1)`, app)
	if err != nil {
		return nil, err
	}
	err = tx.exec(ctx, op,
		`DELETE FROM version_prefixes WHERE (unit, number) IN (SELECT vp.unit, vp.number FROM version_prefixes vp
		JOIN prefixes p ON p.prefix = vp.prefix WHERE p.app = $1 AND p.deleting = 1)`, app)
	if err != nil {
		return nil, err
	}
	return list(ctx, tx.queries, op, scanValue[string],
		`SELECT prefix FROM prefixes WHERE app = $1 AND deleting = 1 ORDER BY prefix`, app)
}

// DropPrefix forgets a prefix whose objects are deleted.
func (tx *Tx) DropPrefix(ctx context.Context, prefix string) error {
	return tx.exec(ctx, "store.DropPrefix", `DELETE FROM prefixes WHERE prefix = $1 AND deleting = 1`, prefix)
}

// PutBuild records the output of a build. The first record of an input wins and is returned.
func (tx *Tx) PutBuild(ctx context.Context, app string, input landfall.Digest, run string, output json.RawMessage,
	at time.Time) (json.RawMessage, error) {
	const op landfall.Op = "store.PutBuild"
	err := tx.exec(ctx, op,
		`INSERT INTO builds (app, input, output, run, created) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (app,
			input) DO NOTHING`,
		app, input, string(output), run, micros(at))
	if err != nil {
		return nil, err
	}
	return tx.Build(ctx, app, input)
}

// Build returns the output of the build of an input. NotFound when it was never built, or must be built again.
func (q queries) Build(ctx context.Context, app string, input landfall.Digest) (json.RawMessage, error) {
	output, err := one(ctx, q, "store.Build", scanValue[string], `SELECT output FROM builds WHERE app = $1 AND input = $2`,
		app, input)
	return json.RawMessage(output), err
}

// DeleteBuild forgets the output of the build of an input.
func (tx *Tx) DeleteBuild(ctx context.Context, app string, input landfall.Digest) error {
	return tx.exec(ctx, "store.DeleteBuild", `DELETE FROM builds WHERE app = $1 AND input = $2`, app, input)
}

// CreatePrefix records a folder that no run reserves: a collection takes it away unless a version uses it by then.
func (tx *Tx) CreatePrefix(ctx context.Context, prefix, app string, at time.Time) error {
	return tx.exec(ctx, "store.CreatePrefix",
		`INSERT INTO prefixes (prefix, app, deleting, created) VALUES ($1, $2, 0, $3)`, prefix, app, micros(at))
}

// PrefixesThere reports whether all the folders are recorded, and none is being deleted.
func (q queries) PrefixesThere(ctx context.Context, prefixes []string) (bool, error) {
	for _, p := range prefixes {
		n, err := one(ctx, q, "store.PrefixesThere", scanValue[int64],
			`SELECT COUNT(*) FROM prefixes WHERE prefix = $1 AND deleting = 0`, p)
		if err != nil || n == 0 {
			return false, err
		}
	}
	return true, nil
}
