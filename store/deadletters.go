package store

import (
	"context"
	"time"

	"landfall.dev/landfall"
)

// ResendExecution has a dead letter run again, with as many attempts as at first. NotFound when there is no such
// execution; Conflict when it is no dead letter, or is none any more; Unavailable when too many of its app wait.
func (tx *Tx) ResendExecution(ctx context.Context, id string, now time.Time, most WaitingLimit) error {
	const op landfall.Op = "store.ResendExecution"
	x, err := tx.Execution(ctx, id)
	if err != nil {
		return err
	}
	notDead := landfall.Error{Kind: landfall.Conflict,
		Message: "the execution " + id + " is " + string(x.State) + "; only a dead letter can be sent again"}
	if !x.Dead {
		notDead.Op = op
		return &notDead
	}
	size, err := one(ctx, tx.queries, op, scanValue[int], `SELECT OCTET_LENGTH(event) FROM executions WHERE id = $1`, id)
	if err != nil {
		return err
	}
	if err := tx.mayWait(ctx, op, x.AppID, size, most); err != nil {
		return err
	}
	notDead.Message = "the execution " + id + " was sent again just now"
	return tx.execOne(ctx, op, notDead, `UPDATE executions SET state = 'queued', dead = 0, earlier = attempt, sent = $2,
		next_at = $2, finished = 0, process = '', reason = '', message = '', output_bytes = 0
		WHERE id = $1 AND dead = 1`, id, micros(now))
}

// TrimDeadLetters removes the events of up to limit dead letters of an app, except those of the newest, as many as most
// says, and returns how many it removed. The records stay, as those of executions that failed.
func (tx *Tx) TrimDeadLetters(ctx context.Context, app string, most WaitingLimit, limit int) (int, error) {
	const op landfall.Op = "store.TrimDeadLetters"
	ids, err := list(ctx, tx.queries, op, scanValue[string], `SELECT id FROM (
			SELECT id, COUNT(*) OVER letters AS place, SUM(OCTET_LENGTH(event)) OVER letters AS total FROM executions
			WHERE app = $1 AND dead = 1 WINDOW letters AS (ORDER BY finished DESC, id DESC ROWS UNBOUNDED PRECEDING)) dead
		WHERE place > $2 OR total > $3 LIMIT $4 + 0`, app, most.Count, most.Bytes, limit)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := tx.exec(ctx, op, `UPDATE executions SET dead = 0, event = '' WHERE id = $1`, id); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}
