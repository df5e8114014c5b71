package store_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// A later program's migrations: one that goes well, and one that fails in its middle.
const (
	laterMigration = "-- +goose Up\nALTER TABLE namespaces ADD COLUMN owner TEXT NOT NULL DEFAULT 'nobody';\n-- " +
		"+goose Down\n"
	brokenMigration = "-- +goose Up\nDELETE FROM namespaces;\nDROP TABLE nowhere;\n-- +goose Down\n"
)

// laterForm is that of a later program.
const laterForm = 99999

// later returns the migrations of a later program.
func later(t *testing.T, migration string) fstest.MapFS {
	t.Helper()
	all := fstest.MapFS{fmt.Sprintf("%d_later.sql", laterForm): {Data: []byte(migration)}}
	ours := os.DirFS("migrations")
	for _, name := range testkit.Must(fs.Glob(ours, "*.sql"))(t) {
		all[name] = &fstest.MapFile{Data: testkit.Must(fs.ReadFile(ours, name))(t)}
	}
	return all
}

// wheres are places for databases of each engine.
func wheres(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"sqlite": storetest.SQLite(t), "postgres": storetest.Postgres(t)}
}

// A newer program brings the tables to its form and keeps the rows; an older one then refuses, in one sentence that
// says what to do, and changes nothing.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for name, where := range wheres(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := testkit.Must(store.Open(ctx, where))(t)
			update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "kept", 1) })
			// C-034: a program brings the tables of an older one to its form, and a new database needs none of that
			if change, ok := db.Upgraded(); ok {
				t.Errorf("got the upgrade %+v of a database that is new", change)
			}
			form := testkit.Must(db.Schema(ctx))(t)
			testkit.Must(0, db.Close())(t)

			newer := testkit.Must(store.OpenWith(ctx, where, later(t, laterMigration)))(t)
			change, ok := newer.Upgraded()
			testkit.Same(t, "the upgrade is told", ok, true)
			testkit.Same(t, "the upgrade", change, store.Upgrade{From: form, To: laterForm})
			testkit.Same(t, "the form", testkit.Must(newer.Schema(ctx))(t), laterForm)
			testkit.Same(t, "the namespaces", testkit.Must(newer.Namespaces(ctx))(t), []string{"kept"})
			testkit.Must(0, newer.Close())(t)

			_, err := store.Open(ctx, where)
			testkit.Kind(t, "the older program", err, landfall.Conflict)
			for _, part := range []string{fmt.Sprintf("form %d", laterForm), fmt.Sprintf("up to %d", form), "newer",
				"restore a backup"} {
				if !strings.Contains(landfall.MessageOf(err), part) {
					t.Errorf("got %q, which does not say %q", landfall.MessageOf(err), part)
				}
			}
			again := testkit.Must(store.OpenWith(ctx, where, later(t, laterMigration)))(t)
			defer again.Close()
			if change, ok := again.Upgraded(); ok {
				t.Errorf("got the upgrade %+v at the second start", change)
			}
			testkit.Same(t, "the namespaces after the older program", testkit.Must(again.Namespaces(ctx))(t), []string{"kept"})
		})
	}
}

// What was stored in the first form of the tables is there in the newest.
func TestUpgradeOfTheFirstForm(t *testing.T) {
	t.Parallel()
	const file = "00001_line.sql"
	ctx, where := t.Context(), filepath.Join(t.TempDir(), "landfall.db")
	first := fstest.MapFS{file: {Data: testkit.Must(os.ReadFile(filepath.Join("migrations", file)))(t)}}
	old := testkit.Must(store.OpenWith(ctx, where, first))(t)
	update(t, old, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "kept", 1) })
	testkit.Must(0, old.Close())(t)
	db := testkit.Must(store.Open(ctx, where))(t)
	defer db.Close()
	change, _ := db.Upgraded()
	testkit.Same(t, "the upgrade", change, store.Upgrade{From: 1, To: testkit.Must(db.Schema(ctx))(t)})
	testkit.Same(t, "the namespaces", testkit.Must(db.Namespaces(ctx))(t), []string{"kept"})
	app := newApp(t, db, "shop")
	testkit.Same(t, "an app", testkit.Must(db.App(ctx, app.ID))(t), app)
}

// Migrations come in the order of their merges: a database that has a newer one gets the older one, too.
func TestUpgradeOutOfOrder(t *testing.T) {
	t.Parallel()
	ctx, where := t.Context(), filepath.Join(t.TempDir(), "landfall.db")
	early := later(t, laterMigration)
	delete(early, "00002_keep_files.sql")
	db := testkit.Must(store.OpenWith(ctx, where, early))(t)
	update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "kept", 1) })
	testkit.Must(0, db.Close())(t)
	db = testkit.Must(store.OpenWith(ctx, where, later(t, laterMigration)))(t)
	defer db.Close()
	app := newApp(t, db, "shop")
	testkit.Same(t, "an app", testkit.Must(db.App(ctx, app.ID))(t), app)
}

// A backup says with the highest number which migrations its rows have gone through. So whatever comes after these has
// a higher one; 3 was given up, and is not given again.
func TestNumbersOfMigrations(t *testing.T) {
	t.Parallel()
	released := []string{
		"00001_line.sql", "00002_keep_files.sql", "00004_closed.sql", "00005_deliveries.sql", "00006_installation.sql",
		"00007_without_objects.sql", "00008_shared_deliveries.sql",
	}
	names := testkit.Must(fs.Glob(os.DirFS("migrations"), "*.sql"))(t)
	testkit.Same(t, "the first migrations", names[:min(len(names), len(released))], released)
}

// An upgrade that fails in its middle leaves everything as it was: the older program starts as before.
func TestUpgradeFails(t *testing.T) {
	t.Parallel()
	for name, where := range wheres(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := testkit.Must(store.Open(ctx, where))(t)
			update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "kept", 1) })
			form := testkit.Must(db.Schema(ctx))(t)
			testkit.Must(0, db.Close())(t)
			if newer, err := store.OpenWith(ctx, where, later(t, brokenMigration)); err == nil {
				newer.Close()
				t.Fatal("a migration that fails was taken for done")
			}
			db = testkit.Must(store.Open(ctx, where))(t)
			defer db.Close()
			testkit.Same(t, "the form", testkit.Must(db.Schema(ctx))(t), form)
			testkit.Same(t, "the namespaces", testkit.Must(db.Namespaces(ctx))(t), []string{"kept"})
		})
	}
}

// Every table is in a dump, or is known to be made again: who adds a table decides.
func TestDumpedTables(t *testing.T) {
	t.Parallel()
	madeAgain := []string{
		"builds", "delivery_payloads", "gateways", "goose_db_version", "idempotency_keys", "installations", "messages",
		"outcomes", "owners", "refusals", "repository_problems", "sessions", "sqlite_sequence", "visits", "workers",
	}
	for name, where := range wheres(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testkit.Must(store.Open(t.Context(), where))(t)
			defer db.Close()
			tables := testkit.Must(db.Tables(t.Context()))(t)
			for _, table := range tables {
				if !strings.HasPrefix(table, "river_") && !slices.Contains(madeAgain, table) &&
					!slices.Contains(store.Dumped(), table) {
					t.Errorf("the table %s is not in backups", table)
				}
			}
			for _, table := range store.Dumped() {
				if !slices.Contains(tables, table) {
					t.Errorf("there is no table %s", table)
				}
			}
			// Every question that a check asks is one that the engine understands.
			testkit.Same(t, "the violations of an empty database", testkit.Must(db.Violations(t.Context()))(t), nil)
			testkit.Same(t, "the damage of a new database", len(testkit.Must(db.Verify(t.Context()))(t)), 0)
		})
	}
}

// back brings a database to the form before a migration.
func back(t *testing.T, db *store.DB, number int, file string) {
	t.Helper()
	_, down, _ := strings.Cut(string(testkit.Must(os.ReadFile(filepath.Join("migrations", file)))(t)), "-- +goose Down")
	update(t, db, func(tx *store.Tx) error {
		for statement := range strings.SplitSeq(strings.TrimSpace(down), ";\n") {
			if err := tx.Exec(t.Context(), strings.TrimSuffix(statement, ";")); err != nil {
				return err
			}
		}
		return tx.Exec(t.Context(), `DELETE FROM goose_db_version WHERE version_id = $1`, number)
	})
}

// An earlier program took every delivery with the id that an app's own hook had named for the app's. What an upgrade
// takes over of that is only what was for the repository at the app's address.
func TestUpgradeOfSharedDeliveries(t *testing.T) {
	t.Parallel()
	for name, where := range wheres(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := testkit.Must(store.Open(ctx, where))(t)
			const shop, vault = 7, 8
			for i, c := range []struct {
				name, address, owner, repository string
				id                               int64
			}{
				{name: "good", address: "https://github.com/Harbor/shop.git", owner: "harbor", repository: "Shop", id: shop},
				{name: "enterprise", address: "https://git.example.com/harbor/shop/", owner: "harbor",
					repository: "shop", id: shop},
				{name: "forged", address: "https://github.com/evil/shop.git", owner: "harbor", repository: "vault", id: vault},
				{name: "elsewhere", address: "https://evil.example.com/x/github.com/harbor/vault.git", owner: "harbor",
					repository: "vault", id: vault}, {name: "longer", address: "https://github.com/evil/myvault", owner: "evil",
					repository: "vault", id: vault}, {name: "quiet", address: "https://github.com/evil/own", owner: "evil",
					repository: "own", id: vault},
			} {
				app := newApp(t, db, c.name)
				update(t, db, func(tx *store.Tx) error {
					return tx.Exec(ctx,
						`UPDATE apps SET repository = $2, github_id = $3, github_owner = $4, github_name = $5 WHERE id = $1`,
						app.ID, c.address, c.id, c.owner, c.repository)
				})
				delivery := landfall.Delivery{ID: fmt.Sprint("d", c.id), Event: "push", Received: after(int(c.id)),
					Repository: c.id, Runs: []string{"good", "forged", "elsewhere", "enterprise", "longer"}}
				if _, err := db.Delivery(ctx, "", delivery.ID); err != nil {
					update(t, db, func(tx *store.Tx) error { return tx.CreateDelivery(ctx, delivery) })
				}
				// The app's own hook may name any delivery.
				run := newRun(t, db, app, c.name, landfall.CommitSHA(strings.Repeat(fmt.Sprint(i), 40)), noon)
				push := newPush(t, db, landfall.Push{App: app.ID, Ref: "refs/heads/main", After: run.Commit, Delivery: delivery.ID,
					Accepted: noon})
				update(t, db, func(tx *store.Tx) error { return tx.AddRunRef(ctx, run.ID, push) })
			}
			back(t, db, 8, "00008_shared_deliveries.sql")
			testkit.Must(0, db.Close())(t)

			db = testkit.Must(store.Open(ctx, where))(t)
			defer db.Close()
			var confirmed, listed []string
			for _, app := range testkit.Must(db.Apps(ctx))(t) {
				if app.GitHubConfirmed {
					confirmed = append(confirmed, app.Name)
				}
				if len(testkit.Must(db.DeliveriesOf(ctx, app.ID, "none", landfall.Delivery{}, 5))(t)) > 0 {
					listed = append(listed, app.Name)
				}
			}
			slices.Sort(confirmed)
			slices.Sort(listed)
			testkit.Same(t, "the apps whose id is confirmed", confirmed, []string{"good"})
			testkit.Same(t, "the apps with deliveries", listed, []string{"elsewhere", "enterprise", "good"})
		})
	}
}
