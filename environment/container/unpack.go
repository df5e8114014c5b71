package container

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"landfall.dev/landfall"
)

// Limits bound one image. Zero fields take the defaults.
type Limits struct {
	Layers int   // 127, as in docker
	Files  int   // 100,000; including files that later layers replace
	Bytes  int64 // unpacked, including what the layers' archives need; 2 GiB
}

func (l Limits) withDefaults() Limits {
	const layers, files, size = 127, 100_000, 2 << 30
	return Limits{Layers: cmp.Or(l.Layers, layers), Files: cmp.Or(l.Files, files), Bytes: cmp.Or(l.Bytes, size)}
}

// Image says how an image starts.
type Image struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Env        []string `json:"env,omitempty"` // NAME=VALUE
	Dir        string   `json:"dir"`           // absolute, and there
}

// Unpack writes the files of the image in a package into a new folder, as a container sees them, and removes the image
// from the package. Invalid, with what would be right, when there is no image, or it has something that no function may
// have; Canceled when ctx ended. After an error nothing of use is left.
func Unpack(ctx context.Context, pack, into string, limits Limits) (Image, error) {
	limits = limits.withDefaults()
	s, closer, err := open(pack)
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = closer.Close() }() // nothing is written to it
	p, err := read(s)
	if err != nil {
		return Image{}, err
	}
	if len(p.layers) > limits.Layers {
		return Image{}, invalidImage("has %d layers; the limit is %d", len(p.layers), limits.Layers)
	}
	if err := os.Mkdir(into, dirMode); err != nil {
		return Image{}, unpackError(err)
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return Image{}, unpackError(err)
	}
	defer func() { _ = root.Close() }()
	u := unpacking{root: root, files: limits.Files, bytes: limits.Bytes, names: maxNames}
	for i, name := range p.layers {
		if err := u.layer(ctx, s, name); err != nil {
			if ctx.Err() != nil {
				return Image{}, &landfall.Error{Op: "container.Unpack", Kind: landfall.Canceled, Err: context.Cause(ctx)}
			}
			if isMachineError(err) {
				return Image{}, unpackError(err)
			}
			return Image{}, invalidImage("cannot be unpacked, layer %d: %v", i+1, err)
		}
	}
	if top, err := fs.ReadDir(root.FS(), "."); err != nil || len(top) > maxTop {
		return Image{}, invalidImage("has %d files and folders in its root itself; the limit is %d", len(top), maxTop)
	}
	c := p.config.Config
	image := Image{Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, Dir: path.Join("/", c.WorkingDir)}
	if image.Dir != "/" {
		if err := root.MkdirAll(image.Dir[1:], dirMode); err != nil {
			return Image{}, invalidImage("starts in %q, which is no folder of it", c.WorkingDir)
		}
	}
	return image, removeImage(pack)
}

// isMachineError reports whether an error comes from this machine, and not from the image.
func isMachineError(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO) ||
		errors.Is(err, syscall.EMFILE)
}

func unpackError(err error) error {
	return landfall.Wrapf("container.Unpack", landfall.Internal, err, "an image cannot be unpacked")
}

// open opens the image of a package.
func open(pack string) (source, io.Closer, error) {
	root, err := os.OpenRoot(pack)
	if err != nil {
		return nil, nil, unpackError(err)
	}
	if archive, err := root.Open(archiveName); err == nil {
		s, err := readArchive(archive)
		if err = errors.Join(err, root.Close()); err != nil {
			return nil, nil, errors.Join(err, archive.Close())
		}
		return s, archive, nil
	}
	for _, name := range []string{layoutName, manifestName} {
		if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() {
			return folderSource{root}, root, nil
		}
	}
	_ = root.Close()
	return nil, nil, errNoImage()
}

func errNoImage() error {
	return &landfall.Error{Op: "container.Unpack", Kind: landfall.Invalid,
		Message: "the package has no image: it must have " +
			archiveName + ", which docker save and podman save write, or an OCI layout (" + layoutName + ", " + indexName +
			", " + blobsFolder + ")"}
}

// CheckImage returns the error of Unpack for a package without an image, by the names of its files; nil when it may
// have one.
func CheckImage(has func(name string) bool) error {
	if slices.ContainsFunc([]string{archiveName, layoutName, manifestName}, has) {
		return nil
	}
	return errNoImage()
}

// removeImage removes an image from its package, where it is not needed any more.
func removeImage(pack string) error {
	var errs []error
	for _, name := range []string{archiveName, layoutName, indexName, manifestName, blobsFolder} {
		errs = append(errs, os.RemoveAll(filepath.Join(pack, name)))
	}
	return errors.Join(errs...)
}

// unpacking is the root folder while layers are written into it.
type unpacking struct {
	root    *os.Root
	files   int             // that may still come
	bytes   int64           // that may still come
	names   int             // bytes of names that may still come, because those of a layer are kept in memory
	written map[string]bool // by this layer
	cleared map[string]bool // folders below which it has removed everything of lower layers
}

const (
	dirMode  fs.FileMode = 0o755
	fileMode fs.FileMode = 0o644
)

// maxTop is how many files and folders the root itself may have, because each start of a program puts them into its
// sandbox one by one.
const maxTop = 1000

// These begin the names of files with which a layer removes files of lower layers.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// These bound the name of a file: no program can open a longer one, and each of its folders is made and checked.
const (
	maxName  = 4096
	maxDepth = 256
)

// maxNames is how many bytes the names of an image may have: more than a hundred for each file.
const maxNames = 64 << 20

// tooLong reports whether a name is too long for a file of an image.
func tooLong(name string) bool { return len(name) > maxName || strings.Count(name, "/") > maxDepth }

var errLarge = errors.New("it has more bytes than the limit")

// countingReader reads no more than is left, and nothing after ctx has ended.
type countingReader struct {
	io.Reader

	//nolint:containedctx // io.Reader has no parameter for it; the value lives as long as the call that reads
	ctx  context.Context
	left *int64
}

// Read implements io.Reader.
func (c countingReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.Reader.Read(p)
	if *c.left -= int64(n); *c.left < 0 {
		return 0, errLarge
	}
	return n, err
}

// layer applies a layer to what the lower ones made.
func (u *unpacking) layer(ctx context.Context, s source, name string) error {
	file, err := s.open(name)
	if err != nil {
		return say("%s is missing", name)
	}
	defer file.Close()
	content, err := decompress(file)
	if err != nil {
		return say("%s: %w", name, err)
	}
	u.written, u.cleared = map[string]bool{}, map[string]bool{}
	for r := tar.NewReader(countingReader{content, ctx, &u.bytes}); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = u.entry(header, r)
		}
		if err != nil {
			return err
		}
	}
}

// decompress returns the tar file of a layer.
func decompress(file io.Reader) (io.Reader, error) {
	const look = 4
	buffered := bufio.NewReader(file)
	magic, err := buffered.Peek(look)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case strings.HasPrefix(string(magic), "\x1f\x8b"):
		return gzip.NewReader(buffered)
	case string(magic) == "\x28\xb5\x2f\xfd":
		return nil, errors.New("it is compressed with zstd, which is not unpacked here; use gzip")
	}
	return buffered, nil
}

// entry applies one entry of a layer.
func (u *unpacking) entry(header *tar.Header, content io.Reader) error {
	if err := u.count(); err != nil {
		return err
	}
	if tooLong(header.Name) {
		return say("a name has more than %d bytes or %d folders", maxName, maxDepth)
	}
	if u.names -= len(header.Name); u.names < 0 {
		return say("its names have more than %d bytes", maxNames)
	}
	name := path.Clean(header.Name)
	if path.IsAbs(header.Name) || !fs.ValidPath(name) || strings.ContainsAny(name, "\x00") {
		return say("%q lies outside of it", header.Name)
	}
	if name == "." {
		return nil
	}
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	if base == opaque {
		return u.clear(dir)
	}
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		if hidden == "" || hidden == "." || hidden == ".." || strings.HasPrefix(hidden, whiteout) {
			return say("%q takes nothing away that has a name", header.Name)
		}
		return u.remove(path.Join(dir, hidden))
	}
	if err := u.folder(dir); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeDir {
		if info, err := u.root.Lstat(name); err == nil && info.Mode().Type() == fs.ModeSymlink {
			if err := u.root.Remove(name); err != nil {
				return say("%q: %w", name, err)
			}
		}
		left := u.files
		err := u.folder(name)
		u.files = min(left, u.files+1) // it counts once, with its folders that have no entry
		return err
	}
	if err := u.root.RemoveAll(name); err != nil {
		return say("%q: %w", name, err)
	}
	u.mark(name)
	if err := u.create(name, header, content); err != nil {
		return say("%q: %w", name, err)
	}
	return nil
}

// count counts a file or folder.
func (u *unpacking) count() error {
	u.files--
	if u.files < 0 {
		return say("it has more files than the limit")
	}
	return nil
}

// create writes an entry that is no folder.
func (u *unpacking) create(name string, header *tar.Header, content io.Reader) error {
	switch header.Typeflag {
	case tar.TypeReg:
		return u.file(name, header, content)
	case tar.TypeSymlink:
		if leavesRoot(name, header.Linkname) {
			return say("it is a link to %q, outside of the image", header.Linkname)
		}
		return u.root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		to := path.Clean(header.Linkname)
		info, err := u.root.Lstat(to)
		if path.IsAbs(header.Linkname) || !fs.ValidPath(to) || err != nil || info.IsDir() {
			return say("it is a link to %q, which is no file of the image", header.Linkname)
		}
		return u.root.Link(to, name)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return say("it is a device, and functions have none but /dev/null, zero, full, random and urandom")
	}
	return say("it is of a kind that no image has (%q)", header.Typeflag)
}

// leavesRoot reports whether a link leads above the root. An absolute link stays in the image, too.
func leavesRoot(name, target string) bool {
	to := path.Join(path.Dir(name), target)
	return !path.IsAbs(target) && (to == ".." || strings.HasPrefix(to, "../"))
}

func (u *unpacking) file(name string, header *tar.Header, content io.Reader) error {
	const executable fs.FileMode = 0o111
	mode := fileMode
	if header.FileInfo().Mode()&executable != 0 {
		mode |= executable
	}
	file, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	return errors.Join(u.fill(file, header.Size, content), file.Chmod(mode), file.Close()) // the umask does not matter
}

// fill writes the content of a file. Holes of sparse files count with their full size.
func (u *unpacking) fill(file io.Writer, size int64, content io.Reader) error {
	left := u.bytes
	if size > left {
		return errLarge
	}
	n, err := io.Copy(file, content)
	u.bytes = min(u.bytes, left-n)
	return err
}

// folder makes a folder and its parents, in place of files of lower layers. A folder of a lower layer stays, with its
// content.
func (u *unpacking) folder(name string) error {
	u.mark(name)
	if name == "." {
		return nil
	}
	if info, err := u.root.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	if info, err := u.root.Lstat(name); err == nil && info.Mode().Type() == fs.ModeSymlink {
		return say("%q is a link that leads to no folder of the image, and something lies behind it", name)
	}
	if err := u.count(); err != nil {
		return err
	}
	err := u.root.RemoveAll(name)
	if err == nil {
		err = u.root.Mkdir(name, dirMode)
	}
	if err == nil {
		err = u.root.Chmod(name, dirMode) // the umask does not matter
	}
	if err != nil {
		return say("%q: %w", name, err)
	}
	return nil
}

// mark records that this layer has a path, so that its whiteouts remove only paths of lower layers.
func (u *unpacking) mark(name string) {
	for ; name != "." && !u.written[name]; name = path.Dir(name) {
		u.written[name] = true
	}
}

// remove removes what lower layers have at a path.
func (u *unpacking) remove(name string) error {
	if u.written[name] {
		return u.clear(name)
	}
	if err := u.root.RemoveAll(name); err != nil {
		return say("%q: %w", name, err)
	}
	return nil
}

// clear removes what lower layers have below a folder. A layer does that once for each folder.
func (u *unpacking) clear(dir string) error {
	if u.cleared[dir] {
		return nil
	}
	u.cleared[dir] = true
	if info, err := u.root.Lstat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil // there is nothing below
	}
	entries, err := fs.ReadDir(u.root.FS(), dir)
	if err != nil {
		return say("%q: %w", dir, err)
	}
	for _, e := range entries {
		if err := u.remove(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
