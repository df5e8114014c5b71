package pipeline

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"sync"

	"landfall.dev/landfall"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/spec"
)

// DryRun plans a commit of the built-in remote without storing anything. Its errors are those of a run.
func (p *Pipeline) DryRun(ctx context.Context, app landfall.App, push landfall.Push) (inspect.Preview, error) {
	hide, err := p.redactor(ctx, app, nil)
	if err != nil {
		return inspect.Preview{}, err
	}
	run := landfall.Run{ID: "plan-" + rand.Text(), App: app.ID, Commit: push.After}
	w := &attempt{Pipeline: p, logger: p.Logger, app: app, run: run, hide: hide, dry: true,
		outputs: map[landfall.Digest]string{}}
	defer w.releaseBuilds(ctx)
	defer func() {
		for _, folder := range w.dryOutputs {
			_ = os.RemoveAll(folder) // else it goes when there is no room for others
		}
	}()
	preview, err := w.dryRun(ctx, push)
	if err != nil {
		err = w.redactError(err)
	}
	return preview, err
}

// fetches counts the plans that are fetching archives, by their apps, and all of them under the empty name.
type fetches struct {
	mu sync.Mutex
	of map[string]int
}

// beginFetch counts a plan that fetches something until done. Unavailable when there are as many as may be: each takes
// room on the disk, and a slow address would hold it for minutes. Runs wait for workers instead.
func (d draft) beginFetch() (done func(), err error) {
	const most, mostOfApp = 4, 2
	if !slices.ContainsFunc(d.spec.Packages, func(pkg spec.Package) bool {
		return pkg.Source.URL != "" || pkg.Deployment.URL != ""
	}) {
		return func() {}, nil
	}
	f := &d.plans
	count := func(by int) {
		for _, of := range []string{"", d.app.ID} {
			if f.of[of] += by; f.of[of] == 0 {
				delete(f.of, of)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]int{}
	}
	if f.of[""] >= most || f.of[d.app.ID] >= mostOfApp {
		return nil, landfall.Errorf("pipeline.DryRun", landfall.Unavailable,
			"too much is being fetched for plans already: try again later, or push")
	}
	count(1)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		count(-1)
	}, nil
}

func (a *attempt) dryRun(ctx context.Context, push landfall.Push) (inspect.Preview, error) {
	pushes := []landfall.Push{push}
	remote, err := a.Acceptor.Origin(ctx, a.app, pushes)
	if err != nil {
		return inspect.Preview{}, err
	}
	c := checkout{attempt: a}
	if c.mirror, err = a.Mirrors.Fetch(ctx, remote, push.Ref, push.After); err != nil {
		return inspect.Preview{}, err
	}
	defer c.close()
	if c.info, err = c.mirror.Commit(push.After); err != nil {
		return inspect.Preview{}, err
	}
	s, err := c.read(ctx)
	if err != nil {
		return inspect.Preview{}, err
	}
	d, err := s.draft(ctx, pushes)
	if err != nil {
		return inspect.Preview{}, err
	}
	if d.hasBuild() {
		files, err := d.previewCommit(ctx)
		return inspect.Preview{Files: files, Log: a.takeLog()}, err
	}
	limited, cancel := context.WithTimeout(ctx, quickLimit) // somebody waits for the answer
	defer cancel()
	done, err := d.beginFetch()
	if err != nil {
		return inspect.Preview{}, err
	}
	defer done()
	if d.fetched, err = d.fetchArchives(limited); err != nil {
		return inspect.Preview{}, err
	}
	p, err := d.planUnits(ctx, d.files)
	if err != nil {
		return inspect.Preview{}, err
	}
	if err := p.previewFiles(ctx); err != nil {
		return inspect.Preview{}, err
	}
	return inspect.Preview{Changes: p.changes, Complete: true, Log: a.takeLog()}, nil
}

// previewFiles adds to the diff of a dry run the files that differ within static units, compared by git's blob names.
func (p plan) previewFiles(ctx context.Context) error {
	for i, c := range p.changes {
		unit, ok := p.statics[c.Unit]
		if !ok || c.Change == landfall.Unchanged {
			continue
		}
		after := make([]landfall.File, 0, len(unit.Entries))
		for _, e := range unit.Entries {
			f := e.File
			f.Path = e.Path
			after = append(after, f)
		}
		var before []landfall.File
		if c.Change == landfall.Changed {
			known, err := p.earlierManifestsOf(ctx, c.Unit)
			if err != nil {
				return err
			}
			if known.base == nil {
				continue // it was collected
			}
			for _, f := range known.base.Files() {
				before = append(before, landfall.File{Path: f.Path, Blob: f.Blob, Size: f.Size})
			}
		}
		p.changes[i].Files = countChanges(before, after)
	}
	return nil
}

// previewCommit counts the files that differ between the commit and the one that the diff compares with; nil when there
// is none.
func (d draft) previewCommit(ctx context.Context) (*landfall.FileChange, error) {
	if d.baseGroup == "" {
		return countChanges(nil, d.files), nil
	}
	commit, err := d.DB.CommitOf(ctx, d.app.ID, d.baseGroup)
	if err != nil {
		return nil, landfall.Ignore(err, landfall.NotFound)
	}
	before, err := d.filesOf(ctx, commit)
	if err != nil {
		return nil, landfall.Ignore(err, landfall.NotFound)
	}
	return countChanges(before, d.files), nil
}

// countChanges counts the files that differ between two commits. A file that only becomes executable has not changed
// for visitors.
func countChanges(before, after []landfall.File) *landfall.FileChange {
	old := make(map[string]landfall.File, len(before))
	var change landfall.FileChange
	for _, f := range before {
		old[f.Path] = f
		change.Bytes -= f.Size
	}
	for _, f := range after {
		change.Bytes += f.Size
		switch was, ok := old[f.Path]; {
		case !ok:
			change.Added++
		case was.Blob != f.Blob:
			change.Changed++
		}
	}
	change.Removed = len(before) + change.Added - len(after)
	return &change
}
