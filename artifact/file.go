package artifact

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/unpack"
)

// ZipFile is what a zip is called in the folder where it is unpacked.
const ZipFile = "archive.zip"

// IsZip reports whether an archive is a zip already: it has nothing else.
func IsZip(files []builder.ArchiveFile) bool {
	return len(files) == 1 && strings.EqualFold(path.Ext(files[0].Path), ".zip") && files[0].File.Mode != landfall.Symlink
}

// Unzip unpacks the zip in a folder to where a build would have left its files.
func Unzip(dir, called string) error {
	into := filepath.Join(dir, Folder)
	if err := os.Mkdir(into, 0o700); err != nil {
		return err
	}
	zipped, err := os.Open(filepath.Join(dir, ZipFile))
	if err != nil {
		return err
	}
	defer func() { _ = zipped.Close() }()
	info, err := zipped.Stat()
	if err != nil {
		return err
	}
	return unpack.Zip(into, called, zipped, info.Size(), unpack.Limits{Files: MaxFiles, Bytes: MaxBytes})
}

// Unpack writes what is in a file into an empty folder: the files of a zip, or of a tar where one is unpacked, by its
// name or by its first bytes; else the file itself, which can be executed, because nothing says that it cannot.
func Unpack(into, name, called string, packed *os.File, tars bool, limits unpack.Limits) error {
	const enough = 512
	head := make([]byte, enough)
	n, err := packed.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	info, err := packed.Stat()
	if err != nil {
		return err
	}
	hasSuffix := func(suffix string) bool { return strings.HasSuffix(strings.ToLower(name), suffix) }
	switch {
	case hasSuffix(".zip") || unpack.IsZip(head[:n]):
		return unpack.Zip(into, called, packed, info.Size(), limits)
	case tars && (slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz"}, hasSuffix) || unpack.IsTar(head[:n])):
		return unpack.Tar(into, called, io.NewSectionReader(packed, 0, info.Size()), limits)
	}
	const executable fs.FileMode = 0o755
	return errors.Join(packed.Chmod(executable), os.Rename(packed.Name(), filepath.Join(into, name)))
}

// Opener reads a file.
type Opener func(ctx context.Context, f landfall.File) (io.ReadCloser, error)

// CopyFile writes a file of another place to a path that is not there yet.
func CopyFile(ctx context.Context, root *os.Root, at string, f landfall.File, open Opener) error {
	if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	in, err := open(ctx, f)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	mode := fs.FileMode(0o644)
	if f.Mode == landfall.Executable {
		mode = 0o755
	}
	out, err := root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
