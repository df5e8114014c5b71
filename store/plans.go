package store

import (
	"context"
	"encoding/json"

	"landfall.dev/landfall"
)

// Plan returns the plan of a namespace; one without limits when it has none.
func (q queries) Plan(ctx context.Context, namespace string) (landfall.Plan, error) {
	p, err := one(ctx, q, "store.Plan", func(row scanner) (p landfall.Plan, err error) {
		var limits string
		if err = row.Scan(&limits); err == nil {
			err = json.Unmarshal([]byte(limits), &p)
		}
		return p, err
	}, `SELECT limits FROM plans WHERE namespace = $1`, namespace)
	return p, landfall.Ignore(err, landfall.NotFound)
}

// SetPlan sets the plan of a namespace.
func (tx *Tx) SetPlan(ctx context.Context, namespace string, p landfall.Plan) error {
	limits, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.SetPlan", `INSERT INTO plans (namespace, limits) VALUES ($1, $2)
		ON CONFLICT (namespace) DO UPDATE SET limits = excluded.limits`, namespace, string(limits))
}

// Counts returns how many apps a namespace has, how many accessible releases they have, and how many bytes are stored.
func (q queries) Counts(ctx context.Context, namespace string) (landfall.Usage, error) {
	return one(ctx, q, "store.Counts", func(row scanner) (u landfall.Usage, err error) {
		return u, row.Scan(&u.Apps, &u.Releases, &u.Bytes)
	}, `SELECT (SELECT COUNT(*) FROM apps WHERE namespace = $1 AND deleted = 0 AND name <> namespace),
		(SELECT COUNT(*) FROM apps a JOIN releases r ON r.app = a.id AND r.expired = 0 WHERE a.namespace = $1),
		(SELECT CAST(COALESCE(SUM(CASE WHEN p.bytes > 0 THEN p.bytes ELSE 0 END), 0) AS BIGINT)
			FROM apps a JOIN prefixes p ON p.app = a.id WHERE a.namespace = $1)`, namespace)
}

// FunctionSpecs returns the specs of the functions of a group version.
func (q queries) FunctionSpecs(ctx context.Context, app string, group landfall.UID) ([]json.RawMessage, error) {
	return list(ctx, q, "store.FunctionSpecs", scanSpec, `SELECT v.spec
		FROM group_units gu JOIN units u ON u.id = gu.unit AND u.kind = 'function'
		JOIN versions v ON v.unit = gu.unit AND v.number = gu.number WHERE gu.app = $1 AND gu.grp = $2`, app, group)
}

// LiveFunctionSpecs returns the specs of the functions of the live releases of a namespace, and of those that people
// made by hand; without those of one app.
func (q queries) LiveFunctionSpecs(ctx context.Context, namespace, without string) ([]json.RawMessage, error) {
	return list(ctx, q, "store.LiveFunctionSpecs", scanSpec, `SELECT v.spec
		FROM apps a JOIN group_units gu ON gu.app = a.id AND gu.grp = CASE WHEN a.name = a.namespace
			THEN (SELECT l.grp FROM applies l WHERE l.app = a.id ORDER BY l.id DESC LIMIT 1) ELSE a.live END
		JOIN units u ON u.id = gu.unit AND u.kind = 'function'
		JOIN versions v ON v.unit = gu.unit AND v.number = gu.number
		WHERE a.namespace = $1 AND a.deleted = 0 AND a.id <> $2`, namespace, without)
}

func scanSpec(row scanner) (json.RawMessage, error) {
	var spec string
	err := row.Scan(&spec)
	return json.RawMessage(spec), err
}

// SizePrefix records how many bytes a prefix has.
func (tx *Tx) SizePrefix(ctx context.Context, prefix string, bytes int64) error {
	return tx.exec(ctx, "store.SizePrefix", `UPDATE prefixes SET bytes = $2 WHERE prefix = $1`, prefix, bytes)
}

// Unsized returns some prefixes of an app whose bytes were not counted yet.
func (q queries) Unsized(ctx context.Context, app string, limit int) ([]string, error) {
	return list(ctx, q, "store.Unsized", scanValue[string], `SELECT p.prefix FROM prefixes p
		WHERE p.app = $1 AND p.bytes < 0 AND p.deleting = 0
		AND NOT EXISTS (SELECT 1 FROM reservations rs WHERE rs.prefix = p.prefix)
		ORDER BY p.prefix LIMIT $2 + 0`, app, limit)
}
