package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Retention says how long finished records are kept; 0: for ever.
type Retention struct {
	Runs       time.Duration // with their steps and reports; the run of an accessible release stays. Also expired tokens
	Logs       time.Duration // of runs
	Deliveries time.Duration
	// with their logs, and jobs that are over; of a version's many, the oldest are deleted earlier
	Executions time.Duration
}

// Every returns how often old records are looked for: at most every CollectEvery, and more often for records that are
// kept for a shorter time.
func (r Retention) Every() time.Duration {
	every := CollectEvery
	for _, keep := range []time.Duration{r.Runs, r.Logs, r.Deliveries, r.Executions} {
		if keep > 0 {
			every = min(every, keep)
		}
	}
	return max(every, time.Minute)
}

// forgetBatch bounds one transaction: the log of a run may have thousands of lines.
const forgetBatch = 20

// Forget deletes the records that are older than Retention allows, and uploads that nobody finishes. When it is
// interrupted, the next call goes on. Only the leader does so: in another process it fails at once.
func (u *Upkeep) Forget(ctx context.Context) error {
	now := u.Now()
	why := fmt.Sprintf("(the log was removed: LANDFALL_KEEP_LOGS is %s)", days(u.Retention.Logs))
	for _, kind := range []struct {
		name   string
		keep   time.Duration
		forget func(tx *store.Tx, ctx context.Context, before time.Time, limit int) (int, error)
	}{
		{"runs", u.Retention.Runs, (*store.Tx).ForgetRuns},
		{"tokens", u.Retention.Runs, (*store.Tx).ForgetTokens},
		{"logs", u.Retention.Logs, func(tx *store.Tx, ctx context.Context, before time.Time, limit int) (int, error) {
			return tx.ForgetLogs(ctx, before, limit, why, now)
		}},
		{"deliveries", u.Retention.Deliveries, (*store.Tx).ForgetDeliveries},
		{"executions", u.Retention.Executions, (*store.Tx).ForgetExecutions},
		{"jobs", u.Retention.Executions, (*store.Tx).ForgetJobs},
	} {
		if kind.keep == 0 {
			continue
		}
		err := u.forgetAll(ctx, kind.name, func(tx *store.Tx) (int, error) {
			return kind.forget(tx, ctx, now.Add(-kind.keep), forgetBatch)
		})
		if err != nil {
			return err
		}
	}
	err := u.forgetAll(ctx, "payloads of deliveries", func(tx *store.Tx) (int, error) {
		return tx.ForgetPayloads(ctx, now.Add(-landfall.KeepPayloads), forgetBatch)
	})
	if err != nil {
		return err
	}
	const keptKeys = 24 * time.Hour
	err = u.forgetAll(ctx, "keys of requests", func(tx *store.Tx) (int, error) {
		return tx.ForgetKeys(ctx, now.Add(-keptKeys), forgetBatch)
	})
	if err != nil {
		return err
	}
	if u.Uploads != nil {
		if err := u.Uploads.Sweep(); err != nil {
			return err
		}
	}
	return u.forgetOrphans(ctx)
}

// forgetOrphans deletes the executions of apps and versions that do not exist any more.
func (u *Upkeep) forgetOrphans(ctx context.Context) error {
	gone, err := u.DB.OrphanExecutions(ctx)
	for _, of := range gone {
		err = errors.Join(err, u.forgetAll(ctx, "executions of what is gone", func(tx *store.Tx) (int, error) {
			return tx.ForgetOrphanExecutions(ctx, of, forgetBatch)
		}))
	}
	return err
}

// forgetAll deletes a few records at a time until none are left.
func (u *Upkeep) forgetAll(ctx context.Context, what string, forget func(*store.Tx) (int, error)) error {
	gone := 0
	for more := true; more; {
		var n int
		err := u.DB.UpdateAsLeader(ctx, func(tx *store.Tx) (err error) {
			n, err = forget(tx)
			return err
		})
		if err != nil {
			return err
		}
		gone += n
		more = n == forgetBatch
	}
	if gone > 0 {
		u.Logger.InfoContext(ctx, "old records deleted", "what", what, "count", gone)
	}
	return nil
}

// days returns a duration as the settings write it.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}
