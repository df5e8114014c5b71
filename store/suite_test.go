package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// opener returns an empty, migrated database that ends with the test.
type opener func(t *testing.T) *store.DB

// suite is what every engine must do.
func suite(t *testing.T, open opener) {
	t.Helper()
	for _, part := range []struct {
		name string
		test func(t *testing.T, open opener)
	}{
		{"Apps", testApps},
		{"Doors", testDoors},
		{"Sessions", testSessions},
		{"Visits", testVisits},
		{"Pushes", testPushes},
		{"Runs", testRuns},
		{"Leases", testLeases},
		{"Logs", testLogs},
		{"Reports", testReports},
		{"Commands", testCommands},
		{"PullQuestions", testPullQuestions},
		{"Comments", testComments},
		{"Deployments", testDeployments},
		{"Checks", testChecks},
		{"Pulse", testPulse},
		{"Retention", testRetention},
		{"Executions", testExecutions},
		{"Versions", testVersions},
		{"Groups", testGroups},
		{"Latest", testLatest},
		{"Releases", testReleases},
		{"ReleaseCanaries", testReleaseCanaries},
		{"Secrets", testSecrets},
		{"Collection", testCollection},
		{"Update", testUpdate},
		{"Errors", testErrors},
		{"Queue", testQueue},
		{"Messages", testMessages},
		{"Schedules", testSchedules},
		{"Closed", testClosed},
		{"Uses", testUses},
		{"UsesHold", testUsesHold},
		{"Payloads", testPayloads},
		{"ForgeHooks", testForgeHooks},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(t, open)
		})
	}
}

// SQLite, in files: each connection to a database in memory would have its own.
func TestSQLite(t *testing.T) {
	t.Parallel()
	suite(t, openSQLite)
}

func openSQLite(t *testing.T) *store.DB {
	t.Helper()
	return storetest.Open(t, storetest.SQLite(t))
}

// second returns what matters of two results.
func second[T any](_ T, err error) error { return err }

// update runs f in a transaction that must succeed.
func update(t testing.TB, db *store.DB, f func(tx *store.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// noon is when the tests happen; times are kept to the microsecond.
var noon = time.Date(2026, 2, 3, 12, 0, 0, 123456000, time.UTC)

// after is some seconds after noon.
func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

const (
	sha1 landfall.CommitSHA = "1111111111111111111111111111111111111111"
	sha2 landfall.CommitSHA = "2222222222222222222222222222222222222222"
	sha3 landfall.CommitSHA = "3333333333333333333333333333333333333333"
)

const mainRef landfall.RefName = "refs/heads/main"

// fullApp is an app with something in every field.
func fullApp(name string) landfall.App {
	return landfall.App{
		ID: uuid.NewString(), Namespace: "default", Name: name, Created: noon, Repository: "https://example.com/a.git",
		Specs: "specs", Folder: "shop", Branch: "main", Live: "livelive", Held: true, UIDSpace: uuid.New(),
		Previews: landfall.PreviewsSignedIn, KeepFiles: "7d", Objects: "apps/default/" + name + "/",
		Policy: landfall.ReleasePolicy{Production: "main", Live: landfall.LiveManual, Keep: 3, Branches: []string{"f*"},
			SkipPaths: []string{"*.md"}},
		GitHub: landfall.GitHubRepository{ID: 7, Owner: "o", Name: "n"},
	}
}

// newApp stores an app without anything special.
func newApp(t testing.TB, db *store.DB, name string) landfall.App {
	t.Helper()
	app := landfall.App{ID: "app-" + name, Namespace: "default", Name: name, Created: noon, Branch: "main",
		UIDSpace: uuid.New()}
	update(t, db, func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(t.Context(), "default", noon.UnixMicro()); err != nil {
			return err
		}
		return tx.CreateApp(t.Context(), app)
	})
	app.Objects = "apps/" + app.ID + "/"
	return app
}

// newPush stores a push and returns it with its id.
func newPush(t testing.TB, db *store.DB, p landfall.Push) landfall.Push {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		var err error
		p, err = tx.CreatePush(t.Context(), p)
		return err
	})
	return p
}

// newRun stores a run that waits for a worker.
func newRun(t testing.TB, db *store.DB, app landfall.App, id string, commit landfall.CommitSHA,
	created time.Time) landfall.Run {
	t.Helper()
	run := landfall.Run{ID: id, App: app.ID, Commit: commit, Branch: "main", State: landfall.RunQueued,
		Step: landfall.StepAccept, UID: landfall.NewUID(), Created: created}
	update(t, db, func(tx *store.Tx) error { return tx.CreateRun(t.Context(), run) })
	return run
}

func function(name string) landfall.UnitID {
	return landfall.UnitID{Kind: landfall.FunctionUnit, Name: name}
}

func static(path string) landfall.UnitID {
	return landfall.UnitID{Kind: landfall.StaticUnit, Name: path}
}

// newUnit stores a unit of an app.
func newUnit(t testing.TB, db *store.DB, app landfall.App, id landfall.UnitID) store.Unit {
	t.Helper()
	var u store.Unit
	update(t, db, func(tx *store.Tx) error {
		var err error
		u, err = tx.CreateUnit(t.Context(), app, id)
		return err
	})
	return u
}

// newVersion stores the next version of a unit, and points it into prefixes.
func newVersion(t testing.TB, db *store.DB, u store.Unit, uid landfall.UID, production bool,
	prefixes ...string) landfall.Version {
	t.Helper()
	row := testkit.Must(db.Unit(t.Context(), landfall.App{ID: u.App, Namespace: u.Namespace}, u.Unit))(t)
	row.LastNumber++
	v := landfall.Version{
		Unit: u.Unit, Namespace: u.Namespace, App: u.App, Number: row.LastNumber, UID: uid,
		Digest: landfall.DigestOf([]byte(uid)), Spec: json.RawMessage(`{"a":1}`),
		Content: json.RawMessage(`{"key":"` + string(uid) + `"}`), Commit: sha1, Created: noon, Production: production,
	}
	update(t, db, func(tx *store.Tx) error {
		if err := tx.UpdateUnit(t.Context(), row); err != nil {
			return err
		}
		if err := tx.CreateVersion(t.Context(), row.ID, v); err != nil {
			return err
		}
		for _, p := range prefixes {
			if _, err := tx.Reserve(t.Context(), "run", u.App, []string{p}, noon); err != nil {
				return err
			}
		}
		if err := tx.PointInto(t.Context(), row.ID, v.Number, prefixes); err != nil || len(prefixes) == 0 {
			return err
		}
		return tx.DropReservations(t.Context(), "run")
	})
	return v
}

// inForce is a version as group versions name it.
func inForce(u store.Unit, v landfall.Version) store.GroupUnit {
	return store.GroupUnit{UnitID: u.ID, GroupUnit: landfall.GroupUnit{Unit: u.Unit, UID: v.UID, Number: v.Number,
		Digest: v.Digest}}
}

// newGroup stores a group version; with a line, also its apply.
func newGroup(t testing.TB, db *store.DB, app landfall.App, uid landfall.UID, line landfall.Line,
	units ...store.GroupUnit) landfall.Group {
	t.Helper()
	g := landfall.Group{UID: uid, App: app.ID, Digest: landfall.DigestOf([]byte(uid)), Commit: sha1, Branch: "main",
		Created: noon}
	update(t, db, func(tx *store.Tx) error {
		if err := tx.CreateGroup(t.Context(), g, units); err != nil || line == "" {
			return err
		}
		return tx.CreateApply(t.Context(), landfall.Apply{App: app.ID, Group: uid, Ref: mainRef, Line: line, Created: noon})
	})
	return g
}

// newRelease stores a release of a group version; an expired one when expired.
func newRelease(t testing.TB, db *store.DB, g landfall.Group, expired bool) landfall.Release {
	t.Helper()
	r := landfall.Release{ID: g.UID, App: g.App, Line: landfall.Production, Digest: g.Digest, Commit: g.Commit,
		Branch: g.Branch, Created: g.Created}
	if expired {
		r.Expired = noon
	}
	update(t, db, func(tx *store.Tx) error { return tx.PutRelease(t.Context(), r) })
	return r
}
