package store

import (
	"context"
	"io/fs"
	"net"
)

// OpenWith is Open of a program that knows other migrations.
func OpenWith(ctx context.Context, where string, migrations fs.FS) (*DB, error) {
	return openWith(ctx, where, schema{migrations: migrations})
}

// Dialer makes connections to PostgreSQL servers.
func Dialer() *net.Dialer { return dialer() }

// Noted waits until it is noted that tokens are used.
func (db *DB) Noted() { db.uses.writing.Wait() }

// Dumped are the tables of a dump.
func Dumped() []string { return dumpTables() }

// Tables returns the tables that the migrations make.
func (db *DB) Tables(ctx context.Context) ([]string, error) {
	query := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if _, ok := db.engine.(*postgres); ok {
		query = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`
	}
	return list(ctx, db.queries, "store.Tables", scanValue[string], query)
}

// Namespaces returns the names of all namespaces.
func (db *DB) Namespaces(ctx context.Context) ([]string, error) {
	return list(ctx, db.queries, "store.Namespaces", scanValue[string],
		`SELECT name FROM namespaces WHERE deleted = 0 ORDER BY name`)
}

// EndNotes ends the notes of uses, as Close does.
func (db *DB) EndNotes() { db.uses.close() }

// Gathered returns how many wait in GroupCommit for the next transaction.
func (db *DB) Gathered() int {
	db.group.mu.Lock()
	defer db.group.mu.Unlock()
	return len(db.group.waiting)
}

// Exec runs a statement, for rows as an earlier program left them.
func (tx *Tx) Exec(ctx context.Context, statement string, args ...any) error {
	return tx.exec(ctx, "store.Exec", statement, args...)
}
