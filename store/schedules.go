package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"landfall.dev/landfall"
)

// FiringState says how far a firing has come.
type FiringState string

// The states. The last three are final.
const (
	FiringRunning   FiringState = "running"
	FiringWaiting   FiringState = "waiting" // its function was busy; it will be tried again
	FiringSucceeded FiringState = "succeeded"
	FiringFailed    FiringState = "failed"
	FiringSkipped   FiringState = "skipped" // an earlier firing of the trigger was still running
)

// Firing is the one run of a schedule for one due time. There is never a second one for the same time.
type Firing struct {
	App       string // its id
	Trigger   string
	Due       time.Time
	Release   landfall.UID // the release to which the trigger belongs
	State     FiringState
	Process   string // that runs it
	Attempt   int    // 1 is the first; there is another one when the process died
	Heartbeat int64  // grows while the process lives
	Fired     time.Time
	Finished  time.Time // zero while it is not over
	Problem   string    // why it failed or was skipped
}

const firingColumns = `app, name, due, release_uid, state, process, attempt, beat, fired, finished, problem`

func scanFiring(row scanner) (Firing, error) {
	var f Firing
	var due, fired, finished int64
	err := row.Scan(&f.App, &f.Trigger, &due, &f.Release, &f.State, &f.Process, &f.Attempt, &f.Heartbeat, &fired,
		&finished, &f.Problem)
	f.Due, f.Fired, f.Finished = timeOf(due), timeOf(fired), timeOf(finished)
	return f, err
}

// Schedule is the schedule of a trigger of a live release.
type Schedule struct {
	Trigger    string
	Release    landfall.UID
	Expression string    // with its time zone
	Since      time.Time // due times up to this one do not count

	move int64 // that made the release live
}

// KeepSchedules replaces the schedules of an app by those of its live release: triggers with their expressions. A
// schedule that the earlier release had as well goes on; a new one counts from the moment at which the release became
// live. Conflict, and nothing is changed, when the release is not live.
func (tx *Tx) KeepSchedules(ctx context.Context, app string, release landfall.UID,
	expressions map[string]string) (map[string]Schedule, error) {
	const op landfall.Op = "store.KeepSchedules"
	if err := tx.checkLive(ctx, op, app, release); err != nil {
		return nil, err
	}
	moves, err := tx.Moves(ctx, app, landfall.LivePointer, 2)
	if err != nil {
		return nil, err
	}
	var switched, earlier landfall.Move
	switch len(moves) {
	case 2:
		earlier = moves[1]
		fallthrough
	case 1:
		switched = moves[0]
	}
	before, err := tx.schedules(ctx, app)
	if err != nil {
		return nil, err
	}
	kept := make(map[string]Schedule, len(expressions))
	for name, expression := range expressions {
		s := Schedule{name, release, expression, switched.At, switched.ID}
		if old, ok := before[name]; ok && old.Expression == expression &&
			(old.Release == release && slices.Contains([]int64{0, switched.ID}, old.move) ||
				old.Release == switched.From && slices.Contains([]int64{0, earlier.ID}, old.move)) {
			s.Since = old.Since
		}
		kept[name] = s
	}
	if maps.Equal(kept, before) {
		return kept, nil
	}
	if err := tx.exec(ctx, op, `DELETE FROM schedules WHERE app = $1`, app); err != nil {
		return nil, err
	}
	for _, s := range kept {
		err := tx.exec(ctx, op,
			`INSERT INTO schedules (app, name, release_uid, expression, since, move) VALUES ($1, $2, $3, $4, $5, $6)`,
			app, s.Trigger, s.Release, s.Expression, micros(s.Since), s.move)
		if err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// schedules returns the schedules of an app by the names of their triggers.
func (q queries) schedules(ctx context.Context, app string) (map[string]Schedule, error) {
	all, err := list(ctx, q, "store.schedules", func(row scanner) (Schedule, error) {
		var s Schedule
		var since int64
		err := row.Scan(&s.Trigger, &s.Release, &s.Expression, &since, &s.move)
		s.Since = timeOf(since)
		return s, err
	}, `SELECT name, release_uid, expression, since, move FROM schedules WHERE app = $1`, app)
	byName := make(map[string]Schedule, len(all))
	for _, s := range all {
		byName[s.Trigger] = s
	}
	return byName, err
}

// checkLive fails with Conflict unless a release is live.
func (tx *Tx) checkLive(ctx context.Context, op landfall.Op, app string, release landfall.UID) error {
	live, err := tx.IsLive(ctx, app, release)
	if err == nil && !live {
		err = landfall.Errorf(op, landfall.Conflict, "the release is not live")
	}
	return err
}

// IsLive reports whether a release is the live one of an app that is not deleted.
func (q queries) IsLive(ctx context.Context, app string, release landfall.UID) (bool, error) {
	n, err := one(ctx, q, "store.IsLive", scanValue[int64],
		`SELECT COUNT(*) FROM apps WHERE id = $1 AND live = $2 AND deleted = 0`, app, release)
	return n > 0, err
}

// ClaimFiring gives a firing to a process. It uses App, Trigger, Due, Release, Process and Fired of f. A firing that
// has waited since an earlier time fails; while one runs, the new one is skipped. It returns false, and changes
// nothing, when there is already a firing for that time; Conflict when the release is not live.
func (tx *Tx) ClaimFiring(ctx context.Context, f Firing) (Firing, bool, error) {
	const op landfall.Op = "store.ClaimFiring"
	if err := tx.checkLive(ctx, op, f.App, f.Release); err != nil {
		return f, false, err
	}
	fired, err := one(ctx, tx.queries, op, scanValue[int64],
		`SELECT COUNT(*) FROM schedule_firings WHERE app = $1 AND name = $2 AND due = $3`, f.App, f.Trigger, micros(f.Due))
	if err != nil || fired > 0 {
		return f, false, err
	}
	err = tx.exec(ctx, op, `UPDATE schedule_firings SET state = $3, finished = $4, problem = $5
		WHERE app = $1 AND name = $2 AND finished = 0 AND state = $6`,
		f.App, f.Trigger, FiringFailed, micros(f.Fired), "the function was busy until the next time", FiringWaiting)
	if err != nil {
		return f, false, err
	}
	running, err := one(ctx, tx.queries, op, scanValue[int64],
		`SELECT COALESCE(MAX(due), 0) FROM schedule_firings WHERE app = $1 AND name = $2 AND finished = 0`, f.App, f.Trigger)
	if err != nil {
		return f, false, err
	}
	f.State, f.Attempt = FiringRunning, 1
	if running != 0 {
		f.State, f.Finished = FiringSkipped, f.Fired
		f.Problem = "the firing of " + timeOf(running).Format(time.RFC3339) + " was still running"
	}
	err = tx.exec(ctx, op, `INSERT INTO schedule_firings (`+firingColumns+
		`) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $10)`, f.App, f.Trigger, micros(f.Due), f.Release, f.State,
		f.Process, f.Attempt, micros(f.Fired), micros(f.Finished), f.Problem)
	return f, err == nil, err
}

// MoveFiring writes State, Finished and Problem of a firing. Conflict, and nothing is changed, when it is over already
// or belongs to another process.
func (tx *Tx) MoveFiring(ctx context.Context, f Firing) error {
	return tx.execOne(ctx, "store.MoveFiring",
		landfall.Error{Kind: landfall.Conflict, Message: "the firing is over, or another process's"},
		`UPDATE schedule_firings SET state = $6, finished = $7, problem = $8
		WHERE app = $1 AND name = $2 AND due = $3 AND process = $4 AND attempt = $5 AND finished = 0`,
		f.App, f.Trigger, micros(f.Due), f.Process, f.Attempt, f.State, micros(f.Finished), f.Problem)
}

// TakeFiring gives the firing of a dead process to another process, and returns it. Conflict, and nothing is changed,
// when there was a sign of life since f was read, or its release is not live any more.
func (tx *Tx) TakeFiring(ctx context.Context, f Firing, process string) (Firing, error) {
	const op landfall.Op = "store.TakeFiring"
	if err := tx.checkLive(ctx, op, f.App, f.Release); err != nil {
		return f, err
	}
	err := tx.execOne(ctx, op, landfall.Error{Kind: landfall.Conflict, Message: "the firing is not what it was"},
		`UPDATE schedule_firings SET process = $6, attempt = attempt + 1, state = $7
		WHERE app = $1 AND name = $2 AND due = $3 AND process = $4 AND beat = $5 AND attempt = $8 AND finished = 0`,
		f.App, f.Trigger, micros(f.Due), f.Process, f.Heartbeat, process, FiringRunning, f.Attempt)
	f.Process, f.State = process, FiringRunning
	f.Attempt++
	return f, err
}

// RenewFirings is a sign of life from a process that has firings.
func (tx *Tx) RenewFirings(ctx context.Context, process string) error {
	return tx.exec(ctx, "store.BeatFirings",
		`UPDATE schedule_firings SET beat = beat + 1 WHERE process = $1 AND finished = 0`, process)
}

// OpenFirings returns the firings that are not over, oldest first.
func (q queries) OpenFirings(ctx context.Context) ([]Firing, error) {
	return list(ctx, q, "store.OpenFirings", scanFiring,
		`SELECT `+firingColumns+` FROM schedule_firings WHERE finished = 0 ORDER BY due, app, name`)
}

// LastFirings returns the newest firing of each trigger of an app, by its name.
func (q queries) LastFirings(ctx context.Context, app string) (map[string]Firing, error) {
	all, err := list(ctx, q, "store.LastFirings", scanFiring, `SELECT `+firingColumns+` FROM schedule_firings f
		WHERE app = $1 AND due = (SELECT MAX(n.due) FROM schedule_firings n WHERE n.app = f.app AND n.name = f.name)`, app)
	byName := make(map[string]Firing, len(all))
	for _, f := range all {
		byName[f.Trigger] = f
	}
	return byName, err
}

// ForgetFirings deletes finished firings that were due and fired before a time. The last one of each schedule stays.
func (tx *Tx) ForgetFirings(ctx context.Context, before time.Time) error {
	return tx.exec(ctx, "store.ForgetFirings",
		`DELETE FROM schedule_firings WHERE fired < $1 AND due < $1 AND finished > 0 AND (
		due < (SELECT MAX(n.due) FROM schedule_firings n WHERE n.app = schedule_firings.app
		AND n.name = schedule_firings.name)
		OR NOT EXISTS (SELECT 1 FROM schedules s WHERE s.app = schedule_firings.app AND s.name = schedule_firings.name))`,
		micros(before))
}
