package builder

import (
	"archive/zip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/tree"

	"github.com/bmatcuk/doublestar/v4"
)

// ArchiveSpec says which files go into an archive: those that a glob of Include matches and no glob of Exclude. Globs
// start at the repository's root, see Match; one without any glob character also stands for the folder of that name.
type ArchiveSpec struct {
	Name    string // for messages
	Include []string
	Lines   []int // of each glob of Include in its file, for messages; may be missing
	Exclude []string
}

// ArchiveFile is one file of an archive.
type ArchiveFile struct {
	Path string        // in the archive
	File landfall.File // where its bytes are
}

// InArchive returns the files of an archive, each with its path in the archive.
func InArchive(files []ArchiveFile) []landfall.File {
	inside := make([]landfall.File, len(files))
	for i, f := range files {
		inside[i] = f.File
		inside[i].Path = f.Path
	}
	return inside
}

// SelectArchive returns the archive's files, sorted by Path, which is the path below the longest folder that all globs
// of Include share. A glob that matches nothing is a warning. Kinds: Invalid when nothing matches at all, when a glob
// cannot be read, and when a file cannot be used (see Check).
func SelectArchive(spec ArchiveSpec, files []landfall.File) (selected []ArchiveFile, warnings []string, err error) {
	const op = landfall.Op("builder.select-archive")
	invalid := func(format string, values ...any) error {
		return &landfall.Error{Op: op, Kind: landfall.Invalid, Message: fmt.Sprintf(format, values...)}
	}
	for _, glob := range slices.Concat(spec.Include, spec.Exclude) {
		if !doublestar.ValidatePattern(glob) {
			return nil, nil, invalid("archive %s: %q is not a glob", spec.Name, glob)
		}
	}
	exclude := withFolders(spec.Exclude, files)
	include := withFolders(spec.Include, files)
	matched := make([]bool, len(include))
	folder, links := sharedFolder(include), false
	for _, file := range files {
		if !matches(include, file.Path, matched) || matches(exclude, file.Path, nil) {
			continue
		}
		if err := Check(file); err != nil {
			return nil, nil, invalid("archive %s: %s", spec.Name, landfall.MessageOf(err))
		}
		links = links || file.IsBuiltLink()
		selected = append(selected, ArchiveFile{Path: below(folder, file.Path), File: file})
	}
	if len(selected) == 0 && slices.Contains(matched, true) {
		return nil, nil, invalid("archive %s is empty: exclude leaves out all that %s match", spec.Name,
			strings.Join(spec.Include, ", "))
	}
	const remedy = "commit the file, or let the App's build make it (build.outputs)"
	if len(selected) == 0 {
		return nil, nil, invalid("archive %s is empty: no file of the commit matches %s: %s", spec.Name,
			spec.globs(nil), remedy)
	}
	if slices.Contains(matched, false) {
		warnings = append(warnings, fmt.Sprintf("archive %s: no file of the commit matches %s: %s", spec.Name,
			spec.globs(matched), remedy))
	}
	if links {
		if err := keepLinks(selected, files); err != nil {
			return nil, nil, invalid("archive %s: %s", spec.Name, landfall.MessageOf(err))
		}
	}
	slices.SortFunc(selected, func(a, b ArchiveFile) int { return strings.Compare(a.Path, b.Path) })
	return selected, warnings, nil
}

// keepLinks checks the links of an archive, which was selected from files. A link to a file of the archive stays a
// link; a link to another file is replaced by that file, as links of a commit are.
func keepLinks(selected []ArchiveFile, files []landfall.File) error {
	archive, all := tree.Of(InArchive(selected)), tree.Of(files)
	for i, f := range selected {
		if !f.File.IsBuiltLink() {
			continue
		}
		to, inside := archive.Follow(f.Path)
		if inside && archive.Has(to) {
			continue
		}
		meant, _ := all.Follow(f.File.Path)
		target, isFile := all.File(meant)
		switch {
		case isFile:
			selected[i].File = target
		case !inside || all.Has(meant):
			return landfall.Errorf("builder.select-archive", landfall.Invalid,
				"%s is a symbolic link to %q, which is not in the archive: include that, too, or exclude the link",
				quote(f.File.Path), f.File.Target)
		}
	}
	return nil
}

// globs lists the globs of Include that matched nothing, with their lines.
func (s ArchiveSpec) globs(matched []bool) string {
	var named []string
	for i, glob := range s.Include {
		if i < len(matched) && matched[i] {
			continue
		}
		if i < len(s.Lines) && s.Lines[i] > 0 {
			glob += fmt.Sprintf(" (line %d)", s.Lines[i])
		}
		named = append(named, glob)
	}
	return strings.Join(named, ", ")
}

// matches reports whether a glob matches the path, and marks in matched which ones do.
func matches(globs []string, path string, matched []bool) bool {
	found := false
	for i, glob := range globs {
		if !Match(glob, path) {
			continue
		}
		if matched == nil {
			return true
		}
		matched[i], found = true, true
	}
	return found
}

// withFolders returns the globs with "/**" after each one that names a folder of the files.
func withFolders(globs []string, files []landfall.File) []string {
	globs = slices.Clone(globs)
	for i, glob := range globs {
		folder := cleanGlob(glob) + "/"
		if !strings.ContainsAny(glob, `*?[{\`) && slices.ContainsFunc(files, func(f landfall.File) bool {
			return strings.HasPrefix(f.Path, folder)
		}) {
			globs[i] = folder + "**"
		}
	}
	return globs
}

// below returns the path relative to the folder in which it is.
func below(folder, path string) string {
	if folder == "" {
		return path
	}
	return path[len(folder)+1:]
}

// sharedFolder returns the longest folder that all globs share.
func sharedFolder(globs []string) string {
	var shared []string
	for i, glob := range globs {
		var parts []string
		if folder := globFolder(glob); folder != "" {
			parts = strings.Split(folder, "/")
		}
		if i == 0 {
			shared = parts
			continue
		}
		n := 0
		for n < len(shared) && n < len(parts) && shared[n] == parts[n] {
			n++
		}
		shared = shared[:n]
	}
	return strings.Join(shared, "/")
}

const opWriteArchive = landfall.Op("builder.write-archive")

// WriteArchive writes the files as a zip whose bytes depend only on paths, modes and content. It calls read for one
// file at a time, in the order of paths. A file whose bytes do not have its Digest is Internal.
func WriteArchive(w io.Writer, files []ArchiveFile, read func(landfall.File) (io.ReadCloser, error)) error {
	// This is the earliest time that a zip can have.
	moment := time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)
	sorted := slices.SortedFunc(slices.Values(files), func(a, b ArchiveFile) int {
		return strings.Compare(a.Path, b.Path)
	})
	z := zip.NewWriter(w)
	for i, file := range sorted {
		if i > 0 && sorted[i-1].Path == file.Path {
			return &landfall.Error{Op: opWriteArchive, Kind: landfall.Invalid,
				Message: "the archive has two files " + quote(file.Path)}
		}
		if !isInside(file.Path) {
			return &landfall.Error{Op: opWriteArchive, Kind: landfall.Invalid,
				Message: quote(file.Path) + " cannot be a path in an archive"}
		}
		header := &zip.FileHeader{Name: file.Path, Method: zip.Deflate, Modified: moment}
		header.SetMode(0o644)
		switch {
		case file.File.Mode == landfall.Executable:
			header.SetMode(0o755)
		case file.File.IsBuiltLink():
			header.SetMode(fs.ModeSymlink | 0o777)
			header.Comment = strconv.QuoteToASCII(file.File.Target) // where ListArchive finds it
		}
		if err := writeEntry(z, header, file.File, read); err != nil {
			return err
		}
	}
	return z.Close()
}

// ArchivedFile is a file in the list of an archive: two with the same bytes are equal.
type ArchivedFile struct {
	landfall.File

	Checksum uint32 // CRC-32: it detects changes, and proves nothing
}

// ListArchive lists the files of an archive that WriteArchive wrote, without reading any of them. It does not say where
// links lead.
func ListArchive(r io.ReadSeeker, size int64) ([]ArchivedFile, error) {
	return list(r, size, func(*zip.File) (string, error) { return "", nil })
}

// ListWithLinks lists an archive as ListArchive does, and says where its links lead.
func ListWithLinks(r io.ReadSeeker, size int64) ([]ArchivedFile, error) { return list(r, size, target) }

func list(r io.ReadSeeker, size int64, target func(*zip.File) (string, error)) ([]ArchivedFile, error) {
	damaged := func(err error) error {
		return landfall.Wrapf("builder.list-archive", landfall.Internal, err, "an archive is damaged")
	}
	z, err := zip.NewReader(seekerAt{r}, size)
	if err != nil {
		return nil, damaged(err)
	}
	files := make([]ArchivedFile, 0, len(z.File))
	for _, f := range z.File {
		file := ArchivedFile{landfall.File{Path: f.Name, Size: int64(f.UncompressedSize64)}, f.CRC32}
		switch {
		case f.Mode().Type() == fs.ModeSymlink:
			file.Mode = landfall.Symlink
			if file.Target, err = target(f); err != nil {
				return nil, damaged(err)
			}
		case f.Mode()&0o100 != 0:
			file.Mode = landfall.Executable
		}
		files = append(files, file)
	}
	return files, nil
}

// target returns where a link leads. Archives of earlier commits have it only in the entry.
func target(link *zip.File) (string, error) {
	if target, err := strconv.Unquote(link.Comment); err == nil {
		return target, nil
	}
	r, err := link.Open()
	if err != nil {
		return "", err
	}
	target, err := io.ReadAll(io.LimitReader(r, maxTarget))
	return string(target), errors.Join(err, r.Close())
}

// seekerAt makes an io.ReaderAt of a reader that can only seek; for one call at a time.
type seekerAt struct{ io.ReadSeeker }

// ReadAt implements io.ReaderAt.
func (s seekerAt) ReadAt(p []byte, offset int64) (int, error) {
	if _, err := s.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(s, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// isInside reports whether the path stays inside the folder where it is unpacked, on every system.
func isInside(path string) bool {
	bad := path == "" || strings.ContainsAny(path, "\\\x00")
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || part == "" || part == "." || part == ".."
	}
	return !bad
}

func writeEntry(z *zip.Writer, header *zip.FileHeader, file landfall.File,
	read func(landfall.File) (io.ReadCloser, error)) error {
	entry, err := z.CreateHeader(header)
	if err != nil {
		return err
	}
	r, err := read(file)
	if err != nil {
		return err
	}
	defer r.Close()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(entry, hash), r); err != nil {
		return err
	}
	if file.Digest != "" && file.Digest != landfall.DigestFromSum(hash.Sum(nil)) {
		return landfall.Errorf(opWriteArchive, landfall.Internal,
			"%q changed between build and upload, or was damaged on its way", file.Path)
	}
	return nil
}

// OpenArchived opens a file, not a link, of an archive that WriteArchive wrote. It reads from r until it is closed.
func OpenArchived(r io.ReadSeeker, size int64, name string) (io.ReadCloser, error) {
	z, err := zip.NewReader(seekerAt{r}, size)
	if err == nil {
		err = fs.ErrNotExist
		// z.Open would build a tree of folders first
		if i := slices.IndexFunc(z.File, func(f *zip.File) bool { return f.Name == name }); i >= 0 {
			var file io.ReadCloser
			if file, err = z.File[i].Open(); err == nil {
				return file, nil
			}
		}
	}
	return nil, landfall.Wrapf("builder.open-archived", landfall.Internal, err, "an archive is damaged")
}
