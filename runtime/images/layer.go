package images

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"landfall.dev/landfall"
)

// layer is a tar file that is kept.
type layer struct {
	hash v1.Hash
	size int64
	open func() (io.ReadCloser, error)
}

var _ v1.Layer = layer{}

// Digest implements v1.Layer.
func (l layer) Digest() (v1.Hash, error) { return l.hash, nil }

// DiffID implements v1.Layer.
func (l layer) DiffID() (v1.Hash, error) { return l.hash, nil }

// Compressed implements v1.Layer. It is not.
func (l layer) Compressed() (io.ReadCloser, error) { return l.open() }

// Uncompressed implements v1.Layer.
func (l layer) Uncompressed() (io.ReadCloser, error) { return l.open() }

// Size implements v1.Layer.
func (l layer) Size() (int64, error) { return l.size, nil }

// MediaType implements v1.Layer.
func (layer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// tree are the files of a layer.
type tree struct {
	from  string                 // folder on this machine
	at    string                 // where it lies in the image: "function", or "" for its root
	has   func(name string) bool // which of the files below from, by their path there, are part of it
	extra []tar.Header           // folders that it has beside them
}

// write writes the layer into a folder, as a file whose name is the hexadecimal digest.
func (t tree) write(dir string) (landfall.Digest, int64, error) {
	file, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(file.Name()) // unless it was renamed
	defer file.Close()
	hash := sha256.New()
	if err := t.tar(io.MultiWriter(file, hash)); err != nil {
		return "", 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return "", 0, err
	}
	digest := landfall.DigestFromSum(hash.Sum(nil))
	err = errors.Join(file.Close(), os.Rename(file.Name(), filepath.Join(dir, digest.Hex())))
	return digest, info.Size(), err
}

// tar writes the files, in the order of their paths, without anything that differs from one time to the next.
func (t tree) tar(to io.Writer) error {
	w := writer{Writer: tar.NewWriter(to), linked: map[inode]string{}}
	for i := range t.extra {
		if err := w.WriteHeader(&t.extra[i]); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(t.from)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is written by it
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !t.has(name) {
			return err
		}
		if name == "." && t.at == "" {
			return nil
		}
		return t.add(&w, root, name, entry)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// writer writes a layer.
type writer struct {
	*tar.Writer

	linked map[inode]string // files with several names to the first of them
}

// inode is a file, whatever its names.
type inode struct{ device, number uint64 }

// first returns the name by which a file is in the layer already; else it is name from now on, and there is none. An
// image that was unpacked has its hard links: each written as a file of its own, they could become any number of bytes.
func (w *writer) first(info fs.FileInfo, name string) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Nlink < 2 {
		return ""
	}
	file := inode{uint64(stat.Dev), stat.Ino} //nolint:unconvert // its type is another elsewhere
	first := w.linked[file]
	if first == "" {
		w.linked[file] = name
	}
	return first
}

// add writes one file, folder or link.
func (t tree) add(w *writer, root *os.Root, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	header := folder(path.Join(t.at, name), dirMode)
	switch {
	case info.Mode().IsRegular():
		header.Typeflag, header.Mode, header.Size = tar.TypeReg, int64(info.Mode().Perm()), info.Size()
		header.Name = strings.TrimSuffix(header.Name, "/")
		if header.Linkname = w.first(info, header.Name); header.Linkname != "" {
			header.Typeflag, header.Size = tar.TypeLink, 0
		}
	case info.Mode().Type() == fs.ModeSymlink:
		const linkMode = 0o777
		header.Typeflag, header.Mode, header.Name = tar.TypeSymlink, linkMode, strings.TrimSuffix(header.Name, "/")
		if header.Linkname, err = root.Readlink(name); err != nil {
			return err
		}
	}
	if err := w.WriteHeader(&header); err != nil || header.Typeflag != tar.TypeReg {
		return err
	}
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

const (
	dirMode       = 0o755
	temporaryMode = 0o1777
)

// folder returns the header of a folder, which is root's.
func folder(name string, mode int64) tar.Header {
	return tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: mode, ModTime: time.Unix(0, 0)}
}
