// Package packages keeps the packages of functions unpacked on this machine, as the functions' processes see them.
//
// What lies there is a copy. A start takes over what an earlier one unpacked only where nothing of a crash of the
// machine, or of a function that ran without a sandbox, can be taken for a package: see Reopen.
package packages

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/unpack"
)

// Archive is a package as it is stored: a zip of files.
type Archive struct {
	Key    string
	Digest landfall.Digest // of the zip
}

// Opener reads stored archives.
type Opener interface {
	// Open returns the bytes of an object; the caller closes it.
	Open(ctx context.Context, key string) (io.ReadSeekCloser, error)
}

// folderMode is that of folders: processes of another user start in them.
const folderMode fs.FileMode = 0o755

// Limits bound one package. Zero fields take the defaults: what a commit may have.
type Limits struct {
	Files int   // 50,000
	Bytes int64 // of all files, unpacked; 2 GiB
}

// Cache has the unpacked packages. Its methods may be called at the same time.
type Cache struct {
	dir    string
	source Opener
	limits Limits

	mu   sync.Mutex
	made map[string]*folder
}

// keyName is the file that says under which key the packages in a folder were unpacked. Names that begin with "." are
// no packages'.
const keyName = ".key"

// folder is a package that is unpacked, or being unpacked.
type folder struct {
	ready chan struct{} // closed when what follows is known
	err   error
	size  int64     // bytes
	until time.Time // how long it is known that its archive is no package; zero: it is one, or nobody knows
}

// remembered is how long it is known of an archive that it is no package, or damaged: it would be read anew for each
// call, in vain.
const remembered = time.Minute

// New returns a cache in dir, which it empties first.
func New(dir string, source Opener, limits Limits) (*Cache, error) {
	return Reopen(dir, "", source, limits)
}

// Reopen returns a cache in dir, with the packages that an earlier one unpacked there under the same key: so functions
// answer after a start although the disk is full. Whoever has the key says that the files are still as they were
// written: the machine did not stop meanwhile, and nothing could write there. Under another key, and under the empty
// one, the cache begins empty.
func Reopen(dir, key string, source Opener, limits Limits) (*Cache, error) {
	const files, size = 50_000, 2 << 30
	limits = Limits{Files: cmp.Or(limits.Files, files), Bytes: cmp.Or(limits.Bytes, size)}
	c := &Cache{dir: dir, source: source, limits: limits, made: map[string]*folder{}}
	if err := errors.Join(os.MkdirAll(dir, folderMode), c.takeOver(key)); err != nil {
		return nil, landfall.Wrapf("packages.New", landfall.Internal, err, "the folder of unpacked packages cannot be used")
	}
	return c, nil
}

// takeOver knows the packages that were unpacked under the key, and removes all else. Nothing is written that is as it
// should be.
func (c *Cache) takeOver(key string) error {
	keyFile := filepath.Join(c.dir, keyName)
	old, _ := os.ReadFile(filepath.Clean(keyFile)) // without one nothing is taken over
	same := key != "" && string(old) == key
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	known := make(chan struct{})
	close(known)
	for _, entry := range entries {
		switch name := entry.Name(); {
		case same && name == keyName:
		case same && entry.IsDir() && !strings.HasPrefix(name, "."): // it got its name when it was whole
			c.made[name] = &folder{ready: known, size: unmeasured}
		default:
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, name)))
		}
	}
	if err == nil && !same && key != "" && os.WriteFile(keyFile, []byte(key), 0o600) != nil {
		err = os.RemoveAll(keyFile) // the next start begins empty
	}
	return err
}

// unmeasured is the size of a folder that nobody has measured yet.
const unmeasured = -1

// Open returns the folder of an archive, unpacked, with what install adds to it. The name stands for both: whatever has
// the same name is the same. The folder stays until Keep leaves it out. Internal when the archive is not what it should
// be, and Invalid when it has what no package may have: then it is not read again for a minute. The error of the store
// or of install otherwise, and then the next call tries again.
func (c *Cache) Open(ctx context.Context, name string, a Archive,
	install func(ctx context.Context, dir string) error) (string, error) {
	at := filepath.Join(c.dir, name)
	for {
		f, mine := c.claim(name)
		if mine {
			c.settle(name, f, c.make(ctx, at, a, install), sizeOf(at))
			return at, f.err
		}
		select {
		case <-f.ready:
		case <-ctx.Done():
			return "", &landfall.Error{Op: "packages.Open", Kind: landfall.Canceled, Err: context.Cause(ctx)}
		}
		if f.err == nil || landfall.KindOf(f.err) != landfall.Canceled { // who made it went away: it is this one's turn
			return at, f.err
		}
	}
}

// claim returns the folder of a name, and whether it is the caller's to make.
func (c *Cache) claim(name string) (*folder, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.made[name]; ok && !f.over(time.Now()) {
		return f, false
	}
	f := &folder{ready: make(chan struct{})}
	c.made[name] = f
	return f, true
}

// over reports whether nothing is known of a folder any more. The caller holds the cache's lock.
func (f *folder) over(now time.Time) bool { return !f.until.IsZero() && now.After(f.until) }

// settle says what became of a folder.
func (c *Cache) settle(name string, f *folder, err error, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(f.ready)
	f.err = err
	switch {
	case err == nil:
		f.size = size
	case landfall.Is(err, landfall.Invalid) || errors.Is(err, errArchive):
		f.until = time.Now().Add(remembered)
	case c.made[name] == f:
		delete(c.made, name)
	}
}

// errArchive is the cause of an error that the next call would see, too.
var errArchive = errors.New("the archive is not what it should be")

// sizeOf returns how many bytes the files in a folder take, those with several names once.
func sizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error { // what cannot be seen counts nothing
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		names := int64(1)
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			names = max(1, int64(stat.Nlink)) // #nosec G115 -- a file has few names
		}
		bytes += info.Size() / names
		return nil
	})
	return bytes
}

// Sizes returns how many bytes each folder has.
func (c *Cache) Sizes() map[string]int64 {
	sizes := map[string]int64{}
	for name, size := range c.sizes() {
		if size == unmeasured {
			size = sizeOf(filepath.Join(c.dir, name)) // which may take long
			c.mu.Lock()
			if f := c.made[name]; f != nil && f.size == unmeasured {
				f.size = size
			}
			c.mu.Unlock()
		}
		sizes[name] = size
	}
	return sizes
}

func (c *Cache) sizes() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	sizes := make(map[string]int64, len(c.made))
	for name, f := range c.made {
		sizes[name] = f.size
	}
	return sizes
}

// Keep removes every folder that is ready and has none of the names, which it asks for while nobody can open one: what
// was opened before is among them as long as a process may start in it.
func (c *Cache) Keep(names func() map[string]bool) error {
	old, err := c.putAway(names)
	for _, dir := range old { // which may take long
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// putAway moves folders that nobody needs to where nobody finds them, and returns these places.
func (c *Cache) putAway(names func() map[string]bool) (old []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	needed := names()
	for name, f := range c.made {
		select {
		case <-f.ready:
		default:
			continue // it is asked for at this moment
		}
		if f.err != nil { // there is no folder
			if f.over(time.Now()) {
				delete(c.made, name)
			}
			continue
		}
		if needed[name] {
			continue
		}
		dir := filepath.Join(c.dir, ".old-"+rand.Text())
		// A rename needs no space: a full disk is why it is put away.
		if failed := os.Rename(filepath.Join(c.dir, name), dir); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		delete(c.made, name)
		old = append(old, dir)
	}
	return old, err
}

// make unpacks an archive beside its place, and moves it there when it is whole.
func (c *Cache) make(ctx context.Context, at string, a Archive,
	install func(ctx context.Context, dir string) error) error {
	temp, err := os.MkdirTemp(c.dir, ".new-")
	if err != nil {
		return failed("the folder of unpacked packages cannot be written", err)
	}
	defer os.RemoveAll(temp)
	zipped, size, err := c.fetch(ctx, temp, a)
	if err != nil {
		return err
	}
	defer zipped.Close()
	files := filepath.Join(temp, "files")
	if err := os.Mkdir(files, folderMode); err != nil {
		return failed("a package cannot be unpacked", err)
	}
	if err := c.unpack(files, zipped, size); err != nil {
		return err
	}
	if err := install(ctx, files); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(files, folderMode), os.Rename(files, at)); err != nil { // whatever the umask is
		return failed("a package cannot be unpacked", err)
	}
	return nil
}

func failed(message string, err error) error {
	return &landfall.Error{Op: "packages.Open", Kind: landfall.KindOf(err), Message: message, Err: err}
}

// fetch copies the archive to a file, and looks whether it is the one that was stored.
func (c *Cache) fetch(ctx context.Context, temp string, a Archive) (*os.File, int64, error) {
	stored, err := c.source.Open(ctx, a.Key)
	if err != nil {
		return nil, 0, failed("a function's package cannot be read from the object store", err)
	}
	defer stored.Close()
	file, err := os.Create(filepath.Join(temp, "archive.zip"))
	if err != nil {
		return nil, 0, failed("a package cannot be unpacked", err)
	}
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, hash), stored)
	if err == nil && landfall.DigestFromSum(hash.Sum(nil)) != a.Digest {
		err = landfall.Wrapf("packages.Open", landfall.Internal, errArchive,
			"the object %s is not what was stored: it is damaged (landfall fsck)", a.Key)
	}
	if err != nil {
		file.Close()
		return nil, 0, failed(landfall.MessageOf(err), err)
	}
	return file, size, nil
}

// unpack writes the files of an archive into dir. Nothing is written outside it.
func (c *Cache) unpack(dir string, zipped io.ReaderAt, size int64) error {
	err := unpack.Zip(dir, "the package", zipped, size, unpack.Limits(c.limits))
	switch {
	case errors.Is(err, unpack.ErrNoZip):
		return landfall.Wrapf("packages.Open", landfall.Internal, errors.Join(errArchive, err),
			"a function's package is no zip archive")
	case err != nil && landfall.KindOf(err) != landfall.Invalid:
		return failed("a package cannot be unpacked", err)
	}
	return err
}
