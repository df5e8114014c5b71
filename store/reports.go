package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

const reportColumns = `id, app, run, github_id, owner, name, commit_sha, context, state, description, target, attempts,
	next_at, sent, problem, dropped`

func scanReport(row scanner) (landfall.Report, error) {
	var r landfall.Report
	var next, sent int64
	err := row.Scan(&r.ID, &r.App, &r.Run, &r.Repository.ID, &r.Repository.Owner, &r.Repository.Name, &r.Commit,
		&r.Context, &r.State, &r.Description, &r.Target, &r.Attempts, &next, &sent, &r.Problem, &r.Dropped)
	r.NextAt, r.Sent = timeOf(next), timeOf(sent)
	return r, err
}

// CreateReport adds a report to the outbox.
func (tx *Tx) CreateReport(ctx context.Context, r landfall.Report) error {
	id, err := tx.next(ctx, "reports")
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.CreateReport", `INSERT INTO reports (`+reportColumns+`, created)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, 0, '', 0, $12)`,
		id, r.App, r.Run, r.Repository.ID, r.Repository.Owner, r.Repository.Name, r.Commit, r.Context, r.State,
		r.Description, r.Target, micros(r.NextAt))
}

// ReportsOf returns the reports of a commit in order.
func (q queries) ReportsOf(ctx context.Context, app string, commit landfall.CommitSHA) ([]landfall.Report, error) {
	return list(ctx, q, "store.ReportsOf", scanReport,
		`SELECT `+reportColumns+` FROM reports WHERE app = $1 AND commit_sha = $2 ORDER BY id`, app, commit)
}

// Outbox is the durable queue of reports. Only the leader sends them: other processes can read it, and fail when they
// record anything.
type Outbox struct{ DB *DB }

// scanDue reads a report with what a log says about it.
func scanDue(row scanner) (landfall.Report, error) {
	var app, delivery, trace string
	r, err := scanReport(extraColumns{row, []any{&app, &delivery, &trace}})
	r.AppName, r.Delivery, r.Trace = app, delivery, trace
	return r, err
}

// Due returns reports that must be sent and may be tried by now: final states first, then the oldest. For each commit
// and context it returns only the oldest.
func (o Outbox) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Report, error) {
	return list(ctx, o.DB.queries, "store.Due", scanDue, `SELECT `+reportColumns+`,
			COALESCE((SELECT a.name FROM apps a WHERE a.id = r.app), ''), `+deliveryOf("r.run")+`, `+traceOf("r.run")+`
		FROM reports r
		WHERE sent = 0 AND dropped = 0 AND next_at <= $1 AND NOT EXISTS (SELECT 1 FROM reports e
			WHERE e.sent = 0 AND e.dropped = 0 AND e.app = r.app AND e.commit_sha = r.commit_sha AND e.context = r.context
			AND e.id < r.id)
		ORDER BY CASE r.state WHEN $3 THEN 1 ELSE 0 END, id LIMIT $2 + 0`, micros(now), limit, landfall.StatusPending)
}

// DropOvertaken gives up the pending states that have a later report of their commit and context, of which no attempt
// was made.
func (o Outbox) DropOvertaken(ctx context.Context) error {
	return o.update(ctx, "", `UPDATE reports SET dropped = 1, problem = $2
		WHERE state = $1 AND sent = 0 AND dropped = 0 AND attempts = 0 AND EXISTS (SELECT 1 FROM reports e
			WHERE e.app = reports.app AND e.commit_sha = reports.commit_sha AND e.context = reports.context
			AND e.id > reports.id)`,
		landfall.StatusPending, "A later state was due before this one could be sent within GitHub's limits.")
}

// Sent records that the forge has reports.
func (o Outbox) Sent(ctx context.Context, at time.Time, ids ...int64) error {
	return o.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		for _, id := range ids {
			err := tx.exec(ctx, "store.Outbox", `UPDATE reports SET sent = $2, attempts = attempts + 1, problem = ''
				WHERE id = $1`, id, micros(at))
			if err != nil {
				return err
			}
		}
		return tx.count(ctx, statusesSent, int64(len(ids)))
	})
}

// Postpone records that a report is to be tried again at the given time, and why.
func (o Outbox) Postpone(ctx context.Context, id int64, at time.Time, problem string) error {
	return o.update(ctx, "", `UPDATE reports SET next_at = $2, attempts = attempts + 1, problem = $3 WHERE id = $1`, id,
		micros(at), problem)
}

// Drop records that a report will never be sent, and why.
func (o Outbox) Drop(ctx context.Context, id int64, problem string) error {
	return o.update(ctx, statusesDropped,
		`UPDATE reports SET dropped = 1, attempts = attempts + 1, problem = $2 WHERE id = $1`, id, problem)
}

func (o Outbox) update(ctx context.Context, counter, query string, args ...any) error {
	return o.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		if err := tx.count(ctx, counter, 1); err != nil {
			return err
		}
		return tx.exec(ctx, "store.Outbox", query, args...)
	})
}
