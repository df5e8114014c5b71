package store

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"landfall.dev/landfall"
)

// Unit is a unit's row. It outlives the unit's versions, so that numbers are never reused.
type Unit struct {
	ID         string
	Unit       landfall.UnitID
	Namespace  string
	App        string // the owner's id; empty for a unit made by hand
	LastNumber int64
	Retired    bool
}

const unitColumns = `u.id, u.kind, u.name, u.namespace, u.app, u.last_number, u.retired`

func scanUnit(row scanner) (Unit, error) {
	var u Unit
	err := row.Scan(&u.ID, &u.Unit.Kind, &u.Unit.Name, &u.Namespace, &u.App, &u.LastNumber, &u.Retired)
	return u, err
}

// scope is where names of a kind must be unique: the namespace for functions and packages, else the app.
func scope(kind landfall.UnitKind, namespace, app string) string {
	if kind.InNamespace() {
		return "namespace/" + namespace
	}
	return "app/" + app
}

// Unit returns the unit for which an app uses a name. NotFound when there never was one.
func (q queries) Unit(ctx context.Context, app landfall.App, id landfall.UnitID) (Unit, error) {
	return one(ctx, q, "store.Unit", scanUnit,
		`SELECT `+unitColumns+` FROM units u WHERE u.scope = $1 AND u.kind = $2 AND u.name = $3`,
		scope(id.Kind, app.Namespace, app.ID), id.Kind, id.Name)
}

// UnitInNamespace returns a function or package by namespace and name. NotFound when there never was one.
func (q queries) UnitInNamespace(ctx context.Context, namespace string, id landfall.UnitID) (Unit, error) {
	return one(ctx, q, "store.UnitInNamespace", scanUnit,
		`SELECT `+unitColumns+` FROM units u WHERE u.scope = $1 AND u.kind = $2 AND u.name = $3`,
		scope(id.Kind, namespace, ""), id.Kind, id.Name)
}

// UnitsOf returns every unit that an app owns, retired ones included.
func (q queries) UnitsOf(ctx context.Context, app string) ([]Unit, error) {
	return list(ctx, q, "store.UnitsOf", scanUnit,
		`SELECT `+unitColumns+` FROM units u WHERE u.app = $1 ORDER BY u.kind, u.name`, app)
}

// UnitsInNamespace returns the units of a kind that are in force in a namespace.
func (q queries) UnitsInNamespace(ctx context.Context, namespace string, kind landfall.UnitKind) ([]Unit, error) {
	return list(ctx, q, "store.UnitsInNamespace", scanUnit, `SELECT `+unitColumns+` FROM units u
		WHERE u.scope = $1 AND u.kind = $2 AND u.retired = 0 ORDER BY u.name`, scope(kind, namespace, ""), kind)
}

// FunctionsWithVersions returns the functions of a namespace that have versions, also the retired ones of which
// something holds one.
func (q queries) FunctionsWithVersions(ctx context.Context, namespace string) ([]Unit, error) {
	return list(ctx, q, "store.FunctionsWithVersions", scanUnit, `SELECT `+unitColumns+` FROM units u
		WHERE u.scope = $1 AND u.kind = $2 AND EXISTS (SELECT 1 FROM versions v WHERE v.unit = u.id) ORDER BY u.name`,
		scope(landfall.FunctionUnit, namespace, ""), landfall.FunctionUnit)
}

// FunctionsRunning returns the names of the functions of a package's owner with a version that runs one of the package.
func (q queries) FunctionsRunning(ctx context.Context, pkg Unit) ([]string, error) {
	return list(ctx, q, "store.FunctionsRunning", scanValue[string], `SELECT DISTINCT u.name FROM units u
		JOIN versions v ON v.unit = u.id WHERE u.app = $1 AND u.namespace = $2 AND u.kind = 'function'
		AND v.content LIKE '{"packageref":{"name":"' || $3 || '-________"%' ORDER BY u.name`, pkg.App, pkg.Namespace,
		pkg.Unit.Name)
}

// CreateUnit stores a unit owned by an app. For functions and packages the numbers continue those of a deleted app's
// unit with the same name in the namespace, so a number always means one version.
func (tx *Tx) CreateUnit(ctx context.Context, app landfall.App, id landfall.UnitID) (Unit, error) {
	const op landfall.Op = "store.CreateUnit"
	u := Unit{ID: uuid.NewString(), Unit: id, Namespace: app.Namespace, App: app.ID}
	if id.Kind.InNamespace() {
		var err error
		if u.LastNumber, err = one(ctx, tx.queries, op, scanValue[int64],
			`SELECT COALESCE(MAX(last_number), 0) FROM units WHERE namespace = $1 AND kind = $2 AND name = $3`, app.Namespace,
			id.Kind, id.Name); err != nil {
			return u, err
		}
	}
	return u, tx.exec(ctx, op, `INSERT INTO units (id, scope, kind, name, namespace, app, last_number, retired)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0)`, u.ID, scope(id.Kind, app.Namespace, app.ID), id.Kind, id.Name, app.Namespace,
		app.ID, u.LastNumber)
}

// UpdateUnit stores a unit's owner, last number and whether it is retired.
func (tx *Tx) UpdateUnit(ctx context.Context, u Unit) error {
	return tx.exec(ctx, "store.UpdateUnit", `UPDATE units SET app = $2, last_number = $3, retired = $4 WHERE id = $1`,
		u.ID, u.App, u.LastNumber, u.Retired)
}

const versionColumns = `u.kind, u.name, u.namespace, u.app, v.number, v.uid, v.label, v.description, v.digest, v.spec,
	v.content, v.commit_sha, v.created, v.production, v.retired`

func scanVersion(row scanner) (landfall.Version, error) {
	var v landfall.Version
	var spec, content string
	var created int64
	err := row.Scan(&v.Unit.Kind, &v.Unit.Name, &v.Namespace, &v.App, &v.Number, &v.UID, &v.Label,
		&v.Description, &v.Digest, &spec, &content, &v.Commit, &created, &v.Production, &v.Retired)
	v.Created = timeOf(created)
	v.Spec = json.RawMessage(spec)
	if content != "" {
		v.Content = json.RawMessage(content)
	}
	return v, err
}

// CreateVersion stores a version of a unit.
func (tx *Tx) CreateVersion(ctx context.Context, unit string, v landfall.Version) error {
	return tx.exec(ctx, "store.CreateVersion",
		`INSERT INTO versions (unit, number, uid, label, description, digest, spec, content,
			commit_sha, created, production, retired) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0)`,
		unit, v.Number, v.UID, v.Label, v.Description, v.Digest, string(v.Spec), string(v.Content), v.Commit,
		micros(v.Created), v.Production)
}

// MarkVersion stores the fields of a version that change when an apply uses it again: where its content is stored, that
// production had it, and that it is back in its tracker.
func (tx *Tx) MarkVersion(ctx context.Context, unit string, v landfall.Version) error {
	return tx.exec(ctx, "store.MarkVersion",
		`UPDATE versions SET content = $3, production = $4, retired = $5 WHERE unit = $1 AND number = $2`,
		unit, v.Number, string(v.Content), v.Production, v.Retired)
}

// VersionByDigest returns the newest version of a unit with a digest. NotFound when it has none.
func (q queries) VersionByDigest(ctx context.Context, unit string, digest landfall.Digest) (landfall.Version, error) {
	return one(ctx, q, "store.VersionByDigest", scanVersion,
		`SELECT `+versionColumns+` FROM versions v JOIN units u ON u.id = v.unit
		WHERE v.unit = $1 AND v.digest = $2 ORDER BY v.number DESC LIMIT 1`, unit, digest)
}

// VersionByNumber returns a version of a unit. NotFound when it has none of that number, or no longer.
func (q queries) VersionByNumber(ctx context.Context, unit string, number int64) (landfall.Version, error) {
	return one(ctx, q, "store.VersionByNumber", scanVersion,
		`SELECT `+versionColumns+` FROM versions v JOIN units u ON u.id = v.unit
		WHERE v.unit = $1 AND v.number = $2`, unit, number)
}

// VersionByUID returns a version of a unit. NotFound when it has none of that uid, or no longer.
func (q queries) VersionByUID(ctx context.Context, unit string, uid landfall.UID) (landfall.Version, error) {
	return one(ctx, q, "store.VersionByUID", scanVersion,
		`SELECT `+versionColumns+` FROM versions v JOIN units u ON u.id = v.unit
		WHERE v.unit = $1 AND v.uid = $2`, unit, uid)
}

// VersionNamed returns the version of a unit with a uid or a label. NotFound when there is none. It reads no
// other versions of the unit: labels are found by their own index.
func (q queries) VersionNamed(ctx context.Context, unit, name string) (landfall.Version, error) {
	return one(ctx, q, "store.VersionNamed", scanVersion,
		`SELECT `+versionColumns+` FROM (SELECT unit, number FROM versions WHERE unit = $1 AND uid = $2
			UNION SELECT unit, number FROM versions WHERE label = $2 AND label <> '' AND unit || '' = $1) n
		JOIN versions v ON v.unit = n.unit AND v.number = n.number JOIN units u ON u.id = v.unit
		ORDER BY v.number DESC LIMIT 1`, unit, name)
}

// NewestVersions returns up to limit versions of a unit, the newest first, also those that left the spec and are still
// held.
func (q queries) NewestVersions(ctx context.Context, unit string, limit int) ([]landfall.Version, error) {
	return list(ctx, q, "store.NewestVersions", scanVersion,
		`SELECT `+versionColumns+` FROM versions v JOIN units u ON u.id = v.unit
		WHERE v.unit = $1 ORDER BY v.number DESC LIMIT $2 + 0`, unit, limit)
}

// Versions returns the versions of a unit in the order of their numbers: those in the unit's tracker and, with retired,
// also those that left the spec and are still held.
func (q queries) Versions(ctx context.Context, unit string, retired bool) ([]landfall.Version, error) {
	return list(ctx, q, "store.Versions", scanVersion,
		`SELECT `+versionColumns+` FROM versions v JOIN units u ON u.id = v.unit
		WHERE v.unit = $1 AND (v.retired = 0 OR $2 = 1) ORDER BY v.number`, unit, retired)
}

// VersionsAfter returns the versions in the tracker of a unit that come after a number, in the order of their numbers.
func (q queries) VersionsAfter(ctx context.Context, unit string, after int64, limit int) ([]landfall.Version, error) {
	return list(ctx, q, "store.VersionsAfter", scanVersion,
		`SELECT `+versionColumns+` FROM versions v JOIN units u ON u.id = v.unit
		WHERE v.unit = $1 AND v.number > $2 AND v.retired = 0 ORDER BY v.number LIMIT $3 + 0`, unit, after, limit)
}

// CountVersions returns how many versions a unit has in its tracker.
func (q queries) CountVersions(ctx context.Context, unit string) (int, error) {
	return one(ctx, q, "store.CountVersions", scanValue[int],
		`SELECT COUNT(*) FROM versions WHERE unit = $1 AND retired = 0`, unit)
}

// HasVersions reports whether a unit has versions in its tracker, and whether it has any at all, including those that
// are only held.
func (q queries) HasVersions(ctx context.Context, unit string) (tracked, held bool, err error) {
	there, err := one(ctx, q, "store.HasVersions", func(row scanner) (there [2]bool, err error) {
		return there, row.Scan(&there[0], &there[1])
	}, `SELECT EXISTS (SELECT 1 FROM versions WHERE unit = $1 AND retired = 0), EXISTS (SELECT 1 FROM versions
		WHERE unit = $1)`, unit)
	return there[0], there[1], err
}

// LatestNumber returns the number of the version of a unit that production of its owner applied last, if it still
// exists. NotFound for a unit without an owner, and for one that production never had or has no longer.
func (q queries) LatestNumber(ctx context.Context, unit string) (int64, error) {
	return one(ctx, q, "store.LatestNumber", scanValue[int64], `SELECT gu.number FROM units u
		JOIN applies a ON a.app = u.app AND a.line = 'production'
		JOIN group_units gu ON gu.app = a.app AND gu.grp = a.grp AND gu.unit = u.id
		JOIN versions v ON v.unit = gu.unit AND v.number = gu.number
		WHERE u.id = $1 AND u.retired = 0 AND v.retired = 0
		AND EXISTS (SELECT 1 FROM group_units gl WHERE gl.app = u.app AND gl.unit = u.id AND gl.grp =
			(SELECT al.grp FROM applies al WHERE al.app = u.app AND al.line = 'production' ORDER BY al.id DESC LIMIT 1))
		ORDER BY a.id DESC LIMIT 1`, unit)
}

// sameContent is true for a version v that a unit gu of a group version needs: itself, and every version of a package
// with the same content, because a function runs the one with which it was made, and a person may have made another.
const sameContent = `gu.unit = v.unit AND (gu.number = v.number OR (gu.digest = v.digest
	AND EXISTS (SELECT 1 FROM units pu WHERE pu.id = v.unit AND pu.kind = 'package')))`

// packageHolds is true for a version v of a package whose content an accessible release has.
const packageHolds = `EXISTS (SELECT 1 FROM units pu JOIN releases r ON r.app = pu.app AND r.expired = 0
	JOIN group_units gu ON gu.app = r.app AND gu.grp = r.uid AND gu.unit = pu.id AND gu.digest = v.digest
	WHERE pu.id = v.unit AND pu.kind = 'package')`

// pinned are the versions to which something leads that is no release: an alias, a function tag, a job that is not
// over, or a webhook; and those that aliases and function tags name which an accessible release declares.
const pinned = `(SELECT unit, number, other FROM aliases
	UNION ALL SELECT unit, number, 0 FROM function_jobs WHERE number > 0 AND state IN ('running', 'paused')
	UNION ALL SELECT unit, number, 0 FROM function_hooks WHERE number > 0
	UNION ALL SELECT unit, number, 0 FROM function_tag_entries
	UNION ALL SELECT p.target, p.target_number, 0 FROM version_pins p
		JOIN group_units pg ON pg.unit = p.unit AND pg.number = p.number
		JOIN releases pr ON pr.app = pg.app AND pr.uid = pg.grp AND pr.expired = 0)`

// pinHolds is true for a version v that is pinned, and for a version that such a version needs to run: its package,
// environment, configuration and secrets, in the group version that made it.
const pinHolds = `(EXISTS (SELECT 1 FROM ` + pinned + ` al WHERE al.unit = v.unit AND v.number IN (al.number, al.other))
	OR EXISTS (SELECT 1 FROM ` + pinned + ` al JOIN units fu ON fu.id = al.unit
	JOIN versions fv ON fv.unit = al.unit AND fv.number IN (al.number, al.other)
	JOIN group_units gu ON gu.app = fu.app AND gu.grp = fv.uid AND ` + sameContent + `
	JOIN units au ON au.id = gu.unit
	WHERE (v.unit = fv.unit AND v.number = fv.number) OR au.kind IN ('package', 'environment', 'config', 'secret')))`

// keptHolds is true for a version v that a function's version in a tracker needs to run, as each of these can be called
// by its number: its package, and the environment and the configuration in the group version that made it. $1 is the
// app or the unit of v. (Each package is looked up among what all functions run, which is read once. The cross joins
// make every planner begin with the version's group versions.)
const keptHolds = `EXISTS (SELECT 1 FROM units ku WHERE ku.id = v.unit AND (
	ku.kind = 'package' AND '{"packageref":{"name":"' || ku.name || '-' || v.uid || '","namespace":"' || ku.namespace
			|| '","resourceversion":"' || v.number || '"}}' IN (
		SELECT fv.content FROM units fu JOIN versions fv ON fv.unit = fu.id AND fv.retired = 0 AND fv.production = 1
		WHERE fu.kind = 'function' AND fu.scope IN (SELECT 'namespace/' || namespace FROM apps WHERE id = $1
			UNION ALL SELECT 'namespace/' || namespace FROM units WHERE id = $1))
	OR ku.kind IN ('environment', 'config') AND EXISTS (SELECT 1 FROM group_units kg CROSS JOIN units fu
		CROSS JOIN versions fv WHERE kg.unit = v.unit AND kg.number = v.number AND fu.app = kg.app AND fu.kind = 'function'
		AND fv.unit = fu.id AND fv.uid = kg.grp AND fv.retired = 0 AND fv.production = 1)))`

// HeldVersions returns the numbers of the versions of a unit that an accessible release, an alias, a function tag, a
// job, a webhook or an execution that is not over holds, or a version of a function that is in its tracker and needs
// one to run.
func (q queries) HeldVersions(ctx context.Context, unit string) ([]int64, error) {
	return list(ctx, q, "store.HeldVersions", scanValue[int64],
		`SELECT v.number FROM versions v WHERE v.unit = $1
		AND (EXISTS (SELECT 1 FROM group_units gu JOIN releases r ON r.app = gu.app AND r.uid = gu.grp
			WHERE gu.unit = v.unit AND gu.number = v.number AND r.expired = 0) OR `+packageHolds+` OR `+pinHolds+`
			OR EXISTS (SELECT 1 FROM units u JOIN executions x ON x.namespace = u.namespace AND x.function = u.name
				WHERE u.id = v.unit AND u.kind = 'function' AND x.number = v.number AND x.finished = 0)
			OR EXISTS (SELECT 1 FROM executions x JOIN group_units gu ON gu.app = x.app AND gu.grp = x.grp
				WHERE `+sameContent+` AND x.finished = 0) OR `+keptHolds+`)
		ORDER BY v.number`, unit)
}

// DeleteVersion removes a version and its pointers into the object store; a collection does the rest.
func (tx *Tx) DeleteVersion(ctx context.Context, unit string, number int64) error {
	const op landfall.Op = "store.DeleteVersion"
	for _, statement := range []string{
		`DELETE FROM version_prefixes WHERE unit = $1 AND number = $2`,
		`DELETE FROM version_pins WHERE unit = $1 AND number = $2`,
	} {
		if err := tx.exec(ctx, op, statement, unit, number); err != nil {
			return err
		}
	}
	return tx.exec(ctx, op, `DELETE FROM versions WHERE unit = $1 AND number = $2`, unit, number)
}

// PinVersions stores which versions of functions a version of a declared alias or function tag names.
func (tx *Tx) PinVersions(ctx context.Context, unit string, number int64, targets []UnitNumber) error {
	const op landfall.Op = "store.PinVersions"
	err := tx.exec(ctx, op, `DELETE FROM version_pins WHERE unit = $1 AND number = $2`, unit, number)
	for _, target := range targets {
		if err == nil {
			err = tx.exec(ctx, op, `INSERT INTO version_pins (unit, number, target, target_number) VALUES ($1, $2, $3, $4)`,
				unit, number, target.Unit, target.Number)
		}
	}
	return err
}

// UnitNumber names a version by its unit's id and its number.
type UnitNumber struct {
	Unit   string
	Number int64
}

func scanUnitNumber(row scanner) (UnitNumber, error) {
	var v UnitNumber
	err := row.Scan(&v.Unit, &v.Number)
	return v, err
}

// heldByNoOther is true for a version v of a unit u that nothing but accessible releases can hold: no version of a
// function in a tracker, nothing that names the version, no execution that is not over, and no run.
const heldByNoOther = `NOT ` + pinHolds + `
		AND NOT EXISTS (SELECT 1 FROM executions x
			WHERE x.namespace = u.namespace AND x.function = u.name AND u.kind = 'function' AND x.number = v.number
			AND x.finished = 0)
		AND NOT EXISTS (SELECT 1 FROM executions x JOIN group_units gu ON gu.app = x.app AND gu.grp = x.grp
			WHERE x.app = u.app AND x.finished = 0 AND ` + sameContent + `)
		AND NOT EXISTS (SELECT 1 FROM version_prefixes vp JOIN reservations rs ON rs.prefix = vp.prefix
			WHERE vp.unit = v.unit AND vp.number = v.number)
		AND NOT ` + keptHolds

// UnheldVersions returns some versions of an app that nothing keeps, those behind the one given: they left the spec, or
// only branches other than production had them; and no accessible release, alias, function tag, job, webhook,
// unfinished execution or version of a function in a tracker holds them.
func (q queries) UnheldVersions(ctx context.Context, app string, after UnitNumber, limit int) ([]UnitNumber, error) {
	return list(ctx, q, "store.Unheld", scanUnitNumber,
		`SELECT v.unit, v.number FROM versions v JOIN units u ON u.id = v.unit
		WHERE u.app = $1 AND (v.retired = 1 OR v.production = 0)
		AND NOT EXISTS (SELECT 1 FROM group_units gu JOIN releases r ON r.app = gu.app AND r.uid = gu.grp
			WHERE gu.unit = v.unit AND gu.number = v.number AND r.expired = 0)
		AND NOT `+packageHolds+` AND `+heldByNoOther+` AND (v.unit > $2 OR (v.unit = $2 AND v.number > $3))
		ORDER BY v.unit, v.number LIMIT $4 + 0`, app, after.Unit, after.Number, limit)
}

// LiveNumber returns the number of the version of a unit that the live release of its owner has. NotFound when it has
// none.
func (q queries) LiveNumber(ctx context.Context, unit string) (int64, error) {
	return one(ctx, q, "store.LiveNumber", scanValue[int64], `SELECT gu.number FROM units u JOIN apps a ON a.id = u.app
		JOIN group_units gu ON gu.app = a.id AND gu.grp = a.live AND gu.unit = u.id WHERE u.id = $1`, unit)
}
