package pipeline

import (
	"context"

	"landfall.dev/landfall"
)

// previewFiles adds to the diff of a dry run what differs within the static units, by git's names of the files.
func (w *worker) previewFiles(ctx context.Context) error {
	for i, c := range w.changes {
		unit, ok := w.statics[c.Unit]
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
			known, err := w.knownOf(ctx, c.Unit)
			if err != nil {
				return err
			}
			if known.before == nil {
				continue // it was collected
			}
			for _, f := range known.before.Files() {
				before = append(before, landfall.File{Path: f.Path, Blob: f.Blob, Size: f.Size})
			}
		}
		w.changes[i].Files = countChanges(before, after)
	}
	return nil
}

// previewCommit counts what differs between the commit and the one that the diff compares with; nil when there is none.
func (w *worker) previewCommit(ctx context.Context) (*landfall.FileChange, error) {
	if w.baseGroup == "" {
		return countChanges(nil, w.files), nil
	}
	commit, err := w.DB.CommitOf(ctx, w.app.ID, w.baseGroup)
	if err != nil {
		return nil, landfall.Ignore(err, landfall.NotFound)
	}
	before, err := w.filesOf(ctx, commit)
	if err != nil {
		return nil, landfall.Ignore(err, landfall.NotFound)
	}
	return countChanges(before, w.files), nil
}

// countChanges counts what differs between two sets of files of commits. Where a file begins to be executable, nothing of
// what is served changes.
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
