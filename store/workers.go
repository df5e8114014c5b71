package store

import (
	"context"
	"time"
)

// forgetWorkers is when a worker without a sign of life is forgotten.
const forgetWorkers = 24 * time.Hour

// RecordWorker notes that a worker is alive until a time; the zero time means that it has stopped. It forgets workers
// that were killed long before.
func (tx *Tx) RecordWorker(ctx context.Context, worker string, until time.Time) error {
	dead := ""
	if until.IsZero() {
		dead = worker
	}
	err := tx.exec(ctx, "store.Working", `DELETE FROM workers WHERE process = $1 OR until < $2`, dead,
		micros(until.Add(-forgetWorkers)))
	if err != nil || until.IsZero() {
		return err
	}
	return tx.exec(ctx, "store.Working", `INSERT INTO workers (process, until) VALUES ($1, $2)
		ON CONFLICT (process) DO UPDATE SET until = excluded.until`, worker, micros(until))
}

// Workers returns how many workers are alive at a time, according to their records.
func (q queries) Workers(ctx context.Context, now time.Time) (int, error) {
	return one(ctx, q, "store.Workers", scanValue[int], `SELECT COUNT(*) FROM workers WHERE until > $1`, micros(now))
}
