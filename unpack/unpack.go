// Package unpack writes the files of a zip or a tar archive into a folder, and nothing anywhere else. Archives come
// from builds, from repositories and from elsewhere, and are not trusted.
package unpack

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
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

// maxName is how many bytes the path of a file may have, as a program can open no longer one.
const maxName = 4095

// Zip writes the files of an archive of size bytes into an empty folder: regular files, their folders, and symbolic
// links, of which none may lead out of the folder. Invalid, with a sentence that begins with called, for an archive
// that has anything else, is no zip, or exceeds the limits; the files that were written so far are then of no use.
func Zip(dir, called string, zipped io.ReaderAt, size int64, limits Limits) error {
	u := &unpacking{called: called, most: limits.Bytes, left: limits.Bytes}
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
		if strings.HasSuffix(f.Name, "/") && f.Mode().IsDir() {
			continue // folders are made with their files
		}
		switch err := u.check(f.Name, f.Mode()); {
		case err != nil:
			return err
		case f.Mode().Type() == fs.ModeSymlink:
			links = append(links, f)
		default:
			if err := u.file(f.Name, f.Mode(), f.Open); err != nil {
				return err
			}
		}
	}
	for _, f := range links {
		var target strings.Builder
		if f.UncompressedSize64 > maxTarget {
			return u.longTarget(f.Name)
		}
		if err := u.copy(&target, f.Name, f.Open, min(u.left, maxTarget)); err != nil {
			return err
		}
		u.link(f.Name, target.String())
	}
	return u.finish()
}

// Tar is Zip for a tar archive, which may be compressed by gzip.
func Tar(dir, called string, packed io.Reader, limits Limits) (err error) {
	u := &unpacking{called: called, most: limits.Bytes, left: limits.Bytes}
	if u.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer func() { _ = u.root.Close() }() // nothing is written to it
	buffered := bufio.NewReader(packed)
	var from io.Reader = buffered
	if head, _ := buffered.Peek(len(gzipHead)); string(head) == gzipHead {
		if from, err = gzip.NewReader(buffered); err != nil {
			return u.noTar(err)
		}
	}
	const beside = 8 << 10 // bytes of what an archive has beside a file, more than is usual
	whole := &io.LimitedReader{R: from, N: limits.Bytes + int64(limits.Files)*beside}
	t := tar.NewReader(whole)
	for n := 0; ; n++ {
		header, err := t.Next()
		switch {
		case whole.N <= 0: // it has little else than what says how files are called
			return u.invalid(err, "has more bytes than the limit")
		case errors.Is(err, io.EOF):
			return u.finish()
		case err != nil:
			return u.noTar(err)
		case n >= limits.Files:
			return u.invalid(nil, "has more files than %d", limits.Files)
		}
		if err := u.entry(t, header); err != nil {
			return err
		}
	}
}

// gzipHead is how what gzip compressed begins.
const gzipHead = "\x1f\x8b"

// IsTar reports whether a file that begins with so many bytes, 512 or more, is a tar archive, or is compressed by gzip.
func IsTar(head []byte) bool {
	const magic, at = "ustar", 257
	return bytes.HasPrefix(head, []byte(gzipHead)) || len(head) > at && bytes.HasPrefix(head[at:], []byte(magic))
}

// IsZip reports whether a file that begins with so many bytes is a zip archive.
func IsZip(head []byte) bool {
	return bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06"))
}

// unpacking is the work of Zip and of Tar.
type unpacking struct {
	called string
	root   *os.Root
	most   int64           // bytes of all files
	left   int64           // of them
	files  []landfall.File // files that were written, and links
}

// noTar is the error when a tar cannot be read on; that of the reader when it is not the archive's fault.
func (u *unpacking) noTar(err error) error {
	if isDamage(err) {
		return u.invalid(err, "is no tar archive, or is damaged")
	}
	return err
}

// longTarget is the error for a symbolic link with a target of more than maxTarget bytes.
func (u *unpacking) longTarget(link string) error {
	return u.invalid(nil, "has the symbolic link %q, whose target has more than %d bytes", link, maxTarget)
}

// entry writes one entry of a tar.
func (u *unpacking) entry(t *tar.Reader, header *tar.Header) error {
	mode, name := header.FileInfo().Mode(), path.Clean(header.Name)
	switch {
	case mode.IsDir(), header.Typeflag == tar.TypeXGlobalHeader: // folders are made with their files
		return nil
	case header.Typeflag == tar.TypeSymlink:
		if len(header.Linkname) > maxTarget {
			return u.longTarget(header.Name)
		}
	case header.Typeflag != tar.TypeReg:
		return u.noPlain(header.Name)
	}
	if err := u.check(name, mode); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeSymlink {
		u.link(name, header.Linkname)
		return nil
	}
	return u.file(name, mode, func() (io.ReadCloser, error) { return io.NopCloser(t), nil })
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

const twice = "has %q twice, or below another file"

func (u *unpacking) invalid(cause error, format string, args ...any) error {
	return &landfall.Error{Op: "unpack", Kind: landfall.Invalid, Err: cause,
		Message: u.called + " " + fmt.Sprintf(format, args...)}
}

// check fails for a file or a link that cannot be in the folder.
func (u *unpacking) check(name string, mode fs.FileMode) error {
	switch {
	case !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00"):
		return u.noPlain(name)
	case len(name) > maxName: // names are kept in memory until all is unpacked
		return u.tooLong(nil, name)
	case tree.TooDeep(name):
		return u.invalid(nil, "has a file in more than %d folders within one another", tree.MaxDepth)
	case !mode.IsRegular() && mode.Type() != fs.ModeSymlink:
		return u.noPlain(name)
	}
	return nil
}

func (u *unpacking) noPlain(name string) error {
	return u.invalid(nil, "has %q, which is no plain file inside it", name)
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
	if errors.Is(err, syscall.ENAMETOOLONG) {
		return u.tooLong(err, name)
	}
	return err
}

func (u *unpacking) tooLong(cause error, name string) error {
	return u.invalid(cause, "has the name %.40q…, which is too long", name)
}

// file writes one file.
func (u *unpacking) file(name string, was fs.FileMode, open func() (io.ReadCloser, error)) error {
	const readable, executable fs.FileMode = 0o644, 0o755
	mode := readable
	if was&0o111 != 0 {
		mode = executable
	}
	// a process that is just being started would hold the file open for writing, and then the file cannot be executed
	// (ETXTBSY)
	if mode == executable {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	var to *os.File
	err := u.create(name, func() (err error) {
		to, err = u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		return err
	})
	if err != nil {
		return err
	}
	defer to.Close()
	if err := u.copy(to, name, open, u.left); err != nil {
		return err
	}
	u.files = append(u.files, landfall.File{Path: name})
	return errors.Join(to.Chmod(mode), to.Close())
}

// copy writes the bytes of an entry, but no more than most.
func (u *unpacking) copy(to io.Writer, name string, open func() (io.ReadCloser, error), most int64) error {
	from, err := open()
	if err != nil {
		return u.invalid(err, "has %q, which cannot be read: %v", name, err)
	}
	defer from.Close()
	n, err := io.Copy(to, io.LimitReader(from, most+1))
	u.left -= n
	switch {
	case isDamage(err):
		return u.invalid(err, "has %q, which is damaged or encrypted", name)
	case err == nil && n > most:
		return u.invalid(nil, "has more bytes than the limit of %d for its unpacked files", u.most)
	}
	return err
}

// isDamage reports whether an archive is not as its format says.
func isDamage(err error) bool {
	if _, packed := errors.AsType[flate.CorruptInputError](err); packed {
		return true
	}
	return slices.ContainsFunc([]error{zip.ErrChecksum, zip.ErrFormat, tar.ErrHeader, gzip.ErrChecksum, gzip.ErrHeader,
		io.ErrUnexpectedEOF}, func(damage error) bool { return errors.Is(err, damage) })
}

// link notes a symbolic link, which finish makes.
func (u *unpacking) link(name, target string) {
	u.files = append(u.files, landfall.File{Path: name, Mode: landfall.Symlink, Target: target})
}

// finish makes the links, after all files, and then checks where each leads, when all others exist.
func (u *unpacking) finish() error {
	if len(u.files) == 0 {
		return u.invalid(nil, "has no file")
	}
	for _, f := range u.files {
		if f.Mode == landfall.Symlink && (f.Target == "" || strings.Contains(f.Target, "\x00")) {
			return u.invalid(nil, "has the symbolic link %q, whose target is no path", f.Path)
		}
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
