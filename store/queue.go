package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivertype"

	"landfall.dev/landfall"
)

// job is the one kind of durable job: a doorbell. What is to be done stands in the tables; the job only says where.
type job struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "landfall" }

// Enqueue adds a job to the transaction: it exists if and only if the transaction commits. It starts at or after at;
// a zero at means at once: the library looks at times, even past ones, only every few seconds.
func (tx *Tx) Enqueue(ctx context.Context, topic, id string, at time.Time) error {
	_, err := tx.jobs.InsertTx(ctx, tx.tx, job{Topic: topic, ID: id}, &river.InsertOpts{MaxAttempts: 1, ScheduledAt: at})
	return classify("store.Enqueue", err)
}

// Queue works the durable jobs.
type Queue struct {
	DB      *DB
	Workers int // how many jobs at once; 0: 8
	// Work does what the job asks for. It may be called again with the same job, and must not panic. Its error is
	// logged only: who needs to be tried again is found by the tables.
	Work   func(ctx context.Context, topic, id string) error
	Logger *slog.Logger
}

const (
	defaultWorkers = 8
	fetchInterval  = 20 * time.Millisecond
	stopGrace      = 20 * time.Second
)

// Run works jobs until ctx ends, then waits for those at work: they see their context end after a grace time.
func (q *Queue) Run(ctx context.Context) error {
	const op landfall.Op = "store.Queue"
	if err := q.forget(ctx); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{work: q.Work, logger: q.Logger})
	count := q.Workers
	if count == 0 {
		count = defaultWorkers
	}
	client, err := river.NewClient(riversqlite.New(q.DB.write), &river.Config{
		Queues:                      map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: count}},
		Workers:                     workers,
		JobTimeout:                  -1, // each step of a run has a deadline of its own
		FetchCooldown:               fetchInterval,
		FetchPollInterval:           fetchInterval,
		CompletedJobRetentionPeriod: time.Hour,
		Logger:                      slog.New(warnings{q.Logger.Handler()}),
	})
	if err != nil {
		return classify(op, err)
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return classify(op, err)
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := client.Stop(stop); err != nil {
		return classify(op, client.StopAndCancel(context.WithoutCancel(ctx)))
	}
	return nil
}

// forget clears what a killed process left: on SQLite there is no other worker whose jobs could be running, and no
// other leader, while the library itself would wait for an hour.
func (q *Queue) forget(ctx context.Context) error {
	return q.DB.Update(ctx, func(tx *Tx) error {
		if err := tx.exec(ctx, "store.forget", `DELETE FROM river_leader`); err != nil {
			return err
		}
		return tx.exec(ctx, "store.forget",
			`UPDATE river_job SET state = 'available', attempt = 0, finalized_at = NULL WHERE state = 'running'`)
	})
}

// worker hands River's jobs to Queue.Work.
type worker struct {
	river.WorkerDefaults[job]
	work   func(ctx context.Context, topic, id string) error
	logger *slog.Logger
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, j *river.Job[job]) error {
	if err := w.work(ctx, j.Args.Topic, j.Args.ID); err != nil && landfall.KindOf(err) != landfall.Canceled {
		w.logger.ErrorContext(ctx, "job failed", "topic", j.Args.Topic, "id", j.Args.ID, "error", err)
	}
	return nil
}

var _ river.Worker[job] = (*worker)(nil)

// EnqueueOnce adds a job to the transaction unless the same one waits, or is at work, already.
func (tx *Tx) EnqueueOnce(ctx context.Context, topic, id string) error {
	_, err := tx.jobs.InsertTx(ctx, tx.tx, job{Topic: topic, ID: id}, &river.InsertOpts{MaxAttempts: 1, UniqueOpts: river.UniqueOpts{
		ByArgs: true,
		ByState: []rivertype.JobState{rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
			rivertype.JobStateScheduled, rivertype.JobStateRetryable},
	}})
	return classify("store.EnqueueOnce", err)
}

// warnings passes on what a library has to say only from warnings up: its routine is not ours.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
