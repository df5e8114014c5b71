package store

import (
	"context"

	"landfall.dev/landfall"
)

// Holder is what keeps a version from being deleted.
type Holder struct {
	Kind string // release, canary, alias, function tag, job, webhook or execution
	Name string // of an alias or a function tag its name, else an id; of a canary that of its release
}

// functionUses are the jobs that are not over and the webhooks, with the version that each names; 0: the latest.
const functionUses = `(SELECT 'job' AS kind, id, unit, number FROM function_jobs WHERE state IN ('running', 'paused')
	UNION ALL SELECT 'webhook', id, unit, number FROM function_hooks)`

// FunctionUses returns the jobs of a function that are not over, and its webhooks, by kind and name.
func (q queries) FunctionUses(ctx context.Context, unit string) ([]Holder, error) {
	return list(ctx, q, "store.FunctionUses", func(row scanner) (h Holder, err error) {
		return h, row.Scan(&h.Kind, &h.Name)
	}, `SELECT f.kind, f.id FROM `+functionUses+` f WHERE f.unit = $1 ORDER BY 1, 2`, unit)
}

// VersionHolders returns the accessible releases that have a version or pin it, the one of them whose canary runs, the
// aliases and function tags that name it, the jobs that are not over and the webhooks that name its number, and the
// executions that are not over and use it, by kind and name; of the executions the oldest few.
func (q queries) VersionHolders(ctx context.Context, unit string, number int64) ([]Holder, error) {
	const most = 10
	scan := func(row scanner) (h Holder, err error) { return h, row.Scan(&h.Kind, &h.Name) }
	pointers, err := list(ctx, q, "store.VersionHolders", scan, `SELECT 'alias' AS kind, a.name FROM aliases a
			WHERE a.unit = $1 AND $2 IN (a.number, a.other)
		UNION SELECT 'release', r.uid FROM group_units gu JOIN releases r ON r.app = gu.app AND r.uid = gu.grp
			WHERE gu.unit = $1 AND gu.number = $2 AND r.expired = 0
		UNION SELECT 'canary', c.release_uid FROM group_units gu
			JOIN release_canaries c ON c.app = gu.app AND c.release_uid = gu.grp AND c.ended = 0
			WHERE gu.unit = $1 AND gu.number = $2
		UNION SELECT f.kind, f.id FROM `+functionUses+` f WHERE f.unit = $1 AND f.number = $2
		UNION SELECT 'release', pr.uid FROM version_pins p JOIN group_units pg ON pg.unit = p.unit AND pg.number = p.number
			JOIN releases pr ON pr.app = pg.app AND pr.uid = pg.grp AND pr.expired = 0
			WHERE p.target = $1 AND p.target_number = $2
		UNION SELECT 'function tag', e.tag FROM function_tag_entries e WHERE e.unit = $1 AND e.number = $2
		ORDER BY 1, 2`, unit, number)
	if err != nil {
		return nil, err
	}
	executions, err := list(ctx, q, "store.VersionHolders", scan,
		`SELECT 'execution', x.id FROM executions x WHERE x.finished = 0 AND (
			EXISTS (SELECT 1 FROM units u WHERE u.id = $1 AND u.kind = 'function' AND u.namespace = x.namespace
			AND u.name = x.function
				AND x.number = $2)
			OR EXISTS (SELECT 1 FROM group_units gu WHERE gu.app = x.app AND gu.grp = x.grp AND gu.unit = $1 AND gu.number = $2))
		ORDER BY x.created, x.id LIMIT $3 + 0`, unit, number, most)
	return append(pointers, executions...), err
}

// DescribeVersion stores what a person says about a version.
func (tx *Tx) DescribeVersion(ctx context.Context, unit string, v landfall.Version) error {
	return tx.exec(ctx, "store.DescribeVersion", `UPDATE versions SET description = $3 WHERE unit = $1 AND number = $2`,
		unit, v.Number, v.Description)
}
