package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// ForgetRuns deletes up to limit runs that ended before a time, the oldest first, with their steps, logs and reports,
// and returns how many it deleted. It keeps runs that are still needed: the run of an accessible release; the run that
// alone knows the commit of a work tree with changes; the runs of the commit that a branch or tag names, because the
// commit would run again when that push is reported once more; runs with reports that are not sent; and runs of a
// deleted app whose content is still there. Pushes stay: the order of a branch depends on them.
func (tx *Tx) ForgetRuns(ctx context.Context, before time.Time, limit int) (int, error) {
	const op landfall.Op = "store.ForgetRuns"
	runs, err := list(ctx, tx.queries, op, scanRun, `SELECT `+runColumns+` FROM runs r WHERE finished > 0 AND finished < $1
		AND NOT EXISTS (SELECT 1 FROM releases l JOIN apps a ON a.id = l.app
			WHERE l.app = r.app AND l.uid = r.release_uid AND l.expired = 0 AND a.deleted = 0)
		AND NOT EXISTS (SELECT 1 FROM group_versions g WHERE g.app = r.app AND g.uid = r.uid AND g.clean = 0)
		AND NOT EXISTS (SELECT 1 FROM heads h JOIN apps a ON a.id = h.app
			WHERE h.app = r.app AND h.sha = r.commit_sha AND a.deleted = 0)
		AND NOT EXISTS (SELECT 1 FROM apps d WHERE d.id = r.app AND d.deleted > 0 AND d.removed = 0)
		AND NOT EXISTS (SELECT 1 FROM reports p
			WHERE p.app = r.app AND p.commit_sha = r.commit_sha AND p.run = r.id AND p.sent = 0 AND p.dropped = 0)
		ORDER BY finished LIMIT $2 + 0`, micros(before), limit)
	if err != nil {
		return 0, err
	}
	for _, r := range runs {
		if err := tx.exec(ctx, op, `DELETE FROM reports WHERE app = $1 AND commit_sha = $2 AND run = $3`, r.App, r.Commit,
			r.ID); err != nil {
			return 0, err
		}
		if err := tx.exec(ctx, op, `DELETE FROM checks WHERE app = $1 AND commit_sha = $2 AND run = $3`, r.App, r.Commit,
			r.ID); err != nil {
			return 0, err
		}
		for _, statement := range []string{
			`DELETE FROM run_log WHERE run = $1`, `DELETE FROM run_steps WHERE run = $1`, `DELETE FROM run_refs WHERE run = $1`,
			`DELETE FROM runs WHERE id = $1`,
		} {
			if err := tx.exec(ctx, op, statement, r.ID); err != nil {
				return 0, err
			}
		}
	}
	return len(runs), nil
}

// ForgetLogs removes the logs of up to limit runs that ended before a time, the oldest first, and returns how many it
// removed. In place of each log one line stays, which says why.
func (tx *Tx) ForgetLogs(ctx context.Context, before time.Time, limit int, why string, now time.Time) (int, error) {
	const op landfall.Op = "store.ForgetLogs"
	runs, err := list(ctx, tx.queries, op, scanRun, `SELECT `+runColumns+` FROM runs
		WHERE finished > 0 AND forgotten = 0 AND finished < $1 ORDER BY finished LIMIT $2 + 0`, micros(before), limit)
	if err != nil {
		return 0, err
	}
	for _, r := range runs {
		if err := tx.exec(ctx, op, `DELETE FROM run_log WHERE run = $1`, r.ID); err != nil {
			return 0, err
		}
		if err := tx.exec(ctx, op, `UPDATE runs SET forgotten = 1 WHERE id = $1`, r.ID); err != nil {
			return 0, err
		}
		if err := tx.AppendLog(ctx, r.ID, r.Step, now, why); err != nil {
			return 0, err
		}
	}
	return len(runs), nil
}

// ForgetDeliveries deletes up to limit deliveries that came before a time, the oldest first, and returns how many it
// deleted.
func (tx *Tx) ForgetDeliveries(ctx context.Context, before time.Time, limit int) (int, error) {
	const op landfall.Op = "store.ForgetDeliveries"
	old, err := list(ctx, tx.queries, op, scanDelivery,
		`SELECT `+deliveryColumns+` FROM deliveries WHERE received < $1 ORDER BY received LIMIT $2 + 0`,
		micros(before), limit)
	if err != nil {
		return 0, err
	}
	for _, d := range old {
		if err := tx.DeleteDelivery(ctx, d.Hook, d.ID); err != nil {
			return 0, err
		}
	}
	return len(old), nil
}
