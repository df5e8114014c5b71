package store

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"landfall.dev/landfall"
)

const releaseColumns = `app, uid, line, digest, commit_sha, branch, created, expired, was_live`

func scanRelease(row scanner) (landfall.Release, error) {
	var r landfall.Release
	var created, expired int64
	err := row.Scan(&r.App, &r.ID, &r.Line, &r.Digest, &r.Commit, &r.Branch, &created, &expired, &r.WasLive)
	r.Created, r.Expired = timeOf(created), timeOf(expired)
	return r, err
}

// PutRelease stores a release, new or changed.
func (tx *Tx) PutRelease(ctx context.Context, r landfall.Release) error {
	return tx.exec(ctx, "store.PutRelease",
		`INSERT INTO releases (`+releaseColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (app, uid) DO UPDATE SET line = excluded.line, created = excluded.created, expired = excluded.expired,
			was_live = excluded.was_live`,
		r.App, r.ID, r.Line, r.Digest, r.Commit, r.Branch, micros(r.Created), micros(r.Expired), r.WasLive)
}

// Release returns a release, expired or not. NotFound, with a sentence, when there is none.
func (q queries) Release(ctx context.Context, app string, id landfall.UID) (landfall.Release, error) {
	const op landfall.Op = "store.Release"
	r, err := one(ctx, q, op, scanRelease, `SELECT `+releaseColumns+` FROM releases WHERE app = $1 AND uid = $2`, app, id)
	if landfall.Is(err, landfall.NotFound) {
		return r, landfall.Errorf(op, landfall.NotFound, "there is no release %q", id)
	}
	return r, err
}

// Releases returns the releases of an app, newest first, expired ones included.
func (q queries) Releases(ctx context.Context, app string) ([]landfall.Release, error) {
	return list(ctx, q, "store.Releases", scanRelease,
		`SELECT `+releaseColumns+` FROM releases WHERE app = $1 ORDER BY created DESC, uid`, app)
}

// ReleasesBefore returns the newest releases of an app, newest first, expired ones included. before, when it has an ID,
// is the last release of the page before.
func (q queries) ReleasesBefore(ctx context.Context, app string, before landfall.Release,
	limit int) ([]landfall.Release, error) {
	created := microsOrMax(before.Created)
	return list(ctx, q, "store.ReleasesBefore", scanRelease, `SELECT `+releaseColumns+` FROM releases
		WHERE app = $1 AND created <= $2 AND (created < $2 OR uid > $3) ORDER BY created DESC, uid LIMIT $4 + 0`,
		app, created, before.ID, limit)
}

// AccessibleReleases returns the releases of an app that are not expired, newest first.
func (q queries) AccessibleReleases(ctx context.Context, app string) ([]landfall.Release, error) {
	return list(ctx, q, "store.AccessibleReleases", scanRelease,
		`SELECT `+releaseColumns+` FROM releases WHERE app = $1 AND expired = 0 ORDER BY created DESC, uid`, app)
}

// ExpiredRelease returns the expired release of an app with an ID, or else the newest one whose commit begins with the
// digits. NotFound when there is none.
func (q queries) ExpiredRelease(ctx context.Context, app, idOrDigits string) (landfall.Release, error) {
	return one(ctx, q, "store.ExpiredRelease", scanRelease, `SELECT `+releaseColumns+` FROM releases
		WHERE app = $1 AND expired > 0 AND (uid = $2 OR commit_sha >= $2 AND commit_sha < $2 || 'g')
		ORDER BY CASE WHEN uid = $2 THEN 0 ELSE 1 END, created DESC LIMIT 1`, app, idOrDigits)
}

// LatestRelease returns the accessible release that production applied last, which may be by going back to it; empty
// when there is none.
func (q queries) LatestRelease(ctx context.Context, app string) (landfall.UID, error) {
	uid, err := one(ctx, q, "store.LatestRelease", scanValue[landfall.UID], `SELECT a.grp FROM applies a
		JOIN releases r ON r.app = a.app AND r.uid = a.grp AND r.expired = 0 AND r.line = 'production'
		WHERE a.app = $1 AND a.line = 'production' ORDER BY a.id DESC LIMIT 1`, app)
	if landfall.Is(err, landfall.NotFound) {
		return "", nil
	}
	return uid, err
}

const tagColumns = `app, name, kind, release_uid, ref, moved`

func scanTag(row scanner) (landfall.Tag, error) {
	var t landfall.Tag
	var moved int64
	err := row.Scan(&t.App, &t.Name, &t.Kind, &t.Release, &t.Ref, &moved)
	t.Moved = timeOf(moved)
	return t, err
}

// PutTag stores a tag, new or moved.
func (tx *Tx) PutTag(ctx context.Context, t landfall.Tag) error {
	return tx.exec(ctx, "store.PutTag", `INSERT INTO tags (`+tagColumns+`) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (app, name) DO UPDATE SET kind = excluded.kind, release_uid = excluded.release_uid, ref = excluded.ref,
		moved = excluded.moved`,
		t.App, t.Name, t.Kind, t.Release, t.Ref, micros(t.Moved))
}

// DeleteTag removes a tag.
func (tx *Tx) DeleteTag(ctx context.Context, app, name string) error {
	return tx.exec(ctx, "store.DeleteTag", `DELETE FROM tags WHERE app = $1 AND name = $2`, app, name)
}

// Tag returns a tag. NotFound, with a sentence, when there is none.
func (q queries) Tag(ctx context.Context, app, name string) (landfall.Tag, error) {
	const op landfall.Op = "store.Tag"
	t, err := one(ctx, q, op, scanTag, `SELECT `+tagColumns+` FROM tags WHERE app = $1 AND name = $2`, app, name)
	if landfall.Is(err, landfall.NotFound) {
		return t, landfall.Errorf(op, landfall.NotFound, "there is no tag %q", name)
	}
	return t, err
}

// Tags returns the tags of an app by name.
func (q queries) Tags(ctx context.Context, app string) ([]landfall.Tag, error) {
	return list(ctx, q, "store.Tags", scanTag, `SELECT `+tagColumns+` FROM tags WHERE app = $1 ORDER BY name`, app)
}

const moveColumns = `id, app, pointer, from_uid, to_uid, actor, reason, at, back`

func scanMove(row scanner) (landfall.Move, error) {
	var m landfall.Move
	var at int64
	err := row.Scan(&m.ID, &m.App, &m.Pointer, &m.From, &m.To, &m.Actor, &m.Reason, &at, &m.Back)
	m.At = timeOf(at)
	return m, err
}

// CreateMove records that a pointer moved.
func (tx *Tx) CreateMove(ctx context.Context, m landfall.Move) error {
	id, err := tx.next(ctx, "moves")
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.CreateMove",
		`INSERT INTO moves (`+moveColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, id, m.App, m.Pointer, m.From, m.To,
		m.Actor, m.Reason, micros(m.At), m.Back)
}

// Moves returns the moves of an app's pointer, newest first; of all its pointers for an empty one.
func (q queries) Moves(ctx context.Context, app, pointer string, limit int) ([]landfall.Move, error) {
	return q.MovesBefore(ctx, app, pointer, 0, limit)
}

// MovesBefore is Moves for those before the one with an id; 0 stands for the end.
func (q queries) MovesBefore(ctx context.Context, app, pointer string, id int64, limit int) ([]landfall.Move, error) {
	const op landfall.Op = "store.Moves"
	if id == 0 {
		id = math.MaxInt64
	}
	if pointer == "" {
		return list(ctx, q, op, scanMove, `SELECT `+moveColumns+` FROM moves
			WHERE app = $1 AND id < $2 ORDER BY id DESC LIMIT $3 + 0`, app, id, limit)
	}
	return list(ctx, q, op, scanMove, `SELECT `+moveColumns+` FROM moves
		WHERE app = $1 AND pointer = $2 AND id < $3 ORDER BY id DESC LIMIT $4 + 0`, app, pointer, id, limit)
}

// LastMoveTo returns the newest move of a pointer to a release. NotFound when none is on record.
func (q queries) LastMoveTo(ctx context.Context, app, pointer string, to landfall.UID) (landfall.Move, error) {
	return one(ctx, q, "store.LastMoveTo", scanMove, `SELECT `+moveColumns+` FROM moves
		WHERE app = $1 AND pointer = $2 AND to_uid = $3 ORDER BY id DESC LIMIT 1`, app, pointer, to)
}

// LiveAt returns the release that was live at a time; empty when none was.
func (q queries) LiveAt(ctx context.Context, app string, at time.Time) (landfall.UID, error) {
	uid, err := one(ctx, q, "store.LiveAt", scanValue[landfall.UID], `SELECT to_uid FROM moves
		WHERE app = $1 AND pointer = $2 AND at <= $3 ORDER BY id DESC LIMIT 1`, app, landfall.LivePointer, micros(at))
	return uid, landfall.Ignore(err, landfall.NotFound)
}

// LiveUntil returns when each of an app's accessible releases was last live. It leaves out releases that no other one
// has replaced.
func (q queries) LiveUntil(ctx context.Context, app string) (map[landfall.UID]time.Time, error) {
	type ended struct {
		release landfall.UID
		at      int64
	}
	rows, err := list(ctx, q, "store.LiveUntil", func(row scanner) (e ended, err error) {
		return e, row.Scan(&e.release, &e.at)
	}, `SELECT r.uid, (SELECT MAX(m.at) FROM moves m WHERE m.app = r.app AND m.pointer = $2
		AND m.from_uid = r.uid) AS ended
		FROM releases r WHERE r.app = $1 AND r.expired = 0 AND r.was_live = 1 AND EXISTS
			(SELECT 1 FROM moves m WHERE m.app = r.app AND m.pointer = $2 AND m.from_uid = r.uid)`, app, landfall.LivePointer)
	until := make(map[landfall.UID]time.Time, len(rows))
	for _, e := range rows {
		until[e.release] = timeOf(e.at)
	}
	return until, err
}

// ServedUnit is a unit of a release with everything that is needed to serve it.
type ServedUnit struct {
	Release landfall.UID
	Unit    landfall.UnitID
	Version landfall.UID
	Number  int64
	Digest  landfall.Digest
	Content json.RawMessage // as the pipeline stored it
	Spec    json.RawMessage
}

const servedColumns = `u.kind, u.name, v.uid, v.number, v.digest, v.content, v.spec`

// scanServed returns a reader of the release and servedColumns.
func scanServed(row scanner) (u ServedUnit, err error) {
	var content, spec string
	err = row.Scan(&u.Release, &u.Unit.Kind, &u.Unit.Name, &u.Version, &u.Number, &u.Digest, &content, &spec)
	u.Content, u.Spec = json.RawMessage(content), json.RawMessage(spec)
	return u, err
}

// ServedUnits returns the units of one kind of the accessible releases of an app. (The cross join makes every planner
// begin with the few releases, even when it does not know how many rows there are.)
func (q queries) ServedUnits(ctx context.Context, app string, kind landfall.UnitKind) ([]ServedUnit, error) {
	return list(ctx, q, "store.ServedUnits", scanServed, `SELECT r.uid, `+servedColumns+`
		FROM releases r CROSS JOIN group_units gu CROSS JOIN units u CROSS JOIN versions v
		WHERE r.app = $1 AND r.expired = 0 AND gu.app = r.app AND gu.grp = r.uid AND u.id = gu.unit AND u.kind = $2
			AND v.unit = gu.unit AND v.number = gu.number`, app, kind)
}

// RunningUnits returns what the functions of one group version need to run: environments, packages, configuration and
// secrets.
func (q queries) RunningUnits(ctx context.Context, app string, group landfall.UID) ([]ServedUnit, error) {
	return list(ctx, q, "store.RunningUnits", scanServed, `SELECT gu.grp, `+servedColumns+`
		FROM group_units gu CROSS JOIN units u CROSS JOIN versions v
		WHERE gu.app = $1 AND gu.grp = $2 AND u.id = gu.unit AND u.kind IN ('environment', 'package', 'config', 'secret')
			AND v.unit = gu.unit AND v.number = gu.number`, app, group)
}
