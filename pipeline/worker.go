package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// workRun leases a run and takes it as far as it gets. It does nothing when another worker holds the run, the run is over, or
// the app has its share of the workers: then the next end of one of the app's runs rings for it.
func (p *Pipeline) workRun(ctx context.Context, id string) error {
	w := &worker{Pipeline: p, logger: p.Logger}
	var delivery, parent string
	err := p.DB.Update(ctx, func(tx *store.Tx) error {
		now, err := tx.Now(ctx, p.Now())
		if err != nil {
			return err
		}
		if w.run, err = tx.Lease(ctx, id, p.Worker, now, now.Add(p.lease()), appShare); err != nil {
			return err
		}
		if w.app, err = tx.App(ctx, w.run.App); err != nil {
			return err
		}
		if delivery, err = tx.DeliveryOf(ctx, id); err == nil && p.Tracer != nil {
			parent, err = tx.TraceOf(ctx, id)
		}
		return err
	})
	if err != nil {
		if landfall.KindOf(err) == landfall.Conflict {
			return nil
		}
		return err
	}
	defer p.ringNext(ctx, w.app)
	crashpoint.Here("run.leased")
	w.logger = p.loggerOf(w.app).With(w.run.LogAttrs()...)
	if delivery != "" {
		w.logger = w.logger.With("delivery", delivery)
	}
	ctx, span := p.Tracer.Resume(ctx, parent, "run", trace.Run(w.app.Name, w.run)...)
	defer func() {
		if _, skipped := errors.AsType[*skipError](err); skipped {
			err = nil
		}
		span.End(err)
	}()
	defer w.releaseBuilds(ctx) // also when the heartbeat has ended the attempt: it does that to a run that is over, too
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	beat, stop := context.WithCancel(ctx)
	group.Go(func() { w.heartbeat(beat, cancel) })
	err = w.steps(ctx)
	stop()
	group.Wait()
	w.close()
	if err := w.settle(ctx, err); err != nil && landfall.KindOf(err) != landfall.Canceled {
		w.logger.ErrorContext(ctx, "the attempt could not be ended; the sweep finds the run", "error", err)
	}
	return nil
}

// worker takes one run through the steps, under one attempt number.
type worker struct {
	*Pipeline
	work
	run    landfall.Run
	app    landfall.App
	logger *slog.Logger
	log    []string         // lines that the next transaction stores
	hide   *secret.Redactor // the app's secrets, from all that is said of the run
}

// beats is how often in a lease a worker gives a sign of life.
const beats = 3

// beat notes that this process's workers are alive.
func (p *Pipeline) beat(ctx context.Context) error {
	return p.DB.Update(ctx, func(tx *store.Tx) error {
		now, err := tx.Now(ctx, p.Now())
		if err != nil {
			return err
		}
		return tx.Working(ctx, p.Worker, now.Add(p.lease()))
	})
}

// leave notes that they are no more; others find out by themselves when it cannot.
func (p *Pipeline) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.DB.Update(ctx, func(tx *store.Tx) error { return tx.Working(ctx, p.Worker, time.Time{}) })
}

// Deserted reports whether runs wait for a worker to come: this process has none, and no other one that has is alive.
func (p *Pipeline) Deserted(ctx context.Context) (bool, error) {
	if !p.OthersWork {
		return false, nil
	}
	now, err := p.DB.Now(ctx, p.Now())
	if err != nil {
		return false, err
	}
	alive, err := p.DB.Workers(ctx, now)
	return alive == 0 && err == nil, err
}

// heartbeat renews the lease until ctx ends, and ends the work when the lease is lost.
func (w *worker) heartbeat(ctx context.Context, lost context.CancelCauseFunc) {
	// Often enough, too, to notice soon that somebody ended the run.
	tick := time.NewTicker(min(w.lease()/beats, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := w.DB.Update(ctx, func(tx *store.Tx) error {
			now, err := tx.Now(ctx, w.Now())
			if err != nil {
				return err
			}
			return tx.Renew(ctx, w.run.ID, w.run.Attempt, now.Add(w.lease()))
		})
		if landfall.KindOf(err) == landfall.Conflict && err != nil {
			lost(err)
			return
		}
	}
}

// step is one step of the pipeline after accept.
type step struct {
	name  landfall.Step
	limit time.Duration
	do    func(ctx context.Context) error
}

// The time limits of the steps beside the build's, which is a setting.
const (
	quickLimit = 2 * time.Minute
	longLimit  = 30 * time.Minute
)

// steps goes through all steps. Those whose result is stored already find it and are done at once.
func (w *worker) steps(ctx context.Context) error {
	var err error
	if w.hide, err = w.redactor(ctx, w.app, nil); err != nil {
		return err
	}
	steps := []step{
		{landfall.StepFetch, longLimit, w.fetch},
		{landfall.StepRead, quickLimit, w.read},
		{landfall.StepPlan, quickLimit, w.plan},
		{landfall.StepBuild, longLimit, w.build},
		{landfall.StepUpload, longLimit, w.upload},
		{landfall.StepCommit, quickLimit, w.commit},
	}
	for _, s := range steps {
		if err := w.enter(ctx, s.name); err != nil {
			return err
		}
		crashpoint.Here(string(s.name) + ".before")
		limited, cancel := context.WithTimeout(ctx, s.limit)
		begin := w.Now()
		traced, span := w.Tracer.Start(limited, string(s.name), trace.Step(s.name))
		err := s.do(traced)
		span.End(err)
		w.meter().StepDone(s.name, w.Now().Sub(begin))
		late := errors.Is(limited.Err(), context.DeadlineExceeded)
		cancel()
		if err != nil {
			return w.stepError(ctx, s, late, err)
		}
		crashpoint.Here(string(s.name) + ".after")
	}
	w.swap(ctx)
	return nil
}

// stepError says which step failed, and tells our own time limit from a caller that went away.
func (w *worker) stepError(ctx context.Context, s step, late bool, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return &landfall.Error{Op: "pipeline", Kind: landfall.Canceled, Err: err}
		}
		return cause
	}
	if late {
		return &landfall.Error{Op: "pipeline", Kind: landfall.Unavailable, Err: err, Message: fmt.Sprintf(
			"the step %s did not end within %s", s.name, s.limit)}
	}
	if landfall.KindOf(err) == landfall.Internal && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
		return noSpace(err)
	}
	return err
}

// noSpace is the error when work in progress finds no room.
func noSpace(cause error) error {
	return &landfall.Error{Op: "pipeline", Kind: landfall.Unavailable, Err: cause, Message: "this installation has no disk space left for work in progress"}
}

// full reports whether the file system of a folder has hardly any space left.
func full(folder string) bool {
	const hardly = 1 << 20
	var s syscall.Statfs_t
	return syscall.Statfs(folder, &s) == nil && s.Bavail*uint64(s.Bsize) < hardly
}

// enter records that the run came to a step, together with what there is to log of the one before.
func (w *worker) enter(ctx context.Context, s landfall.Step) error {
	before := w.run.Step
	w.run.Step = s
	lines := w.takeLog()
	return w.DB.Update(ctx, func(tx *store.Tx) error {
		now := w.Now()
		if err := tx.EndStep(ctx, w.run.ID, w.run.Attempt, before, now, ""); err != nil {
			return err
		}
		if err := tx.StartStep(ctx, w.run.ID, w.run.Attempt, s, now); err != nil {
			return err
		}
		return tx.AppendLog(ctx, w.run.ID, before, now, lines...)
	})
}

// sayf adds a line to the run's log; it is stored with the next step.
func (w *worker) sayf(format string, args ...any) {
	w.log = append(w.log, w.hide.String(fmt.Sprintf(format, args...)))
}

func (w *worker) takeLog() []string {
	lines := w.log
	w.log = nil
	return lines
}

// sayNow stores log lines at once: the output of long steps.
func (w *worker) sayNow(ctx context.Context, lines ...string) {
	for i, line := range lines {
		lines[i] = w.hide.String(line)
	}
	err := w.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Fence(ctx, w.run.ID, w.run.Attempt); err != nil {
			return err
		}
		return tx.AppendLog(ctx, w.run.ID, w.run.Step, w.Now(), lines...)
	})
	if err != nil {
		w.logger.WarnContext(ctx, "log lines were lost", "error", err)
	}
}

// settle ends the attempt: a run that did not end is failed, or given back to be tried again.
func (w *worker) settle(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = w.hidden(err)
	// What ends the attempt must be stored although the attempt's own context may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quickLimit)
	defer cancel()
	if skip, ok := errors.AsType[*skipError](err); ok {
		w.logger.InfoContext(ctx, "run skipped", "step", w.run.Step, "reason", skip.reason)
		return w.fail(ctx, landfall.RunSkipped, &landfall.Error{Message: skip.reason})
	}
	failures, countErr := w.DB.Failures(ctx, w.run.ID)
	if countErr != nil {
		return errors.Join(err, countErr)
	}
	switch verdict := judge(landfall.KindOf(err), failures); verdict.action {
	case giveBack:
		w.logger.InfoContext(ctx, "run interrupted", "step", w.run.Step, "error", err)
		return w.giveBack(ctx, err, 0, false)
	case tryAgain:
		w.logger.WarnContext(ctx, "run will be tried again", "step", w.run.Step, "after", verdict.after, "error", err)
		return w.giveBack(ctx, err, verdict.after, true)
	case fail:
		if verdict.state == landfall.RunError {
			w.logger.ErrorContext(ctx, "run failed", "step", w.run.Step, "error", err)
		} else { // the change's fault: its author reads all of it in the run
			w.logger.InfoContext(ctx, "run failed", "step", w.run.Step, "reason", landfall.CutDescription(landfall.MessageOf(err)))
		}
		if kind := landfall.KindOf(err); kind == landfall.Unavailable || kind == landfall.Internal {
			err = &landfall.Error{Op: "pipeline", Kind: kind, Err: err, Message: fmt.Sprintf(
				"%s; %d attempts failed: push again, or type: landfall run retry %s", landfall.MessageOf(err), failures+1, w.run.ID)}
		}
		return w.fail(ctx, verdict.state, err)
	}
	return err
}

// hidden returns an error without the app's secrets: one whose text has any loses its cause.
func (w *worker) hidden(err error) error {
	if !w.hide.Finds([]byte(err.Error())) && !w.hide.Finds([]byte(landfall.MessageOf(err))) {
		return err
	}
	return &landfall.Error{Op: "pipeline", Kind: landfall.KindOf(err), Message: w.hide.String(landfall.MessageOf(err))}
}

func (w *worker) giveBack(ctx context.Context, cause error, after time.Duration, failed bool) error {
	reason := ""
	if failed {
		reason = "Trying again: " + landfall.MessageOf(cause)
		w.sayf("%s; trying again in %s", landfall.MessageOf(cause), after)
	}
	lines := w.takeLog()
	err := w.DB.Update(ctx, func(tx *store.Tx) error {
		now, err := tx.Now(ctx, w.Now())
		if err != nil {
			return err
		}
		next := now.Add(after)
		if err := tx.GiveBack(ctx, w.run.ID, w.run.Attempt, next, failed, reason); err != nil {
			return err
		}
		if err := tx.EndStep(ctx, w.run.ID, w.run.Attempt, w.run.Step, w.Now(), landfall.MessageOf(cause)); err != nil {
			return err
		}
		if err := tx.AppendLog(ctx, w.run.ID, w.run.Step, w.Now(), lines...); err != nil {
			return err
		}
		if after == 0 {
			next = time.Time{}
		}
		tx.Enqueue(topicRun, w.run.ID, next)
		return nil
	})
	return ignoreLost(err)
}

// fail ends the run. It does nothing when the run is over already, or another worker's.
func (w *worker) fail(ctx context.Context, state landfall.RunState, cause error) error {
	message := landfall.MessageOf(cause)
	lines := w.takeLog()
	err := w.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Fence(ctx, w.run.ID, w.run.Attempt); err != nil {
			return err
		}
		if err := tx.EndStep(ctx, w.run.ID, w.run.Attempt, w.run.Step, w.Now(), message); err != nil {
			return err
		}
		if err := tx.AppendLog(ctx, w.run.ID, w.run.Step, w.Now(), lines...); err != nil {
			return err
		}
		crashpoint.Here("fail.before")
		run := w.run
		run.State, run.Reason = state, message
		return w.end(ctx, tx, w.app, run)
	})
	crashpoint.Here("fail.after")
	return ignoreLost(err)
}

// ignoreLost forgives that the run was over, or another worker's, when an attempt wanted to end.
func ignoreLost(err error) error {
	if landfall.KindOf(err) == landfall.Conflict {
		return nil
	}
	return err
}
