package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder/pack"
)

// modulesFile is where a commit says from which repositories its submodules are.
const modulesFile = ".gitmodules"

// These bound the submodules of a commit: how deep they lie in each other, and how many there are in all.
const (
	maxModuleDepth = 3
	maxModules     = 20
	maxModuleFile  = 64 * kib
)

// nesting is where a mirror stands among the submodules of a commit.
type nesting struct {
	depth int
	count *int // of the submodules that were fetched for a commit, in all

	limited bool     // only those from some addresses are fetched, also those in others
	only    []string // the addresses
}

func isModule(f landfall.File) bool { return f.Mode == landfall.Submodule }

// readModules notes the addresses of the commit's submodules, by their paths, when something listed is one. A file that
// cannot be read, or a link in its place, says none.
func (w *walk) readModules(ctx context.Context) error {
	if !slices.ContainsFunc(w.files, isModule) {
		return nil
	}
	var err error
	w.modules, err = w.moduleAddresses(ctx)
	return err
}

// moduleAddresses returns what the commit says of the addresses of submodules, by their paths.
func (w *walk) moduleAddresses(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	e, ok, err := w.entry(ctx, w.root, modulesFile)
	if err != nil || !ok || e.Mode != filemode.Regular && e.Mode != filemode.Executable {
		return all, err
	}
	r, size, err := w.objects.Blob(ctx, e.Hash)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxModuleFile))
	if err = errors.Join(err, r.Close()); err != nil || size > maxModuleFile {
		return all, err
	}
	said := config.NewModules()
	if unreadable := said.Unmarshal(text); unreadable == nil {
		for _, module := range said.Submodules {
			all[module.Path] = module.URL
		}
	}
	return all, nil
}

// LimitModules has Files fetch only submodules from addresses that this commit names, whatever other commits name. The
// author of a fork's commit does not choose who is asked. Kinds: NotFound (no such commit).
func (m *Mirror) LimitModules(ctx context.Context, commit landfall.CommitSHA) error {
	const op = landfall.Op("builder.submodule")
	name, err := m.peel(op, commit)
	if err != nil {
		return err
	}
	c, err := m.commit(name)
	if err != nil {
		return m.readError(op, err)
	}
	var said map[string]string
	err = m.use(func(o *pack.Objects) (err error) {
		w := &walk{op: op, objects: o, limits: m.limits, root: c.TreeHash, trees: make(map[plumbing.Hash]folderEntries)}
		said, err = w.moduleAddresses(ctx)
		return err
	})
	if err != nil {
		return m.readError(op, err)
	}
	m.nesting.limited, m.nesting.only = true, nil
	for _, address := range said {
		if address, err := m.moduleAddress(address); err == nil {
			m.nesting.only = append(m.nesting.only, address)
		}
	}
	return nil
}

// resolveModules puts the files of submodules in the place of their entries, as far as these can be fetched. Else an
// entry stays, with the reason, and harms only those who select it. Only a limit of the commit, and ctx, end it.
func (m *Mirror) resolveModules(ctx context.Context, w *walk) error {
	if !slices.ContainsFunc(w.files, isModule) {
		return nil
	}
	at := m.nesting
	if at.count == nil {
		at.count = new(int)
	}
	var all []landfall.File
	for _, f := range w.files {
		if !isModule(f) {
			all = append(all, f)
			continue
		}
		files, err := m.moduleFiles(ctx, f, w.modules[f.Path], at)
		if ctx.Err() != nil {
			return contextError(w.op, m.remote, ctx.Err())
		}
		if err != nil {
			f.Target = landfall.MessageOf(err)
			files = []landfall.File{f}
		}
		for _, inside := range files {
			w.bytes += inside.Size
		}
		all = append(all, files...)
	}
	if w.files = all; len(all) > w.limits.Files {
		return overLimit(w.op, fmt.Sprintf("the commit has %d files with those of its submodules", len(all)),
			strconv.Itoa(w.limits.Files), "LANDFALL_MAX_FILES")
	}
	if w.bytes > w.limits.CommitBytes {
		return w.tooLarge()
	}
	return nil
}

// moduleFiles fetches a submodule, and returns its files at their paths in the commit. No credential is sent: who may
// push to a repository could name any other as its submodule.
func (m *Mirror) moduleFiles(ctx context.Context, module landfall.File, address string,
	at nesting) ([]landfall.File, error) {
	refuse := func(format string, values ...any) ([]landfall.File, error) {
		return nil, landfall.Errorf("builder.submodule", landfall.Invalid, format, values...)
	}
	if address == "" {
		return refuse("%s does not say from where it is", modulesFile)
	}
	at.depth++
	*at.count++
	switch {
	case at.depth > maxModuleDepth:
		return refuse("it lies more than %d deep in other submodules", maxModuleDepth)
	case *at.count > maxModules:
		return refuse("a commit may have at most %d", maxModules)
	}
	address, err := m.moduleAddress(address)
	if err != nil {
		return nil, err
	}
	if at.limited && !slices.Contains(at.only, address) {
		return refuse("a fork has submodules from the addresses that its base branch names alone, and %s is none of them",
			address)
	}
	inside, err := m.remotes.FetchSince(ctx, Remote{Namespace: m.remote.Namespace, URL: address}, "",
		landfall.CommitSHA(module.Blob), time.Now())
	if err != nil {
		if kind := landfall.KindOf(err); kind == landfall.Unauthorized || kind == landfall.NotFound {
			return refuse("its commit cannot be read by everybody at %s, and the credential of the app is for its own "+
				"repository only", address)
		}
		return nil, err
	}
	inside.nesting = at
	m.mu.Lock()
	m.modules = append(m.modules, inside)
	id := strconv.Itoa(len(m.modules) - 1)
	m.mu.Unlock()
	files, err := inside.Files(ctx, landfall.CommitSHA(module.Blob), "")
	for i := range files {
		files[i].Path, files[i].Module = module.Path+"/"+files[i].Path, path.Join(id, files[i].Module)
	}
	return files, err
}

// moduleAddress returns the address over https for one that .gitmodules says.
func (m *Mirror) moduleAddress(said string) (string, error) {
	base := m.remote.URL
	relative := strings.HasPrefix(said, "./") || strings.HasPrefix(said, "../")
	if relative && m.remote.Local != "" {
		return "", landfall.Errorf("builder.submodule", landfall.Invalid,
			"its address %q is relative, which leads nowhere in the built-in remote", said)
	}
	if !relative {
		base = said
	}
	if IsSSH(base) {
		a, err := parseSSH(base)
		if err != nil {
			return "", err
		}
		base = (&url.URL{Scheme: "https", Host: a.host, Path: "/" + strings.Trim(a.path, "/")}).String()
	}
	if relative {
		u, err := url.Parse(base)
		if err != nil {
			return "", &landfall.Error{Op: "builder.submodule", Kind: landfall.Invalid, Err: err}
		}
		u.Path = path.Join("/", u.Path, said)
		base = u.String()
	}
	return base, m.remotes.dialer().CheckURL(base)
}

// module returns the mirror in which a file of a submodule is, and the file as it is there.
func (m *Mirror) module(file landfall.File) (*Mirror, landfall.File, error) {
	id, rest, _ := strings.Cut(file.Module, "/")
	n, err := strconv.Atoi(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || n < 0 || n >= len(m.modules) {
		return nil, file, landfall.Errorf("builder.read", landfall.Internal, "%s is of a submodule that is not open",
			quote(file.Path))
	}
	file.Module = rest
	return m.modules[n], file, nil
}
