package inspect

import (
	"cmp"
	"context"
	"encoding/json"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Contents reads the content of group versions.
type Contents struct {
	DB        *store.DB
	Objects   assets.Store
	Manifests *assets.Manifests // of Objects
}

// Diff compares the units in force of two group versions, as versioning.Diff does. For static units and packages that
// differ it counts the files, unless the content of one side was collected. For functions it says which get a network,
// or another contract. For the configuration, triggers and functions it lists the keys that differ, see keyChanges.
func (c *Contents) Diff(ctx context.Context, before, after []store.GroupUnit) ([]landfall.UnitChange, error) {
	changes := versioning.Diff(versioning.InForce(before), versioning.InForce(after))
	was, is := Stored(ctx, c.DB, before), Stored(ctx, c.DB, after)
	if err := NoteFunctions(changes, was, is); err != nil {
		return nil, err
	}
	for i, change := range changes {
		var err error
		if changes[i].Keys, err = keyChanges(change, was, is); err != nil {
			return nil, err
		}
		if change.Change == landfall.Unchanged ||
			(change.Unit.Kind != landfall.StaticUnit && change.Unit.Kind != landfall.PackageUnit) {
			continue
		}
		files, err := c.fileChange(ctx, change.Unit, before, after)
		if err == nil {
			changes[i].Files = &files
		} else if landfall.KindOf(err) != landfall.NotFound {
			return nil, err
		}
	}
	return changes, nil
}

// fileChange counts the files that differ within a unit. NotFound when one side was never stored, or was collected.
func (c *Contents) fileChange(ctx context.Context, id landfall.UnitID, before,
	after []store.GroupUnit) (landfall.FileChange, error) {
	old, err := c.contentOf(ctx, before, id)
	if err != nil {
		return landfall.FileChange{}, err
	}
	content, err := c.contentOf(ctx, after, id)
	if err != nil {
		return landfall.FileChange{}, err
	}
	if id.Kind == landfall.StaticUnit {
		return c.staticChange(ctx, old, content)
	}
	return c.packageChange(ctx, old, content)
}

// contentOf returns the stored content of a unit's version in force; nil when the unit is not in force. NotFound when
// the version has no content, or is deleted.
func (c *Contents) contentOf(ctx context.Context, units []store.GroupUnit,
	id landfall.UnitID) (json.RawMessage, error) {
	for _, u := range units {
		if u.Unit != id {
			continue
		}
		v, err := c.DB.VersionByNumber(ctx, u.UnitID, u.Number)
		if err == nil && v.Content == nil {
			err = &landfall.Error{Op: "inspect.diff", Kind: landfall.NotFound}
		}
		return v.Content, err
	}
	return nil, nil
}

// staticChange counts the files that differ between two versions of a static unit. NotFound when a manifest does not
// exist.
func (c *Contents) staticChange(ctx context.Context, before, after json.RawMessage) (landfall.FileChange, error) {
	var sides [2]*assets.Manifest
	for i, content := range []json.RawMessage{before, after} {
		if content == nil {
			continue
		}
		var err error
		if sides[i], err = assets.Load(ctx, c.Objects, assets.RefIn(content)); err != nil {
			return landfall.FileChange{}, err
		}
	}
	return assets.Diff(sides[0], sides[1]), nil
}

// packageChange counts the files that differ between the archives of two versions of a package. NotFound when an
// archive does not exist.
func (c *Contents) packageChange(ctx context.Context, before, after json.RawMessage) (landfall.FileChange, error) {
	old, err := c.archivedFiles(ctx, before)
	if err != nil {
		return landfall.FileChange{}, err
	}
	files, err := c.archivedFiles(ctx, after)
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

// archivedFiles lists the files of a package's archives. A source that is also the deployment is listed once.
func (c *Contents) archivedFiles(ctx context.Context,
	content json.RawMessage) (map[string]builder.ArchivedFile, error) {
	all := map[string]builder.ArchivedFile{}
	stored, err := landfall.ReadContent[landfall.PackageContent](content)
	if err != nil {
		return nil, err
	}
	archives := map[string]*landfall.Archive{"source": stored.Source}
	if stored.Deployment != nil && (stored.Source == nil || stored.Source.Key != stored.Deployment.Key) {
		archives["deployment"] = stored.Deployment
	}
	for name, archive := range archives {
		if archive == nil {
			continue
		}
		object, err := c.Objects.Open(ctx, archive.Key)
		if err != nil {
			return nil, err
		}
		files, err := builder.ListArchive(object, object.Size())
		if err := cmp.Or(err, object.Close()); err != nil {
			return nil, err
		}
		for _, file := range files {
			all[name+"/"+file.Path] = file
		}
	}
	return all, nil
}
