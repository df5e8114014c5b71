package pipeline

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// WorkCommit looks at the queued runs of a commit together. Where a repository has several apps, the commit is fetched
// once. The runs of apps in which it changes nothing end together, without a step of their own: what they would have
// made is planned as every run is, and only when there is nothing to build, to store or to test, it is committed. The
// others get a job of their own before that, and are told to the forge at once.
func (p *Pipeline) WorkCommit(ctx context.Context, commit landfall.CommitSHA) error {
	queued, err := p.DB.QueuedOfCommit(ctx, commit)
	if err != nil || len(queued) == 0 {
		return err
	}
	if len(queued) == 1 {
		return p.Work(ctx, queued[0].ID)
	}
	var alone []landfall.Run
	together := map[builder.Remote][]candidate{}
	for _, run := range queued {
		c, remote, err := p.candidateOf(ctx, run)
		if err != nil {
			return errors.Join(err, p.wake(ctx, queued...))
		}
		if c.run.ID == "" {
			alone = append(alone, run)
		} else {
			together[remote] = append(together[remote], c)
		}
	}
	for remote, candidates := range together {
		if len(candidates) == 1 {
			alone = append(alone, candidates[0].run)
			delete(together, remote)
		}
	}
	err = p.wake(ctx, alone...)
	for remote, candidates := range together {
		err = errors.Join(err, p.endUnchanged(ctx, remote, candidates))
	}
	return err
}

// wake gives runs a job of their own.
func (p *Pipeline) wake(ctx context.Context, all ...landfall.Run) error {
	if len(all) == 0 {
		return nil
	}
	return p.DB.Update(ctx, func(tx *store.Tx) error {
		for _, run := range all {
			tx.Enqueue(runs.Topic, run.ID, time.Time{})
			if err := tx.HurryReports(ctx, run, p.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// candidate is a run that nobody has begun, and that may change nothing.
type candidate struct {
	run    landfall.Run
	app    landfall.App
	pushes []landfall.Push
}

// candidateOf returns the candidate that a queued run is, and the repository from which its commit comes; none when the
// run must be worked on alone.
func (p *Pipeline) candidateOf(ctx context.Context, run landfall.Run) (candidate, builder.Remote, error) {
	none := func(err error) (candidate, builder.Remote, error) { return candidate{}, builder.Remote{}, err }
	app, err := p.DB.App(ctx, run.App)
	if err != nil {
		return none(err)
	}
	pushes, err := (&attempt{Pipeline: p, run: run}).pushes(ctx, p.DB)
	if err != nil {
		return none(err)
	}
	if run.Fork != 0 || run.Rebuild || run.Expect != "" || app.Branch == "" || len(pushes) == 0 ||
		slices.ContainsFunc(pushes, func(push landfall.Push) bool { return push.ConcurrentHead != 0 || push.Apply != nil }) {
		return none(nil)
	}
	remote, err := p.Acceptor.Origin(ctx, app, pushes)
	if err != nil {
		return none(nil) // its own run says why
	}
	return candidate{run, app, pushes}, remote, nil
}

const (
	// judgeTogether is how many runs share a transaction, at most: what has changed is committed between two of them.
	judgeTogether = 16
	// judgeLimit is how long it may take to find out that nothing has changed.
	judgeLimit = 10 * time.Second
)

// endUnchanged ends those of several runs of a commit that change nothing, and wakes the others.
func (p *Pipeline) endUnchanged(ctx context.Context, remote builder.Remote, all []candidate) error {
	left := func(of []candidate) (runs []landfall.Run) {
		for _, c := range of {
			runs = append(runs, c.run)
		}
		return runs
	}
	var pushed time.Time // of the last of them
	for _, c := range all {
		if ready := c.run.Ready(); ready.After(pushed) {
			pushed = ready
		}
	}
	begin := p.Now()
	limited, cancel := context.WithTimeout(ctx, longLimit)
	defer cancel()
	ref := all[0].pushes[len(all[0].pushes)-1].Ref
	mirror, err := p.Mirrors.FetchSince(limited, remote, ref, all[0].run.Commit, pushed)
	if err != nil {
		return p.wake(ctx, left(all)...) // each says why
	}
	defer func() { _ = mirror.Close() }()
	fetched := landfall.StepRecord{Step: landfall.StepFetch, Attempt: 1, Started: begin, Finished: p.Now()}
	same, changed := p.sortByFolder(ctx, mirror, all)
	if err := p.wake(ctx, left(changed)...); err != nil {
		return err
	}
	for some := range slices.Chunk(same, judgeTogether) {
		others, err := p.endSome(ctx, mirror, fetched, some)
		if err := errors.Join(err, p.wake(ctx, others...)); err != nil {
			return err
		}
	}
	return nil
}

// sortByFolder tells the apps whose folder is as in the commit of their newest release from the others. That alone does
// not mean that nothing changes.
func (p *Pipeline) sortByFolder(ctx context.Context, mirror *builder.Mirror, all []candidate) (same,
	changed []candidate) {
	for _, c := range all {
		if equal, err := p.sameFolder(ctx, mirror, c); err == nil && equal {
			same = append(same, c)
		} else {
			changed = append(changed, c)
		}
	}
	return same, changed
}

func (p *Pipeline) sameFolder(ctx context.Context, mirror *builder.Mirror, c candidate) (bool, error) {
	s := source{checkout: checkout{attempt: &attempt{Pipeline: p, run: c.run, app: c.app}}}
	base, _, err := s.baseOf(ctx, c.pushes)
	if err != nil || base == "" {
		return false, err
	}
	before, err := p.DB.CommitOf(ctx, c.app.ID, base)
	if err != nil {
		return false, err
	}
	return mirror.SameFolder(ctx, before, c.run.Commit, c.app.Folder)
}

// errChanged ends the judgement of a run that must be worked on.
var errChanged = errors.New("something must be made")

// judgement is a run that changes nothing.
type judgement struct {
	storedPlan

	steps []landfall.StepRecord
	log   []landfall.LogLine
	span  trace.Span
}

// endSome ends those runs that change nothing, all in one transaction, and returns the others.
func (p *Pipeline) endSome(ctx context.Context, mirror *builder.Mirror, fetched landfall.StepRecord,
	all []candidate) (others []landfall.Run, err error) {
	judgements := make([]*judgement, len(all))
	each(len(all), func(i int) {
		limited, cancel := context.WithTimeout(ctx, judgeLimit)
		defer cancel()
		judgements[i] = p.judge(limited, mirror, fetched, all[i])
	})
	var ending []*judgement
	for i, j := range judgements {
		if j == nil {
			others = append(others, all[i].run)
			continue
		}
		ending = append(ending, j)
	}
	left, err := p.endJudged(ctx, mirror, ending)
	for _, j := range ending {
		j.releaseBuilds(ctx)
	}
	return append(others, left...), err
}

// endJudged ends runs that change nothing, and returns those of which that is not true any more. It leaves alone what
// another worker has, and what is over.
func (p *Pipeline) endJudged(ctx context.Context, mirror *builder.Mirror, all []*judgement) (others []landfall.Run,
	err error) {
	if len(all) == 0 {
		return nil, nil
	}
	var ends []func(context.Context, *store.Tx) error
	for _, j := range all {
		if err := mirror.Keep(j.run.UID, j.run.Commit); err != nil {
			return nil, err
		}
		ends = append(ends, j.end)
	}
	crashpoint.Here("commit.kept")
	errs := p.DB.UpdateTogether(ctx, ends...)
	var ended []*judgement
	for i, j := range all {
		switch err := errs[i]; {
		case err == nil:
			ended = append(ended, j)
		case !landfall.Is(err, landfall.Conflict):
			others = append(others, j.run)
		}
	}
	return others, p.show(ctx, ended)
}

// each calls do for the numbers from 0 to n-1, several at a time.
func each(n int, do func(i int)) {
	var group sync.WaitGroup
	room := make(chan struct{}, max(2, runtime.NumCPU()))
	for i := range n {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	group.Wait()
}

// judge plans a run, and returns nil unless it changes nothing. Whatever is wrong, also a panic, the run says so when
// it is worked on.
func (p *Pipeline) judge(ctx context.Context, mirror *builder.Mirror, fetched landfall.StepRecord,
	c candidate) (made *judgement) {
	a := &attempt{Pipeline: p, run: c.run, app: c.app, outputs: map[landfall.Digest]string{}, judged: true,
		logger: p.Logger.With(c.app.LogAttrs()...).With(c.run.LogAttrs()...)}
	j := &judgement{steps: []landfall.StepRecord{fetched}}
	defer func() {
		if fault := recover(); fault != nil { // here it would end the process, and with it all other runs
			a.releaseBuilds(ctx)
			a.logger.ErrorContext(ctx, "panic while looking whether a run changes anything", "panic", fault)
			made = nil
		}
	}()
	var err error
	parent := ""
	if p.Tracer != nil {
		parent, err = p.DB.TraceOf(ctx, c.run.ID)
	}
	if err != nil {
		return nil
	}
	ctx, j.span = p.Tracer.Resume(ctx, parent, "run", trace.Run(a.app.Name, a.run)...)
	if a.hide, err = p.redactor(ctx, a.app, map[string]secret.Text{}); err == nil {
		j.storedPlan, err = j.plan(ctx, checkout{attempt: a, mirror: mirror}, c.pushes)
	}
	if err != nil {
		a.releaseBuilds(ctx)
		return nil
	}
	return j
}

// plan does what the steps until the commit do. errChanged when one of them would make something.
func (j *judgement) plan(ctx context.Context, c checkout, pushes []landfall.Push) (k storedPlan, err error) {
	if c.info, err = c.mirror.Commit(c.run.Commit); err != nil {
		return k, err
	}
	if c.skips(pushes) {
		return k, errChanged
	}
	s, err := judged(j, c.attempt, landfall.StepRead, func() (source, error) { return c.read(ctx) })
	if err != nil {
		return k, err
	}
	p, err := judged(j, c.attempt, landfall.StepPlan, func() (plan, error) { return s.plan(ctx) })
	if err != nil {
		return k, err
	}
	b, err := judged(j, c.attempt, landfall.StepBuild, func() (builtPlan, error) { return p.build(ctx) })
	if err != nil {
		return k, err
	}
	return judged(j, c.attempt, landfall.StepUpload, func() (storedPlan, error) {
		k := storedPlan{builtPlan: b}
		if !k.unchanged() {
			return k, errChanged
		}
		err := k.countFiles(ctx)
		k.logStored()
		return k, err
	})
}

// judged does a step of a judgement, and records it.
func judged[T any](j *judgement, a *attempt, step landfall.Step, do func() (T, error)) (T, error) {
	record := landfall.StepRecord{Step: step, Attempt: 1, Started: a.Now()}
	result, err := do()
	record.Finished = a.Now()
	j.steps = append(j.steps, record)
	for _, line := range a.takeLog() {
		j.log = append(j.log, landfall.LogLine{Time: record.Finished, Step: step, Text: line})
	}
	return result, err
}

// unchanged reports whether the plan has what its base has, all of which is stored.
func (k storedPlan) unchanged() bool {
	if len(k.base) == 0 || len(k.byHand) > 0 || !k.released || k.stats.UnitsChanged > 0 {
		return false
	}
	for _, u := range k.units {
		v, ok := k.current[u.Unit]
		if !ok || v.storeAgain || u.Content != nil && v.content() == nil {
			return false
		}
	}
	return true
}

// end makes the release of a run that changes nothing, and ends the run, in the caller's transaction.
func (j *judgement) end(ctx context.Context, tx *store.Tx) error {
	now, err := tx.Now(ctx, j.Now())
	if err != nil {
		return err
	}
	run, err := tx.Lease(ctx, j.run.ID, j.Worker, now, now.Add(j.lease()), appShare)
	if err != nil {
		return err
	}
	if run.Attempt != 1 { // it was worked on meanwhile, and is to be tried again
		return errChanged
	}
	var prefixes []string
	for _, u := range j.units {
		prefixes = append(prefixes, j.current[u.Unit].prefixes...)
	}
	slices.Sort(prefixes)
	if there, err := tx.PrefixesThere(ctx, slices.Compact(prefixes)); err != nil || !there {
		return errors.Join(err, errChanged)
	}
	if err := tx.RecordSteps(ctx, run.ID, j.steps); err != nil {
		return err
	}
	if err := tx.StartStep(ctx, run.ID, run.Attempt, landfall.StepCommit, j.Now()); err != nil {
		return err
	}
	if err := tx.AddLog(ctx, run.ID, j.log); err != nil {
		return err
	}
	run.Step = landfall.StepCommit
	j.run = run
	return j.commitTx(ctx, tx)
}

// show gives gateways the releases of runs that ended.
func (p *Pipeline) show(ctx context.Context, all []*judgement) error {
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quickLimit)
	defer cancel()
	swaps := make([]landfall.StepRecord, len(all))
	each(len(all), func(i int) {
		j := all[i]
		took := j.Now().Sub(j.run.Ready())
		j.meter().Released(took)
		for _, s := range j.steps {
			j.meter().StepDone(s.Step, s.Finished.Sub(s.Started))
		}
		j.logger.InfoContext(ctx, "release made", "release", j.run.UID, "seconds", took.Seconds())
		swaps[i] = landfall.StepRecord{Step: landfall.StepSwap, Attempt: 1, Started: j.Now()}
		j.Rollout.Show(ctx, j.app)
		swaps[i].Finished = j.Now()
		j.span.End(nil)
	})
	return p.DB.Update(ctx, func(tx *store.Tx) error {
		for i, j := range all {
			if err := tx.RecordSteps(ctx, j.run.ID, swaps[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	})
}
