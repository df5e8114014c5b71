package builder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder/pack"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	maxDepth  = 256     // depth of folders
	countable = 1 << 60 // files: a tree made by hand can list more files than a number can count
)

// Files returns the commit's files below folder (empty: all), sorted by path, with paths from the repository's root. A
// symbolic link to a file of the repository is listed as that file, a pointer of Git LFS as what it stands for, and a
// submodule as its files, which are fetched. Another link, or a submodule that cannot be fetched, is listed with its
// mode, so it harms only those who select it; Check says why it cannot be used. Kinds: NotFound (no such commit or
// folder), Invalid (a limit, a name that cannot be a file's).
func (m *Mirror) Files(ctx context.Context, commit landfall.CommitSHA, folder string) ([]landfall.File, error) {
	const op = landfall.Op("builder.files")
	name, err := m.peel(op, commit)
	if err != nil {
		return nil, err
	}
	c, err := m.commit(name)
	if err != nil {
		return nil, m.readError(op, err)
	}
	var w *walk
	before := m.listed.Load()
	if before == nil || before.dir != m.dir {
		before = &listing{}
	}
	err = m.use(func(o *pack.Objects) error {
		w = &walk{op: op, objects: o, limits: m.limits, root: c.TreeHash, trees: make(map[plumbing.Hash]folderEntries),
			before: before.sizes}
		w.sizes = make(map[plumbing.Hash]int64, len(before.sizes))
		if err := w.list(ctx, folder); err != nil {
			return err
		}
		return errors.Join(w.resolvePointers(ctx), w.readModules(ctx))
	})
	if err != nil {
		return nil, m.readError(op, err)
	}
	if err := m.resolveModules(ctx, w); err != nil {
		return nil, err
	}
	m.listed.Store(&listing{dir: m.dir, sizes: w.sizes})
	slices.SortFunc(w.files, func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) })
	return w.files, nil
}

// listing remembers the commit that was listed last, for the next one, which nearly always has most of its files.
type listing struct {
	dir   string                  // of the mirror: it must stay secret which files another mirror has
	sizes map[plumbing.Hash]int64 // by blob name, which stands for the bytes, so the size never changes
}

// walk lists one tree.
type walk struct {
	op      landfall.Op
	objects *pack.Objects
	limits  Limits
	root    plumbing.Hash
	trees   map[plumbing.Hash]folderEntries // trees that were read, for links
	before  map[plumbing.Hash]int64         // known sizes

	files      []landfall.File
	modules    map[string]string       // addresses of submodules, by path
	attributes []plumbing.Hash         // of the files .gitattributes that apply
	sizes      map[plumbing.Hash]int64 // of files
	bytes      int64
}

// folderEntries is the content of one folder.
type folderEntries map[string]object.TreeEntry

func (w *walk) invalid(format string, values ...any) error {
	return &landfall.Error{Op: w.op, Kind: landfall.Invalid, Message: fmt.Sprintf(format, values...)}
}

func (w *walk) list(ctx context.Context, folder string) error {
	at := w.root
	folder = strings.Trim(folder, "/")
	if folder != "" && folder != "." {
		for part := range strings.SplitSeq(folder, "/") {
			entries, err := w.entries(ctx, at)
			if err != nil {
				return err
			}
			w.noteAttributes(entries)
			i := slices.IndexFunc(entries, func(e object.TreeEntry) bool { return e.Name == part && e.Mode == filemode.Dir })
			if i < 0 {
				return landfall.Errorf(w.op, landfall.NotFound, "the commit has no folder %q", folder)
			}
			at = entries[i].Hash
		}
	} else {
		folder = ""
	}
	err := w.folder(ctx, at, folder, 0)
	if errors.Is(err, errTooMany) {
		return w.tooMany(ctx, at)
	}
	if err == nil && w.bytes > w.limits.CommitBytes {
		err = w.tooLarge()
	}
	return err
}

// tooLarge is the error for a commit whose files have too many bytes.
func (w *walk) tooLarge() error {
	return overLimit(w.op, fmt.Sprintf("the commit's files have %d bytes", w.bytes), bytes(w.limits.CommitBytes),
		"LANDFALL_MAX_COMMIT_BYTES")
}

// noteAttributes notes the attributes that a folder sets.
func (w *walk) noteAttributes(folder []object.TreeEntry) {
	for _, e := range folder {
		if e.Name == attributesFile && modeOf(e.Mode) == landfall.Regular && e.Mode != filemode.Dir {
			w.attributes = append(w.attributes, e.Hash)
		}
	}
}

// errTooMany ends a walk over the limit of files.
var errTooMany = errors.New("too many files")

// tooMany is the error for a tree with too many files: it counts them.
func (w *walk) tooMany(ctx context.Context, tree plumbing.Hash) error {
	n, err := w.count(ctx, tree, make(map[plumbing.Hash]int64), 0)
	if err != nil {
		return err
	}
	return overLimit(w.op, fmt.Sprintf("the commit has %d files", n), strconv.Itoa(w.limits.Files), "LANDFALL_MAX_FILES")
}

// count returns how many files are below a tree, up to countable. It reads each tree once, however often it occurs.
func (w *walk) count(ctx context.Context, tree plumbing.Hash, known map[plumbing.Hash]int64, depth int) (int64, error) {
	if n, ok := known[tree]; ok || depth > maxDepth {
		return n, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	entries, err := w.entries(ctx, tree)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, e := range entries {
		below := int64(1)
		if e.Mode == filemode.Dir {
			if below, err = w.count(ctx, e.Hash, known, depth+1); err != nil {
				return 0, err
			}
		}
		n = min(n+below, countable)
	}
	known[tree] = n
	return n, nil
}

// folder lists the tree that lies at the path.
func (w *walk) folder(ctx context.Context, tree plumbing.Hash, at string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth {
		return w.invalid("the folders of %q lie more than %d deep", at, maxDepth)
	}
	entries, err := w.entries(ctx, tree)
	if err != nil {
		return err
	}
	w.noteAttributes(entries)
	for i, e := range entries {
		if why := badName(e.Name); why != "" {
			return w.invalid("%q in the folder %q cannot be the name of a file: it %s", e.Name, at, why)
		}
		if i > 0 && entries[i-1].Name == e.Name {
			return w.invalid("the folder %q has two entries %q", at, e.Name)
		}
		full := e.Name
		if at != "" {
			full = at + "/" + e.Name
		}
		if e.Mode == filemode.Dir {
			err = w.folder(ctx, e.Hash, full, depth+1)
		} else {
			err = w.file(ctx, full, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// badName says why a name cannot be that of a file; "" when it can. Such names are made on purpose, because git refuses
// to add them.
func badName(name string) string {
	switch {
	case name == "." || name == "..":
		return "leads to another folder"
	case strings.Contains(name, "/"):
		return "has a slash in it"
	case strings.EqualFold(name, ".git"):
		return "is git's own"
	}
	return ""
}

// file adds one file.
func (w *walk) file(ctx context.Context, full string, e object.TreeEntry) error {
	f := landfall.File{Path: full, Mode: modeOf(e.Mode), Blob: e.Hash.String()}
	if f.Mode == landfall.Symlink {
		target, err := w.follow(ctx, full, e)
		_, unusable := errors.AsType[*linkError](err)
		switch {
		case err == nil:
			e, f.Mode, f.Blob = target, modeOf(target.Mode), target.Hash.String()
		case !unusable:
			return err
		}
	}
	if f.Mode == landfall.Regular || f.Mode == landfall.Executable {
		size, known := w.before[e.Hash]
		if !known {
			var err error
			if size, err = w.objects.Size(e.Hash); err != nil {
				return err
			}
		}
		f.Size, w.sizes[e.Hash] = size, size
	}
	w.bytes += f.Size
	w.files = append(w.files, f)
	switch {
	case len(w.files) > w.limits.Files:
		return errTooMany
	case f.Size > w.limits.FileBytes:
		return overLimit(w.op, fmt.Sprintf("%q has %d bytes", full, f.Size), bytes(w.limits.FileBytes),
			"LANDFALL_MAX_FILE_BYTES")
	}
	return nil
}

func modeOf(mode filemode.FileMode) landfall.FileMode {
	switch mode {
	case filemode.Executable:
		return landfall.Executable
	case filemode.Symlink:
		return landfall.Symlink
	case filemode.Submodule:
		return landfall.Submodule
	case filemode.Empty, filemode.Dir, filemode.Regular, filemode.Deprecated:
	}
	return landfall.Regular
}

// entries reads one tree, sorted by name.
func (w *walk) entries(ctx context.Context, tree plumbing.Hash) ([]object.TreeEntry, error) {
	data, err := w.objects.Read(ctx, plumbing.TreeObject, tree)
	if err != nil {
		return nil, err
	}
	var t object.Tree
	if err := t.Decode(memory(plumbing.TreeObject, data)); err != nil {
		return nil, fmt.Errorf("%w: %w", pack.ErrCorrupt, err)
	}
	slices.SortFunc(t.Entries, func(a, b object.TreeEntry) int { return strings.Compare(a.Name, b.Name) })
	return t.Entries, nil
}

// entry returns the entry of that name.
func (w *walk) entry(ctx context.Context, tree plumbing.Hash, name string) (object.TreeEntry, bool, error) {
	names, ok := w.trees[tree]
	if !ok {
		entries, err := w.entries(ctx, tree)
		if err != nil {
			return object.TreeEntry{}, false, err
		}
		names = make(folderEntries, len(entries))
		for _, e := range entries {
			names[e.Name] = e
		}
		w.trees[tree] = names
	}
	e, ok := names[name]
	return e, ok, nil
}
