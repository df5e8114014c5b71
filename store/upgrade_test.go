package store_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// A later program's migrations: one that goes well, and one that fails in its middle.
const (
	laterMigration  = "-- +goose Up\nALTER TABLE namespaces ADD COLUMN owner TEXT NOT NULL DEFAULT 'nobody';\n-- +goose Down\n"
	brokenMigration = "-- +goose Up\nDELETE FROM namespaces;\nDROP TABLE nowhere;\n-- +goose Down\n"
)

// later returns the migrations of a later program.
func later(t *testing.T, migration string) fstest.MapFS {
	t.Helper()
	first, err := os.ReadFile(filepath.Join("migrations", "00001_line.sql"))
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{"00001_line.sql": {Data: first}, "00002_later.sql": {Data: []byte(migration)}}
}

// wheres are places for databases of each engine.
func wheres(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"sqlite": storetest.SQLite(t), "postgres": storetest.Postgres(t)}
}

// A newer program brings the tables to its form and keeps the rows; an older one then refuses, in one sentence that says what to
// do, and changes nothing.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for name, where := range wheres(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := must(store.Open(ctx, where))(t)
			update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "kept", 1) })
			if change, ok := db.Upgraded(); ok {
				t.Errorf("got the upgrade %+v of a database that is new", change)
			}
			must(0, db.Close())(t)

			newer := must(store.OpenWith(ctx, where, later(t, laterMigration)))(t)
			change, ok := newer.Upgraded()
			same(t, "the upgrade is told", ok, true)
			same(t, "the upgrade", change, store.Upgrade{From: 1, To: 2})
			same(t, "the form", must(newer.Schema(ctx))(t), 2)
			same(t, "the namespaces", must(newer.Namespaces(ctx))(t), []string{"kept"})
			must(0, newer.Close())(t)

			_, err := store.Open(ctx, where)
			kind(t, "the older program", err, landfall.Conflict)
			for _, part := range []string{"form 2", "up to 1", "newer", "restore a backup"} {
				if !strings.Contains(landfall.MessageOf(err), part) {
					t.Errorf("got %q, which does not say %q", landfall.MessageOf(err), part)
				}
			}
			again := must(store.OpenWith(ctx, where, later(t, laterMigration)))(t)
			defer again.Close()
			if change, ok := again.Upgraded(); ok {
				t.Errorf("got the upgrade %+v at the second start", change)
			}
			same(t, "the namespaces after the older program", must(again.Namespaces(ctx))(t), []string{"kept"})
		})
	}
}

// An upgrade that fails in its middle leaves everything as it was: the older program starts as before.
func TestUpgradeFails(t *testing.T) {
	t.Parallel()
	for name, where := range wheres(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := must(store.Open(ctx, where))(t)
			update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "kept", 1) })
			must(0, db.Close())(t)
			if newer, err := store.OpenWith(ctx, where, later(t, brokenMigration)); err == nil {
				newer.Close()
				t.Fatal("a migration that fails was taken for done")
			}
			db = must(store.Open(ctx, where))(t)
			defer db.Close()
			same(t, "the form", must(db.Schema(ctx))(t), 1)
			same(t, "the namespaces", must(db.Namespaces(ctx))(t), []string{"kept"})
		})
	}
}

// Every table is in a dump, or is known to be made again: who adds a table decides.
func TestDumpedTables(t *testing.T) {
	t.Parallel()
	madeAgain := []string{"builds", "gateways", "goose_db_version", "messages", "outcomes", "owners", "sessions", "sqlite_sequence", "visits", "workers"}
	for name, where := range wheres(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := must(store.Open(t.Context(), where))(t)
			defer db.Close()
			tables := must(db.Tables(t.Context()))(t)
			for _, table := range tables {
				if !strings.HasPrefix(table, "river_") && !slices.Contains(madeAgain, table) && !slices.Contains(store.Dumped(), table) {
					t.Errorf("the table %s is not in backups", table)
				}
			}
			for _, table := range store.Dumped() {
				if !slices.Contains(tables, table) {
					t.Errorf("there is no table %s", table)
				}
			}
			// Every question that a check asks is one that the engine understands.
			same(t, "the violations of an empty database", must(db.Violations(t.Context()))(t), nil)
			same(t, "the damage of a new database", len(must(db.Verify(t.Context()))(t)), 0)
		})
	}
}
