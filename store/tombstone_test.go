package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// The upgrade of a database in which an earlier program deleted an app: the names of its functions are free at once,
// its own is not, it is known that more is to be closed, and the content of the apps that exist stays where it is.
func TestUpgradeOfDeletedApps(t *testing.T) {
	t.Parallel()
	for name, where := range fresh(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			first := testkit.Must(os.ReadFile(filepath.Join("migrations", "00001_line.sql")))(t)
			db := testkit.Must(store.OpenWith(ctx, where, fstest.MapFS{"00001_line.sql": {Data: first}}))(t)
			update(t, db, func(tx *store.Tx) error {
				for _, statement := range []string{
					`INSERT INTO namespaces (name, created) VALUES ('team', 1)`,
					oldApp("old-shop", "shop", 7), oldApp("old-zoo", "zoo", 0),
					`INSERT INTO units (id, scope, kind, name, namespace, app, last_number, retired) VALUES
						('f1', 'namespace/team', 'function', 'hello', 'team', 'old-shop', 5, 0),
						('p1', 'namespace/team', 'package', 'hello-pkg', 'team', 'old-shop', 3, 0),
						('s1', 'app/old-shop', 'static', '/', 'team', 'old-shop', 2, 0),
						('f2', 'namespace/team', 'function', 'feed', 'team', 'old-zoo', 1, 0)`,
				} {
					if err := tx.Exec(ctx, statement); err != nil {
						return err
					}
				}
				return nil
			})
			testkit.Must(0, db.Close())(t)

			db = testkit.Must(store.Open(ctx, where))(t)
			defer db.Close()
			var half []string
			for _, app := range testkit.Must(db.DeletedWithoutTombstone(ctx))(t) {
				half = append(half, app.Name)
			}
			testkit.Same(t, "what is to be closed", half, []string{"shop"})
			zoo := testkit.Must(db.AppByName(ctx, "zoo"))(t)
			testkit.Same(t, "where the content lies", zoo.Objects, "apps/team/zoo/")
			for unit, there := range map[landfall.UnitID]bool{function("hello"): false,
				{Kind: landfall.PackageUnit, Name: "hello-pkg"}: false, function("feed"): true} {
				_, err := db.UnitInNamespace(ctx, "team", unit)
				testkit.Same(t, "whether "+unit.Name+" is in the namespace", err == nil, there)
			}
			update(t, db, func(tx *store.Tx) error {
				unit, err := tx.CreateUnit(ctx, zoo, function("hello"))
				// V3: numbers go on, also where the name is another app's by now
				testkit.Same(t, "the last number of the name", unit.LastNumber, 5)
				return err
			})
			again := landfall.App{ID: uuid.NewString(), Namespace: "team", Name: "shop", Created: time.UnixMicro(1),
				UIDSpace: uuid.New()}
			err := db.Update(ctx, func(tx *store.Tx) error { return tx.CreateApp(ctx, again) })
			testkit.Kind(t, "the name of the deleted app", err, landfall.Conflict, "stay reserved")
		})
	}
}

// fresh are places for databases of each engine in which nothing is yet, neither a table.
func fresh(t *testing.T) map[string]string {
	t.Helper()
	address := storetest.Postgres(t)
	db := testkit.Must(store.Open(t.Context(), address))(t)
	update(t, db, func(tx *store.Tx) error { return tx.Exec(t.Context(), `CREATE SCHEMA fresh`) })
	testkit.Must(0, db.Close())(t)
	return map[string]string{"sqlite": filepath.Join(t.TempDir(), "landfall.db"),
		"postgres": address + "&search_path=fresh"}
}

// oldApp is the statement by which a program of the first form stores an app.
func oldApp(id, name string, deleted int) string {
	return fmt.Sprintf(
		`INSERT INTO apps (id, namespace, name, repository, credentials, specs, folder, branch, policy, previews, live, held,
			uid_space, github_id, github_owner, github_name, created, deleted, changed)
		VALUES ('%s', 'team', '%s', '', '', '', '', 'main', '{}', '', '', 0, '%s', 0, '', '', 1, %d, 0)`, id, name,
		uuid.New(), deleted)
}

// What leads to a deleted app is closed, and nothing of another app: what runs by itself, what waits, who may come in.
func testClosed(t *testing.T, open opener) {
	t.Helper()
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		shop, zoo := newApp(t, db, "shop"), newApp(t, db, "zoo")
		for _, app := range []landfall.App{shop, zoo} {
			update(t, db, func(tx *store.Tx) error {
				token := landfall.Token{Hash: landfall.DigestOf([]byte("token of " + app.Name)), Name: app.Name,
					Scope: landfall.ScopeDeploy, App: app.ID, Created: noon}
				if err := tx.PutToken(ctx, token); err != nil {
					return err
				}
				if err := tx.CreateSession(ctx, "session of "+app.Name, token, noon, after(100)); err != nil {
					return err
				}
				x := execution(app, "of "+app.Name, 1)
				x.State, x.Async = landfall.ExecutionQueued, true
				if err := tx.AcceptExecution(ctx, x, []byte("{}"), store.WaitingLimit{Count: 9, Bytes: 9}); err != nil {
					return err
				}
				return tx.CreateVisit(ctx, "code of "+app.Name, "session of zoo",
					store.Visit{Host: app.Name + ".localhost", Challenge: landfall.DigestOf([]byte("nonce"))}, noon, after(100))
			})
		}
		update(t, db, func(tx *store.Tx) error {
			shop.Deleted = after(1)
			if err := tx.UpdateApp(ctx, shop); err != nil {
				return err
			}
			if err := tx.CancelWork(ctx, shop, after(1)); err != nil {
				return err
			}
			tokens, err := tx.RevokeTokens(ctx, shop)
			testkit.Same(t, "the tokens that are recorded", len(tokens), 1)
			return err
		})
		for name, open := range map[string]bool{"shop": false, "zoo": true} {
			_, err := db.Token(ctx, "token of "+name, time.Now())
			testkit.Same(t, "whether the token of "+name+" is known", err == nil, open)
			_, err = db.SessionToken(ctx, "session of "+name, noon)
			testkit.Same(t, "whether the session of "+name+" goes on", err == nil, open)
			err = db.Update(ctx, func(tx *store.Tx) error {
				_, _, err := tx.BeginVisit(ctx, "code of "+name, name+".localhost", "nonce", "secret of "+name, noon)
				return err
			})
			testkit.Same(t, "whether "+name+" is visited", err == nil, open)
		}
		var leased []string
		update(t, db, func(tx *store.Tx) error {
			all, err := tx.LeaseExecutions(ctx, "p", after(2), after(3), 9)
			for _, x := range all {
				leased = append(leased, x.ID)
			}
			return err
		})
		testkit.Same(t, "what is run of what waited", leased, []string{"of zoo"})
		x := execution(shop, "late", 1)
		err := db.Update(ctx, func(tx *store.Tx) error {
			return tx.AcceptExecution(ctx, x, []byte("{}"), store.WaitingLimit{Count: 9, Bytes: 9})
		})
		testkit.Kind(t, "what comes later", err, landfall.NotFound)
	})
}
