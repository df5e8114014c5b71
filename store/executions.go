package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
)

const executionColumns = `x.id, x.app, COALESCE((SELECT a.name FROM apps a WHERE a.id = x.app), ''), x.namespace,
	x.function, x.version, x.number, x.grp, x.release_uid, x.via, x.source, x.type, x.event_id, x.state, x.async,
	x.attempt, x.reason, x.message, x.created, x.started, x.finished, x.input_bytes, x.output_bytes, x.log_bytes,
	x.forgotten, x.retries, x.earlier, x.sent, x.dead, x.next_at`

func scanExecution(row scanner) (landfall.Execution, error) {
	x, _, err := scanExecutionWith[struct{}](row)
	return x, err
}

// scanExecutionWith reads an execution and the column behind it, if there is one.
func scanExecutionWith[T any](row scanner) (x landfall.Execution, more T, err error) {
	var created, started, finished, sent, next int64
	to := []any{
		&x.ID, &x.AppID, &x.App, &x.Namespace, &x.Function, &x.Version, &x.Number, &x.Group, &x.Release, &x.Trigger,
		&x.Event.Source, &x.Event.Type, &x.Event.ID, &x.State, &x.Async, &x.Attempt, &x.Reason, &x.Message, &created,
		&started, &finished, &x.Input, &x.Output, &x.Log, &x.LogGone, &x.Retries, &x.Earlier, &sent, &x.Dead, &next,
	}
	if _, none := any(more).(struct{}); !none {
		to = append(to, &more)
	}
	if err := row.Scan(to...); err != nil {
		return x, more, err
	}
	x.Created, x.Started, x.Finished, x.Sent = timeOf(created), timeOf(started), timeOf(finished), timeOf(sent)
	if x.State == landfall.ExecutionQueued && x.Attempt > x.Earlier {
		x.Next = timeOf(next)
	}
	if x.State.Final() && started > 0 {
		x.Duration = float64(finished-started) / float64(time.Millisecond/time.Microsecond)
	}
	return x, more, nil
}

// ExecutionRecord is the news about an execution since it was last recorded.
type ExecutionRecord struct {
	landfall.Execution

	Process string    // that runs it
	Until   time.Time // the process is alive at least until then
	Log     []string  // pieces
}

const insertExecution = `INSERT INTO executions (id, app, namespace, function, version, number, grp, release_uid, via,
	source, type, event_id, state, async, attempt, reason, message, created, started, finished, input_bytes, output_bytes,
	log_bytes, forgotten, process, until, next_at, event, result, retries, dead) VALUES ($1, $2, $3, $4, $5, $6, $7, $8,
	$9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31)`

func executionRow(x landfall.Execution, process string, until, next time.Time, event []byte) []any {
	return []any{
		x.ID, x.AppID, x.Namespace, x.Function, x.Version, x.Number, x.Group, x.Release, x.Trigger, x.Event.Source,
		x.Event.Type, x.Event.ID, x.State, x.Async, x.Attempt, x.Reason, x.Message, micros(x.Created), micros(x.Started),
		micros(x.Finished), x.Input, x.Output, x.Log,
		x.LogGone, process, micros(until), micros(next), string(event), string(x.Result), x.Retries, x.Dead,
	}
}

// RecordExecutions stores the news about executions, and adds to their logs. It does not change an execution that is
// over, or one that another process has taken over, or that this process runs in another attempt. The event of one that
// is over is kept if it is a dead letter.
func (tx *Tx) RecordExecutions(ctx context.Context, now time.Time, records []ExecutionRecord) error {
	const op landfall.Op = "store.RecordExecutions"
	pieces := int64(0)
	for _, r := range records {
		err := tx.exec(ctx, op, insertExecution+
			` ON CONFLICT (id) DO UPDATE SET state = excluded.state, reason = excluded.reason,
			message = excluded.message, started = excluded.started, finished = excluded.finished,
			input_bytes = excluded.input_bytes, output_bytes = excluded.output_bytes, log_bytes = excluded.log_bytes,
			forgotten = excluded.forgotten, until = excluded.until, result = excluded.result,
			next_at = excluded.next_at, dead = excluded.dead,
			event = CASE WHEN excluded.finished > 0 AND excluded.dead = 0 THEN '' ELSE executions.event END
			WHERE executions.finished = 0 AND executions.process = excluded.process AND executions.attempt = excluded.attempt`,
			executionRow(r.Execution, r.Process, r.Until, r.Next, nil)...)
		if err != nil {
			return err
		}
		pieces += int64(len(r.Log))
	}
	if pieces == 0 {
		return nil
	}
	last, err := tx.advance(ctx, "execution log", pieces)
	if err != nil {
		return err
	}
	seq := last - pieces
	for _, r := range records {
		for _, text := range r.Log {
			seq++
			err := tx.exec(ctx, op, `INSERT INTO execution_log (seq, execution, namespace, function, number, at, text)
				VALUES ($1, $2, $3, $4, $5, $6, $7)`, seq, r.ID, r.Namespace, r.Function, r.Number, micros(now), text)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// WaitingLimit bounds the executions of one app that wait.
type WaitingLimit struct {
	Count int64
	Bytes int64
}

// AcceptExecution stores an execution and its event, to be run by the process that leases it. Unavailable when the app
// has too many that wait; NotFound when the app was deleted.
func (tx *Tx) AcceptExecution(ctx context.Context, x landfall.Execution, event []byte, most WaitingLimit) error {
	const op landfall.Op = "store.AcceptExecution"
	if _, err := tx.ActiveApp(ctx, x.AppID); err != nil && (x.AppID != "" || landfall.KindOf(err) != landfall.NotFound) {
		return err
	}
	if err := tx.mayWait(ctx, op, x.AppID, len(event), most); err != nil {
		return err
	}
	return tx.exec(ctx, op, insertExecution, executionRow(x, "", time.Time{}, x.Created, event)...)
}

// mayWait returns an error unless one more execution of an app, with an event of that size, may wait. Unavailable when
// too many do.
func (tx *Tx) mayWait(ctx context.Context, op landfall.Op, app string, size int, most WaitingLimit) error {
	now, err := one(ctx, tx.queries, op, func(row scanner) (w WaitingLimit, err error) {
		err = row.Scan(&w.Count, &w.Bytes)
		return w, err
	}, `SELECT COUNT(*), CAST(COALESCE(SUM(OCTET_LENGTH(event)), 0) AS BIGINT) FROM executions WHERE state = 'queued'
		AND app = $1`, app)
	if err == nil && (now.Count >= most.Count || now.Bytes+int64(size) > most.Bytes) {
		err = landfall.Errorf(op, landfall.Unavailable,
			"%d executions of the app wait to be run, which is as much as may; try again later", now.Count)
	}
	return err
}

// farAhead is longer than any execution waits for its next attempt. One that seems to wait longer does so because a
// clock was set back.
const farAhead = 10 * time.Minute

// ExecutionsDue reports whether an execution waits that may run by now.
func (q queries) ExecutionsDue(ctx context.Context, now time.Time) (bool, error) {
	n, err := one(ctx, q, "store.ExecutionsDue", scanValue[int64],
		`SELECT COUNT(*) FROM (SELECT 1 FROM executions WHERE state = 'queued'
			AND (next_at <= $1 OR next_at > $2) LIMIT 1) due`,
		micros(now), micros(now.Add(farAhead)))
	return n > 0, err
}

// LeasedExecution is an execution that was accepted and must run now.
type LeasedExecution struct {
	landfall.Execution

	Input []byte // the event that it answers, as JSON
}

// LeaseExecutions gives waiting executions to a process that has room for some, until the given time and under a new
// attempt number. Those that have waited longest come first. An app gets one more only while the process has more room
// left than the app uses there. So the next app always finds room, however long the others take.
func (tx *Tx) LeaseExecutions(ctx context.Context, process string, now, until time.Time,
	room int) ([]LeasedExecution, error) {
	const op landfall.Op = "store.LeaseExecutions"
	atWork := map[string]int{}
	running, err := list(ctx, tx.queries, op, scanValue[string],
		`SELECT app FROM executions WHERE state = 'running' AND async = 1 AND process = $1`, process)
	if err != nil {
		return nil, err
	}
	for _, app := range running {
		atWork[app]++
	}
	leased := []LeasedExecution{}
	for before := -1; before < len(leased); {
		before = len(leased)
		due, err := tx.dueExecutions(ctx, process, now, room)
		if err != nil {
			return nil, err
		}
		for _, x := range due {
			if atWork[x.AppID] >= room {
				continue
			}
			atWork[x.AppID]++
			room--
			x.State, x.Started = landfall.ExecutionRunning, now
			x.Attempt++
			err := tx.exec(ctx, op,
				`UPDATE executions SET state = $2, attempt = $3, started = $4, process = $5, until = $6 WHERE id = $1`,
				x.ID, x.State, x.Attempt, micros(now), process, micros(until))
			if err != nil {
				return nil, err
			}
			leased = append(leased, x)
		}
	}
	return leased, nil
}

// dueExecutions returns up to room waiting executions, those that have waited longest first. It leaves out apps that
// use as much of the process as is left.
func (tx *Tx) dueExecutions(ctx context.Context, process string, now time.Time, room int) ([]LeasedExecution, error) {
	return list(ctx, tx.queries, "store.LeaseExecutions", func(row scanner) (x LeasedExecution, err error) {
		var event string
		x.Execution, event, err = scanExecutionWith[string](row)
		x.Input = []byte(event)
		return x, err
	}, `SELECT `+executionColumns+
		`, x.event FROM executions x WHERE x.state = 'queued' AND (x.next_at <= $1 OR x.next_at > $5) AND x.app NOT IN (
			SELECT r.app || '' FROM executions r WHERE r.state = 'running' AND r.async = 1
			AND r.process = $3 GROUP BY r.app || '' HAVING COUNT(*) >= $2)
		ORDER BY x.next_at LIMIT $4 + 0`, micros(now), room, process, room, micros(now.Add(farAhead)))
}

// ReturnExecution gives back an execution that could not be run now. tried says whether that counts as an attempt.
func (tx *Tx) ReturnExecution(ctx context.Context, x landfall.Execution, process string, next time.Time,
	tried bool) error {
	attempt := x.Attempt
	if !tried {
		attempt--
	}
	return tx.exec(ctx, "store.ReturnExecution", `UPDATE executions SET state = 'queued', attempt = $5, next_at = $4
		WHERE id = $1 AND process = $2 AND attempt = $3 AND state = 'running'`, x.ID, process, x.Attempt,
		micros(next), attempt)
}

// RunningExecution is an execution that a process was running when it was read.
type RunningExecution struct {
	ID      string
	Process string
	Attempt int64
	Until   time.Time // the process is alive at least until then, by its own clock
}

// RunningExecutions returns all executions that run.
func (q queries) RunningExecutions(ctx context.Context) ([]RunningExecution, error) {
	return list(ctx, q, "store.RunningExecutions", func(row scanner) (x RunningExecution, err error) {
		var until int64
		err = row.Scan(&x.ID, &x.Process, &x.Attempt, &until)
		x.Until = timeOf(until)
		return x, err
	}, `SELECT id, process, attempt, until FROM executions WHERE state = 'running'`)
}

// ReleaseExecutions ends the executions of dead processes, unless they have changed since they were read. One that was
// accepted is queued again until it had all its attempts, and is a dead letter then; any other one fails. It returns
// how many there were.
func (tx *Tx) ReleaseExecutions(ctx context.Context, seen []RunningExecution, now time.Time,
	attempts int64) (released int, err error) {
	const op landfall.Op = "store.ReleaseExecutions"
	for _, dead := range seen {
		lost, err := list(ctx, tx.queries, op, scanExecution, `SELECT `+executionColumns+` FROM executions x
			WHERE x.id = $1 AND x.state = 'running' AND x.process = $2 AND x.attempt = $3 AND x.until = $4`,
			dead.ID, dead.Process, dead.Attempt, micros(dead.Until))
		if err != nil {
			return 0, err
		}
		for _, x := range lost {
			if x.Async && x.Attempt-x.Earlier < max(attempts, x.Retries+1) {
				err = tx.exec(ctx, op, `UPDATE executions SET state = 'queued', process = '', next_at = $2 WHERE id = $1`, x.ID,
					micros(now))
			} else {
				err = tx.exec(ctx, op,
					`UPDATE executions SET state = 'failed', reason = 'lost', message = $3, finished = $2, dead = async WHERE id = $1`,
					x.ID, micros(now), "the server ended while the function ran")
			}
			if err != nil {
				return 0, err
			}
			released++
		}
	}
	return released, nil
}

// appNotDeleted is true of an execution x unless its app was deleted.
const appNotDeleted = `NOT EXISTS (SELECT 1 FROM apps a WHERE a.id = x.app AND a.deleted > 0)`

// Execution returns an execution by id, with its result. NotFound when there is none, or its app was deleted.
func (q queries) Execution(ctx context.Context, id string) (landfall.Execution, error) {
	const op landfall.Op = "store.Execution"
	x, err := one(ctx, q, op, func(row scanner) (landfall.Execution, error) {
		x, result, err := scanExecutionWith[string](row)
		if result != "" {
			x.Result = json.RawMessage(result)
		}
		return x, err
	}, `SELECT `+executionColumns+`, x.result FROM executions x WHERE x.id = $1 AND `+appNotDeleted, id)
	if landfall.Is(err, landfall.NotFound) {
		return x, &landfall.Error{Op: op, Kind: landfall.NotFound, Message: "there is no execution " + id}
	}
	return x, err
}

// ExecutionsFrom returns up to limit executions whose ids begin with a prefix, which consists of characters of a UUID.
// It leaves out those of deleted apps.
func (q queries) ExecutionsFrom(ctx context.Context, prefix string, limit int) ([]landfall.Execution, error) {
	const behind = "g" // after every character of a UUID, in any collation
	all, err := list(ctx, q, "store.ExecutionsFrom", scanExecution,
		`SELECT `+executionColumns+` FROM executions x WHERE x.id >= $1 AND x.id < $2 AND `+appNotDeleted+
			` ORDER BY x.id LIMIT $3 + 0`, prefix, prefix+behind, limit)
	return slices.DeleteFunc(all, func(x landfall.Execution) bool { return !strings.HasPrefix(x.ID, prefix) }), err
}

// ExecutionsLike returns the newest executions that have the app, namespace, function, number and state of like, each
// of which may be zero, and are dead letters if it is one; newest first. Without an app, it leaves out those of deleted
// apps. before, when it has an ID, is the last execution of the page before.
func (q queries) ExecutionsLike(ctx context.Context, like, before landfall.Execution,
	limit int) ([]landfall.Execution, error) {
	conditions, args := []string{}, []any{limit}
	where := func(condition string, value any) {
		args = append(args, value)
		conditions = append(conditions, fmt.Sprintf(condition, len(args)))
	}
	if like.AppID != "" {
		where("x.app = $%d", like.AppID)
	}
	if like.Function != "" {
		where("x.namespace = $%d", like.Namespace)
		where("x.function = $%d", like.Function)
	}
	if like.Number != 0 {
		where("x.number = $%d", like.Number)
	}
	if like.State != "" {
		where("x.state = $%d", like.State)
	}
	if like.Dead {
		conditions = append(conditions, "x.dead = 1")
	}
	if before.ID != "" {
		where("(x.created, x.id) < ($%d", micros(before.Created))
		args = append(args, before.ID)
		conditions[len(conditions)-1] += fmt.Sprintf(", $%d)", len(args))
	}
	if like.AppID == "" {
		conditions = append(conditions, appNotDeleted)
	}
	query := `SELECT ` + executionColumns + ` FROM executions x`
	if len(conditions) > 0 {
		query += ` WHERE ` + strings.Join(conditions, " AND ")
	}
	return list(ctx, q, "store.ExecutionsLike", scanExecution,
		query+` ORDER BY x.created DESC, x.id DESC LIMIT $1 + 0`, args...)
}

func scanExecutionLog(row scanner) (l landfall.ExecutionLog, err error) {
	var at int64
	err = row.Scan(&l.Seq, &l.Execution, &at, &l.Text)
	l.Time = timeOf(at)
	return l, err
}

// ExecutionLog returns up to limit pieces of an execution's log after the given one.
func (q queries) ExecutionLog(ctx context.Context, id string, after int64, limit int) ([]landfall.ExecutionLog, error) {
	return list(ctx, q, "store.ExecutionLog", scanExecutionLog,
		`SELECT seq, execution, at, text FROM execution_log WHERE execution = $1 AND seq > $2 ORDER BY seq LIMIT $3 + 0`, id,
		after, limit)
}

// FunctionLog returns up to limit pieces, after the given one, of the logs of all executions of a function's version.
func (q queries) FunctionLog(ctx context.Context, namespace, function string, number, after int64,
	limit int) ([]landfall.ExecutionLog, error) {
	return list(ctx, q, "store.FunctionLog", scanExecutionLog, `SELECT seq, execution, at, text FROM execution_log
		WHERE namespace = $1 AND function = $2 AND number = $3 AND seq > $4 ORDER BY seq LIMIT $5 + 0`, namespace, function,
		number, after, limit)
}

// DeleteExecution deletes an execution and its log. One that waits will not run any more. Conflict when it is running.
func (tx *Tx) DeleteExecution(ctx context.Context, id string) error {
	const op landfall.Op = "store.DeleteExecution"
	x, err := tx.Execution(ctx, id)
	if err != nil {
		return err
	}
	if x.State == landfall.ExecutionRunning {
		return landfall.Errorf(op, landfall.Conflict, "the execution is running; it can be deleted when it is over")
	}
	return tx.deleteExecutions(ctx, op, []string{id})
}

func (tx *Tx) deleteExecutions(ctx context.Context, op landfall.Op, ids []string) error {
	for _, id := range ids {
		for _, statement := range []string{`DELETE FROM execution_log WHERE execution = $1`,
			`DELETE FROM executions WHERE id = $1`} {
			if err := tx.exec(ctx, op, statement, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// ForgetExecutions deletes up to limit executions that ended before a time, with their logs, the oldest first, and
// returns how many it deleted.
func (tx *Tx) ForgetExecutions(ctx context.Context, before time.Time, limit int) (int, error) {
	const op landfall.Op = "store.ForgetExecutions"
	ids, err := list(ctx, tx.queries, op, scanValue[string],
		`SELECT id FROM executions WHERE finished > 0 AND finished < $1 ORDER BY finished LIMIT $2 + 0`,
		micros(before), limit)
	if err != nil {
		return 0, err
	}
	return len(ids), tx.deleteExecutions(ctx, op, ids)
}

// TrimExecutions deletes up to limit finished executions of a function's version, except the newest keep, and returns
// how many it deleted. They are dead letters if v is one, and the others if not.
func (tx *Tx) TrimExecutions(ctx context.Context, v landfall.Execution, keep, limit int) (int, error) {
	const op landfall.Op = "store.TrimExecutions"
	ids, err := list(ctx, tx.queries, op, scanValue[string], `SELECT id FROM executions
		WHERE namespace = $1 AND function = $2 AND number = $3 AND finished > 0 AND dead = $6 ORDER BY created DESC,
		id DESC LIMIT $4 + 0 OFFSET $5 + 0`,
		v.Namespace, v.Function, v.Number, limit, keep, v.Dead)
	if err != nil {
		return 0, err
	}
	return len(ids), tx.deleteExecutions(ctx, op, ids)
}

// TrimExecutionLogs removes the logs of up to limit finished executions of a function's version, except the newest logs
// that have keep bytes together, and returns how many it removed. The records stay.
func (tx *Tx) TrimExecutionLogs(ctx context.Context, v landfall.Execution, keep int64, limit int) (int, error) {
	const op landfall.Op = "store.TrimExecutionLogs"
	ids, err := list(ctx, tx.queries, op, scanValue[string], `SELECT id FROM (
			SELECT id, finished, SUM(log_bytes) OVER (ORDER BY created DESC, id DESC) AS total FROM executions
			WHERE namespace = $1 AND function = $2 AND number = $3 AND forgotten = 0 AND log_bytes > 0) logged
		WHERE total > $4 AND finished > 0 LIMIT $5 + 0`, v.Namespace, v.Function, v.Number, keep, limit)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		for _, statement := range []string{`DELETE FROM execution_log WHERE execution = $1`,
			`UPDATE executions SET forgotten = 1 WHERE id = $1`} {
			if err := tx.exec(ctx, op, statement, id); err != nil {
				return 0, err
			}
		}
	}
	return len(ids), nil
}

// OrphanExecutions returns the apps and versions of functions that are gone but still have executions. Each result has
// the app alone, or the version.
func (q queries) OrphanExecutions(ctx context.Context) ([]landfall.Execution, error) {
	const op landfall.Op = "store.GoneExecutions"
	scan := func(row scanner) (x landfall.Execution, err error) {
		err = row.Scan(&x.AppID, &x.Namespace, &x.Function, &x.Number)
		return x, err
	}
	apps, err := list(ctx, q, op, scan, `SELECT a.id, '', '', 0 FROM apps a
		WHERE a.removed > 0 AND EXISTS (SELECT 1 FROM executions x WHERE x.app = a.id)`)
	if err != nil {
		return nil, err
	}
	versions, err := list(ctx, q, op, scan, `SELECT '', x.namespace, x.function, x.number
		FROM (SELECT namespace, function, number FROM executions GROUP BY namespace, function, number) x
		WHERE NOT EXISTS (SELECT 1 FROM units u JOIN versions v ON v.unit = u.id AND v.number = x.number
			WHERE u.namespace = x.namespace AND u.kind = 'function' AND u.name = x.function)`)
	return append(apps, versions...), err
}

// ForgetOrphanExecutions deletes up to limit executions of an app or a version that OrphanExecutions returned, with
// their logs, and returns how many it deleted. One that runs stays; one that waits will not run any more.
func (tx *Tx) ForgetOrphanExecutions(ctx context.Context, of landfall.Execution, limit int) (int, error) {
	const op landfall.Op = "store.ForgetGoneExecutions"
	query, args := `app = $2`, []any{limit, of.AppID}
	if of.AppID == "" {
		query, args = `namespace = $2 AND function = $3 AND number = $4`, []any{limit, of.Namespace, of.Function, of.Number}
	}
	ids, err := list(ctx, tx.queries, op, scanValue[string],
		`SELECT id FROM executions WHERE state <> 'running' AND `+query+` LIMIT $1 + 0`, args...)
	if err != nil {
		return 0, err
	}
	return len(ids), tx.deleteExecutions(ctx, op, ids)
}
