package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

const canaryColumns = `id, app, release_uid, weight, step, pause, threshold, key, actor, started, next_at, ended, state,
	reason`

func scanCanary(row scanner) (landfall.ReleaseCanary, error) {
	var c landfall.ReleaseCanary
	var pause, started, next, ended int64
	err := row.Scan(&c.ID, &c.App, &c.Release, &c.Weight, &c.Step, &pause, &c.Threshold, &c.Key, &c.Actor, &started,
		&next, &ended, &c.State, &c.Reason)
	c.Interval = time.Duration(pause) * time.Microsecond
	c.Started, c.Next, c.Ended = timeOf(started), timeOf(next), timeOf(ended)
	return c, err
}

// PutReleaseCanary stores a canary of a release, new or changed. Of one app one runs at a time; the caller checks that.
func (tx *Tx) PutReleaseCanary(ctx context.Context, c landfall.ReleaseCanary) error {
	return tx.exec(ctx, "store.PutReleaseCanary", `INSERT INTO release_canaries (`+canaryColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
		ON CONFLICT (id) DO UPDATE SET weight = excluded.weight, next_at = excluded.next_at, ended = excluded.ended,
			state = excluded.state, reason = excluded.reason`,
		c.ID, c.App, c.Release, c.Weight, c.Step, c.Interval.Microseconds(), c.Threshold, c.Key, c.Actor, micros(c.Started),
		micros(c.Next), micros(c.Ended), c.State, c.Reason)
}

// RunningCanary returns the canary of a release of an app that runs. NotFound when none does.
func (q queries) RunningCanary(ctx context.Context, app string) (landfall.ReleaseCanary, error) {
	return one(ctx, q, "store.RunningCanary", scanCanary,
		`SELECT `+canaryColumns+` FROM release_canaries WHERE app = $1 AND ended = 0`, app)
}

// RunningCanaries returns the canaries of releases of all apps that run.
func (q queries) RunningCanaries(ctx context.Context) ([]landfall.ReleaseCanary, error) {
	return list(ctx, q, "store.RunningCanaries", scanCanary,
		`SELECT `+canaryColumns+` FROM release_canaries WHERE ended = 0 ORDER BY started, id`)
}

// LastCanary returns the canary of a release of an app that was started last, over or not. NotFound when none was.
func (q queries) LastCanary(ctx context.Context, app string) (landfall.ReleaseCanary, error) {
	return one(ctx, q, "store.LastCanary", scanCanary, `SELECT `+canaryColumns+` FROM release_canaries
		WHERE app = $1 ORDER BY started DESC, ended = 0 DESC, id LIMIT 1`, app)
}

// CanaryUntil returns when the canaries of an app's accessible releases ended.
func (q queries) CanaryUntil(ctx context.Context, app string) (map[landfall.UID]time.Time, error) {
	type ended struct {
		release landfall.UID
		at      int64
	}
	rows, err := list(ctx, q, "store.CanaryUntil", func(row scanner) (e ended, err error) {
		return e, row.Scan(&e.release, &e.at)
	}, `SELECT c.release_uid, MAX(c.ended) FROM release_canaries c
		JOIN releases r ON r.app = c.app AND r.uid = c.release_uid AND r.expired = 0
		WHERE c.app = $1 AND c.ended > 0 GROUP BY c.release_uid`, app)
	until := make(map[landfall.UID]time.Time, len(rows))
	for _, e := range rows {
		until[e.release] = timeOf(e.at)
	}
	return until, err
}

// AddCanaryCounts adds what a process counted of a canary's release, or of the live one beside it. What it counted of a
// canary that does not exist any more is dropped.
func (tx *Tx) AddCanaryCounts(ctx context.Context, canary, process string, newer bool,
	more landfall.CanaryFigures) error {
	return tx.exec(ctx, "store.AddCanaryCounts",
		`INSERT INTO release_canary_counts (canary, process, newer, requests, failures)
		SELECT c.id, $2, $3, $4, $5 FROM release_canaries c WHERE c.id = $1
		ON CONFLICT (canary, process, newer) DO UPDATE SET requests = release_canary_counts.requests + excluded.requests,
			failures = release_canary_counts.failures + excluded.failures`,
		canary, process, newer, more.Requests, more.Failures)
}

// CanaryFigures returns what all processes counted of a canary's release, and of the live one beside it.
func (q queries) CanaryFigures(ctx context.Context, canary string) (newer, live landfall.CanaryFigures, err error) {
	type figures struct {
		newer bool
		landfall.CanaryFigures
	}
	rows, err := list(ctx, q, "store.CanaryFigures", func(row scanner) (f figures, err error) {
		return f, row.Scan(&f.newer, &f.Requests, &f.Failures)
	}, `SELECT newer, CAST(SUM(requests) AS BIGINT), CAST(SUM(failures) AS BIGINT) FROM release_canary_counts
		WHERE canary = $1 GROUP BY newer`, canary)
	for _, f := range rows {
		if f.newer {
			newer = f.CanaryFigures
		} else {
			live = f.CanaryFigures
		}
	}
	return newer, live, err
}

const canaryStepColumns = `at, weight, state, reason, actor, requests, failures, live_requests, live_failures`

// CreateCanaryStep records what happened to a canary.
func (tx *Tx) CreateCanaryStep(ctx context.Context, canary string, s landfall.CanaryStep) error {
	return tx.exec(ctx, "store.CreateCanaryStep",
		`INSERT INTO release_canary_steps (canary, seq, `+canaryStepColumns+`)
		SELECT $1, COALESCE(MAX(s.seq), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9, $10
		FROM release_canary_steps s WHERE s.canary = $1`,
		canary, micros(s.At), s.Weight, s.State, s.Reason, s.Actor, s.Canary.Requests, s.Canary.Failures, s.Live.Requests,
		s.Live.Failures)
}

// CanarySteps returns what happened to a canary, newest first.
func (q queries) CanarySteps(ctx context.Context, canary string) ([]landfall.CanaryStep, error) {
	return list(ctx, q, "store.CanarySteps", func(row scanner) (s landfall.CanaryStep, err error) {
		var at int64
		err = row.Scan(&at, &s.Weight, &s.State, &s.Reason, &s.Actor, &s.Canary.Requests, &s.Canary.Failures,
			&s.Live.Requests, &s.Live.Failures)
		s.At = timeOf(at)
		return s, err
	}, `SELECT `+canaryStepColumns+` FROM release_canary_steps WHERE canary = $1 ORDER BY seq DESC`, canary)
}
