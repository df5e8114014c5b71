package execution

import (
	"bytes"
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

const (
	writeEvery = 250 * time.Millisecond // also how long an execution runs before it is shown as one that runs
	pieceSize  = 64 << 10               // bytes of a piece of a log
	trimBatch  = 100                    // records that one transaction deletes
	sayEvery   = time.Minute

	// lease is how long a process counts as alive after it said so.
	lease      = 30 * time.Second
	renewEvery = lease / 3
	attempts   = 3 // of an execution that was accepted, when its process dies
)

// version is one of a function.
type version struct {
	namespace, function string
	number              int64
}

// growth is what was recorded of a version since it was trimmed.
type growth struct {
	records int
	bytes   int64
}

// Keep writes what becomes known until ctx ends. Flush writes what is left then.
func (r *Recorder) Keep(ctx context.Context) error {
	write, release := time.NewTicker(writeEvery), time.NewTicker(renewEvery)
	defer write.Stop()
	defer release.Stop()
	r.begun(ctx)
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-release.C:
			r.look(ctx, time.Now())
			continue
		case <-write.C:
		}
		err := r.write(ctx, false)
		if err != nil && !failing && ctx.Err() == nil {
			r.Logger.WarnContext(ctx, "executions cannot be recorded; they will be when the database is back", "error", err)
		}
		failing = err != nil
		r.sayDropped(ctx)
	}
}

// sighting is when an execution was seen first as it is, by this process's clock.
type sighting struct {
	store.RunningExecution

	at time.Time
}

// begun ends what this process's earlier life ran, once, before anything is run.
func (r *Recorder) begun(ctx context.Context) {
	r.beginOnce.Do(func() {
		r.release(ctx, func(x store.RunningExecution) bool { return x.Process == r.Process })
	})
}

// look ends what processes ran that gave no sign of life for the time of a lease, as this process sees it: clocks of
// processes differ, and may be set.
func (r *Recorder) look(ctx context.Context, now time.Time) {
	seen := map[string]sighting{}
	r.release(ctx, func(x store.RunningExecution) bool {
		last, known := r.seen[x.ID]
		if !known || last.Process != x.Process || last.Attempt != x.Attempt || !last.Until.Equal(x.Until) {
			last = sighting{x, now}
		}
		seen[x.ID] = last
		return now.Sub(last.at) >= lease
	})
	r.seen = seen
}

// release ends what runs in a process that is dead.
func (r *Recorder) release(ctx context.Context, isDead func(store.RunningExecution) bool) {
	running, err := r.DB.RunningExecutions(ctx)
	running = slices.DeleteFunc(running, func(x store.RunningExecution) bool { return !isDead(x) })
	if err == nil && len(running) > 0 {
		err = r.DB.Update(ctx, func(tx *store.Tx) error {
			n, err := tx.ReleaseExecutions(ctx, running, time.Now(), attempts)
			if n > 0 {
				r.Logger.WarnContext(ctx, "executions whose process ended are over, or run again", "count", n)
			}
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		r.Logger.WarnContext(ctx, "executions of dead processes stay", "error", err)
	}
}

// sayDropped says how many executions have no record, now and then.
func (r *Recorder) sayDropped(ctx context.Context) {
	r.mu.Lock()
	n := r.dropped
	due := n > 0 && time.Since(r.since) >= sayEvery
	if due {
		r.dropped, r.since = 0, time.Now()
	}
	r.mu.Unlock()
	if due {
		r.Logger.WarnContext(ctx, "executions were not recorded: there are more than LANDFALL_MAX_EXECUTION_RATE a second",
			"count", n)
	}
}

// Flush writes everything that is known now. Readers in this process call it, and see what was answered before.
func (r *Recorder) Flush(ctx context.Context) error { return r.write(ctx, true) }

func (r *Recorder) write(ctx context.Context, all bool) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.tellCanaries(ctx); err != nil {
		return err
	}
	now := time.Now()
	batch := r.take(now, all)
	if len(batch) == 0 {
		return nil
	}
	records := make([]store.ExecutionRecord, 0, len(batch))
	for _, w := range batch {
		records = append(records, store.ExecutionRecord{Execution: w.Execution, Process: r.Process, Until: now.Add(lease),
			Log: pieces(w.log)})
	}
	err := r.DB.Update(ctx, func(tx *store.Tx) error { return tx.RecordExecutions(ctx, now, records) })
	r.settle(batch, now, err != nil)
	if err == nil {
		r.trim(ctx, batch)
	}
	return err
}

// written is what is written of an execution.
type written struct {
	landfall.Execution

	of  *running
	log []byte
}

// take takes what is to be written: what is over, and of what runs what is new, or has to be said again.
func (r *Recorder) take(now time.Time, all bool) []written {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch := make([]written, 0, len(r.over))
	for _, x := range r.over {
		batch = append(batch, written{x.Execution, x, x.log})
		x.log = nil
	}
	r.inHand, r.over = len(r.over), nil
	for _, x := range r.active {
		whole := wholeLines(x.log)
		shown := all || now.Sub(x.Started) >= writeEvery
		if !shown || (len(whole) == 0 && x.until.Sub(now) > lease-renewEvery) {
			continue
		}
		batch = append(batch, written{x.Execution, x, whole})
		x.log, x.claimed = bytes.Clone(x.log[len(whole):]), true
	}
	return batch
}

// settle notes what was written, or takes back what could not be.
func (r *Recorder) settle(batch []written, now time.Time, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inHand = 0
	for _, w := range batch {
		x := w.of
		switch {
		case failed:
			x.log = slices.Concat(w.log, x.log)
			if w.State != landfall.ExecutionRunning {
				r.over = append(r.over, x)
			}
		case w.State != landfall.ExecutionRunning:
			r.overBytes -= len(w.log)
		default:
			x.until = now.Add(lease)
		}
		x.claimed = false
	}
}

// wholeLines returns the beginning of a log up to the end of a line, or most of it when it is long.
func wholeLines(log []byte) []byte {
	end := bytes.LastIndexByte(log, '\n') + 1
	if end == 0 && len(log) >= pieceSize {
		end = between(log, len(log)-utf8.UTFMax)
	}
	return log[:end]
}

// between returns the last place, at most at the given one, at which no character is split.
func between(text []byte, most int) int {
	for end := most; end > most-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return end
		}
	}
	return most
}

// pieces returns a log as it is stored.
func pieces(log []byte) []string {
	var all []string
	for len(log) > 0 {
		end := len(log)
		if end > pieceSize {
			if end = bytes.LastIndexByte(log[:pieceSize], '\n') + 1; end == 0 {
				end = between(log, pieceSize)
			}
		}
		all, log = append(all, string(log[:end])), log[end:]
	}
	return all
}

// trim deletes what versions have too much of. That it was looked at a while ago is enough.
func (r *Recorder) trim(ctx context.Context, batch []written) {
	limits := r.Limits.withDefaults()
	const share, manyVersions = 10, 10_000
	var due []landfall.Execution
	if r.grown == nil {
		r.grown = map[version]*growth{}
	}
	for _, w := range batch {
		if !w.State.Final() {
			continue
		}
		if len(r.grown) > manyVersions {
			clear(r.grown)
		}
		of := version{w.Namespace, w.Function, w.Number}
		g := r.grown[of]
		if g == nil {
			g = &growth{}
			r.grown[of] = g
		}
		g.records++
		g.bytes += w.Log
		if w.Dead {
			g.bytes += w.Input
		}
		if g.records > limits.Keep/share || g.bytes > limits.Logs/share {
			*g = growth{}
			due = append(due, w.Execution)
		}
	}
	for _, v := range due {
		if err := r.trimVersion(ctx, v, limits); err != nil {
			r.Logger.WarnContext(ctx, "old executions stay", "function", v.Function, "version", v.Version, "error", err)
		}
	}
}

func (r *Recorder) trimVersion(ctx context.Context, v landfall.Execution, limits Limits) error {
	letters := v
	v.Dead, letters.Dead = false, true
	for _, trim := range []func(*store.Tx) (int, error){
		func(tx *store.Tx) (int, error) { return tx.TrimDeadLetters(ctx, v.AppID, waiting(), trimBatch) },
		func(tx *store.Tx) (int, error) { return tx.TrimExecutions(ctx, letters, limits.Keep, trimBatch) },
		func(tx *store.Tx) (int, error) { return tx.TrimExecutions(ctx, v, limits.Keep, trimBatch) },
		func(tx *store.Tx) (int, error) { return tx.TrimExecutionLogs(ctx, v, limits.Logs, trimBatch) },
	} {
		for n := trimBatch; n == trimBatch; {
			err := r.DB.Update(ctx, func(tx *store.Tx) (err error) {
				n, err = trim(tx)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
