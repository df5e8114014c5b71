// Package unpack writes the files of a zip archive into a folder, and nothing anywhere else. Archives come from builds
// and from repositories, and are not trusted.
package unpack

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"landfall.dev/landfall"
	"landfall.dev/landfall/tree"
)

// ErrNoZip is in the chain of the error for a file that is no zip archive.
var ErrNoZip = errors.New("it is no zip archive")

// Limits bound an archive.
type Limits struct {
	Files int
	Bytes int64 // of all files, unpacked
}

const folderMode fs.FileMode = 0o755

// maxTarget is how many bytes the target of a link may have.
const maxTarget = 4096

// Zip writes the files of an archive of size bytes into an empty folder: regular files, their folders, and symbolic
// links, of which none may lead out of the folder. Invalid, with a sentence that begins with called, for an archive
// that has anything else, is no zip, or exceeds the limits; the files that were written so far are then of no use.
func Zip(dir, called string, zipped io.ReaderAt, size int64, limits Limits) error {
	u := &unpacking{called: called, left: limits.Bytes}
	z, err := Open(called, zipped, size, limits.Files)
	if err != nil {
		return err
	}
	if u.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer func() { _ = u.root.Close() }() // nothing is written to it
	var links []*zip.File
	for _, f := range z.File {
		switch {
		case strings.HasSuffix(f.Name, "/") && f.Mode().IsDir():
			continue // folders are made with their files
		case !fs.ValidPath(f.Name) || f.Name == "." || strings.ContainsAny(f.Name, "\\\x00"):
			return u.invalid(nil, "has %q, which is no plain file inside it", f.Name)
		case tree.TooDeep(f.Name):
			return u.invalid(nil, "has a file in more than %d folders within one another", tree.MaxDepth)
		case f.Mode().Type() == fs.ModeSymlink:
			links = append(links, f)
		case !f.Mode().IsRegular():
			return u.invalid(nil, "has %q, which is no plain file inside it", f.Name)
		default:
			if err := u.file(f); err != nil {
				return err
			}
		}
	}
	if len(links)+len(u.files) == 0 {
		return u.invalid(nil, "has no file")
	}
	return u.links(links)
}

// Open reads the list of an archive of size bytes. Invalid, with a sentence that begins with called, for one that is no
// zip, or has more files than may be; the list of such a one is not kept in memory.
func Open(called string, zipped io.ReaderAt, size int64, files int) (*zip.Reader, error) {
	const entry, end = 256, 128 << 10 // bytes: of a file in the list, more than is usual; of the list's end, at most
	u := &unpacking{called: called}
	if n := listed(zipped, size); n > uint64(files) {
		return nil, u.invalid(nil, "has %d files; the limit is %d", n, files)
	}
	list := &bounded{ReaderAt: zipped, left: int64(files)*entry + end}
	z, err := zip.NewReader(list, size)
	switch {
	case list.left < 0:
		return nil, u.invalid(err, "has more files than %d, or longer names than usual", files)
	case err != nil:
		return nil, u.invalid(errors.Join(ErrNoZip, err), "is no zip archive, or is damaged")
	case len(z.File) > files:
		return nil, u.invalid(nil, "has %d files; the limit is %d", len(z.File), files)
	}
	list.whole = true
	return z, nil
}

// listed returns how many files an archive of size bytes says that it has: zip.NewReader reserves memory for as many
// before it reads the list. It is 0 when the archive says nothing that can be read.
func listed(zipped io.ReaderAt, size int64) uint64 {
	const (
		endSize, locatorSize, end64Size = 22, 20, 56
		longest                         = locatorSize + endSize + 65535 // with a comment
	)
	tail := make([]byte, min(size, longest))
	if _, err := zipped.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	at := bytes.LastIndex(tail[:max(0, len(tail)-endSize+4)], []byte("PK\x05\x06"))
	if at < 0 {
		return 0
	}
	n := uint64(binary.LittleEndian.Uint16(tail[at+10:]))
	if at < locatorSize || !bytes.HasPrefix(tail[at-locatorSize:], []byte("PK\x06\x07")) {
		return n
	}
	end64 := make([]byte, end64Size) // of an archive with longer numbers
	offset := binary.LittleEndian.Uint64(tail[at-locatorSize+8:])
	if offset > uint64(size) {
		return n
	}
	if _, err := zipped.ReadAt(end64, int64(offset)); err != nil || !bytes.HasPrefix(end64, []byte("PK\x06\x06")) {
		return n
	}
	return binary.LittleEndian.Uint64(end64[32:])
}

// bounded reads no more than so many bytes until it may read the whole.
type bounded struct {
	io.ReaderAt

	left  int64
	whole bool
}

// ReadAt implements io.ReaderAt.
func (b *bounded) ReadAt(p []byte, offset int64) (int, error) {
	if !b.whole {
		b.left -= int64(len(p))
	}
	if b.left < 0 {
		return 0, errors.New("the list of files is too long")
	}
	return b.ReaderAt.ReadAt(p, offset)
}

// unpacking is the work of Zip.
type unpacking struct {
	called string
	root   *os.Root
	left   int64           // bytes
	files  []landfall.File // files that were written, and links
}

const twice = "has %q twice, or below another file"

func (u *unpacking) invalid(cause error, format string, args ...any) error {
	return &landfall.Error{Op: "unpack.Zip", Kind: landfall.Invalid, Err: cause,
		Message: u.called + " " + fmt.Sprintf(format, args...)}
}

// create makes a file or a link, and its folders.
func (u *unpacking) create(name string, do func() error) error {
	err := u.root.MkdirAll(path.Dir(name), folderMode)
	if err == nil {
		err = do()
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return u.invalid(err, twice, name)
	}
	return err
}

// file writes one file.
func (u *unpacking) file(f *zip.File) error {
	const readable, executable fs.FileMode = 0o644, 0o755
	mode := readable
	if f.Mode()&0o111 != 0 {
		mode = executable
	}
	// a process that is just being started would hold the file open for writing, and then the file cannot be executed
	// (ETXTBSY)
	if mode == executable {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	var to *os.File
	err := u.create(f.Name, func() (err error) {
		to, err = u.root.OpenFile(f.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		return err
	})
	if err != nil {
		return err
	}
	defer to.Close()
	if err := u.copy(to, f, u.left); err != nil {
		return err
	}
	u.files = append(u.files, landfall.File{Path: f.Name})
	return errors.Join(to.Chmod(mode), to.Close())
}

// copy writes the bytes of an entry, but no more than most.
func (u *unpacking) copy(to io.Writer, f *zip.File, most int64) error {
	from, err := f.Open()
	if err != nil {
		return u.invalid(err, "has %q, which cannot be read: %v", f.Name, err)
	}
	defer from.Close()
	n, err := io.Copy(to, io.LimitReader(from, most+1))
	u.left -= n
	switch {
	case errors.Is(err, zip.ErrChecksum), errors.Is(err, zip.ErrFormat), errors.Is(err, io.ErrUnexpectedEOF):
		return u.invalid(err, "has %q, which is damaged or encrypted", f.Name)
	case err == nil && n > most:
		return u.invalid(nil, "has more bytes than the limit")
	}
	return err
}

// links makes the links, after all files, and then checks where each leads, when all others exist.
func (u *unpacking) links(links []*zip.File) error {
	for _, f := range links {
		var target strings.Builder
		if err := u.copy(&target, f, min(u.left, maxTarget)); err != nil {
			return err
		}
		if target.Len() == 0 || strings.Contains(target.String(), "\x00") {
			return u.invalid(nil, "has the symbolic link %q, whose target is no path", f.Name)
		}
		u.files = append(u.files, landfall.File{Path: f.Name, Mode: landfall.Symlink, Target: target.String()})
	}
	unpacked := tree.Of(u.files)
	for _, name := range unpacked.Links() {
		if below, _ := unpacked.Follow(path.Dir(name)); below != path.Dir(name) {
			return u.invalid(nil, twice, name)
		}
		link, _ := unpacked.File(name)
		if err := u.create(name, func() error { return u.root.Symlink(link.Target, name) }); err != nil {
			return err
		}
	}
	for _, name := range unpacked.Links() {
		if _, inside := unpacked.Follow(name); !inside {
			return u.invalid(nil, "has the symbolic link %q, which leads out of it", name)
		}
	}
	return nil
}
