package store

import (
	"context"
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

const runColumns = `id, app, commit_sha, branch, state, step, reason, uid, release_uid, rebuild, expect, attempt,
	created, started, finished, stats, change, fork, approval`

func scanRun(row scanner) (landfall.Run, error) {
	var r landfall.Run
	var created, started, finished int64
	var stats, approval string
	err := row.Scan(&r.ID, &r.App, &r.Commit, &r.Branch, &r.State, &r.Step, &r.Reason, &r.UID, &r.Release, &r.Rebuild,
		&r.Expect, &r.Attempt, &created, &started, &finished, &stats, &r.Change, &r.Fork,
		&approval)
	if err != nil {
		return r, err
	}
	r.Created, r.Started, r.Finished = timeOf(created), timeOf(started), timeOf(finished)
	if approval != "" {
		if err := json.Unmarshal([]byte(approval), &r.Approval); err != nil {
			return r, err
		}
	}
	return r, json.Unmarshal([]byte(stats), &r.Stats)
}

// CreateRun stores a new run.
func (tx *Tx) CreateRun(ctx context.Context, r landfall.Run) error {
	approval, err := optionalJSON(r.Approval)
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.CreateRun", `INSERT INTO runs (`+runColumns+`, failures, worker, lease, next_at, changes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, '{}', $16, $17, $18, 0, '', 0, 0, '[]')`,
		r.ID, r.App, r.Commit, r.Branch, r.State, r.Step, r.Reason, r.UID, r.Release, r.Rebuild, r.Expect, r.Attempt,
		micros(r.Created), micros(r.Started), micros(r.Finished), r.Change,
		r.Fork, approval)
}

// Run returns a run by id. NotFound when there is none.
func (q queries) Run(ctx context.Context, id string) (landfall.Run, error) {
	r, err := one(ctx, q, "store.Run", scanRun, `SELECT `+runColumns+` FROM runs WHERE id = $1`, id)
	if landfall.Is(err, landfall.NotFound) {
		return r, &landfall.Error{Op: "store.Run", Kind: landfall.NotFound, Message: "there is no run " + id}
	}
	return r, err
}

// Runs returns the newest runs, newest first: of one app, or of all apps when app is empty. before, when not zero, is
// the last run on the page before; its creation time and ID are enough.
func (q queries) Runs(ctx context.Context, app string, before landfall.Run, limit int) ([]landfall.Run, error) {
	return q.RunsLike(ctx, landfall.Run{App: app}, before, limit)
}

// RunsLike is Runs for those that have the app, branch and state of like, each of which may be empty. Without an app,
// it leaves out those of deleted apps.
func (q queries) RunsLike(ctx context.Context, like, before landfall.Run, limit int) ([]landfall.Run, error) {
	return list(ctx, q, "store.RunsLike", scanRun, `SELECT `+runColumns+` FROM runs
		WHERE (app = $1 OR $1 = '' AND NOT EXISTS (SELECT 1 FROM apps a WHERE a.id = runs.app AND a.deleted > 0))
		AND ((created, id) < ($2, $6) OR $2 = 0) AND (branch = $4 OR $4 = '') AND (state = $5 OR $5 = '')
		ORDER BY created DESC, id DESC LIMIT $3 + 0`, like.App, micros(before.Created), limit, like.Branch, like.State,
		before.ID)
}

// RunsOfCommit returns the runs of a commit, newest first. It leaves out those of forks, which nothing else may join.
func (q queries) RunsOfCommit(ctx context.Context, app string, commit landfall.CommitSHA) ([]landfall.Run, error) {
	return q.RunsOfFork(ctx, app, commit, 0)
}

// RunsOfFork returns the runs of a commit that a pull request of a fork has, newest first.
func (q queries) RunsOfFork(ctx context.Context, app string, commit landfall.CommitSHA, number int) ([]landfall.Run,
	error) {
	return list(ctx, q, "store.RunsOfFork", scanRun, `SELECT `+runColumns+` FROM runs
		WHERE app = $1 AND commit_sha = $2 AND fork = $3 ORDER BY created DESC, id DESC`, app, commit, number)
}

// NewestRun returns the newest run of a commit, also of a fork. NotFound when there is none.
func (q queries) NewestRun(ctx context.Context, app string, commit landfall.CommitSHA) (landfall.Run, error) {
	return one(ctx, q, "store.NewestRun", scanRun, `SELECT `+runColumns+` FROM runs
		WHERE app = $1 AND commit_sha = $2 ORDER BY created DESC, id DESC LIMIT 1`, app, commit)
}

// RunsOfRef returns the runs of the pushes of a reference, the newest first.
func (q queries) RunsOfRef(ctx context.Context, app string, ref landfall.RefName) ([]landfall.Run, error) {
	return list(ctx, q, "store.RunsOfRef", scanRun, `SELECT `+runColumns+` FROM runs WHERE id IN (
		SELECT rr.run FROM run_refs rr JOIN pushes p ON p.id = rr.push WHERE p.app = $1 AND p.ref = $2)
		ORDER BY created DESC, id DESC`, app, ref)
}

// DueRun is a run that may start, as its next attempt.
type DueRun struct {
	ID      string
	Attempt int64 // of the last attempt
}

func scanDueRun(row scanner) (DueRun, error) {
	var r DueRun
	err := row.Scan(&r.ID, &r.Attempt)
	return r, err
}

// DueRuns returns the unfinished runs that nobody works on and that may start by now, oldest first: of one app, or of
// all apps when app is empty. It leaves out apps that already have share runs at work. (It groups by an expression so
// that the planner looks at the few runs at work, and not at all runs in the order of their apps.)
func (q queries) DueRuns(ctx context.Context, app string, now time.Time, share, limit int) ([]DueRun, error) {
	return list(ctx, q, "store.DueRuns", scanDueRun, `SELECT id, attempt FROM runs
		WHERE finished = 0 AND state <> 'waiting' AND created <= $1 AND next_at <= $1 AND lease <= $1
		AND (app = $2 OR $2 = '') AND app NOT IN (
			SELECT app || '' FROM runs WHERE finished = 0 AND lease > 0 AND lease > $1 GROUP BY app || '' HAVING COUNT(*) >= $3)
		ORDER BY created LIMIT $4 + 0`, micros(now), app, share, limit)
}

// runsAtWork counts the runs of a run's app that are being worked on at $1.
const runsAtWork = `(SELECT COUNT(*) FROM runs other WHERE other.app = runs.app AND other.finished = 0
	AND other.lease > 0 AND other.lease > $1)`

// OldestUnfinished returns when the oldest unfinished run was made; zero when there is none. It leaves out those that
// wait for a person.
func (q queries) OldestUnfinished(ctx context.Context) (time.Time, error) {
	return one(ctx, q, "store.OldestUnfinished", func(row scanner) (time.Time, error) {
		var us int64
		err := row.Scan(&us)
		return timeOf(us), err
	}, `SELECT COALESCE(MIN(created), 0) FROM runs WHERE finished = 0 AND state <> 'waiting'`)
}

// leaseLost is the error for a worker that no longer holds its run.
func leaseLost() landfall.Error {
	return landfall.Error{Kind: landfall.Conflict, Message: "another worker has taken the run over"}
}

// Lease gives a run to a worker until the given time, under a new attempt number, and returns the run. Conflict when
// the run is over, another worker holds it, or share runs of its app are at work. When several are leased at the same
// moment, there may be one more.
func (tx *Tx) Lease(ctx context.Context, id, worker string, now, until time.Time, share int) (landfall.Run, error) {
	const op landfall.Op = "store.Lease"
	err := tx.execOne(ctx, op, leaseLost(),
		`UPDATE runs SET attempt = attempt + 1, worker = $3, lease = $4, state = 'running',
			started = CASE WHEN started = 0 THEN $1 ELSE started END
		WHERE id = $2 AND finished = 0 AND state <> 'waiting' AND (fork = 0 OR approval <> '') AND next_at <= $1 AND lease <= $1 AND `+runsAtWork+` < $5`,
		micros(now), id, worker, micros(until), share)
	if err != nil {
		return landfall.Run{}, err
	}
	return tx.Run(ctx, id)
}

// Fence fails with Conflict unless the attempt still holds the run: every write of a worker starts with it.
func (tx *Tx) Fence(ctx context.Context, id string, attempt int64) error {
	return tx.execOne(ctx, "store.Fence", leaseLost(),
		`UPDATE runs SET attempt = attempt WHERE id = $1 AND attempt = $2 AND finished = 0`, id, attempt)
}

// Renew extends a lease. Conflict when the attempt no longer holds the run.
func (tx *Tx) Renew(ctx context.Context, id string, attempt int64, until time.Time) error {
	return tx.execOne(ctx, "store.Renew", leaseLost(),
		`UPDATE runs SET lease = $3 WHERE id = $1 AND attempt = $2 AND finished = 0`, id, attempt, micros(until))
}

// FreeLeases ends all leases of a worker, when an earlier life of it is over.
func (tx *Tx) FreeLeases(ctx context.Context, worker string) error {
	return tx.exec(ctx, "store.FreeLeases", `UPDATE runs SET lease = 0 WHERE worker = $1 AND finished = 0`, worker)
}

// GiveBack returns a run, to be tried again at the given time. failed says whether the attempt counts as a failure.
func (tx *Tx) GiveBack(ctx context.Context, id string, attempt int64, next time.Time, failed bool,
	reason string) error {
	return tx.execOne(ctx, "store.GiveBack", leaseLost(),
		`UPDATE runs SET lease = 0, state = 'queued', next_at = $3, failures = failures + $4, reason = $5
		WHERE id = $1 AND attempt = $2 AND finished = 0`, id, attempt, micros(next), failed, reason)
}

// Failures returns how many attempts of a run ended in an error that may be tried again.
func (q queries) Failures(ctx context.Context, id string) (int, error) {
	return one(ctx, q, "store.Failures", scanValue[int], `SELECT failures FROM runs WHERE id = $1`, id)
}

// FinishRun ends a run that is not over: state, reason, release, stats. Repeating it is a Conflict.
func (tx *Tx) FinishRun(ctx context.Context, r landfall.Run) error {
	stats, err := json.Marshal(r.Stats)
	if err != nil {
		return err
	}
	err = tx.execOne(ctx, "store.FinishRun", landfall.Error{Kind: landfall.Conflict, Message: "the run is over"},
		`UPDATE runs SET state = $2, reason = $3, release_uid = $4, uid = $5, finished = $6, lease = 0, stats = $7,
			change = $8
		WHERE id = $1 AND finished = 0`, r.ID, r.State, r.Reason, r.Release, r.UID, micros(r.Finished),
		string(stats), r.Change)
	if err != nil {
		return err
	}
	return tx.countRun(ctx, r)
}

// SetChanges stores a run's diff.
func (tx *Tx) SetChanges(ctx context.Context, id string, changes []landfall.UnitChange) error {
	data, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.SetChanges", `UPDATE runs SET changes = $2 WHERE id = $1`, id, string(data))
}

// RunChanges returns a run's diff; empty until its plan is made.
func (q queries) RunChanges(ctx context.Context, id string) ([]landfall.UnitChange, error) {
	return one(ctx, q, "store.RunChanges", func(row scanner) ([]landfall.UnitChange, error) {
		var data string
		if err := row.Scan(&data); err != nil {
			return nil, err
		}
		var changes []landfall.UnitChange
		err := json.Unmarshal([]byte(data), &changes)
		return changes, err
	}, `SELECT changes FROM runs WHERE id = $1`, id)
}

// FreeUID returns the first proposal, for n = 0, 1, 2 …, that belongs to nothing of an app except the given commit;
// or to nothing at all when commit is empty.
func (q queries) FreeUID(ctx context.Context, app string, commit landfall.CommitSHA,
	propose func(n int) landfall.UID) (landfall.UID, error) {
	for n := 0; ; n++ {
		uid := propose(n)
		taken, err := q.UIDTaken(ctx, app, uid, commit)
		if err != nil || !taken {
			return uid, err
		}
	}
}

// UIDTaken reports whether a UID of an app belongs to something other than the given commit; or to anything when commit
// is empty.
func (q queries) UIDTaken(ctx context.Context, app string, uid landfall.UID, commit landfall.CommitSHA) (bool, error) {
	n, err := one(ctx, q, "store.UIDTaken", scanValue[int64], `SELECT
		(SELECT COUNT(*) FROM group_versions WHERE app = $1 AND uid = $2 AND (commit_sha <> $3 OR $3 = '')) +
		(SELECT COUNT(*) FROM runs WHERE app = $1 AND uid = $2 AND (commit_sha <> $3 OR $3 = '')) +
		(SELECT COUNT(*) FROM tags WHERE app = $1 AND name = $2) +
		(SELECT COUNT(*) FROM aliases al JOIN units au ON au.id = al.unit WHERE au.app = $1 AND al.name = $2) +
		(SELECT COUNT(*) FROM versions v JOIN units u ON u.id = v.unit WHERE u.app = $1 AND v.label = $2 AND v.label <> '')`,
		app, uid, commit)
	return n > 0, err
}

// RunRef is a push that wants a run.
type RunRef struct {
	Run       string
	Push      int64
	Ref       landfall.RefName
	Withdrawn bool
}

func scanRunRef(row scanner) (RunRef, error) {
	var r RunRef
	err := row.Scan(&r.Run, &r.Push, &r.Ref, &r.Withdrawn)
	return r, err
}

// AddRunRef makes a push want a run.
func (tx *Tx) AddRunRef(ctx context.Context, run string, p landfall.Push) error {
	return tx.exec(ctx, "store.AddRunRef", `INSERT INTO run_refs (run, push, ref, withdrawn) VALUES ($1, $2, $3, 0)
		ON CONFLICT (run, push) DO NOTHING`, run, p.ID, p.Ref)
}

// RunRefs returns the pushes that want a run, oldest first, withdrawn ones included.
func (q queries) RunRefs(ctx context.Context, run string) ([]RunRef, error) {
	return list(ctx, q, "store.RunRefs", scanRunRef,
		`SELECT run, push, ref, withdrawn FROM run_refs WHERE run = $1 ORDER BY push`, run)
}

// UnfinishedOfRef returns the unfinished runs that a reference wants through pushes other than the given one. It leaves
// out pushes that wait for their place in the order.
func (q queries) UnfinishedOfRef(ctx context.Context, app string, ref landfall.RefName,
	except int64) ([]RunRef, error) {
	return list(ctx, q, "store.UnfinishedOfRef", scanRunRef, `SELECT rr.run, rr.push, rr.ref, rr.withdrawn
		FROM run_refs rr JOIN runs r ON r.id = rr.run JOIN pushes p ON p.id = rr.push
		WHERE r.app = $1 AND r.finished = 0 AND rr.ref = $2 AND rr.push <> $3 AND rr.withdrawn = 0 AND p.beside = 0`, app,
		ref, except)
}

// WithdrawRunRef withdraws a push from a run, and returns how many pushes still want the run.
func (tx *Tx) WithdrawRunRef(ctx context.Context, ref RunRef) (int, error) {
	const op landfall.Op = "store.WithdrawRunRef"
	if err := tx.exec(ctx, op, `UPDATE run_refs SET withdrawn = 1 WHERE run = $1 AND push = $2`, ref.Run,
		ref.Push); err != nil {
		return 0, err
	}
	return one(ctx, tx.queries, op, scanValue[int],
		`SELECT COUNT(*) FROM run_refs WHERE run = $1 AND withdrawn = 0`, ref.Run)
}

// UnfinishedOfApp returns the runs of an app that are not over.
func (q queries) UnfinishedOfApp(ctx context.Context, app string) ([]landfall.Run, error) {
	return list(ctx, q, "store.UnfinishedOfApp", scanRun,
		`SELECT `+runColumns+` FROM runs WHERE app = $1 AND finished = 0 ORDER BY created`, app)
}

// deliveryOf is an expression for the webhook delivery of the first push of a run that came by one.
func deliveryOf(run string) string {
	return `COALESCE((SELECT p.delivery FROM run_refs rr JOIN pushes p ON p.id = rr.push
		WHERE rr.run = ` + run + ` AND p.delivery <> '' ORDER BY p.id LIMIT 1), '')`
}

// traceOf is an expression for the trace of the first push of a run that has one.
func traceOf(run string) string {
	return `COALESCE((SELECT p.trace FROM run_refs rr JOIN pushes p ON p.id = rr.push
		WHERE rr.run = ` + run + ` AND p.trace <> '' ORDER BY p.id LIMIT 1), '')`
}

// TraceOf returns the span, as a traceparent, in which a run's commit came in; empty when nobody traced it.
func (q queries) TraceOf(ctx context.Context, run string) (string, error) {
	return one(ctx, q, "store.TraceOf", scanValue[string], `SELECT `+traceOf("$1"), run)
}

// DeliveryOf returns the webhook delivery that brought a run's commit; empty when the commit came in another way.
func (q queries) DeliveryOf(ctx context.Context, run string) (string, error) {
	return one(ctx, q, "store.DeliveryOf", scanValue[string], `SELECT `+deliveryOf("$1"), run)
}
