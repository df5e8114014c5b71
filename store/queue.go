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

// job is the one kind of durable job: a doorbell. What is to be done stands in the tables; the job only says where.
type job struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
	Round int64  `json:"round,omitempty"`
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "landfall" }

// Enqueue adds a job to the transaction: it exists if and only if the transaction commits. It starts at or after at;
// a zero at means at once: the library looks at times, even past ones, only every few seconds. A topic QUEUE/NAME is worked
// by processes that work that queue.
func (tx *Tx) Enqueue(topic, id string, at time.Time) {
	tx.jobs = append(tx.jobs, river.InsertManyParams{
		Args: job{Topic: topic, ID: id}, InsertOpts: &river.InsertOpts{MaxAttempts: 1, ScheduledAt: at, Queue: queueOf(topic)}})
}

// queueOf returns the queue of a topic.
func queueOf(topic string) string {
	if queue, _, ok := strings.Cut(topic, "/"); ok {
		return queue
	}
	return river.QueueDefault
}

// insertOnlyConfig is for a client that only inserts. What fails is an error of the transaction; the library would say it to the process's
// standard error, too, in a form of its own.
func insertOnlyConfig() *river.Config { return &river.Config{Logger: slog.New(slog.DiscardHandler)} }

// Queue works the durable jobs.
type Queue struct {
	DB      *DB
	Process string         // this process, across its lives; no two that share a database have the same
	Queues  map[string]int // how many jobs at once of each queue; the empty one is that of topics without a queue
	// Work does what the job asks for. It may be called again with the same job, and must not panic. Its error is
	// logged only: who needs to be tried again is found by the tables.
	Work   func(ctx context.Context, topic, id string) error
	Logger *slog.Logger
}

const (
	fetchCooldown = 5 * time.Millisecond
	fetchInterval = time.Second // for jobs whose time has come: of new ones the queue is told
	stopGrace     = 20 * time.Second
	reclaimEvery  = 2 * time.Second
	keepDone      = time.Minute // a job that was done tells nobody anything, and a push has four
	// markDoneLimit is how long the library may try to mark a job as done: three times ten seconds, and 98 between them.
	markDoneLimit = 5 * time.Minute
)

// Run works jobs until ctx ends, then waits for those at work: they see their context end after a grace time.
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

// reclaimLost enqueues again, until ctx ends, the jobs that the tables say this process is at and that it is not: those that
// the library fetched when the database went away. The library itself would wait for minutes, on SQLite for an hour, and
// meanwhile none like them could be enqueued. A job that is done twice does no harm. One that was done just now is left to the
// library, which panics when a job vanishes in the moment in which it is marked as done.
func (q *Queue) reclaimLost(ctx context.Context, worked *sync.Map) {
	tick := time.NewTicker(reclaimEvery)
	defer tick.Stop()
	var suspects map[int64]bool // those of the last look: one that is just beginning or ending is none any more at the next
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		running, err := q.DB.engine.running(ctx, q.Process)
		if err != nil {
			continue // the library says what is wrong with the database
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

// forgetDone takes the jobs away that were done before a moment.
func forgetDone(worked *sync.Map, before time.Time) {
	worked.Range(func(id, done any) bool {
		if at, ok := done.(time.Time); ok && at.Before(before) {
			worked.Delete(id)
		}
		return true
	})
}

// reclaim puts a job in the place of one that was lost. The library would panic if it were still to mark as done one that can
// be fetched; one that is gone it passes over.
func (q *Queue) reclaim(ctx context.Context, j runningJob) {
	err := q.DB.Update(ctx, func(tx *Tx) error {
		err := tx.execOne(ctx, "store.reclaim", landfall.Error{Kind: landfall.NotFound}, `DELETE FROM river_job WHERE id = $1 AND state = 'running'`, j.id)
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

// runningJob is a job that the tables say somebody is at.
type runningJob struct {
	job

	id int64
}

// selectRunning asks for them.
const selectRunning = `SELECT id, args->>'topic', args->>'id' FROM river_job WHERE state = 'running'`

func scanRunningJob(row scanner) (j runningJob, err error) {
	err = row.Scan(&j.id, &j.Topic, &j.ID)
	return j, err
}

// listen makes the library look for jobs whenever some were committed, until ctx ends. On SQLite it has no way to hear of
// them but to insert one itself, and to look all the time would keep a processor busy that has nothing to do.
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

// wakeTopic is that of jobs with nothing to do.
const wakeTopic = ""

// worker hands River's jobs to Queue.Work.
type worker struct {
	river.WorkerDefaults[job]
	work   func(ctx context.Context, topic, id string) error
	logger *slog.Logger
	doneAt sync.Map // ids of jobs, to when they were done; to nothing while they are at work
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

// EnqueueOnce adds a job to the transaction unless the same one of the same round waits, or is at work, already. A round is over
// when it is known that whoever worked its job does not any more: a dead process's job counts as at work for long.
func (tx *Tx) EnqueueOnce(topic, id string, round int64) {
	once := &river.InsertOpts{MaxAttempts: 1, Queue: queueOf(topic), UniqueOpts: river.UniqueOpts{
		ByArgs: true,
		ByState: []rivertype.JobState{rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
			rivertype.JobStateScheduled, rivertype.JobStateRetryable},
	}}
	tx.jobs = append(tx.jobs, river.InsertManyParams{Args: job{topic, id, round}, InsertOpts: once})
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
