package storetest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall/store"
)

// templateFile holds the bytes of an empty, migrated database, which is made once.
var templateFile = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "landfall-sqlite-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "template.db")
	db, err := store.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// SQLite returns the path of an empty, migrated database, which ends with t.
func SQLite(t testing.TB) string {
	t.Helper()
	data, err := templateFile()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "landfall.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Open opens the database at an address, as SQLite and Postgres return it, until t ends.
func Open(t testing.TB, address string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

// RefuseAnnotations makes a database that nobody has open refuse annotations of apps.
func RefuseAnnotations(t testing.TB, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(),
		`CREATE TRIGGER refused BEFORE UPDATE OF annotations ON apps BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// Replace replaces a column, spec or content, of the only version of a kind of units in a database that nobody has
// open, and returns the old value.
func Replace(t testing.TB, path, kind, column, by string) (was string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	const (
		ofKind  = ` FROM versions JOIN units ON units.id = unit WHERE kind = $1`
		forKind = ` FROM units WHERE units.id = unit AND kind = $1`
	)
	read, write := `SELECT spec`+ofKind, `UPDATE versions SET spec = $2`+forKind
	if column == "content" {
		read, write = `SELECT content`+ofKind, `UPDATE versions SET content = $2`+forKind
	}
	err = db.QueryRowContext(t.Context(), read, kind).Scan(&was)
	if err == nil {
		_, err = db.ExecContext(t.Context(), write, kind, by)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return was
}

// Rename renames a table of the database in a file: what needs it fails, as in a database that is damaged.
func Rename(t testing.TB, path, table, to string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), strings.Join([]string{"ALTER TABLE", table, "RENAME TO", to}, " "))
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
