package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/store"
)

// ServedFile is one static file of a group version.
type ServedFile struct {
	assets.ManifestFile
	Unit string // the static unit to which it belongs
}

// Files lists the static files of units in force, by path. NotFound, with a sentence, when they were collected.
func (c *Contents) Files(ctx context.Context, units []store.GroupUnit) ([]ServedFile, error) {
	var all []ServedFile
	for _, u := range units {
		if u.Unit.Kind != landfall.StaticUnit {
			continue
		}
		content, err := c.contentOf(ctx, units, u.Unit)
		var manifest *assets.Manifest
		if err == nil {
			manifest, err = c.Manifests.Load(ctx, assets.RefIn(content))
		}
		if err != nil && landfall.KindOf(err) == landfall.NotFound {
			return nil, landfall.Wrapf("inspect.Files", landfall.NotFound, err, "its files are not stored any more")
		}
		if err != nil {
			return nil, err
		}
		for _, file := range manifest.Files() {
			all = append(all, ServedFile{file, u.Unit.Name})
		}
	}
	slices.SortStableFunc(all, func(a, b ServedFile) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// ChangedFiles lists the files that differ within the units of a diff, unit by unit, by path. It leaves out a unit of
// which one side was never stored, or was collected.
func (c *Contents) ChangedFiles(ctx context.Context, app landfall.App,
	changes []landfall.UnitChange) ([]landfall.ChangedFile, error) {
	var all []landfall.ChangedFile
	for _, change := range changes {
		if change.Change == landfall.Unchanged ||
			(change.Unit.Kind != landfall.StaticUnit && change.Unit.Kind != landfall.PackageUnit) {
			continue
		}
		before, err := c.unitFiles(ctx, app, change.Unit, change.Before)
		var after map[string]fileState
		if err == nil {
			after, err = c.unitFiles(ctx, app, change.Unit, change.After)
		}
		if err != nil && landfall.KindOf(err) != landfall.NotFound {
			return nil, err
		}
		if err == nil {
			all = append(all, changedFiles(change.Unit, before, after)...)
		}
	}
	return all, nil
}

// fileState is what is compared to tell whether a file has changed.
type fileState struct {
	size    int64
	content any
}

// unitFiles lists the files of a unit's version; nothing when there is no version. NotFound when they are not stored.
func (c *Contents) unitFiles(ctx context.Context, app landfall.App, id landfall.UnitID,
	uid landfall.UID) (map[string]fileState, error) {
	files := map[string]fileState{}
	if uid == "" {
		return files, nil
	}
	unit, err := c.DB.Unit(ctx, app, id)
	if err != nil {
		return nil, err
	}
	v, err := c.DB.VersionByUID(ctx, unit.ID, uid)
	if err != nil {
		return nil, err
	}
	if v.Content == nil {
		return nil, &landfall.Error{Op: "inspect.files", Kind: landfall.NotFound}
	}
	return files, c.addFiles(ctx, files, id.Kind, v.Content)
}

// addFiles adds the files that the content of a version names.
func (c *Contents) addFiles(ctx context.Context, files map[string]fileState, kind landfall.UnitKind,
	content json.RawMessage) error {
	if kind == landfall.StaticUnit {
		manifest, err := c.Manifests.Load(ctx, assets.RefIn(content))
		if err != nil {
			return err
		}
		for _, file := range manifest.Files() {
			files[file.Path] = fileState{file.Size, file.Digest}
		}
		return nil
	}
	archived, err := c.archivedFiles(ctx, content)
	for name, file := range archived {
		files[name] = fileState{file.Size, file}
	}
	return err
}

func changedFiles(unit landfall.UnitID, before, after map[string]fileState) []landfall.ChangedFile {
	var all []landfall.ChangedFile
	for path, is := range after {
		switch was, ok := before[path]; {
		case !ok:
			all = append(all, landfall.ChangedFile{Unit: unit, Path: path, Change: landfall.Added, After: is.size})
		case was != is:
			all = append(all, landfall.ChangedFile{Unit: unit, Path: path, Change: landfall.Changed, Before: was.size,
				After: is.size})
		}
	}
	for path, was := range before {
		if _, ok := after[path]; !ok {
			all = append(all, landfall.ChangedFile{Unit: unit, Path: path, Change: landfall.Removed, Before: was.size})
		}
	}
	slices.SortFunc(all, func(a, b landfall.ChangedFile) int { return cmp.Compare(a.Path, b.Path) })
	return all
}
