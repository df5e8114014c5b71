package builder

import (
	"archive/zip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"

	"github.com/bmatcuk/doublestar/v4"
)

// ArchiveSpec says what goes into an archive: the files that a glob of Include matches and none of Exclude does. Globs
// are from the repository's root, as of Match; one without any glob character also means the folder of that name.
type ArchiveSpec struct {
	Name    string // for messages
	Include []string
	Exclude []string
}

// ArchiveFile is one file of an archive.
type ArchiveFile struct {
	Path string        // in the archive
	File landfall.File // where its bytes are
}

// SelectArchive returns the archive's files, sorted by Path: each lies by its path below the longest folder that all globs
// of Include share. A glob that matches nothing is a warning. Kinds: Invalid when nothing matches at all, when a glob
// cannot be read, and when a file cannot be used (as of Check).
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
	folder := sharedFolder(include)
	for _, file := range files {
		if !selects(include, file.Path, matched) || selects(exclude, file.Path, nil) {
			continue
		}
		if err := Check(file); err != nil {
			return nil, nil, invalid("archive %s: %s", spec.Name, landfall.MessageOf(err))
		}
		selected = append(selected, ArchiveFile{Path: below(folder, file.Path), File: file})
	}
	if len(selected) == 0 {
		return nil, nil, invalid("archive %s is empty: no file of the commit matches %s", spec.Name, strings.Join(spec.Include, ", "))
	}
	for i, glob := range spec.Include {
		if !matched[i] {
			warnings = append(warnings, fmt.Sprintf("archive %s: no file of the commit matches %s", spec.Name, glob))
		}
	}
	slices.SortFunc(selected, func(a, b ArchiveFile) int { return strings.Compare(a.Path, b.Path) })
	return selected, warnings, nil
}

// selects reports whether a glob matches the path, and marks in matched which do.
func selects(globs []string, path string, matched []bool) bool {
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

// withFolders returns the globs with "/**" after each that names a folder of the files.
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

// below returns the path below the folder that it lies in.
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

// WriteArchive writes the files as a zip whose bytes depend on nothing but paths, modes and content. read is called for one
// file at a time, in the order of paths. A file whose bytes are not those that its Digest promised is Internal.
func WriteArchive(w io.Writer, files []ArchiveFile, read func(landfall.File) (io.ReadCloser, error)) error {
	// The first moment that a zip can name.
	moment := time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)
	sorted := slices.SortedFunc(slices.Values(files), func(a, b ArchiveFile) int { return strings.Compare(a.Path, b.Path) })
	z := zip.NewWriter(w)
	for i, file := range sorted {
		if i > 0 && sorted[i-1].Path == file.Path {
			return &landfall.Error{Op: opWriteArchive, Kind: landfall.Invalid, Message: "the archive has two files " + quote(file.Path)}
		}
		if !isInside(file.Path) {
			return &landfall.Error{Op: opWriteArchive, Kind: landfall.Invalid, Message: quote(file.Path) + " cannot be a path in an archive"}
		}
		header := &zip.FileHeader{Name: file.Path, Method: zip.Deflate, Modified: moment}
		header.SetMode(0o644)
		if file.File.Mode == landfall.Executable {
			header.SetMode(0o755)
		}
		if err := writeEntry(z, header, file.File, read); err != nil {
			return err
		}
	}
	return z.Close()
}

// ArchivedFile is a file of an archive as its list has it: two with the same bytes are equal.
type ArchivedFile struct {
	Size       int64
	Checksum   uint32 // CRC-32: it tells changes apart, and proves nothing
	Executable bool
}

// ListArchive lists the files of an archive that WriteArchive wrote, by path, without reading them.
func ListArchive(r io.ReadSeeker, size int64) (map[string]ArchivedFile, error) {
	z, err := zip.NewReader(seeker{r}, size)
	if err != nil {
		return nil, &landfall.Error{Op: "builder.list-archive", Message: "an archive is damaged", Err: err}
	}
	files := make(map[string]ArchivedFile, len(z.File))
	for _, f := range z.File {
		files[f.Name] = ArchivedFile{int64(f.UncompressedSize64), f.CRC32, f.Mode()&0o100 != 0}
	}
	return files, nil
}

// seeker reads at an offset what can only seek; one call at a time.
type seeker struct{ io.ReadSeeker }

// ReadAt implements io.ReaderAt.
func (s seeker) ReadAt(p []byte, offset int64) (int, error) {
	if _, err := s.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(s, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// isInside reports whether the path stays where it is unpacked, on every system.
func isInside(path string) bool {
	bad := path == "" || strings.ContainsAny(path, "\\\x00")
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || part == "" || part == "." || part == ".."
	}
	return !bad
}

func writeEntry(z *zip.Writer, header *zip.FileHeader, file landfall.File, read func(landfall.File) (io.ReadCloser, error)) error {
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
		return &landfall.Error{Op: opWriteArchive, Message: fmt.Sprintf(
			"%q changed between build and upload, or was damaged on its way", file.Path)}
	}
	return nil
}

// OpenArchived opens a file of an archive that WriteArchive wrote. It reads from r, until it is closed.
func OpenArchived(r io.ReadSeeker, size int64, name string) (io.ReadCloser, error) {
	z, err := zip.NewReader(seeker{r}, size)
	if err == nil {
		var file io.ReadCloser
		if file, err = z.Open(name); err == nil {
			return file, nil
		}
	}
	return nil, &landfall.Error{Op: "builder.open-archived", Message: "an archive is damaged", Err: err}
}
