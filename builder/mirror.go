package builder

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder/pack"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Mirrors keeps a bare mirror of every repository that is fetched. Its fields are set before the first call; its
// methods are safe for concurrent use. A Root belongs to one process.
type Mirrors struct {
	Root   string  // folder of the mirrors; made when needed
	Limits Limits  //
	Dialer *Dialer // nil: no host is an exception

	once      sync.Once
	transport http.RoundTripper
	listed    atomic.Pointer[listing] // the last listing

	mu    sync.Mutex
	locks map[string]*lock // by folder
}

// lock guards one mirror.
type lock struct {
	change chan struct{} // holds one token: its owner may change the mirror
	packs  sync.RWMutex  // for writing: packs are being removed; for reading: they are being opened
	asked  asked         // for the owner of the token
}

// asked is the last time when a repository said where its references are, and all that is new was fetched.
type asked struct {
	remote Remote
	at     time.Time // when it was asked
}

// acquire waits for the right to change the mirror, or returns ctx's error.
func (l *lock) acquire(ctx context.Context) (release func(), err error) {
	select {
	case l.change <- struct{}{}:
		return func() { <-l.change }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// remove runs f, which removes packs, while nobody opens any.
func (l *lock) remove(f func() error) error {
	l.packs.Lock()
	defer l.packs.Unlock()
	return f()
}

// dir returns the folder of r's mirror.
func (m *Mirrors) dir(r Remote) string {
	if r.Local != "" {
		return filepath.Clean(r.Local)
	}
	return filepath.Join(m.Root, r.folder())
}

func (m *Mirrors) lock(dir string) *lock {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks == nil {
		m.locks = make(map[string]*lock)
	}
	l, ok := m.locks[dir]
	if !ok {
		l = &lock{change: make(chan struct{}, 1)}
		m.locks[dir] = l
	}
	return l
}

func (m *Mirrors) dialer() *Dialer {
	if m.Dialer == nil {
		return &Dialer{}
	}
	return m.Dialer
}

// Exclusive runs change, which may remove packs of r's mirror (git repack -d in a repository of the built-in remote),
// while nothing fetches into it and nobody opens its packs. Open readers go on.
func (m *Mirrors) Exclusive(ctx context.Context, r Remote, change func() error) error {
	l := m.lock(m.dir(r))
	release, err := l.acquire(ctx)
	if err != nil {
		return &landfall.Error{Op: "builder.exclusive", Kind: landfall.Canceled, Err: err}
	}
	defer release()
	return l.remove(change)
}

// Sweep deletes the mirrors of repositories that nobody needs any more; wanted returns those that are needed. It calls
// wanted again before each deletion, while nothing can be fetched into the mirror, so a repository that is needed by
// then keeps it.
func (m *Mirrors) Sweep(ctx context.Context, wanted func(context.Context) ([]Remote, error)) error {
	const op = landfall.Op("builder.sweep")
	entries, err := os.ReadDir(m.Root)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return &landfall.Error{Op: op, Err: err}
	}
	folders := func() (map[string]bool, error) {
		remotes, err := wanted(ctx)
		all := make(map[string]bool, len(remotes))
		for _, r := range remotes {
			all[r.folder()] = true
		}
		return all, err
	}
	keep, err := folders()
	if err != nil {
		return err
	}
	for _, e := range entries {
		folder := strings.TrimSuffix(e.Name(), newSuffix)
		if keep[folder] {
			continue
		}
		l := m.lock(filepath.Join(m.Root, folder))
		release, err := l.acquire(ctx)
		if err != nil {
			return &landfall.Error{Op: op, Kind: landfall.Canceled, Err: err}
		}
		keep, err = folders()
		if err == nil && !keep[folder] {
			err = l.remove(func() error { return os.RemoveAll(filepath.Join(m.Root, e.Name())) })
		}
		release()
		if err != nil {
			return err
		}
	}
	return nil
}

// newSuffix is the end of the name of a mirror's folder while the mirror is being made.
const newSuffix = ".new"

// Mirror reads one repository. It sees at least what was there when it was opened. Its methods are safe for concurrent
// use. Close it when the run is over.
type Mirror struct {
	remotes *Mirrors // from which bytes that are no git objects are fetched
	remote  Remote
	dir     string
	limits  Limits
	lock    *lock
	listed  *atomic.Pointer[listing]
	storage *filesystem.Storage // for references only

	mu      sync.Mutex
	nesting nesting
	modules []*Mirror       // submodules whose files were listed
	objects *pack.Objects   // nil until used
	old     []*pack.Objects // replaced, but readers may still use them
}

func (m *Mirrors) open(r Remote) *Mirror {
	dir := m.dir(r)
	return &Mirror{
		remotes: m, remote: r, dir: dir, limits: m.Limits.WithDefaults(), lock: m.lock(dir), listed: &m.listed,
		storage: filesystem.NewStorage(publicFolder{osfs.New(dir, osfs.WithBoundOS())}, cache.NewObjectLRU(0)),
	}
}

// publicFolder is the folder of a repository without the references that Keep wrote. There is one for each release that
// ever was, and go-git would read them all to list branches and tags.
type publicFolder struct{ billy.Filesystem }

// ReadDir implements billy.Dir.
func (p publicFolder) ReadDir(path string) ([]fs.FileInfo, error) {
	entries, err := p.Filesystem.ReadDir(path)
	if path == "refs" {
		entries = slices.DeleteFunc(entries, func(e fs.FileInfo) bool { return e.Name() == "landfall" })
	}
	return entries, err
}

// prepare makes the mirror ready for a fetch. It makes it when there is none, removes what a killed process left, and
// replaces it when it is broken, because everything in it can be fetched again.
func (m *Mirror) prepare() error {
	if err := errors.Join(m.initialize(), pack.Sweep(m.dir)); err != nil {
		return err
	}
	_, err := m.current(nil)
	if !errors.Is(err, pack.ErrCorrupt) {
		return err
	}
	if err := m.lock.remove(func() error { return os.RemoveAll(m.dir) }); err != nil {
		return err
	}
	return m.initialize()
}

// initialize makes an empty mirror unless there is one.
func (m *Mirror) initialize() error {
	if _, err := os.Stat(filepath.Join(m.dir, "HEAD")); err == nil {
		return nil
	}
	if err := os.RemoveAll(m.dir); err != nil { // a killed process left it half made
		return err
	}
	made := m.dir + newSuffix
	if err := errors.Join(os.RemoveAll(made), os.MkdirAll(filepath.Dir(made), 0o700)); err != nil {
		return err
	}
	storage := filesystem.NewStorage(osfs.New(made, osfs.WithBoundOS()), cache.NewObjectLRU(0))
	if _, err := git.Init(storage, nil); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(made, "objects", "pack"), 0o700); err != nil {
		return err
	}
	return os.Rename(made, m.dir)
}

// use runs f on the repository's objects. When an object is missing, it opens the packs again and runs f once more,
// because the object may have been packed, or have arrived, since.
func (m *Mirror) use(f func(*pack.Objects) error) error {
	o, err := m.current(nil)
	if err != nil {
		return err
	}
	if err = f(o); !errors.Is(err, pack.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if o, err = m.current(o); err != nil {
		return err
	}
	return f(o)
}

// current returns the open objects; when those are stale, it opens new ones.
func (m *Mirror) current(stale *pack.Objects) (*pack.Objects, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects != stale {
		return m.objects, nil
	}
	m.lock.packs.RLock()
	defer m.lock.packs.RUnlock()
	o, err := pack.Open(m.dir, m.limits.maxObject())
	if err != nil {
		return nil, err
	}
	if stale != nil {
		m.old = append(m.old, stale)
	}
	m.objects = o
	return o, nil
}

// Close closes the repository. Open readers fail.
func (m *Mirror) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, o := range append(m.old, m.objects) {
		if o != nil {
			errs = append(errs, o.Close())
		}
	}
	for _, module := range m.modules {
		errs = append(errs, module.Close())
	}
	m.objects, m.old, m.modules = nil, nil, nil
	return errors.Join(errs...)
}

// Keep keeps the commit in the repository as long as the group version uid exists, whatever happens to its branch. It
// may be repeated. Kinds: NotFound when the commit does not exist.
func (m *Mirror) Keep(uid landfall.UID, commit landfall.CommitSHA) error {
	const op = landfall.Op("builder.keep")
	if !landfall.IsUID(string(uid)) {
		return &landfall.Error{Op: op, Kind: landfall.Invalid, Message: "not a UID: " + string(uid)}
	}
	name, err := m.peel(op, commit)
	if err != nil {
		return err
	}
	return m.readError(op, m.writeReference(landfall.KeepPrefix+string(uid), name))
}

// writeReference points a reference at an object in one step. A half-written file, on a full disk, would make every
// later use of the repository fail.
func (m *Mirror) writeReference(ref string, hash plumbing.Hash) (err error) {
	path := filepath.Join(m.dir, filepath.FromSlash(ref))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(m.dir, "tmp_ref_")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(hash.String() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Release undoes Keep. It succeeds when there is nothing to undo.
func (m *Mirror) Release(uid landfall.UID) error {
	const op = landfall.Op("builder.release")
	if !landfall.IsUID(string(uid)) {
		return &landfall.Error{Op: op, Kind: landfall.Invalid, Message: "not a UID: " + string(uid)}
	}
	return m.readError(op, m.storage.RemoveReference(plumbing.ReferenceName(landfall.KeepPrefix+string(uid))))
}
