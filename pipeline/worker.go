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
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// Work leases a run and takes it through as many steps as possible. It does nothing when another worker holds the run,
// the run is over, or the app has its share of the workers; in the last case the end of another run of the app wakes
// it.
func (p *Pipeline) Work(ctx context.Context, id string) error {
	w := &attempt{Pipeline: p, logger: p.Logger, outputs: map[landfall.Digest]string{}}
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
		return landfall.Ignore(err, landfall.Conflict)
	}
	defer p.wakeNext(ctx, w.app)
	crashpoint.Here("run.leased")
	w.logger = p.Logger.With(w.app.LogAttrs()...).With(w.run.LogAttrs()...)
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
	defer w.releaseBuilds(ctx) // even when the heartbeat has ended the attempt, which it also does for a run that is over
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	beat, stop := context.WithCancel(ctx)
	group.Go(func() { w.heartbeat(beat, cancel) })
	err = w.steps(ctx)
	stop()
	group.Wait()
	if err := w.settle(ctx, err); err != nil && landfall.KindOf(err) != landfall.Canceled {
		w.logger.ErrorContext(ctx, "the attempt could not be ended; the sweep finds the run", "error", err)
	}
	return nil
}

// attempt is one passage of a run through the steps, under one attempt number: its log, its fence and its clock. The
// results of the steps are passed from one to the next. Each is a value that holds the one before: a checkout becomes a
// source, a draft, a plan, a builtPlan and a storedPlan. A step returns a new value and never changes the one that it
// got.
type attempt struct {
	*Pipeline

	run          landfall.Run
	app          landfall.App
	logger       *slog.Logger
	log          []string         // lines that the next transaction stores
	hide         *secret.Redactor // removes the app's secrets from all texts about the run
	stats        landfall.RunStats
	outputs      map[landfall.Digest]string // where the files of builds are; those on another machine are missing
	here         bool                       // builds are run whose files are on another machine
	buildFolders []string                   // the folders of the builds in which they are
	dry          bool                       // it only plans: nothing about its run is stored
	judged       bool                       // it only finds out whether the commit changes anything: nothing is made
	dryOutputs   []string                   // the folders of outputs that nothing records
}

// heartbeatsPerLease is how often a worker renews its lease before it would end.
const heartbeatsPerLease = 3

// Heartbeat notes that this process's workers are alive.
func (p *Pipeline) Heartbeat(ctx context.Context) error {
	return p.DB.Update(ctx, func(tx *store.Tx) error {
		now, err := tx.Now(ctx, p.Now())
		if err != nil {
			return err
		}
		return tx.RecordWorker(ctx, p.Worker, now.Add(p.lease()))
	})
}

// Leave notes that this process has no workers any more. When it fails, other processes find out by themselves.
func (p *Pipeline) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.DB.Update(ctx, func(tx *store.Tx) error { return tx.RecordWorker(ctx, p.Worker, time.Time{}) })
}

// heartbeat renews the lease until ctx ends, and ends the work when the lease is lost.
func (a *attempt) heartbeat(ctx context.Context, lost context.CancelCauseFunc) {
	// It is also often enough to notice soon that a person ended the run.
	tick := time.NewTicker(min(a.lease()/heartbeatsPerLease, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := a.DB.Update(ctx, func(tx *store.Tx) error {
			now, err := tx.Now(ctx, a.Now())
			if err != nil {
				return err
			}
			return tx.Renew(ctx, a.run.ID, a.run.Attempt, now.Add(a.lease()))
		})
		if landfall.KindOf(err) == landfall.Conflict && err != nil {
			lost(err)
			return
		}
	}
}

// These are the time limits of the steps.
const (
	quickLimit = 2 * time.Minute
	longLimit  = 30 * time.Minute
)

// steps goes through all steps. A step whose result is stored already finds it and is done at once.
func (a *attempt) steps(ctx context.Context) error {
	var err error
	// A fork has no secrets that could show. What is taken out of its texts would tell it which guess is right.
	if a.run.Fork == 0 {
		if a.hide, err = a.redactor(ctx, a.app, nil); err != nil {
			return err
		}
	}
	c, err := step(ctx, a, landfall.StepFetch, longLimit, a.fetch)
	defer c.close()
	if err != nil {
		return err
	}
	s, err := step(ctx, a, landfall.StepRead, quickLimit, c.read)
	if err != nil {
		return err
	}
	before := a.stats
	k, err := s.make(ctx)
	if errors.Is(err, errElsewhere) {
		a.logf("what was built before is on another machine, and is needed")
		a.here, a.stats = true, before
		k, err = s.make(ctx)
	}
	if err != nil {
		return err
	}
	if _, err := step(ctx, a, landfall.StepCommit, quickLimit, k.commit); err != nil {
		return err
	}
	a.swap(ctx)
	return nil
}

// make goes through the steps from the plan to what is stored. errElsewhere when it needs files that a build made on
// another machine.
func (s source) make(ctx context.Context) (storedPlan, error) {
	p, err := step(ctx, s.attempt, landfall.StepPlan, longLimit, s.plan)
	if err != nil {
		return storedPlan{}, err
	}
	b, err := step(ctx, s.attempt, landfall.StepBuild, longLimit, p.build)
	if err != nil {
		return storedPlan{}, err
	}
	return step(ctx, s.attempt, landfall.StepUpload, longLimit, b.upload)
}

// step does one step of the pipeline after accept, and returns its result.
func step[T any](
	ctx context.Context, w *attempt, name landfall.Step, limit time.Duration, do func(ctx context.Context) (T, error),
) (T, error) {
	var none T
	if err := w.enter(ctx, name); err != nil {
		return none, err
	}
	crashpoint.Here(string(name) + ".before")
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begin := w.Now()
	traced, span := w.Tracer.Start(limited, string(name), trace.Step(name))
	result, err := do(traced)
	span.End(err)
	w.meter().StepDone(name, w.Now().Sub(begin))
	late := errors.Is(limited.Err(), context.DeadlineExceeded)
	if err != nil {
		return result, w.stepError(ctx, name, limit, late, err)
	}
	crashpoint.Here(string(name) + ".after")
	return result, nil
}

// stepError says which step failed, and tells our own time limit from a caller that left.
func (a *attempt) stepError(ctx context.Context, name landfall.Step, limit time.Duration, late bool, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return &landfall.Error{Op: "pipeline", Kind: landfall.Canceled, Err: err}
		}
		return cause
	}
	if late {
		return landfall.Wrapf("pipeline", landfall.Unavailable, err, "the step %s did not end within %s", name, limit)
	}
	if landfall.KindOf(err) == landfall.Internal && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
		return noSpace(err)
	}
	return err
}

// noSpace is the error when there is no disk space for work in progress.
func noSpace(cause error) error {
	return landfall.Wrapf("pipeline", landfall.Unavailable, cause,
		"this installation has no disk space left for work in progress")
}

// isFull reports whether the file system of a folder has hardly any space left.
func isFull(folder string) bool {
	const hardly = 1 << 20
	var s syscall.Statfs_t
	return syscall.Statfs(folder, &s) == nil && s.Bavail*uint64(s.Bsize) < hardly
}

// enter records that the run has reached a step, and stores the log of the step before.
func (a *attempt) enter(ctx context.Context, s landfall.Step) error {
	before := a.run.Step
	a.run.Step = s
	lines := a.takeLog()
	return a.DB.Update(ctx, func(tx *store.Tx) error {
		now := a.Now()
		if err := tx.EndStep(ctx, a.run.ID, a.run.Attempt, before, now, ""); err != nil {
			return err
		}
		if err := tx.StartStep(ctx, a.run.ID, a.run.Attempt, s, now); err != nil {
			return err
		}
		return tx.AppendLog(ctx, a.run.ID, before, now, lines...)
	})
}

// logf adds a line to the run's log, which is stored with the next step.
func (a *attempt) logf(format string, args ...any) {
	a.log = append(a.log, a.hide.String(fmt.Sprintf(format, args...)))
}

func (a *attempt) takeLog() []string {
	lines := a.log
	a.log = nil
	return lines
}

// logNow stores log lines at once, for the output of long steps.
func (a *attempt) logNow(ctx context.Context, lines ...string) {
	if a.dry {
		a.log = append(a.log, lines...)
		return
	}
	for i, line := range lines {
		lines[i] = a.hide.String(line)
	}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Fence(ctx, a.run.ID, a.run.Attempt); err != nil {
			return err
		}
		return tx.AppendLog(ctx, a.run.ID, a.run.Step, a.Now(), lines...)
	})
	if err != nil {
		a.logger.WarnContext(ctx, "log lines were lost", "error", err)
	}
}

// settle ends the attempt: a run that did not end is failed, or given back to be tried again.
func (a *attempt) settle(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = a.redactError(err)
	// The end of the attempt must be stored even when the attempt's own context is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quickLimit)
	defer cancel()
	if skip, ok := errors.AsType[*skipError](err); ok {
		a.logger.InfoContext(ctx, "run skipped", "step", a.run.Step, "reason", skip.reason)
		return a.fail(ctx, landfall.RunSkipped, &landfall.Error{Message: skip.reason})
	}
	failures, countErr := a.DB.Failures(ctx, a.run.ID)
	if countErr != nil {
		return errors.Join(err, countErr)
	}
	switch verdict := decide(landfall.KindOf(err), failures); verdict.action {
	case giveBack:
		a.logger.InfoContext(ctx, "run interrupted", "step", a.run.Step, "error", err)
		return a.giveBack(ctx, err, 0, false)
	case tryAgain:
		a.logger.WarnContext(ctx, "run will be tried again", "step", a.run.Step, "after", verdict.after, "error", err)
		return a.giveBack(ctx, err, verdict.after, true)
	case fail:
		if verdict.state == landfall.RunError {
			a.logger.ErrorContext(ctx, "run failed", "step", a.run.Step, "error", err)
		} else { // the change is at fault: its author reads all of it in the run
			a.logger.InfoContext(ctx, "run failed", "step", a.run.Step, "reason",
				landfall.CutDescription(landfall.MessageOf(err)))
		}
		if kind := landfall.KindOf(err); kind == landfall.Unavailable || kind == landfall.Internal {
			err = landfall.Wrapf("pipeline", kind, err, "%s; %d attempts failed: push again, or type: landfall run retry %s",
				landfall.MessageOf(err), failures+1, a.run.ID)
		}
		return a.fail(ctx, verdict.state, err)
	}
	return err
}

// redactError returns an error without the app's secrets. An error whose text contains one loses its cause.
func (a *attempt) redactError(err error) error {
	if !a.hide.Finds([]byte(err.Error())) && !a.hide.Finds([]byte(landfall.MessageOf(err))) {
		return err
	}
	return &landfall.Error{Op: "pipeline", Kind: landfall.KindOf(err), Message: a.hide.String(landfall.MessageOf(err))}
}

func (a *attempt) giveBack(ctx context.Context, cause error, after time.Duration, failed bool) error {
	reason := ""
	if failed {
		reason = "Trying again: " + landfall.MessageOf(cause)
		a.logf("%s; trying again in %s", landfall.MessageOf(cause), after)
	}
	lines := a.takeLog()
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		now, err := tx.Now(ctx, a.Now())
		if err != nil {
			return err
		}
		next := now.Add(after)
		if err := tx.GiveBack(ctx, a.run.ID, a.run.Attempt, next, failed, reason); err != nil {
			return err
		}
		if err := tx.EndStep(ctx, a.run.ID, a.run.Attempt, a.run.Step, a.Now(), landfall.MessageOf(cause)); err != nil {
			return err
		}
		if err := tx.AppendLog(ctx, a.run.ID, a.run.Step, a.Now(), lines...); err != nil {
			return err
		}
		if after == 0 {
			next = time.Time{}
		}
		tx.Enqueue(runs.Topic, a.run.ID, next)
		return nil
	})
	return landfall.Ignore(err, landfall.Conflict) // the run is over, or another worker holds it
}

// fail ends the run. It does nothing when the run is over already, or another worker holds it.
func (a *attempt) fail(ctx context.Context, state landfall.RunState, cause error) error {
	message := handPlace.ReplaceAllString(landfall.MessageOf(cause), "$1")
	lines := a.takeLog()
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Fence(ctx, a.run.ID, a.run.Attempt); err != nil {
			return err
		}
		if err := tx.EndStep(ctx, a.run.ID, a.run.Attempt, a.run.Step, a.Now(), message); err != nil {
			return err
		}
		if err := tx.AppendLog(ctx, a.run.ID, a.run.Step, a.Now(), lines...); err != nil {
			return err
		}
		crashpoint.Here("fail.before")
		run := a.run
		run.State, run.Reason, run.Stats.OverPlan = state, message, errors.Is(cause, landfall.ErrOverPlan)
		return a.Runs.End(ctx, tx, a.app, run)
	})
	crashpoint.Here("fail.after")
	return landfall.Ignore(err, landfall.Conflict) // the run is over, or another worker holds it
}
