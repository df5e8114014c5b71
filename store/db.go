package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"landfall.dev/landfall"
)

//go:embed migrations/*.sql
var migrations embed.FS

// DB is an open database. Its methods read committed state; Update writes.
type DB struct {
	queries
	write *sql.DB
	read  *sql.DB
	lock  *os.File
	jobs  *river.Client[*sql.Tx] // inserts only; Queue works
}

// Tx is one transaction. It is valid only within the function that Update calls.
type Tx struct {
	queries
	tx   *sql.Tx
	jobs *river.Client[*sql.Tx]
}

// queries are the methods that DB and Tx share.
type queries struct{ conn conn }

// conn is what a query needs of a pool or a transaction.
type conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Open opens the SQLite database at path, making and migrating it as needed. One process owns a database at a time:
// a second Open of the same path is a Conflict that says so.
func Open(ctx context.Context, path string) (*DB, error) {
	const op landfall.Op = "store.Open"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, &landfall.Error{Op: op, Message: "the data folder cannot be made", Err: err}
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	db := &DB{lock: lock}
	if err := db.open(ctx, path); err != nil {
		return nil, errors.Join(classify(op, err), db.Close())
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, path string) error {
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_RDWR, 0o600) // it holds secrets, and SQLite would let others read
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// Immediate transactions: deferred ones that read and then write fail at once under load.
	if db.write, err = openPool(path, 1, "_txlock=immediate"); err != nil {
		return err
	}
	if err := migrate(ctx, db.write); err != nil {
		return err
	}
	if db.read, err = openPool(path, max(4, runtime.NumCPU()), "_pragma=query_only(1)"); err != nil {
		return err
	}
	db.queries = queries{db.read}
	if db.jobs, err = river.NewClient(riversqlite.New(db.write), &river.Config{}); err != nil {
		return err
	}
	return nil
}

// openPool opens a pool of at most n connections. FULL makes each commit durable before it is reported.
func openPool(path string, n int, extra string) (*sql.DB, error) {
	dsn := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}).String() +
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(30000)&_pragma=foreign_keys(1)&" + extra
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	return pool, nil
}

func migrate(ctx context.Context, pool *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(database.DialectSQLite3, pool, files)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return err
	}
	jobs, err := rivermigrate.New(riversqlite.New(pool), nil)
	if err != nil {
		return err
	}
	_, err = jobs.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// lockFile takes the lock that makes a database belong to one process. The kernel drops it when the process ends.
func lockFile(path string) (*os.File, error) {
	const op landfall.Op = "store.lock"
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, &landfall.Error{Op: op, Message: "the data folder is not writable", Err: err}
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(&landfall.Error{Op: op, Kind: landfall.Conflict, Err: err, Message: fmt.Sprintf(
			"another landfall process uses the data folder %s: stop it, or give this one a folder of its own with LANDFALL_DATA",
			filepath.Dir(path))}, f.Close())
	}
	return f, nil
}

// Close lets go of the database. Repeating it is safe.
func (db *DB) Close() error {
	var errs []error
	for _, pool := range []*sql.DB{db.read, db.write} {
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
		db.lock = nil
	}
	return errors.Join(errs...)
}

// Update runs f in one transaction: all of it becomes visible and durable, or nothing when f or the commit fails.
// f must not call Update. A full or failing disk is Unavailable.
func (db *DB) Update(ctx context.Context, f func(*Tx) error) error {
	const op landfall.Op = "store.Update"
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return classify(op, err)
	}
	if err := f(&Tx{queries: queries{tx}, tx: tx, jobs: db.jobs}); err != nil {
		return errors.Join(err, rollback(tx))
	}
	return classify(op, tx.Commit())
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// classify turns a driver's error into a Kind, once, by the driver's codes.
func classify(op landfall.Op, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*landfall.Error](err); ok {
		return err
	}
	kind := landfall.Internal
	switch e, ok := errors.AsType[*sqlite.Error](err); {
	case errors.Is(err, sql.ErrNoRows):
		kind = landfall.NotFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind = landfall.Canceled
	case ok:
		kind = kindOfCode(e.Code())
	}
	return &landfall.Error{Op: op, Kind: kind, Err: err}
}

func kindOfCode(code int) landfall.Kind {
	const primary = 0xff // the rest of a code only tells where it arose
	switch code & primary {
	case sqlite3.SQLITE_CONSTRAINT:
		return landfall.Conflict
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_READONLY:
		return landfall.Unavailable
	case sqlite3.SQLITE_INTERRUPT:
		return landfall.Canceled
	}
	return landfall.Internal
}

// scanner is a row that is being read.
type scanner interface{ Scan(dest ...any) error }

// one reads the single row of a query: NotFound when there is none.
func one[T any](ctx context.Context, q queries, op landfall.Op, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	v, err := scan(q.conn.QueryRowContext(ctx, query, args...))
	if err != nil {
		var zero T
		return zero, classify(op, err)
	}
	return v, nil
}

// list reads all rows of a query.
func list[T any](ctx context.Context, q queries, op landfall.Op, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, classify(op, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below tells what matters
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, classify(op, err)
		}
		all = append(all, v)
	}
	return all, classify(op, rows.Err())
}

// exec runs a statement.
func (q queries) exec(ctx context.Context, op landfall.Op, query string, args ...any) error {
	_, err := q.conn.ExecContext(ctx, query, args...)
	return classify(op, err)
}

// execOne runs a statement that must hit a row: otherwise miss, an error of the given kind and message.
func (q queries) execOne(ctx context.Context, op landfall.Op, miss landfall.Error, query string, args ...any) error {
	result, err := q.conn.ExecContext(ctx, query, args...)
	if err != nil {
		return classify(op, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return classify(op, err)
	}
	if n == 0 {
		miss.Op = op
		return &miss
	}
	return nil
}

// next returns the next value of a counter, in the order in which transactions commit.
func (tx *Tx) next(ctx context.Context, counter string) (int64, error) {
	return one(ctx, tx.queries, "store.next", scanValue[int64],
		`INSERT INTO counters (name, value) VALUES ($1, 1)
		 ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value`, counter)
}

func scanValue[T any](row scanner) (T, error) {
	var v T
	err := row.Scan(&v)
	return v, err
}

const changesCounter = "changes"

// Changed notes that something which gateways show has moved.
func (tx *Tx) Changed(ctx context.Context) error {
	_, err := tx.next(ctx, changesCounter)
	return err
}

// Changes returns how often Changed was called: a gateway that has seen this number is current.
func (q queries) Changes(ctx context.Context) (int64, error) {
	return one(ctx, q, "store.Changes", scanValue[int64],
		`SELECT COALESCE(MAX(value), 0) FROM counters WHERE name = $1`, changesCounter)
}

// micros stores a time; zero stays zero.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment reads a time back.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
