package pipeline

import (
	"context"
	"encoding/json"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Diff compares what two group versions have in force, as versioning.Diff does. Of the static units and packages that
// differ it counts the files, unless the content of a side was collected since, and of functions it says which get a network, or
// have another contract.
func (p *Pipeline) Diff(ctx context.Context, before, after []store.GroupUnit) ([]landfall.UnitChange, error) {
	changes := versioning.Diff(versioning.InForce(before), versioning.InForce(after))
	if err := noteFunctions(changes, p.storedSide(ctx, before), p.storedSide(ctx, after)); err != nil {
		return nil, err
	}
	for i, c := range changes {
		if c.Change == landfall.Unchanged || (c.Unit.Kind != landfall.StaticUnit && c.Unit.Kind != landfall.PackageUnit) {
			continue
		}
		files, err := p.fileChange(ctx, c.Unit, before, after)
		if err == nil {
			changes[i].Files = &files
		} else if landfall.KindOf(err) != landfall.NotFound {
			return nil, err
		}
	}
	return changes, nil
}

// fileChange counts what differs within a unit. NotFound when a side was never stored, or was collected.
func (p *Pipeline) fileChange(ctx context.Context, id landfall.UnitID, before, after []store.GroupUnit) (landfall.FileChange, error) {
	old, err := p.contentOf(ctx, before, id)
	if err != nil {
		return landfall.FileChange{}, err
	}
	content, err := p.contentOf(ctx, after, id)
	if err != nil {
		return landfall.FileChange{}, err
	}
	if id.Kind == landfall.StaticUnit {
		return p.staticChange(ctx, old, content)
	}
	return p.packageChange(ctx, old, content)
}

// contentOf returns what the version of a unit in force keeps; nothing where the unit is not in force. NotFound when the
// version keeps nothing, or is deleted.
func (p *Pipeline) contentOf(ctx context.Context, units []store.GroupUnit, id landfall.UnitID) (json.RawMessage, error) {
	for _, u := range units {
		if u.Unit != id {
			continue
		}
		v, err := p.DB.VersionByNumber(ctx, u.UnitID, u.Number)
		if err == nil && v.Content == nil {
			err = &landfall.Error{Op: "pipeline.diff", Kind: landfall.NotFound}
		}
		return v.Content, err
	}
	return nil, nil
}

// staticChange counts what differs between two versions of a static unit. NotFound when a manifest is not there.
func (p *Pipeline) staticChange(ctx context.Context, before, after json.RawMessage) (landfall.FileChange, error) {
	var sides [2]*assets.Manifest
	for i, content := range []json.RawMessage{before, after} {
		if content == nil {
			continue
		}
		var err error
		if sides[i], err = assets.Load(ctx, p.Objects, manifestRef(content)); err != nil {
			return landfall.FileChange{}, err
		}
	}
	return assets.Diff(sides[0], sides[1]), nil
}

// packageChange counts what differs between the archives of two versions of a package. NotFound when one is not there.
func (p *Pipeline) packageChange(ctx context.Context, before, after json.RawMessage) (landfall.FileChange, error) {
	old, err := p.archived(ctx, before)
	if err != nil {
		return landfall.FileChange{}, err
	}
	files, err := p.archived(ctx, after)
	if err != nil {
		return landfall.FileChange{}, err
	}
	var change landfall.FileChange
	for name, file := range files {
		change.Bytes += file.Size
		switch was, ok := old[name]; {
		case !ok:
			change.Added++
		case was != file:
			change.Changed++
		}
	}
	for _, file := range old {
		change.Bytes -= file.Size
	}
	change.Removed = len(old) + change.Added - len(files)
	return change, nil
}

// archived lists the files of a package's archives; of a source that is the deployment, once.
func (p *Pipeline) archived(ctx context.Context, content json.RawMessage) (map[string]builder.ArchivedFile, error) {
	all := map[string]builder.ArchivedFile{}
	c, err := landfall.ReadContent[landfall.PackageContent](content)
	if err != nil {
		return nil, err
	}
	archives := map[string]*landfall.Archive{"source": c.Source}
	if c.Deployment != nil && (c.Source == nil || c.Source.Key != c.Deployment.Key) {
		archives["deployment"] = c.Deployment
	}
	for name, archive := range archives {
		if archive == nil {
			continue
		}
		object, err := p.Objects.Open(ctx, archive.Key)
		if err != nil {
			return nil, err
		}
		files, err := builder.ListArchive(object, object.Size())
		if closeErr := object.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			all[name+"/"+file.Path] = file
		}
	}
	return all, nil
}

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
