package store

import (
	"context"
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

const groupColumns = `app, uid, digest, commit_sha, branch, clean, message, actor, policy, created, canaries, fork`

func scanGroup(row scanner) (landfall.Group, error) {
	var g landfall.Group
	var policy, canaries string
	var created int64
	err := row.Scan(&g.App, &g.UID, &g.Digest, &g.Commit, &g.Branch, &g.Clean, &g.Message, &g.Actor, &policy, &created,
		&canaries, &g.Fork)
	if err != nil {
		return g, err
	}
	g.Created = timeOf(created)
	if policy != "" {
		err = json.Unmarshal([]byte(policy), &g.Policy)
	}
	if canaries != "" && err == nil {
		err = json.Unmarshal([]byte(canaries), &g.Canaries)
	}
	return g, err
}

// GroupUnit is a unit version in force, with its unit's row.
type GroupUnit struct {
	landfall.GroupUnit

	UnitID   string
	Declared string // of an alias or a function tag: where the commit declares it, such as specs/app.yaml:12
}

// CreateGroup stores a group version and its units.
func (tx *Tx) CreateGroup(ctx context.Context, g landfall.Group, units []GroupUnit) error {
	const op landfall.Op = "store.CreateGroup"
	policy, err := optionalJSON(g.Policy)
	if err != nil {
		return err
	}
	canaries := []byte(nil)
	if len(g.Canaries) > 0 {
		if canaries, err = json.Marshal(g.Canaries); err != nil {
			return err
		}
	}
	err = tx.exec(ctx, op, `INSERT INTO group_versions (`+groupColumns+
		`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`, g.App, g.UID, g.Digest, g.Commit, g.Branch, g.Clean,
		g.Message, g.Actor, policy, micros(g.Created), string(canaries), g.Fork)
	if err != nil {
		return err
	}
	for _, u := range units {
		err := tx.exec(ctx, op,
			`INSERT INTO group_units (app, grp, unit, number, uid, digest, declared) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			g.App, g.UID, u.UnitID, u.Number, u.UID, u.Digest, u.Declared)
		if err != nil {
			return err
		}
	}
	return nil
}

// Group returns a group version without its units. NotFound, with a sentence, when there is none.
func (q queries) Group(ctx context.Context, app string, uid landfall.UID) (landfall.Group, error) {
	const op landfall.Op = "store.Group"
	g, err := one(ctx, q, op, scanGroup, `SELECT `+groupColumns+` FROM group_versions WHERE app = $1 AND uid = $2`, app,
		uid)
	if landfall.Is(err, landfall.NotFound) {
		return g, &landfall.Error{Op: op, Kind: landfall.NotFound, Message: "there is no app version " + string(uid)}
	}
	return g, err
}

// GroupUnits returns the units of a group version in the order of landfall.UnitKinds, then by name.
func (q queries) GroupUnits(ctx context.Context, app string, uid landfall.UID) ([]GroupUnit, error) {
	return list(ctx, q, "store.GroupUnits", func(row scanner) (GroupUnit, error) {
		var u GroupUnit
		err := row.Scan(&u.UnitID, &u.Unit.Kind, &u.Unit.Name, &u.Number, &u.UID, &u.Digest, &u.Declared)
		return u, err
	}, `SELECT gu.unit, u.kind, u.name, gu.number, gu.uid, gu.digest, gu.declared FROM group_units gu JOIN units u ON u.id = gu.unit
		WHERE gu.app = $1 AND gu.grp = $2
		ORDER BY CASE u.kind WHEN 'function' THEN 0 WHEN 'package' THEN 1 WHEN 'environment' THEN 2 WHEN 'alias' THEN 3
			WHEN 'function-tag' THEN 4 WHEN 'http-trigger' THEN 5 WHEN 'time-trigger' THEN 6 WHEN 'queue-trigger' THEN 7
			WHEN 'config' THEN 8 WHEN 'static' THEN 9 ELSE 10 END, u.name`,
		app, uid)
}

// GroupEntry is a group version in the history of an app.
type GroupEntry struct {
	landfall.Group

	Released bool // it has a release
	Expired  bool // its release cannot be reached any more
}

// Groups returns the group versions of an app, newest first. before, when not zero, is where the page before ended.
func (q queries) Groups(ctx context.Context, app string, before time.Time, limit int) ([]GroupEntry, error) {
	const unreleased = -1
	return list(ctx, q, "store.Groups", func(row scanner) (e GroupEntry, err error) {
		expired := int64(unreleased)
		e.Group, err = scanGroup(extraColumns{row, []any{&expired}})
		e.Released, e.Expired = expired != unreleased, expired > 0
		return e, err
	}, `SELECT `+groupColumns+
		`, COALESCE((SELECT r.expired FROM releases r WHERE r.app = g.app AND r.uid = g.uid), -1) FROM group_versions g
		WHERE app = $1 AND created < $2 ORDER BY created DESC, uid DESC LIMIT $3 + 0`, app, microsOrMax(before), limit)
}

// extraColumns is a row with more columns than the reader of its first ones knows.
type extraColumns struct {
	scanner

	more []any
}

// Scan implements scanner.
func (w extraColumns) Scan(dest ...any) error { return w.scanner.Scan(append(dest, w.more...)...) }

// GroupsOfCommit returns the group versions of a commit, newest first, and those of forks last. The first digits of the
// commit are enough.
func (q queries) GroupsOfCommit(ctx context.Context, app, commit string) ([]landfall.Group, error) {
	return list(ctx, q, "store.GroupsOfCommit", scanGroup, `SELECT `+groupColumns+` FROM group_versions
		WHERE app = $1 AND commit_sha >= $2 AND commit_sha < $2 || 'g'
		ORDER BY CASE WHEN fork = 0 THEN 0 ELSE 1 END, created DESC`, app, commit)
}

// NeedsCommit reports whether a run on record or a group version of an app is of a commit.
func (q queries) NeedsCommit(ctx context.Context, app string, commit landfall.CommitSHA) (bool, error) {
	n, err := one(ctx, q, "store.NeedsCommit", scanValue[int64], `SELECT
		(SELECT COUNT(*) FROM runs WHERE app = $1 AND commit_sha = $2) +
		(SELECT COUNT(*) FROM group_versions WHERE app = $1 AND commit_sha = $2)`, app, commit)
	return n > 0, err
}

const applyColumns = `id, app, grp, ref, line, actor, created`

func scanApply(row scanner) (landfall.Apply, error) {
	var a landfall.Apply
	var created int64
	err := row.Scan(&a.ID, &a.App, &a.Group, &a.Ref, &a.Line, &a.Actor, &created)
	a.Created = timeOf(created)
	return a, err
}

// CreateApply adds an entry to the log of applies.
func (tx *Tx) CreateApply(ctx context.Context, a landfall.Apply) error {
	id, err := tx.next(ctx, "applies")
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.CreateApply", `INSERT INTO applies (`+applyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		id, a.App, a.Group, a.Ref, a.Line, a.Actor, micros(a.Created))
}

// LastApply returns the newest apply of a reference; an empty ref stands for the production line. until, when not zero,
// returns the answer that was right at that time. NotFound when there is none.
func (q queries) LastApply(ctx context.Context, app string, ref landfall.RefName,
	until time.Time) (landfall.Apply, error) {
	return one(ctx, q, "store.LastApply", scanApply, `SELECT `+applyColumns+` FROM applies
		WHERE app = $1 AND ((line = 'production' AND $2 = '') OR ref = $2) AND (created <= $3 OR $3 = 0)
		ORDER BY id DESC LIMIT 1`, app, ref, micros(until))
}

// AppliesOf returns the entries that applied a group version, oldest first.
func (q queries) AppliesOf(ctx context.Context, app string, group landfall.UID) ([]landfall.Apply, error) {
	return list(ctx, q, "store.AppliesOf", scanApply,
		`SELECT `+applyColumns+` FROM applies WHERE app = $1 AND grp = $2 ORDER BY id`, app, group)
}

// MarkProduction notes that the production line had every version of a group version.
func (tx *Tx) MarkProduction(ctx context.Context, app string, group landfall.UID) error {
	err := tx.exec(ctx, "store.MarkProduction",
		`UPDATE versions SET production = 1, retired = 0 WHERE (production = 0 OR retired = 1)
		AND (unit, number) IN (SELECT gu.unit, gu.number FROM group_units gu WHERE gu.app = $1 AND gu.grp = $2)`, app, group)
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.MarkProduction", `UPDATE units SET retired = 0 WHERE retired = 1
		AND id IN (SELECT gu.unit FROM group_units gu WHERE gu.app = $1 AND gu.grp = $2)`, app, group)
}

// GroupComplete reports whether every version of a group version still exists, and every one that its aliases and
// function tags name.
func (q queries) GroupComplete(ctx context.Context, app string, group landfall.UID) (bool, error) {
	n, err := one(ctx, q, "store.GroupComplete", scanValue[int64],
		`SELECT COUNT(*) FROM group_units gu WHERE gu.app = $1 AND gu.grp = $2
		AND (NOT EXISTS (SELECT 1 FROM versions v WHERE v.unit = gu.unit AND v.number = gu.number)
			OR EXISTS (SELECT 1 FROM version_pins p WHERE p.unit = gu.unit AND p.number = gu.number AND NOT EXISTS
			(SELECT 1 FROM versions t WHERE t.unit = p.target AND t.number = p.target_number)))`, app, group)
	return n == 0, err
}

// ReplaceGroupUnits points a group version at new versions with the same digests, after the old ones were deleted.
func (tx *Tx) ReplaceGroupUnits(ctx context.Context, g landfall.Group, units []GroupUnit) error {
	for _, u := range units {
		err := tx.exec(ctx, "store.ReplaceGroupUnits", `UPDATE group_units SET number = $4, uid = $5, declared = $7
			WHERE app = $1 AND grp = $2 AND unit = $3 AND digest = $6`, g.App, g.UID, u.UnitID, u.Number, u.UID, u.Digest,
			u.Declared)
		if err != nil {
			return err
		}
	}
	return nil
}

// CommitOf returns the commit from which a group version was made. For a work tree with changes it is the private
// commit that carried them.
func (q queries) CommitOf(ctx context.Context, app string, uid landfall.UID) (landfall.CommitSHA, error) {
	return one(ctx, q, "store.CommitOf", scanValue[landfall.CommitSHA], `SELECT commit_sha FROM (
		SELECT commit_sha, 0 AS rank FROM runs WHERE app = $1 AND uid = $2
		UNION ALL SELECT commit_sha, 1 FROM group_versions WHERE app = $1 AND uid = $2) AS c ORDER BY rank LIMIT 1`, app, uid)
}
