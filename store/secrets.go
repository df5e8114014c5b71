package store

import (
	"context"
	"encoding/json"

	"landfall.dev/landfall"
)

// GroupSecret is a secret that a group version has in force.
type GroupSecret struct {
	Name    string
	Number  int64
	Content json.RawMessage // nil when the version was deleted
}

// SecretsOf returns the secrets of a group version by name.
func (q queries) SecretsOf(ctx context.Context, app string, group landfall.UID) ([]GroupSecret, error) {
	return list(ctx, q, "store.SecretsOf", func(row scanner) (s GroupSecret, err error) {
		var content string
		if err = row.Scan(&s.Name, &s.Number, &content); content != "" {
			s.Content = json.RawMessage(content)
		}
		return s, err
	}, `SELECT u.name, gu.number, COALESCE(v.content, '') FROM group_units gu JOIN units u ON u.id = gu.unit
		AND u.kind = 'secret'
		LEFT JOIN versions v ON v.unit = gu.unit AND v.number = gu.number WHERE gu.app = $1 AND gu.grp = $2 ORDER BY u.name`,
		app, group)
}

// NewestVersion returns the version of a unit with a spec that was made last. NotFound when there is none.
func (q queries) NewestVersion(ctx context.Context, unit string, spec json.RawMessage) (landfall.Version, error) {
	return one(ctx, q, "store.NewestVersion", scanVersion,
		`SELECT `+versionColumns+` FROM versions v JOIN units u ON u.id = v.unit
		WHERE v.unit = $1 AND v.spec = $2 ORDER BY v.number DESC LIMIT 1`, unit, string(spec))
}

// NewestSecret returns the newest secret version that still has a value. It leaves out deleted apps. NotFound when
// there is none.
func (q queries) NewestSecret(ctx context.Context) (landfall.Version, error) {
	return one(ctx, q, "store.NewestSecret", scanVersion,
		`SELECT `+versionColumns+` FROM units u JOIN versions v ON v.unit = u.id
		JOIN apps a ON a.id = u.app AND a.deleted = 0
		WHERE u.kind = 'secret' AND v.content LIKE '{"sealed":%' ORDER BY v.created DESC, v.number DESC LIMIT 1`)
}

// ReleasesWith returns the accessible releases that have a version of a unit, newest first.
func (q queries) ReleasesWith(ctx context.Context, unit string) ([]landfall.UID, error) {
	return list(ctx, q, "store.ReleasesWith", scanValue[landfall.UID], `SELECT r.uid FROM group_units gu
		JOIN releases r ON r.app = gu.app AND r.uid = gu.grp AND r.expired = 0 WHERE gu.unit = $1 ORDER BY r.created DESC`,
		unit)
}

// FunctionsWith returns the versions of functions, by their numbers, that need a version of a unit to run, and to which
// something leads that is no release: an alias, a function tag, a job that is not over, a webhook, or an execution that
// is not over.
func (q queries) FunctionsWith(ctx context.Context, unit string) ([]landfall.Reference, error) {
	return list(ctx, q, "store.FunctionsWith", func(row scanner) (r landfall.Reference, err error) {
		return r, row.Scan(&r.Name, &r.Selector)
	}, `SELECT fu.name, CAST(fv.number AS TEXT) FROM `+pinned+` al JOIN units fu ON fu.id = al.unit
		JOIN versions fv ON fv.unit = al.unit AND fv.number IN (al.number, al.other)
		JOIN group_units gu ON gu.app = fu.app AND gu.grp = fv.uid AND gu.unit = $1
		UNION SELECT x.function, CAST(x.number AS TEXT) FROM executions x
			JOIN group_units gu ON gu.app = x.app AND gu.grp = x.grp AND gu.unit = $1 WHERE x.finished = 0
		ORDER BY 1, 2`, unit)
}
