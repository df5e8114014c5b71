package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
)

//go:embed migrations/*.sql
var migrations embed.FS

// DB is an open database. Its methods read committed state; Update writes.
type DB struct {
	queries
	engine  engine
	upgrade Upgrade // what Open changed
	// holds one element when jobs were committed that Queue has not heard of; nil where the database notifies it
	wake chan struct{}

	group      commitGroup
	uses       uses
	leadership leadership
}

// Tx is one transaction. It is valid only within the function that Update calls.
type Tx struct {
	queries
	transaction transaction
	engine      engine
	jobs        []river.InsertManyParams // inserted at the end, all at once
	changed     map[string]bool          // apps for which Changed was called
}

// engine is one kind of database. Every kind runs one Update at a time, even when several processes share the database.
// So what a transaction has checked stays true until it commits, and no kind needs rules of its own for more
// concurrency.
type engine interface {
	stateEngine
	jobEngine
	noticeEngine
	noteEngine
}

type noteEngine interface {
	// note runs a statement that nothing depends on, beside the transaction that may be running. It ends with ctx.
	note(ctx context.Context, query string, args ...any) error
}

type stateEngine interface {
	// begin starts the transaction of an Update when no other one is running.
	begin(ctx context.Context) (transaction, error)
	// snapshot starts a read-only transaction that sees what was committed at one moment.
	snapshot(ctx context.Context) (*sql.Tx, error)
	// verify goes over the files of the database, and returns what is damaged.
	verify(ctx context.Context) ([]string, error)
	close() error
}

type jobEngine interface {
	// client returns a client of the job library.
	client(config *river.Config) (jobClient, error)
	// forget gives back the jobs that an earlier life of this process was working on when it was killed, and gives up
	// its leadership of the queue.
	forget(ctx context.Context, tx *Tx, process string) error
	// running returns the jobs that, according to the tables, this process is working on.
	running(ctx context.Context, process string) ([]runningJob, error)
}

type noticeEngine interface {
	// notify tells the notices of every process about the change once the transaction is committed.
	notify(ctx context.Context, tx *Tx, c landfall.AppChange) error
	// notices calls changed after each commit that had a notify, until ctx ends or the connection is lost.
	notices(ctx context.Context, listening func(), changed func(landfall.AppChange)) error
	peerEngine
}

type peerEngine interface {
	// now returns the time of the clock that all processes share; own is the time of this process.
	now(ctx context.Context, q queries, own time.Time) (time.Time, error)
	// lead makes this process the leader until ctx ends, and calls leading whenever it becomes the leader. A Conflict
	// ends it.
	lead(ctx context.Context, o *leadership, leading func()) error
	// acknowledge notes that a process is alive and shows all changes up to a number. A negative number means that it
	// has stopped.
	acknowledge(ctx context.Context, process string, seen int64) error
	// acknowledged returns the newest change that all processes but one show. It counts only processes that were alive
	// lately.
	acknowledged(ctx context.Context, except string) (int64, error)
}

// transaction is a transaction that has begun.
type transaction interface {
	conn
	insert(ctx context.Context, jobs []river.InsertManyParams) error
	commit(ctx context.Context) error
	rollback() error
}

// jobClient works on jobs. There is one river.Client for each kind of transaction.
type jobClient interface {
	Insert(ctx context.Context, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	StopAndCancel(ctx context.Context) error
}

// queries are the methods that DB and Tx share.
type queries struct{ conn conn }

// conn is what a query needs from a pool or a transaction.
type conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Open opens a database, and makes and migrates it as needed: the one at a postgres:// or postgresql:// address, which
// any number of processes may use, or else the SQLite file at a path. A file belongs to one process at a time: a second
// Open of the same path is a Conflict that says so. So is a database whose tables a newer program has changed to a form
// that this program does not know.
func Open(ctx context.Context, where string) (*DB, error) {
	return openWith(ctx, where, currentSchema())
}

func openWith(ctx context.Context, where string, s schema) (*DB, error) {
	if IsPostgres(where) {
		return openPostgres(ctx, where, s)
	}
	return openSQLite(ctx, where, s)
}

// IsPostgres reports whether where is the address of a PostgreSQL database, and not a path.
func IsPostgres(where string) bool {
	return strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://")
}

// schema is the list of table forms that a program knows. A migration leads from each form to the next.
type schema struct {
	migrations fs.FS
	upTo       int64 // the form to migrate to; 0: the newest
}

// currentSchema returns the forms that this program knows.
func currentSchema() schema {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil { // its name is valid
		files = migrations
	}
	return schema{migrations: files}
}

// Upgrade is a change in the form of the tables.
type Upgrade struct{ From, To int64 }

// Upgraded returns how Open changed the form of the tables; false when it was already the newest, or the tables are
// new.
func (db *DB) Upgraded() (Upgrade, bool) {
	return db.upgrade, db.upgrade.From > 0 && db.upgrade.From < db.upgrade.To
}

// migrate brings the tables up to date. Each migration has a transaction of its own, so one that fails leaves the form
// before it. It returns Conflict, and changes nothing, when a newer program has migrated further.
func (s schema) migrate(ctx context.Context, dialect database.Dialect, pool *sql.DB,
	options ...goose.ProviderOption) (Upgrade, error) {
	const op landfall.Op = "store.migrate"
	steps, err := s.steps()
	if err != nil {
		return Upgrade{}, err
	}
	options = append(options, goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true),
		goose.WithAllowOutofOrder(true)) // a migration may be merged after one with a higher number
	provider, err := goose.NewProvider(dialect, pool, nil, options...)
	if err != nil {
		return Upgrade{}, err
	}
	sources := provider.ListSources()
	change := Upgrade{To: sources[len(sources)-1].Version}
	if s.upTo > change.To {
		return change, newerSchema(op, s.upTo, change.To)
	}
	if s.upTo != 0 {
		change.To = s.upTo
	}
	if change.From, err = provider.GetDBVersion(ctx); err != nil {
		return change, err
	}
	if change.From > change.To {
		return change, newerSchema(op, change.From, change.To)
	}
	_, err = provider.UpTo(ctx, change.To)
	return change, err
}

// steps returns the migrations, each as one text for the database. goose would read them line by line, with a buffer of
// 4 MiB for a line, which it mostly makes anew when the race detector is on: a third of what a start takes then.
func (s schema) steps() (steps []*goose.Migration, err error) {
	names, err := fs.Glob(s.migrations, "*.sql")
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		text, err := fs.ReadFile(s.migrations, name)
		if err != nil {
			return nil, err
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		steps = append(steps, goose.NewGoMigration(number, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, up)
				return err
			},
		}, nil))
	}
	return steps, err
}

func newerSchema(op landfall.Op, form, known int64) error {
	return landfall.Errorf(op, landfall.Conflict,
		"the database has the form %d of a newer landfall, and this program knows forms up to %d: start the newer program, "+
			"or restore a backup that was made before the upgrade", form, known)
}

// Close closes the database. Repeating it is safe.
func (db *DB) Close() error {
	db.uses.close()
	return db.engine.close()
}

// Update runs f in one transaction. Either everything becomes visible and durable, or nothing does when f or the commit
// fails. f must not call Update. A full or failing disk, or a database that cannot be reached, is Unavailable. Only
// when the database becomes unreachable at the commit and stays so for long is it unknown whether the transaction was
// committed.
func (db *DB) Update(ctx context.Context, f func(*Tx) error) error {
	const op landfall.Op = "store.Update"
	t, err := db.engine.begin(ctx)
	if err != nil {
		return classify(op, err)
	}
	tx := &Tx{queries: queries{t}, transaction: t, engine: db.engine}
	returned := false
	defer func() {
		if !returned { // f panicked, and a server survives that: the open transaction would block all others
			_ = t.rollback()
		}
	}()
	if err = f(tx); err == nil && len(tx.jobs) > 0 {
		err = classify("store.Enqueue", t.insert(ctx, tx.jobs))
	}
	returned = true
	if err != nil {
		return errors.Join(err, t.rollback())
	}
	crashpoint.Here("write.committing")
	if err := t.commit(ctx); err != nil {
		return classify(op, err)
	}
	crashpoint.Here("write.committed")
	if len(tx.jobs) > 0 {
		select {
		case db.wake <- struct{}{}:
		default: // it was woken already
		}
	}
	return nil
}

// Now returns the database's time, which decides when leases begin and end, because the clocks of processes differ. own
// is the time of this process; it is used for a file that no other process has.
func (db *DB) Now(ctx context.Context, own time.Time) (time.Time, error) {
	now, err := db.engine.now(ctx, db.queries, own)
	return now, classify("store.Now", err)
}

// Now is DB.Now in a transaction.
func (tx *Tx) Now(ctx context.Context, own time.Time) (time.Time, error) {
	now, err := tx.engine.now(ctx, tx.queries, own)
	return now, classify("store.Now", err)
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
	switch {
	case errors.Is(err, sql.ErrNoRows):
		kind = landfall.NotFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind = landfall.Canceled
	default:
		for _, kindOf := range []func(error) (landfall.Kind, bool){sqliteKind, postgresKind} {
			if k, ok := kindOf(err); ok {
				kind = k
			}
		}
	}
	e := &landfall.Error{Op: op, Kind: kind, Err: err}
	switch {
	case isDamaged(err):
		e.Message = "the database is damaged: landfall fsck --offline looks at what is left; the last backup brings it " +
			"back (landfall restore)"
	case kind == landfall.Unavailable:
		e.Message = "the database is away, or its disk is full"
	}
	return e
}

// portableArgs changes arguments so that every engine takes them and stores the same: booleans become 0 and 1, and text
// becomes valid UTF-8 without the zero byte, which PostgreSQL cannot store.
func portableArgs(args []any) []any {
	for i, arg := range args {
		v := reflect.ValueOf(arg)
		if v.Kind() == reflect.Bool {
			args[i] = 0
			if v.Bool() {
				args[i] = 1
			}
		}
		if v.Kind() == reflect.String {
			args[i] = strings.ReplaceAll(strings.ToValidUTF8(v.String(), "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return args
}

// scanner is a row that can be read.
type scanner interface{ Scan(dest ...any) error }

// one reads the single row of a query: NotFound when there is none.
func one[T any](ctx context.Context, q queries, op landfall.Op, scan func(scanner) (T, error), query string,
	args ...any) (T, error) {
	v, err := scan(q.conn.QueryRowContext(ctx, query, portableArgs(args)...))
	if err != nil {
		var zero T
		return zero, classify(op, err)
	}
	return v, nil
}

// list reads all rows of a query.
func list[T any](ctx context.Context, q queries, op landfall.Op, scan func(scanner) (T, error), query string,
	args ...any) ([]T, error) {
	rows, err := q.conn.QueryContext(ctx, query, portableArgs(args)...)
	if err != nil {
		return nil, classify(op, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below reports what matters
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
	_, err := q.conn.ExecContext(ctx, query, portableArgs(args)...)
	return classify(op, err)
}

// execOne runs a statement that must change a row. When it changes none, it returns miss, an error of the given kind
// and message.
func (q queries) execOne(ctx context.Context, op landfall.Op, miss landfall.Error, query string, args ...any) error {
	result, err := q.conn.ExecContext(ctx, query, portableArgs(args)...)
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
	return tx.advance(ctx, counter, 1)
}

// advance takes the next n values of a counter, and returns the last of them.
func (tx *Tx) advance(ctx context.Context, counter string, n int64) (int64, error) {
	return one(ctx, tx.queries, "store.next", scanValue[int64],
		`INSERT INTO counters (name, value) VALUES ($1, $2)
		 ON CONFLICT (name) DO UPDATE SET value = counters.value + excluded.value RETURNING value`, counter, n)
}

func scanValue[T any](row scanner) (T, error) {
	var v T
	err := row.Scan(&v)
	return v, err
}

const changesCounter = "changes"

// Changed notes that something has changed in what gateways show of an app, and returns the change's number.
func (tx *Tx) Changed(ctx context.Context, app string) (int64, error) {
	const op landfall.Op = "store.Changed"
	n, err := tx.next(ctx, changesCounter)
	if err != nil {
		return 0, err
	}
	if err := tx.exec(ctx, op, `UPDATE apps SET changed = $2 WHERE id = $1`, app, n); err != nil {
		return 0, err
	}
	if tx.changed == nil {
		tx.changed = map[string]bool{}
	}
	tx.changed[app] = true
	return n, tx.engine.notify(ctx, tx, landfall.AppChange{Number: n, App: app})
}

// HasChanged reports whether Changed was called for an app in this transaction.
func (tx *Tx) HasChanged(app string) bool { return tx.changed[app] }

// Notices calls listening, and after that it calls changed for each committed landfall.AppChange of this or another
// process. It returns when ctx ends, or when the connection is lost; then notices may have been lost, too. On SQLite,
// where there is no other process, it only waits.
func (db *DB) Notices(ctx context.Context, listening func(), changed func(landfall.AppChange)) error {
	return classify("store.Notices", db.engine.notices(ctx, listening, changed))
}

// AcknowledgeChange notes that this process's gateway is alive and shows all changes up to a number. It does nothing on
// SQLite.
func (db *DB) AcknowledgeChange(ctx context.Context, process string, seen int64) error {
	return classify("store.AcknowledgeChange", db.engine.acknowledge(ctx, process, seen))
}

// Leave withdraws this process's acknowledgement: nobody waits for its gateway any more.
func (db *DB) Leave(ctx context.Context, process string) error {
	return db.AcknowledgeChange(ctx, process, -1)
}

// AcknowledgedByAll returns the newest change that the gateways of all other processes show. Processes that gave no
// sign of life for ten seconds do not count. When there is none, it returns math.MaxInt64.
func (db *DB) AcknowledgedByAll(ctx context.Context, process string) (int64, error) {
	n, err := db.engine.acknowledged(ctx, process)
	return n, classify("store.Seen", err)
}

// Changes returns the number of the newest change. A gateway that shows it is up to date.
func (q queries) Changes(ctx context.Context) (int64, error) {
	return one(ctx, q, "store.Changes", scanValue[int64],
		`SELECT COALESCE(MAX(value), 0) FROM counters WHERE name = $1`, changesCounter)
}

// ChangesSince returns the newest change of each app that has one after a number, in the order of numbers.
func (q queries) ChangesSince(ctx context.Context, number int64) ([]landfall.AppChange, error) {
	return list(ctx, q, "store.ChangesSince", func(row scanner) (c landfall.AppChange, err error) {
		err = row.Scan(&c.Number, &c.App)
		return c, err
	}, `SELECT changed, id FROM apps WHERE changed > $1 ORDER BY changed`, number)
}

// micros returns a time as it is stored; zero stays zero.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// microsOrMax returns a time limit as it is stored; the zero time becomes the largest number, so an index finds it
// last.
func microsOrMax(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixMicro()
}

// timeOf returns a stored time.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
