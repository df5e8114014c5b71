package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// statements opens connections to SQLite that keep compiled statements: compiling costs more than executing, and
// database/sql compiles a statement each time. SQLite itself compiles a statement again when a parameter is its LIMIT,
// because the planner looks at the value. So statements say LIMIT $1 + 0, which the planner does not evaluate.
type statements struct {
	dsn    string
	driver driver.Driver
}

// openStatements returns a pool of these connections.
func openStatements(dsn string) (*sql.DB, error) {
	plain, err := sql.Open("sqlite", dsn) // connects to nothing yet
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(statements{dsn, plain.Driver()}), plain.Close()
}

// Connect implements driver.Connector.
func (s statements) Connect(context.Context) (driver.Conn, error) {
	c, err := s.driver.Open(s.dsn)
	if err != nil {
		return nil, err
	}
	if plain, ok := c.(plainConn); ok {
		return &cachingConn{plainConn: plain, cached: map[string]*cachedStatement{}}, nil
	}
	return c, nil
}

// Driver implements driver.Connector.
func (s statements) Driver() driver.Driver { return s.driver }

// plainConn is what a connection of the driver can do.
type plainConn interface {
	executor
	pooled
}

type executor interface {
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type pooled interface {
	driver.Conn
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// maxCached is how many statements a connection keeps: somewhat more than the program has.
const maxCached = 256

// cachingConn keeps statements by their text. Like any connection, it is used by one goroutine at a time.
type cachingConn struct {
	plainConn

	cached map[string]*cachedStatement
}

type cachedStatement struct {
	statement
	busy bool // its rows are being read
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// statement returns the statement with a text; free is false while it is in use.
func (c *cachingConn) statement(ctx context.Context, text string) (s *cachedStatement, free bool, err error) {
	if s, ok := c.cached[text]; ok {
		return s, !s.busy, nil
	}
	prepared, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, false, err
	}
	plain, ok := prepared.(statement)
	if !ok {
		return nil, false, prepared.Close()
	}
	if len(c.cached) == maxCached {
		c.drop()
	}
	s = &cachedStatement{statement: plain}
	c.cached[text] = s
	return s, true, nil
}

// drop closes all statements that are not in use.
func (c *cachingConn) drop() {
	for text, s := range c.cached {
		if !s.busy {
			_ = s.Close() // it holds nothing but memory
			delete(c.cached, text)
		}
	}
}

// ExecContext implements driver.ExecerContext.
func (c *cachingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	s, free, err := c.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	if !free {
		return c.plainConn.ExecContext(ctx, text, args)
	}
	return s.ExecContext(ctx, args)
}

// QueryContext implements driver.QueryerContext.
func (c *cachingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	s, free, err := c.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	if !free {
		return c.plainConn.QueryContext(ctx, text, args)
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	s.busy = true
	return &cachedRows{rows, s}, nil
}

// Close implements driver.Conn.
func (c *cachingConn) Close() error {
	c.drop()
	return c.plainConn.Close()
}

// cachedRows are the rows of a cached statement, which is free again when they are closed.
type cachedRows struct {
	driver.Rows

	of *cachedStatement
}

// Close implements driver.Rows.
func (r *cachedRows) Close() error {
	r.of.busy = false
	return r.Rows.Close()
}
