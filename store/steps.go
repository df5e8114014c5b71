package store

import (
	"context"
	"math"
	"time"

	"landfall.dev/landfall"
)

// StartStep records that an attempt entered a step, and that the run is there.
func (tx *Tx) StartStep(ctx context.Context, run string, attempt int64, step landfall.Step, at time.Time) error {
	const op landfall.Op = "store.StartStep"
	if err := tx.execOne(ctx, op, leaseLost(), `UPDATE runs SET step = $3 WHERE id = $1 AND attempt = $2 AND finished = 0`,
		run, attempt, step); err != nil {
		return err
	}
	return tx.exec(ctx, op,
		`INSERT INTO run_steps (run, attempt, step, started, finished, message) VALUES ($1, $2, $3, $4, 0, '')
		ON CONFLICT (run, attempt, step) DO NOTHING`, run, attempt, step, micros(at))
}

// EndStep records how a step ended.
func (tx *Tx) EndStep(ctx context.Context, run string, attempt int64, step landfall.Step, at time.Time,
	message string) error {
	return tx.exec(ctx, "store.EndStep",
		`UPDATE run_steps SET finished = $4, message = $5 WHERE run = $1 AND attempt = $2 AND step = $3`,
		run, attempt, step, micros(at), message)
}

// Steps returns the records of a run's steps in order.
func (q queries) Steps(ctx context.Context, run string) ([]landfall.StepRecord, error) {
	return list(ctx, q, "store.Steps", func(row scanner) (landfall.StepRecord, error) {
		var s landfall.StepRecord
		var started, finished int64
		err := row.Scan(&s.Step, &s.Attempt, &started, &finished, &s.Message)
		s.Started, s.Finished = timeOf(started), timeOf(finished)
		return s, err
	}, `SELECT step, attempt, started, finished, message FROM run_steps WHERE run = $1 ORDER BY started, attempt`, run)
}

// maxLogLines bounds a run's log. Later lines are dropped, and one line says so.
const maxLogLines = 20_000

// AppendLog adds lines to a run's log, up to its limit of lines.
func (tx *Tx) AppendLog(ctx context.Context, run string, step landfall.Step, at time.Time, lines ...string) error {
	return tx.appendLog(ctx, "store.AppendLog", run, step, at, maxLogLines, lines)
}

// EndLog adds the result of a run, even to a log that has reached its limit.
func (tx *Tx) EndLog(ctx context.Context, run string, step landfall.Step, at time.Time, lines ...string) error {
	return tx.appendLog(ctx, "store.EndLog", run, step, at, math.MaxInt64, lines)
}

func (tx *Tx) appendLog(ctx context.Context, op landfall.Op, run string, step landfall.Step, at time.Time, limit int64,
	lines []string) error {
	seq, err := one(ctx, tx.queries, op, scanValue[int64], `SELECT COALESCE(MAX(seq), 0) FROM run_log WHERE run = $1`, run)
	if err != nil {
		return err
	}
	for _, line := range lines {
		seq++
		if seq > limit {
			return nil
		}
		if seq == limit {
			line = "(the log is cut here: it reached its limit of lines)"
		}
		err := tx.exec(ctx, op, `INSERT INTO run_log (run, seq, at, step, text) VALUES ($1, $2, $3, $4, $5)`, run, seq,
			micros(at), step, line)
		if err != nil {
			return err
		}
	}
	return nil
}

// Log returns up to limit lines of a run's log after the line with number after.
func (q queries) Log(ctx context.Context, run string, after int64, limit int) ([]landfall.LogLine, error) {
	return list(ctx, q, "store.Log", func(row scanner) (landfall.LogLine, error) {
		var l landfall.LogLine
		var at int64
		err := row.Scan(&l.Seq, &at, &l.Step, &l.Text)
		l.Time = timeOf(at)
		return l, err
	}, `SELECT seq, at, step, text FROM run_log WHERE run = $1 AND seq > $2 ORDER BY seq LIMIT $3 + 0`, run, after, limit)
}

// RecordStep records a step that was done after the run ended.
func (tx *Tx) RecordStep(ctx context.Context, run string, attempt int64, step landfall.Step, started,
	finished time.Time) error {
	return tx.exec(ctx, "store.RecordStep",
		`INSERT INTO run_steps (run, attempt, step, started, finished, message) VALUES ($1, $2, $3, $4, $5, '')
		ON CONFLICT (run, attempt, step) DO NOTHING`, run, attempt, step, micros(started), micros(finished))
}

// RecordSteps records steps of a run that are over.
func (tx *Tx) RecordSteps(ctx context.Context, run string, steps []landfall.StepRecord) error {
	for _, s := range steps {
		if err := tx.RecordStep(ctx, run, s.Attempt, s.Step, s.Started, s.Finished); err != nil {
			return err
		}
	}
	return nil
}

// AddLog adds lines to the log of a run.
func (tx *Tx) AddLog(ctx context.Context, run string, lines []landfall.LogLine) error {
	for _, l := range lines {
		if err := tx.AppendLog(ctx, run, l.Step, l.Time, l.Text); err != nil {
			return err
		}
	}
	return nil
}
