// Package storetest gives tests real databases.
package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"landfall.dev/landfall/porttest"
	"landfall.dev/landfall/store"
)

// Postgres returns the address of an empty, migrated database on a real server: the one that Share started, or else one
// that the first call in a test program starts and that ends with the program. The database ends with t.
func Postgres(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	if err := s.exec(`CREATE DATABASE ` + name + ` TEMPLATE ` + template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.exec(`DROP DATABASE ` + name + ` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	return s.url(name)
}

// Load returns the address of a database with what pg_dump --inserts wrote of another one.
func Load(t testing.TB, dump string) string {
	t.Helper()
	address := Postgres(t)
	run(t, address, renewSchema+dump)
	return address
}

// Empty takes everything out of the database at an address.
func Empty(t testing.TB, address string) {
	t.Helper()
	run(t, address, renewSchema)
}

const renewSchema = `DROP SCHEMA public CASCADE; CREATE SCHEMA public; `

// run runs statements in the database at an address.
func run(t testing.TB, address, statements string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.PgConn().Exec(t.Context(), statements).Close(); err != nil {
		t.Fatal(err)
	}
}

// Server is a PostgreSQL server for one test, which may do anything to it.
type Server struct {
	URL string // of an empty, migrated database
	t   testing.TB
	s   *server
}

// NewServer starts a server that ends with t.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s, err := startMigrated()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.alive.Close() })
	return &Server{URL: s.url(template), t: t, s: s}
}

// Restart ends the server, as a crash does or else in good order with a break of all connections, and waits until it
// serves again.
func (s *Server) Restart(crash bool) {
	s.t.Helper()
	const startTime = `SELECT pg_postmaster_start_time()`
	before, err := s.s.ask(startTime)
	if err != nil {
		s.t.Fatal(err)
	}
	signal := "INT\n"
	if crash {
		signal = "QUIT\n"
	}
	if _, err := io.WriteString(s.s.alive, signal); err != nil {
		s.t.Fatal(err)
	}
	for until := time.Now().Add(startPatience); ; <-time.After(startPoll) {
		now, err := s.s.ask(startTime)
		if err == nil && now != before {
			return
		}
		if time.Now().After(until) {
			s.t.Fatalf("the server is not back: %v", err)
		}
	}
}

// Hold takes every lock that a table has, in the database at an address, until it is released. waiting tells whether
// anybody waits for one.
func Hold(t testing.TB, address, table string) (waiting func() bool, release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE `+pgx.Identifier{table}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	waiting = func() bool {
		var n int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n)
		if err != nil {
			t.Error(err)
		}
		return n > 0
	}
	release = sync.OnceFunc(func() { _ = conn.Close(context.Background()) })
	t.Cleanup(release)
	return waiting, release
}

// EndLeader ends, on the server, the connection that has the leader's lock in the database at an address.
func EndLeader(t testing.TB, address string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	// Only the leader's lock belongs to a session without a transaction.
	err = eventually(func() error {
		var left int
		err := conn.QueryRow(t.Context(),
			`SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
			WHERE l.locktype = 'advisory' AND a.datname = current_database() AND a.state = 'idle'`).Scan(&left)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d connections have the lock still", left)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// server is one PostgreSQL server of this test program.
type server struct {
	cluster

	port  string
	alive io.WriteCloser // open until the server must end; a signal's name written to it restarts the server
	ended chan struct{}  // closed when it has
}

// template is the name of a server's migrated database.
const template = "landfall_template"

// portVariable names the environment variable with the port of the server that Share started.
const portVariable = "LANDFALL_TEST_POSTGRES_PORT"

var shared = sync.OnceValues(func() (*server, error) {
	if port := os.Getenv(portVariable); port != "" {
		return &server{port: port}, nil
	}
	return startMigrated()
})

// Share starts the server that Postgres uses in this program and in all programs that it starts, until end.
func Share() (end func(), err error) {
	s, err := startMigrated()
	if err != nil {
		return nil, err
	}
	return s.end, os.Setenv(portVariable, s.port)
}

// end ends the server, and waits for it.
func (s *server) end() {
	_ = s.alive.Close()
	<-s.ended
}

// startMigrated starts a server that has a migrated database.
func startMigrated() (*server, error) {
	s, err := start()
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL, which the tests need, did not start: %w", err)
	}
	if err := s.exec(`CREATE DATABASE ` + template); err != nil {
		return nil, err
	}
	db, err := store.Open(context.Background(), s.url(template))
	if err != nil {
		return nil, err
	}
	return s, db.Close()
}

const (
	startPatience = time.Minute
	startPoll     = 20 * time.Millisecond
)

// serverScript runs a server until the program at the other end of its input ends in any way, and then removes the
// server and its folder. A line of the input is a signal that ends the server, which then starts again, unless the line
// says that this is the end.
const serverScript = `while :; do
	"$@" </dev/null >>server.log 2>&1 & pid=$!
	if ! read -r signal end; then kill -QUIT $pid; wait $pid; break; fi
	kill -"$signal" $pid; wait $pid; [ -z "$end" ] || break
done
cd /; rm -rf "$0"`

// start makes a cluster in a folder of its own and serves it on a free port.
func start() (*server, error) {
	port, err := porttest.Free()
	if err != nil {
		return nil, err
	}
	return startAt(port, func(c cluster) error {
		if err := c.run("initdb", "--auth=trust", "--username="+superuser, "--no-sync", "--pgdata="+c.data()); err != nil {
			return err
		}
		return lock(filepath.Join(c.data(), "pg_hba.conf"))
	})
}

const superuser = "landfall"

// startAt serves the cluster that fill makes, on a port of the loopback interface. The server does not sync: the tests
// are about our code, not about a machine that loses power.
func startAt(port string, fill func(cluster) error) (*server, error) {
	c, err := newCluster()
	if err != nil {
		return nil, err
	}
	if err := fill(c); err != nil {
		return nil, err
	}
	serve := c.command("sh", "-c", serverScript, c.dir,
		filepath.Join(c.bin, "postgres"), "-D", c.data(), "-p", port, "-c", "listen_addresses=127.0.0.1", "-c",
		"unix_socket_directories=", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=400", "-c",
		"shared_buffers=64MB", "-c", "autovacuum=off") // nothing lives long enough to be vacuumed
	alive, err := serve.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := serve.Start(); err != nil {
		return nil, err
	}
	s := &server{cluster: c, port: port, alive: alive, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		_ = serve.Wait()
	}()
	err = eventually(func() error { return s.exec(`SELECT 1`) })
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(c.dir, "server.log"))
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	return s, nil
}

// eventually tries something until it succeeds, or until it took too long.
func eventually(try func() error) error {
	for until := time.Now().Add(startPatience); ; <-time.After(startPoll) {
		if err := try(); err == nil || time.Now().After(until) {
			return err
		}
	}
}

// cluster is a folder with the data of a server, and the user for PostgreSQL's programs.
type cluster struct {
	bin, dir string
	process  *syscall.SysProcAttr
}

func newCluster() (c cluster, err error) {
	if c.bin, err = programs(); err != nil {
		return c, err
	}
	if c.dir, err = os.MkdirTemp(inMemory(), "landfall-postgres-"); err != nil {
		return c, err
	}
	c.process, err = runAs(c.dir)
	return c, err
}

// inMemory returns a folder in memory when it has room for the databases of tests, whose thousands of small files cost
// more time on a disk; else "", which is where temporary files are.
func inMemory() string {
	const shared, room = "/dev/shm", 4 << 30
	var at unix.Statfs_t
	if err := unix.Statfs(shared, &at); err != nil || at.Type != unix.TMPFS_MAGIC ||
		at.Bavail*uint64(at.Bsize) < room { // #nosec G115 -- a size
		return ""
	}
	return shared
}

func (c cluster) data() string { return filepath.Join(c.dir, "data") }

func (c cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir, cmd.SysProcAttr = c.dir, c.process
	return cmd
}

// run runs one of PostgreSQL's programs.
func (c cluster) run(program string, args ...string) error {
	if out, err := c.command(filepath.Join(c.bin, program), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

// LockedUser is a user whom no password lets in.
const LockedUser = "locked"

// lock makes the server ask LockedUser for a password that does not exist; it trusts all other users.
func lock(file string) error {
	rules, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("host all "+LockedUser+" 127.0.0.1/32 scram-sha-256\n"), rules...), 0o600)
}

// programs finds where PostgreSQL's programs are: Debian does not put the server's into the path.
func programs() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", errors.New("initdb was not found; install the package postgresql")
	}
	return filepath.Dir(path), nil
}

// runAs returns how the server runs as another user, and gives that user the folder, because it refuses to run as root.
// It does not get the signals of this program's terminal.
func runAs(dir string) (*syscall.SysProcAttr, error) {
	process := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return process, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	process.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return process, os.Chown(dir, int(uid), int(gid))
}

func (s *server) url(database string) string {
	return urlOf("127.0.0.1:"+s.port, database)
}

func urlOf(hosts, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, hosts, database)
}

// ask returns the result of a query for one value.
func (s *server) ask(query string) (string, error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return "", err
	}
	var answer string
	err = conn.QueryRow(ctx, "SELECT ("+query+")::text").Scan(&answer)
	return answer, errors.Join(err, conn.Close(ctx))
}

// exec runs one statement that needs no database of its own.
func (s *server) exec(statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	if strings.HasPrefix(statement, "CREATE") { // a template cannot be copied twice at once
		_, err = conn.Exec(ctx, `SELECT pg_advisory_lock(1)`)
	}
	if err == nil {
		_, err = conn.Exec(ctx, statement)
	}
	return errors.Join(err, conn.Close(ctx))
}
