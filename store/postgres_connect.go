package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
)

// connectPostgres returns a pool of connections. None of them needs to work yet.
func connectPostgres(ctx context.Context, url string) (*postgres, error) {
	const op landfall.Op = "store.Open"
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // the error's text may contain the password
		return nil, landfall.Errorf(op, landfall.Invalid,
			"LANDFALL_DATABASE is no address of a database; right would be postgres://USER:PASSWORD@HOST:5432/NAME")
	}
	for name, value := range map[string]string{"idle_in_transaction_session_timeout": idleInTransaction,
		"application_name": "landfall"} {
		if _, given := config.ConnConfig.RuntimeParams[name]; !given {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
		if len(hosts(config.ConnConfig)) > 1 {
			config.ConnConfig.ConnectTimeout = nextHostAfter
		}
	}
	if config.ConnConfig.ValidateConnect == nil { // everything is written here, so a server that only reads is refused
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	config.ConnConfig.DialFunc = dialer().DialContext
	config.PingTimeout = cmp.Or(config.PingTimeout, answerLimit)
	e := &postgres{}
	config.ConnConfig.OnPgError = e.leaveReadOnly(config.ConnConfig.OnPgError)
	if e.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, classify(op, err)
	}
	e.sql = stdlib.OpenDBFromPool(e.pool)
	return e, nil
}

// dialer makes connections that end when the machine at the other end has gone silently. Otherwise the system would try
// for a quarter of an hour, and every caller would wait that long.
func dialer() *net.Dialer {
	const apart = deadAfter / 5
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: apart, Interval: apart, Count: int(deadAfter/apart) - 1},
		Control: func(network, _ string, c syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			var err error
			controlErr := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter.Milliseconds()))
			})
			return errors.Join(controlErr, err)
		},
	}
}

// leaveReadOnly closes every connection to a server that turned out to take no writes. New connections find the server
// that does.
func (e *postgres) leaveReadOnly(next pgconn.PgErrorHandler) pgconn.PgErrorHandler {
	return func(conn *pgconn.PgConn, refusal *pgconn.PgError) bool {
		const readOnly = "25006" // read_only_sql_transaction
		if refusal.Code != readOnly {
			return next(conn, refusal)
		}
		e.pool.Reset()
		return false
	}
}

// hosts returns the servers of a database, in the order in which they are tried.
func hosts(c *pgx.ConnConfig) []string {
	all := []string{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
	for _, f := range c.Fallbacks { // one for each host and each way to encrypt
		if host := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

// connectError says why the database cannot be used at a start, where it is, and which setting to change. It is Invalid
// when only another setting helps; otherwise it keeps its Kind.
func (e *postgres) connectError(op landfall.Op, err error) error {
	kind, cause := landfall.KindOf(classify(op, err)), reason(err)
	c := e.pool.Config().ConnConfig
	where := fmt.Sprintf("PostgreSQL at %s, database %s", strings.Join(hosts(c), " and "), c.Database)
	advice := ""
	refusal, refused := errors.AsType[*pgconn.PgError](err)
	name, unresolved := errors.AsType[*net.DNSError](err)
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case refused && refusal.Code == "3D000":
		kind, advice = landfall.Invalid,
			fmt.Sprintf("create it: createdb --host %s --port %d --username %s %s; or name another one with LANDFALL_DATABASE",
				c.Host, c.Port, c.User, c.Database)
	case refused && strings.HasPrefix(refusal.Code, "28"):
		kind, advice = landfall.Invalid,
			"LANDFALL_DATABASE names the user, and has the password if PGPASSWORD or PGPASSFILE has not"
	case refused && refusal.Code == "42501":
		kind, advice = landfall.Invalid, "the user of LANDFALL_DATABASE must own the database"
	case unresolved && name.IsNotFound:
		kind, advice = landfall.Invalid, "LANDFALL_DATABASE names a host that is not known here"
	case errors.Is(err, pgconn.ErrReadOnlyConnection):
		kind, advice = landfall.Unavailable, "promote a replica, or name the server that takes writes in LANDFALL_DATABASE"
	case unconnected && !refused:
		advice = "LANDFALL_DATABASE says where it is"
	}
	message := strings.TrimSuffix(fmt.Sprintf("%s, cannot be used: %s; %s", where, cause, advice), "; ")
	return &landfall.Error{Op: op, Kind: kind, Message: message}
}

// reason says in a few words why a database cannot be used.
func reason(err error) string {
	if errors.Is(err, pgconn.ErrReadOnlyConnection) { // whatever happened with other hosts
		return "no server there takes writes"
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return strings.ReplaceAll(e.Unwrap().Error(), "\n", "; ")
	}
	if e, ok := errors.AsType[*landfall.Error](err); ok && e.Message != "" {
		return e.Message
	}
	return err.Error()
}
