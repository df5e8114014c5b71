package builder

import (
	"context"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder/pack"
)

// SameFolder reports whether a folder (empty: all) of two commits has the same files under the same names. It compares
// git's own names of the two, and reads no file. Links that lead out of the folder may still differ in what they name.
func (m *Mirror) SameFolder(ctx context.Context, before, after landfall.CommitSHA, folder string) (bool, error) {
	was, err := m.folderName(ctx, before, folder)
	if err != nil {
		return false, err
	}
	is, err := m.folderName(ctx, after, folder)
	return was == is, err
}

// folderName returns git's name of a folder's content.
func (m *Mirror) folderName(ctx context.Context, commit landfall.CommitSHA, folder string) (at plumbing.Hash,
	err error) {
	const op = landfall.Op("builder.folder")
	name, err := m.peel(op, commit)
	if err != nil {
		return at, err
	}
	c, err := m.commit(name)
	if err != nil {
		return at, m.readError(op, err)
	}
	err = m.use(func(o *pack.Objects) error {
		at = c.TreeHash
		w := &walk{op: op, objects: o, limits: m.limits, root: at, trees: make(map[plumbing.Hash]folderEntries)}
		for part := range strings.SplitSeq(strings.Trim(folder, "/"), "/") {
			if part == "" || part == "." {
				continue
			}
			entries, err := w.entries(ctx, at)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(entries, func(e object.TreeEntry) bool { return e.Name == part && e.Mode == filemode.Dir })
			if i < 0 {
				return landfall.Errorf(op, landfall.NotFound, "the commit has no folder %q", folder)
			}
			at = entries[i].Hash
		}
		return nil
	})
	return at, m.readError(op, err)
}
