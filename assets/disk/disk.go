// Package disk keeps objects as files: one file per key below a folder, under the key's own name.
package disk

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

// These names belong to the store itself, because no key begins with ".".
const (
	partsName = ".parts" // the folder of objects that are being written
	lockName  = ".lock"
	markName  = ".installation"
)

// Objects and their folders can be read by this user only, and objects are never changed.
const (
	fileMode   = 0o400
	folderMode = 0o700
)

// Store is a folder of objects. It implements assets.Store. A hard link makes an object's file appear as a whole, so a
// process that is killed leaves nothing half written. Nothing is flushed to the disk before Sync.
//
// While the folder is gone, or another folder is at its path, every method returns Unavailable. A folder that is put
// back, or a copy of it with the same mark, is used again.
type Store struct {
	path    string // its path
	created bool   // Open made the folder
	mu      sync.Mutex
	opened  atomic.Pointer[folder] // written under mu
	buffers sync.Pool              // of *[bufferSize]byte
}

// folder is the open folder of a store.
type folder struct {
	root  *os.Root
	dir   *os.File // the same, for openat2; nil when the kernel or the container does not allow openat2
	parts *os.File // the folder partsName
	lock  *os.File // held shared while the store is open; syncfs uses it, too
	mark  string   // empty: none yet
	id    fileID   // of parts
}

// fileID tells a file from any other on the machine.
type fileID struct{ device, inode uint64 }

var _ assets.Store = (*Store)(nil)

// Open returns the store in the given folder, and makes the folder if it does not exist. Several processes can have it
// open. It removes what killed writers left, unless another process has the store open and may be writing. The caller
// closes the store.
func Open(at string) (*Store, error) {
	const op = "disk.open"
	_, err := os.Stat(at)
	s := &Store{path: at, created: errors.Is(err, fs.ErrNotExist)}
	if err := os.MkdirAll(at, folderMode); err != nil {
		return nil, failure(op, "", err)
	}
	opened, err := openFolder(at, "")
	if err != nil {
		return nil, failure(op, "", err)
	}
	s.opened.Store(opened)
	return s, nil
}

// openFolder opens the folder at a path. When mark is given, it opens only a folder with that mark, and leaves
// everything else as it is.
func openFolder(at, mark string) (_ *folder, err error) {
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	f := &folder{root: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.mark, err = readMark(root.FS()); err != nil {
		return nil, err
	}
	if mark != "" && f.mark != mark {
		return nil, fmt.Errorf("%s has the mark %q", at, f.mark)
	}
	if f.lock, err = root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	fd := int(f.lock.Fd())
	switch err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		if err := removeParts(root); err != nil {
			return nil, err
		}
	case !errors.Is(err, unix.EWOULDBLOCK):
		return nil, err
	}
	if err := root.MkdirAll(partsName, folderMode); err != nil {
		return nil, err
	}
	if err := unix.Flock(fd, unix.LOCK_SH); err != nil {
		return nil, err
	}
	if f.parts, err = root.Open(partsName); err != nil { // from now on nobody removes it
		return nil, err
	}
	var parts unix.Stat_t
	if err := unix.Fstat(int(f.parts.Fd()), &parts); err != nil {
		return nil, err
	}
	f.id = fileID{device: parts.Dev, inode: parts.Ino}
	err = f.openDir()
	return f, err
}

// isAt reports whether the folder is at a path now.
func (f *folder) isAt(at string) bool {
	var parts unix.Stat_t
	err := unix.Stat(filepath.Join(at, partsName), &parts)
	return err == nil && f.id == fileID{device: parts.Dev, inode: parts.Ino}
}

// readMark returns the mark of a folder; empty when it has none.
func readMark(folder fs.FS) (string, error) {
	data, err := fs.ReadFile(folder, markName)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return strings.TrimSpace(string(data)), err
}

// find returns the folder, after a check that it is still the one at its path.
func (s *Store) find() (*folder, error) {
	if opened := s.opened.Load(); opened.isAt(s.path) {
		return opened, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findAgain()
}

// findAgain opens the folder at the path now, if it has the mark of the earlier one. The caller holds mu.
func (s *Store) findAgain() (*folder, error) {
	opened := s.opened.Load()
	if opened.isAt(s.path) {
		return opened, nil
	}
	if opened.mark == "" {
		return nil, folderGone(fs.ErrNotExist)
	}
	fresh, err := openFolder(s.path, opened.mark)
	if err != nil {
		return nil, folderGone(err)
	}
	s.opened.Store(fresh) // open files of the other folder stay open until nobody uses them
	return fresh, nil
}

// folderGone is the error while the folder is not at its path.
func folderGone(cause error) error {
	return landfall.Wrapf("disk.find", landfall.Unavailable, errors.Join(cause, fs.ErrNotExist),
		"the folder of the object store is gone, or another one is in its place; it is used again when it is back")
}

// removeParts removes what killed writers left. The folder itself stays, because a full disk may have no room for a new
// one.
func removeParts(root *os.Root) error {
	parts, err := fs.ReadDir(root.FS(), partsName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, part := range parts {
		err = errors.Join(err, root.RemoveAll(path.Join(partsName, part.Name())))
	}
	return err
}

// openDir opens the folder for openat2, if openat2 is available.
func (f *folder) openDir() (err error) {
	if f.dir, err = f.root.Open("."); err != nil {
		return err
	}
	found, err := f.openFile(partsName)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		err, f.dir = f.dir.Close(), nil
		return err
	}
	return errors.Join(err, found.Close())
}

// Close closes the folder. It removes a folder that Open made if nothing was put into it. Open objects can still be
// read.
func (s *Store) Close() error {
	f := s.opened.Load()
	if s.created && unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		f.removeEmpty(s.path)
	}
	return f.close()
}

// removeEmpty removes a folder that has only what openFolder puts into it.
func (f *folder) removeEmpty(at string) {
	files, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil || !f.isAt(at) || slices.ContainsFunc(files, func(e fs.DirEntry) bool {
		return e.Name() != partsName && e.Name() != lockName
	}) {
		return
	}
	_ = f.root.Remove(partsName)
	_ = f.root.Remove(lockName)
	_ = os.Remove(at) // removes only an empty folder
}

func (f *folder) close() error {
	err := f.root.Close()
	for _, file := range []*os.File{f.dir, f.parts, f.lock} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// openFile opens the file with a name. No link can lead it out of the store. Where the kernel allows, one system call
// walks the whole path; Root makes two for each folder.
func (f *folder) openFile(name string) (*os.File, error) {
	if f.dir == nil {
		return f.root.Open(name)
	}
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	return newFile(name, func() (int, error) { return unix.Openat2(int(f.dir.Fd()), name, &how) })
}

// newPart makes the file of an object that is being written.
func (f *folder) newPart(name string) (*os.File, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC
	return newFile(name, func() (int, error) { return unix.Openat(int(f.parts.Fd()), name, flags, fileMode) })
}

// newFile returns the file that a system call opens. Signals may interrupt the call on network file systems.
func newFile(name string, open func() (int, error)) (*os.File, error) {
	fd, err := open()
	for errors.Is(err, unix.EINTR) {
		fd, err = open()
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Create implements assets.Creator.
func (s *Store) Create(ctx context.Context, key string, r io.Reader, size int64) (landfall.Digest, error) {
	const op = "disk.create"
	if err := assets.CheckKey(key); err != nil {
		return "", err
	}
	f, err := s.find()
	if err != nil {
		return "", failure(op, key, err)
	}
	part := rand.Text()
	file, err := f.newPart(part)
	if err != nil {
		return "", failure(op, key, err)
	}
	digest, err := s.fill(ctx, file, r, size)
	if err = errors.Join(err, file.Close()); err == nil {
		err = f.link(part, key)
		if errors.Is(err, unix.ENOTDIR) { // an object is where a folder should be
			err = fs.ErrExist
		}
		if err == nil && !f.isAt(s.path) {
			err = folderGone(nil) // the object that was just stored is gone, too
		}
	}
	removed := unix.Unlinkat(int(f.parts.Fd()), part, 0) // if it stays, the next start removes it
	if err != nil {
		return "", failure(op, key, errors.Join(err, removed))
	}
	return digest, nil
}

// opRead is the operation of an error that comes from the reader and not from us.
const opRead landfall.Op = "disk.read"

// bufferSize is how much of an object is in memory while it is written.
const bufferSize = 128 << 10

// fill copies the bytes of r, exactly size, into file and returns their digest.
func (s *Store) fill(ctx context.Context, file *os.File, r io.Reader, size int64) (landfall.Digest, error) {
	buffer, ok := s.buffers.Get().(*[bufferSize]byte)
	if !ok {
		buffer = new([bufferSize]byte)
	}
	defer s.buffers.Put(buffer)
	hash := sha256.New()
	var written int64
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := 0, error(nil)
		for n < len(buffer) && err == nil {
			var more int
			more, err = r.Read(buffer[n:])
			n += more
		}
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return "", &landfall.Error{Op: opRead, Kind: landfall.KindOf(err), Err: err}
		}
		written += int64(n)
		if written > size || (end && written < size) {
			return "", fmt.Errorf("the reader gave %d bytes or more, and %d were announced", written, size)
		}
		hash.Write(buffer[:n])
		if _, err := file.Write(buffer[:n]); err != nil {
			return "", err
		}
		if end {
			return landfall.DigestFromSum(hash.Sum(nil)), nil
		}
	}
}

// link gives a finished part the name key, unless an object has that name.
func (f *folder) link(part, key string) error {
	const attempts = 100 // each failed because a Delete removed the empty folder again
	var err error
	for range attempts {
		err = f.inFolder(path.Dir(key), func(folder int) error {
			return unix.Linkat(int(f.parts.Fd()), part, folder, path.Base(key), 0)
		})
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made := f.root.MkdirAll(path.Dir(key), folderMode)
		lost := errors.Is(made, fs.ErrNotExist) || errors.Is(made, fs.ErrExist) || errors.Is(made, unix.ENOTDIR)
		if made != nil && !lost {
			return made
		}
	}
	return &landfall.Error{Op: "disk.link", Err: err}
}

// inFolder calls do with an open folder below f.
func (f *folder) inFolder(name string, do func(fd int) error) error {
	below, err := f.openFile(name)
	if err != nil {
		return err
	}
	defer below.Close()
	return do(int(below.Fd()))
}

// object is a file with its size. It can be sent without a copy in our memory.
type object struct {
	*os.File
	size int64
}

// Size implements assets.Object.
func (o object) Size() int64 { return o.size }

// Open implements assets.Opener.
func (s *Store) Open(ctx context.Context, key string) (assets.Object, error) {
	const op = "disk.get"
	if err := assets.CheckKey(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, failure(op, key, err)
	}
	f, err := s.find()
	if err != nil {
		return nil, failure(op, key, err)
	}
	file, err := f.openFile(key)
	if err != nil {
		return nil, failure(op, key, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, failure(op, key, errors.Join(err, file.Close()))
	}
	return object{File: file, size: info.Size()}, nil
}

// Delete implements assets.Remover. It also removes folders that become empty.
func (s *Store) Delete(ctx context.Context, key string) error {
	const op = "disk.delete"
	if err := assets.CheckKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return failure(op, key, err)
	}
	f, err := s.find()
	if err != nil {
		return failure(op, key, err)
	}
	if err := f.unlink(key, 0); err != nil && !isAbsent(err) && !errors.Is(err, unix.EISDIR) {
		return failure(op, key, err)
	}
	f.prune(path.Dir(key))
	return nil
}

// prune removes a folder and its parents, up to the first that is not empty.
func (f *folder) prune(folder string) {
	for folder != "." && f.unlink(folder, unix.AT_REMOVEDIR) == nil {
		folder = path.Dir(folder)
	}
}

// isAbsent reports whether an error says that a file, or its folder, does not exist.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// unlink removes a file, or with AT_REMOVEDIR an empty folder, and nothing else. (Root.Remove would remove either.)
func (f *folder) unlink(name string, flags int) error {
	return f.inFolder(path.Dir(name), func(folder int) error { return unix.Unlinkat(folder, path.Base(name), flags) })
}

// List implements assets.Remover.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	const op = "disk.list"
	top := strings.TrimSuffix(prefix, "/")
	return func(yield func(string, error) bool) {
		if top == "" {
			top = "."
		} else if err := assets.CheckKey(top); err != nil {
			yield("", err)
			return
		}
		f, err := s.find()
		if err != nil {
			yield("", failure(op, prefix, err))
			return
		}
		err = fs.WalkDir(f.root.FS(), top, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case isAbsent(err): // it never existed, or was deleted meanwhile
				return nil
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case entry.IsDir() && name == partsName:
				return fs.SkipDir
			case entry.IsDir() || name == top || name[0] == '.':
				return nil
			case !yield(name, nil):
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield("", failure(op, prefix, err))
		}
	}
}

// Mark returns the mark that SetMark wrote; empty when there is none.
func (s *Store) Mark(ctx context.Context) (string, error) {
	const op = "disk.mark"
	if err := ctx.Err(); err != nil {
		return "", failure(op, markName, err)
	}
	f, err := s.find()
	if err != nil {
		return "", failure(op, markName, err)
	}
	mark, err := readMark(f.root.FS())
	if err != nil {
		return "", failure(op, markName, err)
	}
	if mark != f.mark { // another process set it
		s.mu.Lock()
		defer s.mu.Unlock()
		if marked := *f; s.opened.Load() == f {
			marked.mark = mark
			s.opened.Store(&marked)
		}
	}
	return mark, nil
}

// SetMark writes a mark into the store, in place of an earlier one. The mark is not an object.
func (s *Store) SetMark(ctx context.Context, mark string) error {
	const op = "disk.mark"
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.findAgain()
	if err != nil {
		return failure(op, markName, err)
	}
	marked := *f
	marked.mark = mark
	fresh := path.Join(partsName, rand.Text())
	err = marked.root.WriteFile(fresh, []byte(mark+"\n"), 0o600)
	if err == nil {
		err = marked.root.Rename(fresh, markName)
	}
	if err != nil {
		return failure(op, markName, err)
	}
	s.opened.Store(&marked)
	return syncFolder(ctx, &marked)
}

// Sync implements assets.Store. It flushes the whole file system once, which is far cheaper than flushing each file.
func (s *Store) Sync(ctx context.Context) error {
	f, err := s.find()
	if err != nil {
		return failure("disk.sync", "", err)
	}
	return syncFolder(ctx, f)
}

func syncFolder(ctx context.Context, f *folder) error {
	const op = "disk.sync"
	if err := ctx.Err(); err != nil {
		return failure(op, "", err)
	}
	if err := unix.Syncfs(int(f.lock.Fd())); err != nil {
		return failure(op, "", err)
	}
	return nil
}

// failure returns err with its Kind. An error that has a Kind already (a reader's) keeps it.
func failure(op landfall.Op, key string, err error) error {
	e := &landfall.Error{Op: op, Err: err}
	inner, ours := errors.AsType[*landfall.Error](err)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		e.Kind = landfall.Canceled
	case ours:
		e.Kind = inner.Kind
	case isAbsent(err):
		e.Kind, e.Message = landfall.NotFound, fmt.Sprintf("there is no object %q", key)
	case errors.Is(err, fs.ErrExist):
		e.Kind, e.Message = landfall.Conflict, fmt.Sprintf("there is an object %q already", key)
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		e.Kind, e.Message = landfall.Unavailable, "the object store is full"
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.EIO):
		e.Kind, e.Message = landfall.Unavailable, "the object store does not answer"
	}
	return e
}
