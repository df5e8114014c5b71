package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/database"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"landfall.dev/landfall"
)

// postgres is a database that any number of processes share.
type postgres struct {
	pool *pgxpool.Pool
	sql  *sql.DB // the same pool, for the queries that every engine has
	jobs *river.Client[pgx.Tx]

	mu          sync.Mutex
	settledKeys []string // keys of transactions whose outcome nobody needs to ask for any more
}

var _ engine = (*postgres)(nil)

// These are the advisory locks of a database: numbers that nothing else in it should use.
const (
	migrateLock = 0x6c616e6466616c6c // "landfall"
	updateLock  = migrateLock + 1
	leadLock    = migrateLock + 2
)

const (
	changesChannel = "landfall_changes"
	// A process that stops in the middle of a transaction blocks all others, so the server ends its transaction after
	// this time.
	idleInTransaction = "10s"
	connectTimeout    = 10 * time.Second
	nextHostAfter     = 3 * time.Second // used in place of connectTimeout when there is another host to try
	// These bound how long the outcome of a commit is asked for after the connection was lost.
	resolveTimeout = 30 * time.Second
	resolveEvery   = 50 * time.Millisecond
	rollbackLimit  = 5 * time.Second
	// These bound how long a start waits for the lock of an earlier process, which ends when the database notices that
	// its connection has ended.
	leadPatience = 5 * time.Second
	leadEvery    = 250 * time.Millisecond
	// A server may take this long for the smallest query; after that, another one is looked for.
	answerLimit = 5 * time.Second
	// A connection ends after this time without a sign of life from the other machine's system.
	deadAfter = 15 * time.Second
	// Others wait this long for a gateway that gives no sign of life.
	aliveFor = 10 * time.Second
)

func openPostgres(ctx context.Context, url string, s schema) (*DB, error) {
	const op landfall.Op = "store.Open"
	e, err := connectPostgres(ctx, url)
	if err != nil {
		return nil, err
	}
	change, err := e.open(ctx, s)
	if err != nil {
		return nil, errors.Join(e.connectError(op, err), e.close())
	}
	return &DB{queries: queries{e.sql}, engine: e, upgrade: change}, nil
}

// open migrates under a lock, because several processes may start at once.
func (e *postgres) open(ctx context.Context, s schema) (Upgrade, error) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return Upgrade{}, err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(migrateLock)); err != nil {
		return Upgrade{}, err
	}
	change, err := e.migrate(ctx, s)
	_, unlock := conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(migrateLock))
	return change, errors.Join(err, unlock)
}

func (e *postgres) migrate(ctx context.Context, s schema) (Upgrade, error) {
	change, err := s.migrate(ctx, database.DialectPostgres, e.sql)
	if err != nil {
		return change, err
	}
	own := riverpgxv5.New(e.pool)
	jobs, err := rivermigrate.New(own, nil)
	if err != nil {
		return change, err
	}
	if _, err := jobs.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return change, err
	}
	e.jobs, err = river.NewClient(own, insertOnlyConfig())
	return change, err
}

func (e *postgres) close() error {
	err := e.sql.Close()
	e.pool.Close()
	return err
}

// lead takes the lock of the leader and keeps it. When the connection is lost, it connects again, unless another
// process has the lock by then. It calls leading when it has the lock and has left its key.
func (e *postgres) lead(ctx context.Context, o *leadership, leading func()) error {
	defer o.forget("")
	for {
		err := e.hold(ctx, o, leading)
		if kind := landfall.KindOf(classify("store.own", err)); ctx.Err() != nil || kind == landfall.Conflict {
			return err
		}
		if err := sleep(ctx, leadEvery); err != nil {
			return err
		}
	}
}

// hold holds the lock on one connection for as long as the connection lives and nobody else has won. When both are
// lost, the key remains valid: each transaction checks whether another process has won since, and perhaps none has.
func (e *postgres) hold(ctx context.Context, o *leadership, leading func()) error {
	pooled, err := e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Hijack() // the lock ends with it
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for patience := time.Now().Add(leadPatience); ; {
		var got bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(leadLock)).Scan(&got); err != nil {
			return err
		}
		if got {
			break
		}
		if time.Now().After(patience) {
			return landfall.Errorf("store.own", landfall.Conflict,
				"another landfall process uses this database: stop it, or give this one a database of its own with "+
					"LANDFALL_DATABASE")
		}
		if err := sleep(ctx, leadEvery); err != nil {
			return err
		}
	}
	key, err := win(ctx, conn, o.currentKey())
	if err != nil {
		return err
	}
	lost := o.remember(key)
	leading()
	for {
		select {
		case <-lost:
			return errDeposed
		default:
		}
		if err := sleep(ctx, leadEvery); err != nil {
			return err
		}
		if err := checkWritable(ctx, conn); err != nil {
			return err
		}
	}
}

// errDeposed says that another process has won. The lock of this process is on a server that is not the database any
// more.
var errDeposed = errors.New("another process has won the database")

// win leaves a key over the connection that has the lock; another connection might lead to another server. It waits for
// a running Update, which has checked the key already.
func win(ctx context.Context, conn *pgx.Conn, before string) (key string, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(updateLock)); err != nil {
			return err
		}
		return tx.QueryRow(ctx, winLeader, rand.Text(), before).Scan(&key)
	})
	return key, err
}

// checkWritable fails when the server at the other end of a connection does not take writes any more, or does not
// answer.
func checkWritable(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, conn.PgConn())
	if errors.Is(err, pgconn.ErrReadOnlyConnection) {
		err = landfall.Wrapf("store.takesWrites", landfall.Unavailable, err, "the database takes no writes any more")
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// begin takes a connection for itself, which the queries use through database/sql and the job library uses directly.
func (e *postgres) begin(ctx context.Context) (transaction, error) {
	conn, err := e.sql.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &postgresTx{Conn: conn, engine: e, key: rand.Text()}
	known := e.takeSettledKeys()
	err = conn.Raw(func(c any) error {
		direct, ok := c.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("a connection of the type %T", c)
		}
		var err error
		if t.tx, err = direct.Conn().BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
			return err
		}
		// Each statement sees what was committed before it, so all statements after this one see what the last Update
		// did.
		return t.tx.QueryRow(ctx, beginning, int64(updateLock), t.key, known, keepOutcomes.Microseconds()).Scan(&t.id)
	})
	if err != nil {
		return nil, errors.Join(err, t.rollback())
	}
	return t, nil
}

func (e *postgres) note(ctx context.Context, query string, args ...any) error {
	_, err := e.pool.Exec(ctx, query, args...)
	return err
}

func (e *postgres) snapshot(ctx context.Context) (*sql.Tx, error) {
	return e.sql.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
}

func (*postgres) now(ctx context.Context, q queries, _ time.Time) (time.Time, error) {
	us, err := one(ctx, q, "store.Now", scanValue[int64], `SELECT `+nowMicros)
	return timeOf(us), err
}

func (*postgres) verify(context.Context) ([]string, error) { return nil, nil }

// beginning stores the transaction's key, which exists only if the transaction is committed, and deletes keys that
// nobody asks for.
const beginning = `WITH left_behind AS (INSERT INTO outcomes (key, at) VALUES ($2, ` + nowMicros + `)),
	taken_away AS (DELETE FROM outcomes WHERE key = ANY($3) OR at < ` + nowMicros + ` - $4)
	SELECT pg_current_xact_id()::text FROM pg_advisory_xact_lock($1)`

// keepOutcomes is how long the key of a killed process stays: far longer than anybody asks for it.
const keepOutcomes = time.Hour

// takeSettledKeys returns the keys that the next transaction deletes.
func (e *postgres) takeSettledKeys() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.settledKeys
	e.settledKeys = nil
	return known
}

// postgresTx is a transaction on a connection of its own.
type postgresTx struct {
	*sql.Conn
	tx     pgx.Tx
	id     string // given by the database
	key    string // given by us
	engine *postgres
}

func (t *postgresTx) insert(ctx context.Context, jobs []river.InsertManyParams) error {
	return t.direct(func() error {
		_, err := t.engine.jobs.InsertManyTx(ctx, t.tx, jobs)
		return err
	})
}

// direct runs f, which uses the connection without database/sql, unless database/sql has closed the connection after an
// error.
func (t *postgresTx) direct(f func() error) error { return t.Raw(func(any) error { return f() }) }

// commit does not take a lost connection for a lost transaction: it asks the database for the outcome.
func (t *postgresTx) commit(ctx context.Context) error {
	err := t.direct(func() error { return t.tx.Commit(ctx) })
	_ = t.Close() // returns the connection to the pool; a broken one is dropped
	defer t.forget()
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	if kind, ok := postgresKind(err); ok && kind != landfall.Unavailable {
		return err // the database refused
	}
	return t.resolve(ctx, err)
}

// forget notes that nobody will ask for the transaction's outcome again.
func (t *postgresTx) forget() {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	t.engine.settledKeys = append(t.engine.settledKeys, t.key)
}

// resolve finds out whether a transaction was committed when its commit got no answer.
func (t *postgresTx) resolve(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	tick := time.NewTicker(resolveEvery)
	defer tick.Stop()
	for {
		committed, over, err := t.outcome(ctx)
		switch {
		case over && committed:
			return nil
		case over:
			return cause
		}
		select {
		case <-ctx.Done():
			return landfall.Wrapf("store.commit", landfall.Unavailable, errors.Join(cause, err),
				"the database went away at the end of a transaction; what became of it is not known")
		case <-tick.C:
		}
	}
}

// outcome asks whether the transaction is over, and then whether it was committed. A server that crashed may have
// forgotten its id and given it to another transaction, so only our key is certain. A replica may not have heard of the
// transaction yet; then it is not over there. The key is written once more, which changes nothing: a server that waits
// for replicas then confirms that they have the commit, too. What only the server itself has may be lost when a replica
// takes its place.
func (t *postgresTx) outcome(ctx context.Context) (committed, over bool, err error) {
	const inProgress = "in progress"
	var status string
	err = t.engine.pool.QueryRow(ctx, `SELECT CASE WHEN pg_is_in_recovery() THEN '`+inProgress+
		`' ELSE pg_xact_status($1::text::xid8) END`, t.id).Scan(&status)
	const inTheFuture = "22023" // invalid_parameter_value: the id was forgotten, or was never given
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == inTheFuture {
		status, err = "", nil // only the key decides: the database may have moved to another server meanwhile
	}
	if err != nil || status == inProgress {
		return false, false, err
	}
	found, err := t.engine.pool.Exec(ctx, `UPDATE outcomes SET at = at WHERE key = $1`, t.key)
	return found.RowsAffected() > 0, err == nil, err
}

func (t *postgresTx) rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackLimit)
	defer cancel()
	if t.tx != nil {
		_ = t.direct(func() error { return t.tx.Rollback(ctx) }) // a lost connection rolls back by itself
	}
	_ = t.Close()
	return nil
}

// rescueAfter is when a job counts as left behind by a dead process. Working on a job twice does no harm.
const rescueAfter = time.Minute

func (e *postgres) client(config *river.Config) (jobClient, error) {
	config.RescueStuckJobsAfter = rescueAfter
	return river.NewClient(riverpgxv5.New(e.pool), config)
}

// forget does not touch what belongs to another process: the library and the leases find dead processes.
func (e *postgres) forget(ctx context.Context, tx *Tx, process string) error {
	if err := tx.exec(ctx, "store.forget", `DELETE FROM river_leader WHERE leader_id = $1`, process); err != nil {
		return err
	}
	return tx.exec(ctx, "store.forget", `UPDATE river_job SET state = 'available', attempt = 0, finalized_at = NULL
		WHERE state = 'running' AND attempted_by[array_length(attempted_by, 1)] = $1`, process)
}

func (e *postgres) running(ctx context.Context, process string) ([]runningJob, error) {
	return list(ctx, queries{e.sql}, "store.running", scanRunningJob,
		selectRunning+` AND attempted_by[array_length(attempted_by, 1)] = $1`, process)
}

func (e *postgres) notify(ctx context.Context, tx *Tx, c landfall.AppChange) error {
	return tx.exec(ctx, "store.notify", `SELECT pg_notify($1, $2)`, changesChannel,
		fmt.Sprintf(changeFormat, c.Number, c.App))
}

// changeFormat is the form of a Change in a notice.
const changeFormat = "%d %s"

// acknowledge uses the database's clock, which is the same for all.
func (e *postgres) acknowledge(ctx context.Context, process string, seen int64) error {
	if seen < 0 {
		_, err := e.pool.Exec(ctx, `DELETE FROM gateways WHERE process = $1`, process)
		return err
	}
	_, err := e.pool.Exec(ctx, `INSERT INTO gateways (process, seen, beat) VALUES ($1, $2, `+nowMicros+`)
		ON CONFLICT (process) DO UPDATE SET seen = $2, beat = `+nowMicros, process, seen)
	return err
}

const nowMicros = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

func (e *postgres) acknowledged(ctx context.Context, except string) (int64, error) {
	var seen int64
	err := e.pool.QueryRow(ctx, `SELECT COALESCE(MIN(seen), $2) FROM gateways WHERE process <> $1 AND beat > `+
		nowMicros+` - $3`, except, int64(math.MaxInt64), aliveFor.Microseconds()).Scan(&seen)
	return seen, err
}

func (e *postgres) notices(ctx context.Context, listening func(), changed func(landfall.AppChange)) error {
	pooled, err := e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Hijack() // it keeps listening, so nothing else can use the connection
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, `LISTEN `+changesChannel); err != nil {
		return err
	}
	listening()
	for {
		notice, err := nextNotice(ctx, conn)
		if err != nil {
			return err
		}
		var c landfall.AppChange
		if _, err := fmt.Sscanf(notice.Payload, changeFormat, &c.Number, &c.App); err != nil {
			return fmt.Errorf("a notice that says %q", notice.Payload)
		}
		changed(c)
	}
}

// nextNotice waits for a notice. When none comes for a while, it checks whether the server still takes writes, because
// only then do its notices count.
func nextNotice(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		wait, cancel := context.WithTimeout(ctx, answerLimit)
		notice, err := conn.WaitForNotification(wait)
		waited := wait.Err() != nil
		cancel()
		if err == nil || !waited || ctx.Err() != nil {
			return notice, err
		}
		if err := checkWritable(ctx, conn); err != nil {
			return nil, err
		}
	}
}

// postgresKind classifies by SQLSTATE, https://www.postgresql.org/docs/15/errcodes-appendix.html, and by network
// errors.
func postgresKind(err error) (landfall.Kind, bool) {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		_, connect := errors.AsType[*pgconn.ConnectError](err)
		_, network := errors.AsType[net.Error](err)
		gone := connect || network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
			errors.Is(err, net.ErrClosed) ||
			errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || pgconn.SafeToRetry(err)
		return landfall.Unavailable, gone
	}
	switch class := e.Code[:min(2, len(e.Code))]; { // any program may answer in place of a database
	case class == "23": // integrity constraint violation
		return landfall.Conflict, true
	case e.Code == "57014": // query cancelled
		return landfall.Canceled, true
	// connection, resources, system error, operator intervention, serialization, idle in transaction, read-only, wrong
	// password
	case slices.Contains([]string{"08", "53", "58", "57", "40", "25", "28"}, class):
		return landfall.Unavailable, true
	}
	return landfall.Internal, true
}
