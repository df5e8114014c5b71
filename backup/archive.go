package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

// format is the format of archives that this program writes, and the newest that it reads.
const format = 1

// Header describes an archive.
type Header struct {
	Format  int       `json:"format"`
	Schema  int64     `json:"schema"` // the form of the database's tables
	Made    time.Time `json:"made"`
	Objects bool      `json:"objects"` // false: they were left out

	// Installation is the key of the installation, which its object store has, too. It is empty in archives of earlier
	// programs.
	Installation string `json:"installation,omitempty"`
}

// Totals count the content of an archive.
type Totals struct {
	Rows         int64 `json:"rows"`
	Repositories int   `json:"repositories"`
	Objects      int64 `json:"objects"`
	Bytes        int64 `json:"bytes"` // of all entries, before compression
}

// end is the last entry.
type end struct {
	Totals
	Digest  string `json:"digest"`
	Problem string `json:"problem,omitempty"` // why the archive ends here
}

// Kind is what an entry is.
type Kind uint8

// The kinds, in their order.
const (
	noEntry Kind = iota
	HeaderEntry
	DatabaseEntry
	TokenEntry
	RefsEntry
	PackEntry
	ObjectEntry
	endEntry
)

// Entry is one part of an archive.
type Entry struct {
	Kind Kind
	Name string // the app of a repository, or the object's key; else empty
	Size int64
}

const (
	headerName   = "backup.json"
	databaseName = "database.jsonl"
	tokenName    = "token"
	endName      = "end.json"
	gitFolder    = "git/"
	objectFolder = "objects/"
	refsSuffix   = ".refs"
	packSuffix   = ".pack"
)

func (e Entry) path() string {
	switch e.Kind {
	case HeaderEntry:
		return headerName
	case DatabaseEntry:
		return databaseName
	case TokenEntry:
		return tokenName
	case RefsEntry:
		return gitFolder + e.Name + refsSuffix
	case PackEntry:
		return gitFolder + e.Name + packSuffix
	case ObjectEntry:
		return objectFolder + e.Name
	case endEntry:
		return endName
	case noEntry:
	}
	return ""
}

// These are the largest sizes of entries.
const (
	maxSmall  = 64 << 20
	maxLarge  = 1 << 40
	maxWindow = 64 << 20 // bytes that the decompression may look back
)

func (e Entry) limit() int64 {
	if e.Kind == DatabaseEntry || e.Kind == PackEntry || e.Kind == ObjectEntry {
		return maxLarge
	}
	return maxSmall
}

var appID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// parseEntry returns the part of an archive that follows a tar header.
func parseEntry(h *tar.Header) (Entry, error) {
	e := Entry{Size: h.Size}
	app, inGit := strings.CutPrefix(h.Name, gitFolder)
	key, isObject := strings.CutPrefix(h.Name, objectFolder)
	ok := true
	switch {
	case h.Name == headerName:
		e.Kind = HeaderEntry
	case h.Name == databaseName:
		e.Kind = DatabaseEntry
	case h.Name == tokenName:
		e.Kind = TokenEntry
	case h.Name == endName:
		e.Kind = endEntry
	case isObject:
		e.Kind, e.Name, ok = ObjectEntry, key, assets.CheckKey(key) == nil
	case inGit && strings.HasSuffix(app, refsSuffix):
		e.Kind, e.Name = RefsEntry, strings.TrimSuffix(app, refsSuffix)
	case inGit && strings.HasSuffix(app, packSuffix):
		e.Kind, e.Name = PackEntry, strings.TrimSuffix(app, packSuffix)
	default:
		ok = false
	}
	if e.Kind == RefsEntry || e.Kind == PackEntry {
		ok = appID.MatchString(e.Name)
	}
	for name := range h.PAXRecords {
		ok = ok && !strings.HasPrefix(name, "GNU.sparse.") // a few bytes in it could stand for very many
	}
	if !ok || h.Typeflag != tar.TypeReg {
		return e, damagedError("%.200q does not belong into one", h.Name)
	}
	if e.Size < 0 || e.Size > e.limit() {
		return e, damagedError("%.200q is said to have %d bytes", h.Name, e.Size)
	}
	return e, nil
}

// damagedError is the error of a malformed archive.
func damagedError(format string, args ...any) error {
	return landfall.Errorf("backup.Read", landfall.Invalid, "the backup cannot be used: %s", fmt.Sprintf(format, args...))
}

// sum is the digest over all entries, in their order.
type sum struct{ hash.Hash }

func newSum() sum { return sum{sha256.New()} }

// add adds an entry whose bytes have a digest.
func (s sum) add(e Entry, digest []byte) {
	var sizes [16]byte
	binary.BigEndian.PutUint64(sizes[:8], uint64(len(e.path())))
	binary.BigEndian.PutUint64(sizes[8:], uint64(e.Size))
	s.Write(sizes[:])
	s.Write([]byte(e.path()))
	s.Write(digest)
}

func (s sum) String() string { return landfall.DigestFromSum(s.Sum(nil)).Hex() }

// count adds an entry to the totals.
func (t *Totals) count(e Entry) {
	t.Bytes += e.Size
	if e.Kind == ObjectEntry {
		t.Objects++
	}
	if e.Kind == PackEntry {
		t.Repositories++
	}
}

// Reader reads an archive. Both functions may be nil.
type Reader struct {
	// Begin gets the header before anything else is read.
	Begin func(Header) error
	// Take gets each further entry, in order, and need not read it to its end.
	Take func(e Entry, r io.Reader) error
}

// Read reads an archive to its end. The entries that Take gets may turn out to be wrong: the archive is whole, and as
// it was written, only when Read returns no error. Invalid when it is not whole; Unavailable when writing it was broken
// off. Errors of the functions, and of r, are returned as they are.
func (t Reader) Read(ctx context.Context, r io.Reader) (Header, Totals, error) {
	var header Header
	var totals Totals
	packed, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return header, totals, &landfall.Error{Op: "backup.Read", Err: err}
	}
	defer packed.Close()
	archive := tar.NewReader(packed)
	digest, last := newSum(), Entry{Kind: noEntry}
	for {
		if err := ctx.Err(); err != nil {
			return header, totals, &landfall.Error{Op: "backup.Read", Kind: landfall.Canceled, Err: err}
		}
		h, err := archive.Next()
		if err != nil {
			return header, totals, truncatedError(err)
		}
		e, err := parseEntry(h)
		if err != nil {
			return header, totals, err
		}
		if e.Kind == endEntry {
			totals, err = finish(archive, packed, digest.String(), totals)
			if err == nil && !last.mayEnd() {
				err = damagedError("it has no rows")
			}
			return header, totals, err
		}
		if !e.follows(last) {
			return header, totals, damagedError("%.200q is not in its place", h.Name)
		}
		last = e
		if e.Kind == HeaderEntry {
			err := header.read(archive, digest, e)
			if err == nil && t.Begin != nil {
				err = t.Begin(header)
			}
			if err != nil {
				return header, totals, err
			}
			continue
		}
		if err := deliver(archive, digest, e, t.Take); err != nil {
			return header, totals, err
		}
		totals.count(e)
	}
}

// follows reports whether an entry may follow another one.
func (e Entry) follows(last Entry) bool {
	switch e.Kind {
	case HeaderEntry:
		return last.Kind == noEntry
	case DatabaseEntry:
		return last.Kind == HeaderEntry
	case TokenEntry:
		return last.Kind == DatabaseEntry
	case RefsEntry:
		return last.mayEnd() && last.Kind != ObjectEntry
	case PackEntry:
		return last.Kind == RefsEntry && last.Name == e.Name
	case ObjectEntry:
		return last.mayEnd()
	case noEntry, endEntry:
	}
	return false
}

// mayEnd reports whether the archive may end after the entry.
func (e Entry) mayEnd() bool {
	return e.Kind == DatabaseEntry || e.Kind == TokenEntry || e.Kind == PackEntry || e.Kind == ObjectEntry
}

// deliver passes an entry on and adds it to the digest.
func deliver(archive io.Reader, digest sum, e Entry, take func(Entry, io.Reader) error) error {
	content := sha256.New()
	reader := &trackedReader{Reader: io.TeeReader(archive, content)}
	var err error
	if take != nil {
		err = take(e, reader)
	}
	if reader.failed != nil {
		return truncatedError(reader.failed)
	}
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, reader); err != nil {
		return truncatedError(err)
	}
	digest.add(e, content.Sum(nil))
	return nil
}

// trackedReader remembers errors of reading, separately from errors of the consumer.
type trackedReader struct {
	io.Reader
	failed error
}

// Read implements io.Reader.
func (s *trackedReader) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

func (h *Header) read(archive io.Reader, digest sum, e Entry) error {
	err := deliver(archive, digest, e, func(_ Entry, r io.Reader) error {
		if err := json.NewDecoder(r).Decode(h); err != nil {
			return damagedError("%s says: %v", headerName, err)
		}
		return nil
	})
	if err == nil && h.Format != format {
		return damagedError("it has the form %d, and this program reads the form %d: take the landfall that made it",
			h.Format, format)
	}
	return err
}

// finish compares the entries that were read with the last entry.
func finish(archive, packed io.Reader, digest string, read Totals) (Totals, error) {
	var e end
	if err := json.NewDecoder(archive).Decode(&e); err != nil {
		return read, truncatedError(err)
	}
	if e.Problem != "" {
		return read, landfall.Errorf("backup.Read", landfall.Unavailable, "the backup was broken off: %s", e.Problem)
	}
	read.Rows = e.Rows
	if e.Digest != digest || e.Totals != read {
		return read, damagedError("it is not what was written: its digest is %s, and %s was written", digest, e.Digest)
	}
	if _, err := io.Copy(io.Discard, packed); err != nil { // the checksum is after the last byte
		return read, truncatedError(err)
	}
	return read, nil
}

// truncatedError is the error for an archive that ends, or is malformed, in the middle. An error of reading the file
// keeps its Kind.
func truncatedError(err error) error {
	if ours, ok := errors.AsType[*landfall.Error](err); ok {
		return ours
	}
	what := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		what = "it is cut off"
	}
	return &landfall.Error{Op: "backup.Read", Kind: landfall.Invalid, Err: err,
		Message: "the backup cannot be used: " + what}
}
