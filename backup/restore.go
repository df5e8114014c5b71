package backup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/store"
)

// Importer makes built-in repositories.
type Importer interface {
	// Import makes an app's repository from the output of Export.
	Import(ctx context.Context, app string, refs []byte, pack io.Reader) error
}

// Restore fills an empty installation. The database comes last, in one transaction. Until then a file in the data
// folder marks the installation as unfinished; see CheckFinished.
type Restore struct {
	Data     string // the data folder
	Database string // as store.Open takes it
	// Open opens the other parts that must be filled, in the data folder or elsewhere. It is called once the data
	// folder was found empty.
	Open     func(ctx context.Context) (assets.Store, Importer, error)
	Progress func(Totals)

	objects      assets.Store
	repositories Importer
	refs         []byte // of the repository whose objects come next
	done         Totals
}

// These are in the data folder during a restore.
const (
	unfinished = "restoring"
	rowsName   = "restoring.jsonl"
)

// CheckFinished returns a Conflict when a data folder belongs to a restore that did not finish.
func CheckFinished(data string) error {
	_, err := os.Lstat(filepath.Join(data, unfinished))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return failed("the data folder cannot be read", err)
	}
	return landfall.Errorf("backup.CheckFinished", landfall.Conflict, "the data folder %s is that of a restore that did "+
		"not end: remove the folder, empty the bucket if objects are in one, and restore again", data)
}

// Run reads an archive into the installation. Conflict, and nothing is changed, when the installation is not empty.
// After another error the data folder and the database are as empty as before; a bucket may have objects.
func (r *Restore) Run(ctx context.Context, archive io.Reader) (Header, Totals, error) {
	began := false
	reader := Reader{
		Begin: func(h Header) (err error) {
			if err = r.check(ctx, h); err == nil {
				began = true
				err = r.begin(ctx, h)
			}
			return err
		},
		Take: func(e Entry, in io.Reader) error { return r.take(ctx, e, in) },
	}
	header, totals, err := reader.Read(ctx, archive)
	filled := false
	if err == nil {
		filled, err = r.finish(ctx, header)
	}
	if err != nil && began && !filled {
		err = errors.Join(err, r.undo())
	}
	return header, totals, err
}

// check fails unless the installation is empty.
func (r *Restore) check(ctx context.Context, h Header) error {
	if err := store.CheckForm(h.Schema); err != nil {
		return err
	}
	if err := CheckFinished(r.Data); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.Data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed("the data folder cannot be read", err)
	}
	if len(entries) > 0 {
		return landfall.Errorf("backup.Restore", landfall.Conflict,
			"the data folder %s is not empty: it has %q; a restore needs a new one (LANDFALL_DATA)", r.Data, entries[0].Name())
	}
	return store.CheckVacant(ctx, r.Database)
}

// begin marks the data folder and opens the other parts.
func (r *Restore) begin(ctx context.Context, h Header) (err error) {
	if err := os.MkdirAll(r.Data, 0o700); err != nil {
		return failed("the data folder cannot be made", err)
	}
	mark, err := os.OpenFile(filepath.Join(r.Data, unfinished), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(mark.Close(), r.sync())
	}
	if err != nil {
		return failed("the data folder is not writable", err)
	}
	if r.objects, r.repositories, err = r.Open(ctx); err != nil || !h.Objects {
		return err
	}
	for key, err := range r.objects.List(ctx, "") {
		if err == nil {
			err = landfall.Errorf("backup.Restore", landfall.Conflict,
				"the object store is not empty: it has %q; a restore needs a new bucket, or folder", key)
		}
		return err
	}
	return nil
}

// take puts an entry where it belongs.
func (r *Restore) take(ctx context.Context, e Entry, in io.Reader) (err error) {
	switch e.Kind {
	case DatabaseEntry:
		err = r.file(rowsName, e, in)
	case TokenEntry:
		err = r.file(tokenName, e, in)
	case RefsEntry:
		r.refs, err = io.ReadAll(in)
	case PackEntry:
		err = r.repository(ctx, e, in)
	case ObjectEntry:
		err = r.object(ctx, e, in)
	case noEntry, HeaderEntry, endEntry:
	}
	r.done.count(e)
	if err == nil && r.Progress != nil {
		r.Progress(r.done)
	}
	return err
}

func (r *Restore) file(name string, e Entry, in io.Reader) error {
	if err := r.checkSpace(e); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(r.Data, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return failed("the data folder is not writable", err)
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Sync(), f.Close())
}

func (r *Restore) repository(ctx context.Context, e Entry, in io.Reader) error {
	if r.repositories == nil {
		return landfall.Errorf("backup.Restore", landfall.Unavailable, "the backup has repositories of the built-in remote, "+
			"and git was not found: install it (Debian: apt-get install git)")
	}
	if err := r.checkSpace(e); err != nil {
		return err
	}
	return r.repositories.Import(ctx, e.Name, r.refs, in)
}

func (r *Restore) object(ctx context.Context, e Entry, in io.Reader) error {
	if err := r.checkSpace(e); err != nil {
		return err
	}
	_, err := r.objects.Create(ctx, e.Name, in, e.Size)
	return err
}

// checkSpace fails when the data folder's disk has no space for an entry.
func (r *Restore) checkSpace(e Entry) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(r.Data, &disk); err != nil {
		return failed("the data folder's disk does not answer", err)
	}
	if free := int64(disk.Bavail) * disk.Bsize; e.Size > free {
		return landfall.Errorf("backup.Restore", landfall.Unavailable, "%s has %d bytes, and the disk of %s has room for %d",
			e.path(), e.Size, r.Data, free)
	}
	return nil
}

// finish fills the database, brings it to the newest form, and removes the mark.
func (r *Restore) finish(ctx context.Context, h Header) (filled bool, err error) {
	if err := r.objects.Sync(ctx); err != nil {
		return false, err
	}
	name := filepath.Join(r.Data, rowsName)
	rows, err := os.Open(filepath.Clean(name))
	if err != nil {
		return false, failed("the rows are gone", err)
	}
	_, err = store.Fill(ctx, r.Database, h.Schema, rows)
	if err := errors.Join(err, rows.Close()); err != nil {
		return false, err
	}
	db, err := store.Open(ctx, r.Database)
	if err == nil {
		err = errors.Join(setInstallation(ctx, db, h), db.Close())
	}
	if err = errors.Join(err, os.Remove(name), r.sync(), os.Remove(filepath.Join(r.Data, unfinished)),
		r.sync()); err != nil {
		return true, failed("the restore could not be finished", err)
	}
	return true, nil
}

// setInstallation gives the database the key of the object store when that was not restored, because the installation
// goes on. When objects were restored, too, it is a new installation, which gets its key at the first start.
func setInstallation(ctx context.Context, db *store.DB, h Header) error {
	if h.Objects || h.Installation == "" {
		return nil
	}
	return db.Update(ctx, func(tx *store.Tx) error { return tx.SetInstallation(ctx, h.Installation) })
}

// undo removes what a restore made in the data folder, which was empty, and in a database file. It removes the mark
// last.
func (r *Restore) undo() error {
	entries, err := os.ReadDir(r.Data)
	if !store.IsPostgres(r.Database) {
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			os.Remove(r.Database + suffix)
		}
	}
	for _, entry := range entries {
		if entry.Name() != unfinished {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.Data, entry.Name())))
		}
	}
	if err == nil {
		err = os.Remove(filepath.Join(r.Data, unfinished))
	}
	return err
}

// sync makes changes of names in the data folder survive a loss of power.
func (r *Restore) sync() error {
	folder, err := os.Open(r.Data)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(folder.Fd())), folder.Close())
}

func failed(what string, err error) error {
	return &landfall.Error{Op: "backup.Restore", Kind: landfall.KindOf(err), Message: what + ": " + reason(err), Err: err}
}
