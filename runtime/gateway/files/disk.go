package files

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
)

// unfinished begins the names of files that are being written.
const unfinished = "tmp-"

// perFile is what a file costs beside its bytes.
const perFile = 4 << 10

// disk is a folder of files that can be made again, bounded by their bytes. A file is complete or not there. The digest
// of its bytes stands in its name, and one of an earlier process is compared with it before it is used.
type disk struct {
	root  *os.Root
	files *bounded[string, *cached]
}

// cached is one file of the folder.
type cached struct {
	file  string // NAME@SHA256
	whole atomic.Bool
}

const digestMark = "@"

// openDisk makes the folder when it is missing, removes what was being written when the process ended, and keeps the
// rest.
func openDisk(folder string, limit int64) (*disk, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, diskError(err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, diskError(err)
	}
	d := &disk{root: root, files: newBounded(limit, func(_ string, c *cached) { _ = root.Remove(c.file) })}
	if err := d.scan(); err != nil {
		return nil, diskError(err)
	}
	return d, nil
}

func diskError(err error) error {
	return landfall.Wrapf("gateway.cache", landfall.Internal, err, "the gateway's cache folder cannot be used")
}

// scan takes over the files of an earlier process, the newest as the last used.
func (d *disk) scan() error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return err
	}
	type found struct {
		name string
		size int64
		made time.Time
	}
	var files []found
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case strings.HasPrefix(entry.Name(), unfinished):
			_ = d.root.Remove(entry.Name())
		default:
			files = append(files, found{entry.Name(), info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b found) int { return cmp.Or(a.made.Compare(b.made), cmp.Compare(a.name, b.name)) })
	for _, f := range files {
		name, _, _ := strings.Cut(f.name, digestMark)
		if _, twice := d.files.get(name); twice {
			_ = d.root.Remove(f.name)
			continue
		}
		d.files.add(name, &cached{file: f.name}, f.size+perFile)
	}
	return nil
}

// open returns the file of that name, or an error that is fs.ErrNotExist.
func (d *disk) open(name string) (*os.File, error) {
	c, ok := d.files.get(name)
	if !ok {
		return nil, fs.ErrNotExist
	}
	f, err := d.root.Open(c.file)
	if err == nil && !c.whole.Load() {
		if err = c.check(f); err != nil {
			f.Close()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		d.files.remove(name)
	}
	return f, err
}

// check fails with fs.ErrNotExist when other bytes are in the file than were written: it is made again.
func (c *cached) check(f *os.File) error {
	sum, err := sumOf(f)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(c.file, digestMark+sum) {
		return fs.ErrNotExist
	}
	c.whole.Store(true)
	return nil
}

// sumOf returns the digest of a file's bytes, and leaves it at its beginning.
func sumOf(f *os.File) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	_, err := f.Seek(0, io.SeekStart)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// create lets fill write the file of that name and returns it, open at its beginning. The file is there when fill
// succeeded and its bytes are on the disk.
func (d *disk) create(name string, fill func(*os.File) error) (*os.File, error) {
	temporary := unfinished + rand.Text()
	f, err := d.root.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, diskError(err)
	}
	size, err := fillAndSync(f, fill)
	c := &cached{}
	if err == nil {
		var sum string
		sum, err = sumOf(f)
		c.file = name + digestMark + sum
	}
	if err == nil {
		c.whole.Store(true)
		err = d.root.Rename(temporary, c.file)
	}
	if err != nil {
		f.Close()
		_ = d.root.Remove(temporary)
		return nil, err
	}
	d.files.add(name, c, size+perFile)
	return f, nil
}

func fillAndSync(f *os.File, fill func(*os.File) error) (int64, error) {
	if err := fill(f); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return f.Seek(0, io.SeekEnd)
}
