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

// NamedVersions returns the versions of an app's functions to which something leads that is no release: an alias, a
// function tag, a job that is not over, a webhook, or an execution that is not over; by the functions' names.
func (q queries) NamedVersions(ctx context.Context, app string) ([]landfall.Version, error) {
	return list(ctx, q, "store.NamedVersions", scanVersion, `SELECT `+versionColumns+` FROM (
		SELECT al.unit, al.number FROM `+pinned+` al UNION SELECT al.unit, al.other FROM `+pinned+` al
		UNION SELECT xu.id, x.number FROM executions x JOIN units xu ON xu.namespace = x.namespace AND xu.name = x.function
			AND xu.kind = 'function' WHERE x.finished = 0) n
		JOIN versions v ON v.unit = n.unit AND v.number = n.number JOIN units u ON u.id = v.unit
		WHERE u.app = $1 AND u.kind = 'function' ORDER BY u.name, v.number`, app)
}
