package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3/database"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"landfall.dev/landfall"
)

// sqliteFile is a database in a file that belongs to this process: one connection writes, and a separate pool reads.
type sqliteFile struct {
	write *sql.DB
	read  *sql.DB
	lock  io.Closer
	jobs  *river.Client[*sql.Tx] // inserts only
}

var _ engine = (*sqliteFile)(nil)

func openSQLite(ctx context.Context, path string, s schema) (*DB, error) {
	const op landfall.Op = "store.Open"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, landfall.Wrapf(op, landfall.Internal, err, "the data folder cannot be made")
	}
	lock, err := Lock(path + ".lock")
	if err != nil {
		return nil, err
	}
	e := &sqliteFile{lock: lock}
	change, err := e.open(ctx, path, s)
	if err != nil {
		return nil, errors.Join(classify(op, err), e.close())
	}
	return &DB{queries: queries{e.read}, engine: e, upgrade: change, wake: make(chan struct{}, 1),
		leadership: leadership{exclusive: true}}, nil
}

func (e *sqliteFile) open(ctx context.Context, path string, s schema) (change Upgrade, err error) {
	// it holds secrets, and SQLite would make it readable for others
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return change, err
	}
	if err := f.Close(); err != nil {
		return change, err
	}
	// Transactions are immediate: a deferred one that reads and then writes fails at once under load.
	if e.write, err = openPool(path, 1, "_txlock=immediate"); err != nil {
		return change, err
	}
	if change, err = s.migrate(ctx, database.DialectSQLite3, e.write); err != nil {
		return change, err
	}
	jobs, err := rivermigrate.New(riversqlite.New(e.write), nil)
	if err != nil {
		return change, err
	}
	if _, err := jobs.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return change, err
	}
	if e.read, err = openPool(path, max(4, runtime.NumCPU()), "_pragma=query_only(1)"); err != nil {
		return change, err
	}
	e.jobs, err = river.NewClient(riversqlite.New(e.write), insertOnlyConfig())
	return change, err
}

// openPool opens a pool of at most n connections. FULL makes each commit durable before it is reported. The file
// belongs to one process, so its connections share the index of the write-ahead log in memory (unix-excl). A file for
// it would be made at each start, which fails on a full disk.
func openPool(path string, n int, extra string) (*sql.DB, error) {
	dsn := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}).String() +
		"?vfs=unix-excl&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=busy_timeout(30000)&_pragma=foreign_keys(1)&" + extra
	pool, err := openStatements(dsn)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	return pool, nil
}

// Lock takes the lock that gives the folder of the file at path to one process. While it is held, another process gets
// a Conflict that says so. Open takes it by itself for an SQLite file. The kernel drops it when the process ends.
func Lock(path string) (io.Closer, error) {
	const op landfall.Op = "store.lock"
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, landfall.Wrapf(op, landfall.Internal, err, "the data folder is not writable")
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil,
			errors.Join(landfall.Errorf(op, landfall.Conflict, "another landfall process%s uses the data folder %s: stop it, "+
				"or give this one a folder of its own with "+"LANDFALL_DATA", holder(f), filepath.Dir(path)), f.Close())
	case err != nil:
		return nil, errors.Join(landfall.Wrapf(op, landfall.Internal, err, "the data folder cannot be locked"), f.Close())
	}
	// The note replaces the last one, for which even a full disk has room. The lock holds without a note, too.
	note := strconv.Itoa(os.Getpid()) + "\n"
	if _, err := f.WriteAt([]byte(note), 0); err == nil {
		_ = f.Truncate(int64(len(note)))
	}
	return fileLock{f}, nil
}

// holder returns the process that holds a lock, as noted in the file; empty when there is no note.
func holder(f *os.File) string {
	const digits = 20
	data, err := io.ReadAll(io.LimitReader(f, digits))
	pid, wrong := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || wrong != nil || pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

// fileLock is a file that is locked.
type fileLock struct{ *os.File }

// Close drops the lock explicitly. Closing the file alone would not drop it while a process that is just being started
// has the file open, too.
func (l fileLock) Close() error {
	return errors.Join(unix.Flock(int(l.Fd()), unix.LOCK_UN), l.File.Close())
}

func (e *sqliteFile) close() error {
	var errs []error
	for _, pool := range []*sql.DB{e.read, e.write} {
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	if e.lock != nil {
		errs = append(errs, e.lock.Close())
		e.lock = nil
	}
	return errors.Join(errs...)
}

// note waits for the one writing connection.
func (e *sqliteFile) note(ctx context.Context, query string, args ...any) error {
	_, err := e.write.ExecContext(ctx, query, args...)
	return err
}

func (e *sqliteFile) begin(ctx context.Context) (transaction, error) {
	tx, err := e.write.BeginTx(ctx, nil)
	return sqliteTx{tx, e.jobs}, err
}

// snapshot needs no more: a reader of the write-ahead log stays at the moment of its first statement.
func (e *sqliteFile) snapshot(ctx context.Context) (*sql.Tx, error) { return e.read.BeginTx(ctx, nil) }

// now returns own, because the file belongs to this process.
func (*sqliteFile) now(_ context.Context, _ queries, own time.Time) (time.Time, error) {
	return own, nil
}

func (e *sqliteFile) verify(ctx context.Context) ([]string, error) {
	const op landfall.Op = "store.Verify"
	q := queries{e.read}
	damage, err := list(ctx, q, op, scanValue[string], `PRAGMA integrity_check`)
	if err != nil {
		return nil, err
	}
	damage = slices.DeleteFunc(damage, func(line string) bool { return line == "ok" })
	dangling, err := list(ctx, q, op, func(row scanner) (string, error) {
		var table, parent string
		var id, key any
		err := row.Scan(&table, &id, &parent, &key)
		return fmt.Sprintf("a row of %s refers to one of %s that is not there", table, parent), err
	}, `PRAGMA foreign_key_check`)
	return append(damage, dangling...), err
}

// sqliteTx is a transaction of the one writing connection.
type sqliteTx struct {
	*sql.Tx
	jobs *river.Client[*sql.Tx]
}

// ExecContext checks ctx before the statement, and not during it: what a transaction writes is short, and an interrupt
// costs the driver a goroutine.
func (t sqliteTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return t.Tx.ExecContext(context.WithoutCancel(ctx), query, args...)
}

func (t sqliteTx) insert(ctx context.Context, jobs []river.InsertManyParams) error {
	_, err := t.jobs.InsertManyTx(ctx, t.Tx, jobs)
	return err
}

func (t sqliteTx) commit(ctx context.Context) error {
	err := t.Commit()
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil {
		return ctx.Err() // it was rolled back when ctx ended
	}
	return err
}

func (t sqliteTx) rollback() error {
	if err := t.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

func (e *sqliteFile) client(config *river.Config) (jobClient, error) {
	return river.NewClient(riversqlite.New(e.write), config)
}

// forget gives back all jobs: no other worker can be running them, and there is no other leader. The library itself
// would wait for an hour.
func (e *sqliteFile) forget(ctx context.Context, tx *Tx, _ string) error {
	if err := tx.exec(ctx, "store.forget", `DELETE FROM river_leader`); err != nil {
		return err
	}
	return tx.exec(ctx, "store.forget",
		`UPDATE river_job SET state = 'available', attempt = 0, finalized_at = NULL WHERE state = 'running'`)
}

// running returns all jobs, because there is no other process.
func (e *sqliteFile) running(ctx context.Context, _ string) ([]runningJob, error) {
	return list(ctx, queries{e.read}, "store.running", scanRunningJob, selectRunning)
}

// lead needs no lock: the file is locked since it was opened. The key is left when it is first needed.
func (e *sqliteFile) lead(ctx context.Context, _ *leadership, leading func()) error {
	leading()
	<-ctx.Done()
	return ctx.Err()
}

func (e *sqliteFile) notify(context.Context, *Tx, landfall.AppChange) error { return nil }

func (e *sqliteFile) acknowledge(context.Context, string, int64) error { return nil }

func (e *sqliteFile) acknowledged(context.Context, string) (int64, error) { return math.MaxInt64, nil }

func (e *sqliteFile) notices(ctx context.Context, _ func(), _ func(landfall.AppChange)) error {
	<-ctx.Done()
	return ctx.Err()
}

// isDamaged reports whether an error says that a file of SQLite is damaged.
func isDamaged(err error) bool {
	const primary = 0xff // the other bits of a code only say where it arose
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&primary == sqlite3.SQLITE_CORRUPT || e.Code()&primary == sqlite3.SQLITE_NOTADB)
}

func sqliteKind(err error) (landfall.Kind, bool) {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return 0, false
	}
	const primary = 0xff // the other bits of a code only say where it arose
	switch e.Code() & primary {
	case sqlite3.SQLITE_CONSTRAINT:
		return landfall.Conflict, true
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_READONLY:
		return landfall.Unavailable, true
	case sqlite3.SQLITE_INTERRUPT:
		return landfall.Canceled, true
	}
	return landfall.Internal, true
}
