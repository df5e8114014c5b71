package store

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"landfall.dev/landfall"
)

// job is the one kind of durable job. It only wakes a worker: the tables say what to do, and the job says where to
// look.
type job struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
	Round int64  `json:"round,omitempty"`
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "landfall" }

// Enqueue adds a job to the transaction: the job exists if and only if the transaction commits. It starts at or after
// at. A zero at means at once, because the library looks for jobs with a time, even a past one, only every few seconds.
// A topic QUEUE/NAME is handled by the processes that work on that queue.
func (tx *Tx) Enqueue(topic, id string, at time.Time) {
	tx.jobs = append(tx.jobs, river.InsertManyParams{
		Args: job{Topic: topic, ID: id}, InsertOpts: &river.InsertOpts{MaxAttempts: 1, ScheduledAt: at,
			Queue: queueOf(topic)}})
}

// queueOf returns the queue of a topic.
func queueOf(topic string) string {
	if queue, _, ok := strings.Cut(topic, "/"); ok {
		return queue
	}
	return river.QueueDefault
}

// insertOnlyConfig is for a client that only inserts. Its errors are errors of the transaction; the library would also
// print them to standard error, in its own form.
func insertOnlyConfig() *river.Config { return &river.Config{Logger: slog.New(slog.DiscardHandler)} }

// Queue works the durable jobs.
type Queue struct {
	DB      *DB
	Process string         // this process, across restarts; no two processes with the same database have the same
	Queues  map[string]int // how many jobs of each queue run at once; the empty name is for topics without a queue
	// Work does what the job asks for. It may be called again with the same job, and must not panic. Its error is only
	// logged: what must be tried again is found in the tables.
	Work   func(ctx context.Context, topic, id string) error
	Logger *slog.Logger
}

const (
	fetchCooldown = 5 * time.Millisecond
	fetchInterval = time.Second // for jobs whose time has come; the queue is woken for new ones
	stopGrace     = 20 * time.Second
	reclaimEvery  = 2 * time.Second
	keepDone      = time.Minute // a finished job is of no use, and each push has four
	// markDoneLimit is how long the library may try to mark a job as done: three times ten seconds, and 98 between
	// them.
	markDoneLimit = 5 * time.Minute
)

// Run works on jobs until ctx ends, then waits for those that run: their context ends after a grace time.
func (q *Queue) Run(ctx context.Context) error {
	const op landfall.Op = "store.Queue"
	if err := q.DB.Update(ctx, func(tx *Tx) error { return q.DB.engine.forget(ctx, tx, q.Process) }); err != nil {
		return err
	}
	workers := river.NewWorkers()
	w := &worker{work: q.Work, logger: q.Logger}
	river.AddWorker(workers, w)
	queues := map[string]river.QueueConfig{}
	for name, count := range q.Queues {
		queues[cmp.Or(name, river.QueueDefault)] = river.QueueConfig{MaxWorkers: count}
	}
	client, err := q.DB.engine.client(&river.Config{
		ID:                          q.Process,
		Queues:                      queues,
		Workers:                     workers,
		JobTimeout:                  -1, // each step of a run has a deadline of its own
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           fetchInterval,
		CompletedJobRetentionPeriod: keepDone,
		Logger:                      slog.New(warnings{q.Logger.Handler()}),
	})
	if err != nil {
		return classify(op, err)
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return classify(op, err)
	}
	var group sync.WaitGroup
	group.Go(func() { q.reclaimLost(ctx, &w.doneAt) })
	q.listen(ctx, client)
	group.Wait()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := client.Stop(stop); err != nil {
		return classify(op, client.StopAndCancel(context.WithoutCancel(ctx)))
	}
	return nil
}

// reclaimLost enqueues lost jobs again until ctx ends: those that this process works on according to the tables but not
// in fact. The library had fetched them when the connection to the database was lost. The library itself would wait for
// minutes, on SQLite for an hour, and meanwhile no equal job could be enqueued. Doing a job twice does no harm. A job
// that was done just now is left to the library, which panics when a job disappears while it is being marked as done.
func (q *Queue) reclaimLost(ctx context.Context, worked *sync.Map) {
	tick := time.NewTicker(reclaimEvery)
	defer tick.Stop()
	var suspects map[int64]bool // from the last look: a job that is just beginning or ending is not among them at the next
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		running, err := q.DB.engine.running(ctx, q.Process)
		if err != nil {
			continue // the library reports what is wrong with the database
		}
		forgetDone(worked, time.Now().Add(-markDoneLimit))
		seen := map[int64]bool{}
		for _, j := range running {
			if _, ok := worked.Load(j.id); ok {
				continue
			}
			seen[j.id] = true
			if suspects[j.id] {
				q.reclaim(ctx, j)
			}
		}
		suspects = seen
	}
}

// forgetDone removes the jobs that were done before a time.
func forgetDone(worked *sync.Map, before time.Time) {
	worked.Range(func(id, done any) bool {
		if at, ok := done.(time.Time); ok && at.Before(before) {
			worked.Delete(id)
		}
		return true
	})
}

// reclaim replaces a lost job by a new one. The library would panic if it marked a job as done that can be fetched; it
// ignores a job that is gone.
func (q *Queue) reclaim(ctx context.Context, j runningJob) {
	err := q.DB.Update(ctx, func(tx *Tx) error {
		err := tx.execOne(ctx, "store.reclaim", landfall.Error{Kind: landfall.NotFound},
			`DELETE FROM river_job WHERE id = $1 AND state = 'running'`, j.id)
		if err != nil {
			return err
		}
		tx.Enqueue(j.Topic, j.ID, time.Time{})
		return nil
	})
	if landfall.KindOf(err) != landfall.NotFound {
		q.Logger.WarnContext(ctx, "a job was lost, and is enqueued again", "topic", j.Topic, "id", j.ID, "error", err)
	}
}

// runningJob is a job that somebody is working on, according to the tables.
type runningJob struct {
	job

	id int64
}

// selectRunning asks for the running jobs.
const selectRunning = `SELECT id, args->>'topic', args->>'id' FROM river_job WHERE state = 'running'`

func scanRunningJob(row scanner) (j runningJob, err error) {
	err = row.Scan(&j.id, &j.Topic, &j.ID)
	return j, err
}

// listen makes the library look for jobs whenever some were committed, until ctx ends. On SQLite the library hears of
// jobs only when it inserts one itself, and polling all the time would keep a processor busy.
func (q *Queue) listen(ctx context.Context, client jobClient) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.DB.wake:
		}
		if _, err := client.Insert(ctx, job{Topic: wakeTopic}, nil); err != nil && ctx.Err() == nil {
			q.Logger.WarnContext(ctx, "jobs will be found by polling", "error", err)
		}
	}
}

// wakeTopic is the topic of jobs that do nothing.
const wakeTopic = ""

// worker hands River's jobs to Queue.Work.
type worker struct {
	river.WorkerDefaults[job]
	work   func(ctx context.Context, topic, id string) error
	logger *slog.Logger
	doneAt sync.Map // ids of jobs, and when each was done; nothing while it runs
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, j *river.Job[job]) error {
	w.doneAt.Store(j.ID, nil)
	defer func() { w.doneAt.Store(j.ID, time.Now()) }()
	if j.Args.Topic == wakeTopic {
		return nil
	}
	if err := w.work(ctx, j.Args.Topic, j.Args.ID); err != nil && landfall.KindOf(err) != landfall.Canceled {
		w.logger.ErrorContext(ctx, "job failed", "topic", j.Args.Topic, "id", j.Args.ID, "error", err)
	}
	return nil
}

var _ river.Worker[job] = (*worker)(nil)

// EnqueueOnce adds a job to the transaction unless the same job of the same round waits or runs already. A round is
// over when the worker of its job is known to have stopped, because the job of a dead process counts as running for a
// long time.
func (tx *Tx) EnqueueOnce(topic, id string, round int64) {
	tx.EnqueueOnceAt(topic, id, round, time.Time{})
}

// EnqueueOnceAt is EnqueueOnce for a job that starts at or after at: see Enqueue.
func (tx *Tx) EnqueueOnceAt(topic, id string, round int64, at time.Time) {
	once := &river.InsertOpts{MaxAttempts: 1, Queue: queueOf(topic), ScheduledAt: at, UniqueOpts: river.UniqueOpts{
		ByArgs: true,
		ByState: []rivertype.JobState{rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
			rivertype.JobStateScheduled, rivertype.JobStateRetryable},
	}}
	tx.jobs = append(tx.jobs, river.InsertManyParams{Args: job{topic, id, round}, InsertOpts: once})
}

// warnings drops the library's log lines below the level of warnings.
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
