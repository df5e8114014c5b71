package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Builds is the folder of stored build outputs: a folder for each build, in a folder of its app.
type Builds struct {
	Folder string
	Bytes  int64 // limit of all outputs while no run uses them; those that were not used for longest are removed first

	mu    sync.Mutex
	users map[string]int   // number of runs that use a build's folder, which is not removed meanwhile
	drops map[string]bool  // apps whose outputs are removed when no run uses them any more
	sizes map[string]int64 // of builds' folders, which do not change
}

// fileOverhead is what a file costs in addition to its bytes.
const fileOverhead = 4 << 10

// storedBuild is the record of a build's output.
type storedBuild struct {
	Folder string          `json:"folder"`
	Files  []landfall.File `json:"files"`
}

// hold keeps a build's folder until release, and returns its path.
func (b *Builds) hold(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users == nil {
		b.users = map[string]int{}
	}
	b.users[name]++
	return filepath.Join(b.Folder, filepath.FromSlash(name))
}

// release undoes hold, and notes that the folders were used just now.
func (b *Builds) release(names []string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		_ = os.Chtimes(filepath.Join(b.Folder, filepath.FromSlash(name)), now, now) // it may be gone, or was never made
		b.unuse(name)
	}
}

// unuse counts one user of a folder less, and removes what waited for that. b.mu is locked.
func (b *Builds) unuse(name string) {
	b.users[name]--
	if b.users[name] == 0 {
		delete(b.users, name)
	}
	if app := path.Dir(name); b.drops[app] {
		_ = b.drop(app) // the next sweep tries again
	}
}

// trim removes outputs beyond the limit. Before that it calls forget with each name.
func (b *Builds) trim(forget func(name string) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	folder := os.DirFS(b.Folder)
	names, err := fs.Glob(folder, "*/*")
	if err != nil {
		return err
	}
	type build struct {
		name string
		used time.Time
	}
	var builds []build
	var total int64
	sizes := map[string]int64{}
	for _, name := range names {
		info, err := fs.Stat(folder, name)
		if err != nil {
			return err
		}
		size, known := b.sizes[name]
		if !known {
			if size, err = sizeOf(folder, name); err != nil {
				return err
			}
		}
		if b.users[name] == 0 { // otherwise it is still being made
			sizes[name] = size
			builds = append(builds, build{name, info.ModTime()})
		}
		total += size
	}
	b.sizes = sizes
	slices.SortFunc(builds, func(a, b build) int { return a.used.Compare(b.used) })
	for _, oldest := range builds {
		if total <= b.Bytes {
			break
		}
		err := errors.Join(forget(oldest.name), os.RemoveAll(filepath.Join(b.Folder, filepath.FromSlash(oldest.name))))
		if err != nil {
			return err
		}
		total -= sizes[oldest.name]
		delete(sizes, oldest.name)
	}
	return nil
}

// Drop removes the build outputs of an app that was deleted: now or, while runs use some of them, when the last of
// these is over.
func (b *Builds) Drop(app string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drop(app)
}

// drop is Drop. b.mu is locked.
func (b *Builds) drop(app string) error {
	for name := range b.users {
		if path.Dir(name) == app {
			if b.drops == nil {
				b.drops = map[string]bool{}
			}
			b.drops[app] = true
			return nil
		}
	}
	delete(b.drops, app)
	return os.RemoveAll(filepath.Join(b.Folder, app))
}

// Check returns the names of the files of a stored build that have changed since. A missing file is no damage: it is
// built again when it is needed.
func (b *Builds) Check(record store.Build) ([]string, error) {
	var kept storedBuild
	if err := json.Unmarshal(record.Output, &kept); err != nil {
		return nil, landfall.Wrapf("pipeline.Check", landfall.Internal, err, "the record of a build cannot be read")
	}
	folder := b.hold(kept.Folder)
	defer b.releaseOne(kept.Folder)
	var damaged []string
	for _, f := range kept.Files {
		at := filepath.Join(folder, filepath.FromSlash(f.Path))
		if _, err := os.Lstat(at); err == nil && !isStored(f, at, true) {
			damaged = append(damaged, at)
		}
	}
	return damaged, nil
}

// releaseOne undoes hold for one folder.
func (b *Builds) releaseOne(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unuse(name)
}

// sizeOf returns the size of the files below a folder.
func sizeOf(folder fs.FS, name string) (size int64, err error) {
	err = fs.WalkDir(folder, name, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size() + fileOverhead
		}
		return err
	})
	return size, err
}

// holdBuild keeps a build's folder until the worker is done, and returns its path.
func (a *attempt) holdBuild(name string) string {
	a.buildFolders = append(a.buildFolders, name)
	return a.Builds.hold(name)
}

// releaseBuilds releases the folders of builds, and removes those beyond the limit. When the run was broken off, the
// next run removes them.
func (a *attempt) releaseBuilds(ctx context.Context) {
	if len(a.buildFolders) == 0 {
		return
	}
	a.Builds.release(a.buildFolders, a.Now())
	if ctx.Err() != nil {
		return
	}
	err := a.Builds.trim(func(name string) error { return a.forgetFolder(ctx, name) })
	if err != nil {
		a.logger.WarnContext(ctx, "what builds made could not be removed", "error", err)
	}
}

// forgetFolder deletes the record of a build whose folder is removed. The record of another build with the same input
// stays.
func (a *attempt) forgetFolder(ctx context.Context, name string) error {
	app, folder := path.Split(name)
	hex, _, _ := strings.Cut(folder, "-")
	app, input := path.Clean(app), landfall.Digest("sha256:"+hex)
	return a.DB.Update(ctx, func(tx *store.Tx) error {
		data, err := tx.Build(ctx, app, input)
		if err != nil {
			return landfall.Ignore(err, landfall.NotFound)
		}
		var kept storedBuild
		if err := json.Unmarshal(data, &kept); err == nil && kept.Folder != name {
			return nil
		}
		return tx.DeleteBuild(ctx, app, input)
	})
}
