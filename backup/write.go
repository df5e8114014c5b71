package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/store"
)

// Objects is the part of the object store that a backup needs.
type Objects interface {
	assets.Opener
	// List yields the keys of all objects below a folder.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// Exporter writes built-in repositories.
type Exporter interface {
	// Export writes the references and then all objects of an app's repository. NotFound when there is none.
	Export(ctx context.Context, app string, refs, pack io.Writer) error
}

// Backup has the sources of an archive. Nothing may be collected until Write has returned.
type Backup struct {
	DB           *store.DB
	Objects      Objects  // nil: objects are left out
	Repositories Exporter // nil: there are none
	Token        []byte   // the administrator's token in the data folder; nil: there is none
	Scratch      string   // folder for entries that must be measured before they are written
	Now          func() time.Time

	// Check is called when everything else is written: its error makes the archive incomplete. It may be nil.
	Check func(ctx context.Context) error
}

// Write writes an archive to w. When it fails, Read of the output fails too and, unless w failed, says why.
func (b *Backup) Write(ctx context.Context, w io.Writer) (Totals, error) {
	packed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return Totals{}, &landfall.Error{Op: "backup.Write", Err: err}
	}
	a := &archiveWriter{Backup: b, archive: tar.NewWriter(packed), digest: newSum()}
	if err = a.write(ctx); err == nil && b.Check != nil {
		err = b.Check(ctx)
	}
	e := end{Totals: a.totals, Digest: a.digest.String()}
	if err != nil {
		e.Problem = landfall.MessageOf(err)
		if a.incomplete { // no further entry can follow
			return a.totals, errors.Join(err, packed.Close())
		}
	}
	data, endErr := json.Marshal(e)
	if endErr == nil {
		endErr = a.raw(Entry{Kind: endEntry, Size: int64(len(data))}, bytes.NewReader(data))
	}
	return a.totals, errors.Join(err, endErr, a.archive.Close(), packed.Close())
}

// archiveWriter is an archive that is being written.
type archiveWriter struct {
	*Backup
	archive    *tar.Writer
	digest     sum
	totals     Totals
	apps       []landfall.App
	prefixes   map[string]bool
	incomplete bool // an entry is incomplete
}

func (a *archiveWriter) write(ctx context.Context) error {
	if err := os.MkdirAll(a.Scratch, 0o700); err != nil {
		return &landfall.Error{Op: "backup.Write", Err: err}
	}
	if err := a.database(ctx); err != nil {
		return err
	}
	if a.Token != nil {
		if err := a.entry(Entry{Kind: TokenEntry, Size: int64(len(a.Token))}, bytes.NewReader(a.Token)); err != nil {
			return err
		}
	}
	for _, app := range a.apps {
		if err := a.repository(ctx, app.ID); err != nil {
			return err
		}
	}
	if a.Objects == nil {
		return nil
	}
	for key, err := range a.Objects.List(ctx, "") {
		if err != nil {
			return err
		}
		if err := a.object(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// database writes the header and the rows. It spools the rows, because w may be slow, and the snapshot must not last.
func (a *archiveWriter) database(ctx context.Context) error {
	header := Header{Format: format, Made: a.Now().UTC(), Objects: a.Objects != nil}
	return a.spool(func(spooled *os.File) error {
		err := a.DB.Snapshot(ctx, func(s *store.Snapshot) (err error) {
			if header.Schema, err = s.Schema(ctx); err != nil {
				return err
			}
			if header.Installation, err = s.Installation(ctx); err != nil {
				return err
			}
			if a.apps, err = s.Apps(ctx); err != nil {
				return err
			}
			prefixes, err := s.Prefixes(ctx)
			if err != nil {
				return err
			}
			a.prefixes = make(map[string]bool, len(prefixes))
			for _, p := range prefixes {
				a.prefixes[p] = true
			}
			a.totals.Rows, err = s.Dump(ctx, spooled)
			return err
		})
		if err != nil {
			return err
		}
		data, err := json.Marshal(header)
		if err != nil {
			return err
		}
		if err := a.entry(Entry{Kind: HeaderEntry, Size: int64(len(data))}, bytes.NewReader(data)); err != nil {
			return err
		}
		return a.file(Entry{Kind: DatabaseEntry}, spooled)
	})
}

// repository writes the built-in repository of an app, if there is one.
func (a *archiveWriter) repository(ctx context.Context, app string) error {
	if a.Repositories == nil {
		return nil
	}
	return a.spool(func(spooled *os.File) error {
		var refs bytes.Buffer
		if err := a.Repositories.Export(ctx, app, &refs, spooled); err != nil {
			return landfall.Ignore(err, landfall.NotFound)
		}
		if err := a.entry(Entry{Kind: RefsEntry, Name: app, Size: int64(refs.Len())}, &refs); err != nil {
			return err
		}
		return a.file(Entry{Kind: PackEntry, Name: app}, spooled)
	})
}

// object writes an object, if it is in a folder that the rows name; other objects are newer than the rows.
func (a *archiveWriter) object(ctx context.Context, key string) error {
	if !a.isKnown(key) {
		return nil
	}
	object, err := a.Objects.Open(ctx, key)
	if err != nil {
		return err
	}
	defer object.Close()
	return a.entry(Entry{Kind: ObjectEntry, Name: key, Size: object.Size()}, object)
}

func (a *archiveWriter) isKnown(key string) bool {
	for folder := path.Dir(key); strings.Contains(folder, "/"); folder = path.Dir(folder) {
		if a.prefixes[folder+"/"] {
			return true
		}
	}
	return false
}

// spool calls f with a temporary file.
func (a *archiveWriter) spool(f func(spooled *os.File) error) error {
	spooled, err := os.CreateTemp(a.Scratch, "backup-*")
	if err != nil {
		return &landfall.Error{Op: "backup.spool", Err: err}
	}
	defer spooled.Close()
	if err := os.Remove(spooled.Name()); err != nil { // it exists as long as it is open
		return &landfall.Error{Op: "backup.spool", Err: err}
	}
	return f(spooled)
}

// file writes an entry whose bytes are in a file.
func (a *archiveWriter) file(e Entry, f *os.File) (err error) {
	if e.Size, err = f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return &landfall.Error{Op: "backup.spool", Err: err}
	}
	return a.entry(e, f)
}

// entry writes an entry and counts it.
func (a *archiveWriter) entry(e Entry, r io.Reader) error {
	content := sha256.New()
	if err := a.raw(e, io.TeeReader(r, content)); err != nil {
		return err
	}
	a.digest.add(e, content.Sum(nil))
	if e.Kind != HeaderEntry {
		a.totals.count(e)
	}
	return nil
}

// raw writes an entry of exactly its size.
func (a *archiveWriter) raw(e Entry, r io.Reader) error {
	var n int64
	err := a.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.path(), Size: e.Size, Mode: 0o600,
		ModTime: a.Now().UTC()})
	if err == nil {
		n, err = io.Copy(a.archive, r)
	}
	if err == nil && n < e.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil { // the entry is filled, so that the end can say why
		_, padded := io.CopyN(a.archive, zeros{}, e.Size-n)
		a.incomplete = padded != nil
		return &landfall.Error{Op: "backup.Write", Kind: landfall.KindOf(err), Err: err,
			Message: "writing " + e.path() + ": " + reason(err)}
	}
	return nil
}

func reason(err error) string {
	if _, ours := errors.AsType[*landfall.Error](err); ours {
		return landfall.MessageOf(err)
	}
	return err.Error()
}

// zeros is an endless reader of zeros.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
