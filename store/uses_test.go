package store_test

import (
	"encoding/json"
	"errors"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// testUses tests jobs and webhooks: what people make of functions.
func testUses(t *testing.T, open opener) {
	t.Helper()
	db, ctx := open(t), t.Context()
	app := newApp(t, db, "shop")
	var row store.Unit
	update(t, db, func(tx *store.Tx) (err error) {
		row, err = tx.CreateUnit(ctx, app, landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"})
		return err
	})
	use := func(id string, number int64, created int) landfall.FunctionUse {
		return landfall.FunctionUse{ID: id, Unit: row.ID, App: app.ID, Namespace: "default", Function: "hello",
			Number: number, Created: after(created), Updated: after(created)}
	}
	job := landfall.Job{FunctionUse: use("a", 2, 1), Name: "nightly", Input: json.RawMessage(`{"a":1}`),
		Pattern: "0 3 * * *", First: after(9), Next: after(9), Count: 3, State: landfall.JobRunning, Problem: "none"}
	late := landfall.Job{FunctionUse: use("b", 0, 2), Next: after(20), State: landfall.JobPaused}
	hook := landfall.FunctionHook{FunctionUse: use("h", 2, 1), Key: "key", Description: "for tills"}
	update(t, db, func(tx *store.Tx) error {
		for _, j := range []landfall.Job{job, late} {
			if err := tx.PutJob(ctx, j); err != nil {
				return err
			}
		}
		return tx.PutFunctionHook(ctx, hook)
	})
	testkit.Same(t, "a job", testkit.Must(db.Job(ctx, "a"))(t), job)
	testkit.Same(t, "a webhook", testkit.Must(db.FunctionHook(ctx, "h"))(t), hook)
	testkit.Same(t, "a webhook by its key", testkit.Must(db.FunctionHookOf(ctx, "key"))(t), hook)
	testkit.Kind(t, "another key", second(db.FunctionHookOf(ctx, "")), landfall.NotFound)

	none := landfall.FunctionUse{}
	testkit.Same(t, "jobs", testkit.Must(db.Jobs(ctx, "", nil, none, 9))(t), []landfall.Job{late, job})
	testkit.Same(t, "the first page", testkit.Must(db.Jobs(ctx, row.ID, []string{app.ID}, none, 1))(t), []landfall.Job{late})
	testkit.Same(t, "the next page", testkit.Must(db.Jobs(ctx, row.ID, nil, late.FunctionUse, 1))(t), []landfall.Job{job})
	testkit.Same(t, "jobs of no app", testkit.Must(db.Jobs(ctx, "", []string{}, none, 9))(t), nil)
	testkit.Same(t, "webhooks of another app", testkit.Must(db.FunctionHooks(ctx, "", []string{"other"}, none, 9))(t), nil)
	testkit.Same(t, "jobs that are due", testkit.Must(db.JobsDue(ctx, after(9), 9))(t), []landfall.Job{job})
	testkit.Same(t, "jobs that are due before", testkit.Must(db.JobsDue(ctx, after(8), 9))(t), nil)

	holders := func() []store.Holder { return testkit.Must(db.VersionHolders(ctx, row.ID, 2))(t) }
	// a job that is not over holds its version, and so does a webhook
	testkit.Same(t, "what holds a version", holders(), []store.Holder{{Kind: "job", Name: "a"}, {Kind: "webhook", Name: "h"}})
	testkit.Same(t, "what holds another", testkit.Must(db.VersionHolders(ctx, row.ID, 1))(t), nil)
	testkit.Same(t, "uses of the function", len(testkit.Must(db.FunctionUses(ctx, row.ID))(t)), 3)
	job.State = landfall.JobDone
	update(t, db, func(tx *store.Tx) error {
		if err := tx.DeleteFunctionHook(ctx, "h"); err != nil {
			return err
		}
		return tx.PutJob(ctx, job)
	})
	// a job that is over holds none
	testkit.Same(t, "what holds it then", holders(), nil)
	testkit.Same(t, "jobs that are not over", testkit.Must(db.CountJobs(ctx, row.ID))(t), 1)
	update(t, db, func(tx *store.Tx) error { return second(tx.ForgetJobs(ctx, after(1), 9)) })
	testkit.Same(t, "jobs that are kept", len(testkit.Must(db.Jobs(ctx, "", nil, none, 9))(t)), 2)
	update(t, db, func(tx *store.Tx) error { return second(tx.ForgetJobs(ctx, after(2), 9)) })
	testkit.Same(t, "jobs that are left", testkit.Must(db.Jobs(ctx, "", nil, none, 9))(t), []landfall.Job{late})

	// of those that are over, the newest are kept
	over := func(id string, at int) landfall.Job {
		j := late
		j.ID, j.State, j.Updated = id, landfall.JobCancelled, after(at)
		return j
	}
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(tx.PutJob(ctx, over("x", 5)), tx.PutJob(ctx, over("y", 7)), tx.PutJob(ctx, over("z", 6)),
			tx.TrimJobs(ctx, row.ID, 2))
	})
	testkit.Kind(t, "the oldest one", second(db.Job(ctx, "x")), landfall.NotFound)
	testkit.Same(t, "jobs after that", len(testkit.Must(db.Jobs(ctx, "", nil, none, 9))(t)), 3)
	update(t, db, func(tx *store.Tx) error { return tx.TrimJobs(ctx, row.ID, 0) })

	app.Deleted = after(30)
	update(t, db, func(tx *store.Tx) error { return tx.UpdateApp(ctx, app) })
	testkit.Kind(t, "a job of a deleted app", second(db.Job(ctx, "b")), landfall.NotFound)
	testkit.Same(t, "its jobs", testkit.Must(db.Jobs(ctx, "", nil, none, 9))(t), nil)
}

// A version that only a webhook or a job leads to is held with what it needs to run.
func testUsesHold(t *testing.T, open opener) {
	t.Helper()
	db, ctx := open(t), t.Context()
	app := newApp(t, db, "shop")
	var row store.Unit
	v := landfall.Version{Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"}, Number: 1, UID: "aaaaaaaa",
		Digest: landfall.DigestOf(nil), Spec: json.RawMessage(`{}`), Created: noon}
	update(t, db, func(tx *store.Tx) (err error) {
		if row, err = tx.CreateUnit(ctx, app, v.Unit); err != nil {
			return err
		}
		return tx.CreateVersion(ctx, row.ID, v)
	})
	loose := func() int { return len(testkit.Must(db.UnheldVersions(ctx, app.ID, store.UnitNumber{}, 1000))(t)) }
	testkit.Same(t, "versions that nothing holds", loose(), 1)
	hook := landfall.FunctionHook{FunctionUse: landfall.FunctionUse{ID: "h", Unit: row.ID, Number: 1}, Key: "k"}
	update(t, db, func(tx *store.Tx) error { return tx.PutFunctionHook(ctx, hook) })
	testkit.Same(t, "with a webhook", loose(), 0)
	testkit.Same(t, "what is held", testkit.Must(db.HeldVersions(ctx, row.ID))(t), []int64{1})
	named := func() int { return len(testkit.Must(db.NamedVersions(ctx, app.ID))(t)) }
	testkit.Same(t, "versions that something names", named(), 1)
	hook.Number = 0
	update(t, db, func(tx *store.Tx) error { return tx.PutFunctionHook(ctx, hook) })
	testkit.Same(t, "with a webhook of the latest", loose(), 1)
	testkit.Same(t, "versions that something names then", named(), 0)

	// which functions run a package is found by its whole name
	v.Number, v.UID = 2, "bbbbbbbb"
	v.Content = json.RawMessage(`{"packageref":{"name":"hello-pkg-owf2k7qa","namespace":"default","resourceversion":"1"}}`)
	update(t, db, func(tx *store.Tx) error { return tx.CreateVersion(ctx, row.ID, v) })
	for name, want := range map[string][]string{"hello-pkg": {"hello"}, "hello": nil, "lo-pkg": nil} {
		pkg := store.Unit{Unit: landfall.UnitID{Kind: landfall.PackageUnit, Name: name}, App: app.ID, Namespace: app.Namespace}
		testkit.Same(t, "functions that run "+name, testkit.Must(db.FunctionsRunning(ctx, pkg))(t), want)
	}
}
