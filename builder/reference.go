package builder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"landfall.dev/landfall"

	"github.com/go-git/go-git/v5/plumbing"
)

// references returns the branches and tags of the repository.
func (m *Mirror) references() (map[landfall.RefName]plumbing.Hash, error) {
	if _, err := os.Stat(m.dir); err != nil {
		return nil, err
	}
	iter, err := m.storage.IterReferences()
	if err != nil {
		return nil, err
	}
	defer iter.Close()
	refs := make(map[landfall.RefName]plumbing.Hash)
	return refs, iter.ForEach(func(ref *plumbing.Reference) error {
		name := landfall.RefName(ref.Name())
		_, branch := name.Branch()
		_, tag := name.Tag()
		if ref.Type() == plumbing.HashReference && (branch || tag) {
			refs[name] = ref.Hash()
		}
		return nil
	})
}

// Branch returns the commit of a branch, as of the last fetch. NotFound when there is no such branch.
func (m *Mirror) Branch(name string) (landfall.CommitSHA, error) {
	const op = landfall.Op("builder.branch")
	refs, err := m.references()
	if err != nil {
		return "", m.readError(op, err)
	}
	hash, ok := refs[landfall.RefName(landfall.BranchPrefix+name)]
	if !ok {
		return "", landfall.Errorf(op, landfall.NotFound, "%s has no branch %s", m.remote.name(), name)
	}
	return landfall.CommitSHA(hash.String()), nil
}

// setReferences sets the mirror's branches and tags to those of the remote. It replaces one file, so no name from
// outside ever becomes a file name, and a branch a/b may follow a branch a. The references that Keep wrote are stored
// beside it.
func (m *Mirror) setReferences(refs map[landfall.RefName]plumbing.Hash) error {
	names := make([]landfall.RefName, 0, len(refs))
	for name, hash := range refs {
		if m.contains(hash) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var text strings.Builder
	text.WriteString("# pack-refs with: sorted\n")
	for _, name := range names {
		fmt.Fprintf(&text, "%s %s\n", refs[name], name)
	}
	path := filepath.Join(m.dir, "packed-refs")
	if now, err := os.ReadFile(path); err == nil && string(now) == text.String() {
		return nil
	}
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text.String())
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// maxHaves is how many names haves returns at most.
const maxHaves = 2048

// These are how far back haves looks from one reference: at first, and when the remote knew none of the names.
const (
	nearAncestors = 4
	farAncestors  = 64
)

// haves returns the names of commits that the mirror has, for the remote to leave out: its references and, where the
// remote's reference moved, some ancestors, because the remote may not know a rewritten branch.
func (m *Mirror) haves(theirs, ours map[landfall.RefName]plumbing.Hash, ancestors int) []plumbing.Hash {
	var haves []plumbing.Hash
	seen := make(map[plumbing.Hash]bool)
	add := func(hash plumbing.Hash) bool {
		if seen[hash] || len(haves) == maxHaves {
			return false
		}
		seen[hash] = true
		haves = append(haves, hash)
		return true
	}
	for name, hash := range ours {
		if theirs[name] != hash && m.contains(hash) {
			m.addAncestors(hash, ancestors, add)
		}
	}
	for name, hash := range ours {
		if theirs[name] == hash && m.contains(hash) {
			add(hash)
		}
	}
	return haves
}

// addAncestors adds the commit and some of its first parents, at distances that double, because the remote reads all
// changed folders for each.
func (m *Mirror) addAncestors(hash plumbing.Hash, ancestors int, add func(plumbing.Hash) bool) {
	next := 0
	for distance := range ancestors {
		if distance == next {
			if !add(hash) {
				return
			}
			next = 2*next + 1
		}
		commit, err := m.commit(hash)
		if err != nil || len(commit.ParentHashes) == 0 {
			return
		}
		hash = commit.ParentHashes[0]
	}
}

// contains reports whether the mirror has the object, among those it had when the packs were last opened.
func (m *Mirror) contains(hash plumbing.Hash) bool {
	o, err := m.current(nil)
	return err == nil && o.Has(hash)
}

// refresh opens the packs again, because one was added.
func (m *Mirror) refresh() error {
	m.mu.Lock()
	stale := m.objects
	m.mu.Unlock()
	_, err := m.current(stale)
	return err
}
