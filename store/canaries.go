package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

const canaryColumns = `c.id, c.app, a.name, a.namespace, c.name, c.alias, c.via, c.version, c.older, c.older_name,
	c.older_number, c.newer, c.newer_name, c.newer_number, c.step, c.pace, c.threshold, c.least, c.state, c.weight,
	c.since,
	c.next_at, c.older_before, c.older_failed, c.newer_before, c.newer_failed, c.declared, c.actor, c.reason, c.created,
	c.finished, COALESCE(o.requests, 0), COALESCE(o.failures, 0), COALESCE(n.requests, 0), COALESCE(n.failures, 0)`

const canaryQuery = `SELECT ` + canaryColumns + ` FROM canaries c JOIN apps a ON a.id = c.app
	LEFT JOIN canary_counts o ON o.canary = c.id AND o.newer = 0 LEFT JOIN canary_counts n ON n.canary = c.id AND n.newer = 1`

func scanCanary(row scanner) (c landfall.Canary, err error) {
	var pace, since, next, created, finished int64
	err = row.Scan(&c.ID, &c.AppID, &c.App, &c.Namespace, &c.Name, &c.Alias, &c.Trigger, &c.TriggerVersion, &c.Older.Ref,
		&c.Older.Function, &c.Older.Number, &c.Newer.Ref, &c.Newer.Function, &c.Newer.Number, &c.Step, &pace, &c.Threshold,
		&c.MinRequests, &c.State, &c.Weight, &since, &next, &c.Older.Before.Requests, &c.Older.Before.Failures,
		&c.Newer.Before.Requests, &c.Newer.Before.Failures, &c.Declared, &c.Actor, &c.Reason, &created, &finished,
		&c.Older.Total.Requests, &c.Older.Total.Failures, &c.Newer.Total.Requests, &c.Newer.Total.Failures)
	c.Interval = time.Duration(pace) * time.Microsecond
	c.Since, c.Next, c.Created, c.Finished = timeOf(since), timeOf(next), timeOf(created), timeOf(finished)
	return c, err
}

// PutCanary stores a canary, new or changed, but for its counts.
func (tx *Tx) PutCanary(ctx context.Context, c landfall.Canary) error {
	return tx.exec(ctx, "store.PutCanary", `INSERT INTO canaries (id, app, name, alias, via, version, older, older_name,
		older_number, newer, newer_name, newer_number, step, pace, threshold, least, state, weight, since, next_at,
		older_before, older_failed, newer_before, newer_failed, declared, actor, reason, created, finished)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
		$25, $26, $27, $28, $29)
		ON CONFLICT (id) DO UPDATE SET older_name = excluded.older_name, older_number = excluded.older_number,
		newer_name = excluded.newer_name, newer_number = excluded.newer_number, state = excluded.state,
		weight = excluded.weight, since = excluded.since, next_at = excluded.next_at, older_before = excluded.older_before,
		older_failed = excluded.older_failed, newer_before = excluded.newer_before, newer_failed = excluded.newer_failed,
		reason = excluded.reason, finished = excluded.finished`,
		c.ID, c.AppID, c.Name, c.Alias, c.Trigger, c.TriggerVersion, c.Older.Ref, c.Older.Function, c.Older.Number,
		c.Newer.Ref, c.Newer.Function, c.Newer.Number, c.Step, c.Interval.Microseconds(), c.Threshold, c.MinRequests, c.State,
		c.Weight, micros(c.Since), micros(c.Next), c.Older.Before.Requests, c.Older.Before.Failures, c.Newer.Before.Requests,
		c.Newer.Before.Failures, c.Declared, c.Actor, c.Reason, micros(c.Created), micros(c.Finished))
}

// DeleteCanary removes a canary with its history. Where calls go stays.
func (tx *Tx) DeleteCanary(ctx context.Context, id string) error {
	for _, statement := range []string{
		`DELETE FROM canary_steps WHERE canary = $1`, `DELETE FROM canary_counts WHERE canary = $1`,
		`DELETE FROM canaries WHERE id = $1`,
	} {
		if err := tx.exec(ctx, "store.DeleteCanary", statement, id); err != nil {
			return err
		}
	}
	return nil
}

// Canary returns a canary of an app by name. NotFound, with a sentence, when there is none.
func (q queries) Canary(ctx context.Context, app, name string) (landfall.Canary, error) {
	const op landfall.Op = "store.Canary"
	c, err := one(ctx, q, op, scanCanary, canaryQuery+` WHERE c.app = $1 AND c.name = $2`, app, name)
	if landfall.Is(err, landfall.NotFound) {
		return c, landfall.Errorf(op, landfall.NotFound, "there is no canary %q", name)
	}
	return c, err
}

// Canaries returns the canaries of an app, or of all apps, by name.
func (q queries) Canaries(ctx context.Context, app string) ([]landfall.Canary, error) {
	return list(ctx, q, "store.Canaries", scanCanary,
		canaryQuery+` WHERE (c.app = $1 OR $1 || '' = '') AND a.deleted = 0 ORDER BY c.name, a.name`, app)
}

// RunningCanaries returns the canaries that run, those that are due first.
func (q queries) RunningCanaries(ctx context.Context) ([]landfall.Canary, error) {
	return list(ctx, q, "store.RunningCanaries", scanCanary, canaryQuery+` WHERE c.finished = 0 ORDER BY c.next_at, c.id`)
}

// CountCanary adds to what is known of the requests to one side of a canary.
func (tx *Tx) CountCanary(ctx context.Context, id string, newer bool, requests, failures int64) error {
	side := 0
	if newer {
		side = 1
	}
	return tx.exec(ctx, "store.CountCanary", `INSERT INTO canary_counts (canary, newer, requests, failures)
		SELECT c.id, CAST($2 AS BIGINT), CAST($3 AS BIGINT), CAST($4 AS BIGINT) FROM canaries c
		WHERE c.id = $1 AND c.finished = 0 ON CONFLICT (canary, newer) DO UPDATE SET
		requests = canary_counts.requests + excluded.requests, failures = canary_counts.failures + excluded.failures`,
		id, side, requests, failures)
}

// CreateCanaryStep adds to the history of a canary. The newest 1,000 entries are kept.
func (tx *Tx) CreateCanaryStep(ctx context.Context, id string, s landfall.CanaryStep) error {
	const op landfall.Op = "store.CreateCanaryStep"
	const most = 1000
	last, err := one(ctx, tx.queries, op, scanValue[int64], `SELECT COALESCE(MAX(seq), 0) FROM canary_steps WHERE canary = $1`,
		id)
	if err != nil {
		return err
	}
	err = tx.exec(ctx, op, `INSERT INTO canary_steps (canary, seq, at, verdict, weight, older_requests, older_failures,
		newer_requests, newer_failures, reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, id, last+1, micros(s.At),
		s.Verdict, s.Weight, s.Older.Requests, s.Older.Failures, s.Newer.Requests, s.Newer.Failures, s.Reason)
	if err != nil {
		return err
	}
	return tx.exec(ctx, op, `DELETE FROM canary_steps WHERE canary = $1 AND seq <= $2`, id, last+1-most)
}

// CanarySteps returns the history of a canary, newest first.
func (q queries) CanarySteps(ctx context.Context, id string, limit int) ([]landfall.CanaryStep, error) {
	return list(ctx, q, "store.CanarySteps", func(row scanner) (s landfall.CanaryStep, err error) {
		var at int64
		err = row.Scan(&at, &s.Verdict, &s.Weight, &s.Older.Requests, &s.Older.Failures, &s.Newer.Requests, &s.Newer.Failures,
			&s.Reason)
		s.At = timeOf(at)
		return s, err
	}, `SELECT at, verdict, weight, older_requests, older_failures, newer_requests, newer_failures, reason FROM canary_steps
		WHERE canary = $1 ORDER BY seq DESC LIMIT $2 + 0`, id, limit)
}

// TriggerWeight is how the weights of an HTTP trigger moved since its version was declared.
type TriggerWeight struct {
	Trigger string
	Version landfall.UID // the trigger's
	Newer   string       // the function of the two that gets Percent, as the trigger names it
	Percent int
}

// PutTriggerWeight moves the weights of a trigger of an app.
func (tx *Tx) PutTriggerWeight(ctx context.Context, app string, w TriggerWeight) error {
	return tx.exec(ctx, "store.PutTriggerWeight", `INSERT INTO trigger_weights (app, name, version, newer, percent)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (app, name) DO UPDATE SET version = excluded.version, newer = excluded.newer,
		percent = excluded.percent`, app, w.Trigger, w.Version, w.Newer, w.Percent)
}

// TriggerWeights returns the weights of an app's triggers that moved.
func (q queries) TriggerWeights(ctx context.Context, app string) ([]TriggerWeight, error) {
	return list(ctx, q, "store.TriggerWeights", func(row scanner) (w TriggerWeight, err error) {
		return w, row.Scan(&w.Trigger, &w.Version, &w.Newer, &w.Percent)
	}, `SELECT name, version, newer, percent FROM trigger_weights WHERE app = $1 ORDER BY name`, app)
}
