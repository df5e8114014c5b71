package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

const releaseCanaryColumns = `id, app, release_uid, weight, step, pause, threshold, key, actor, started, next_at, ended,
	state, reason`

func scanReleaseCanary(row scanner) (landfall.ReleaseCanary, error) {
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
	return tx.exec(ctx, "store.PutReleaseCanary", `INSERT INTO release_canaries (`+releaseCanaryColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
		ON CONFLICT (id) DO UPDATE SET weight = excluded.weight, next_at = excluded.next_at, ended = excluded.ended,
			state = excluded.state, reason = excluded.reason`,
		c.ID, c.App, c.Release, c.Weight, c.Step, c.Interval.Microseconds(), c.Threshold, c.Key, c.Actor, micros(c.Started),
		micros(c.Next), micros(c.Ended), c.State, c.Reason)
}

// RunningReleaseCanary returns the canary of a release of an app that runs. NotFound when none does.
func (q queries) RunningReleaseCanary(ctx context.Context, app string) (landfall.ReleaseCanary, error) {
	return one(ctx, q, "store.RunningReleaseCanary", scanReleaseCanary,
		`SELECT `+releaseCanaryColumns+` FROM release_canaries WHERE app = $1 AND ended = 0`, app)
}

// RunningReleaseCanaries returns the canaries of releases of all apps that run.
func (q queries) RunningReleaseCanaries(ctx context.Context) ([]landfall.ReleaseCanary, error) {
	return list(ctx, q, "store.RunningReleaseCanaries", scanReleaseCanary,
		`SELECT `+releaseCanaryColumns+` FROM release_canaries WHERE ended = 0 ORDER BY started, id`)
}

// LastReleaseCanary returns the canary of a release of an app that was started last, over or not. NotFound when none
// was.
func (q queries) LastReleaseCanary(ctx context.Context, app string) (landfall.ReleaseCanary, error) {
	return one(ctx, q, "store.LastReleaseCanary", scanReleaseCanary, `SELECT `+releaseCanaryColumns+` FROM release_canaries
		WHERE app = $1 ORDER BY started DESC, ended = 0 DESC, id LIMIT 1`, app)
}

// ReleaseCanaryUntil returns when the canaries of an app's accessible releases ended.
func (q queries) ReleaseCanaryUntil(ctx context.Context, app string) (map[landfall.UID]time.Time, error) {
	type ended struct {
		release landfall.UID
		at      int64
	}
	rows, err := list(ctx, q, "store.ReleaseCanaryUntil", func(row scanner) (e ended, err error) {
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

// AddReleaseCanaryCounts adds what a process counted of a canary's release, or of the live one beside it. What it
// counted of a canary that does not exist any more is dropped.
func (tx *Tx) AddReleaseCanaryCounts(ctx context.Context, canary, process string, newer bool,
	more landfall.CanaryFigures) error {
	return tx.exec(ctx, "store.AddReleaseCanaryCounts",
		`INSERT INTO release_canary_counts (canary, process, newer, requests, failures)
		SELECT c.id, $2, $3, $4, $5 FROM release_canaries c WHERE c.id = $1
		ON CONFLICT (canary, process, newer) DO UPDATE SET requests = release_canary_counts.requests + excluded.requests,
			failures = release_canary_counts.failures + excluded.failures`,
		canary, process, newer, more.Requests, more.Failures)
}

// ReleaseCanaryFigures returns what all processes counted of a canary's release, and of the live one beside it.
func (q queries) ReleaseCanaryFigures(ctx context.Context, canary string) (newer, live landfall.CanaryFigures,
	err error) {
	type figures struct {
		landfall.CanaryFigures

		newer bool
	}
	rows, err := list(ctx, q, "store.ReleaseCanaryFigures", func(row scanner) (f figures, err error) {
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

const releaseCanaryStepColumns = `at, weight, state, reason, actor, requests, failures, live_requests, live_failures`

// CreateReleaseCanaryStep records what happened to a canary.
func (tx *Tx) CreateReleaseCanaryStep(ctx context.Context, canary string, s landfall.ReleaseCanaryStep) error {
	return tx.exec(ctx, "store.CreateReleaseCanaryStep",
		`INSERT INTO release_canary_steps (canary, seq, `+releaseCanaryStepColumns+`)
		SELECT $1, COALESCE(MAX(s.seq), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9, $10
		FROM release_canary_steps s WHERE s.canary = $1`,
		canary, micros(s.At), s.Weight, s.State, s.Reason, s.Actor, s.Canary.Requests, s.Canary.Failures, s.Live.Requests,
		s.Live.Failures)
}

// ReleaseCanarySteps returns what happened to a canary, newest first.
func (q queries) ReleaseCanarySteps(ctx context.Context, canary string) ([]landfall.ReleaseCanaryStep, error) {
	return list(ctx, q, "store.ReleaseCanarySteps", func(row scanner) (s landfall.ReleaseCanaryStep, err error) {
		var at int64
		err = row.Scan(&at, &s.Weight, &s.State, &s.Reason, &s.Actor, &s.Canary.Requests, &s.Canary.Failures,
			&s.Live.Requests, &s.Live.Failures)
		s.At = timeOf(at)
		return s, err
	}, `SELECT `+releaseCanaryStepColumns+` FROM release_canary_steps WHERE canary = $1 ORDER BY seq DESC`, canary)
}
