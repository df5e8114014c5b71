package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// A commit whose answer was lost when the database moved to its replica leaves no doubt: the new server is asked.
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	for _, test := range lostCommits() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := storetest.NewPair(t)
			line := storetest.NewProxy(t, pair.Primary)
			db := storetest.Open(t, storetest.Join(line.URL, pair.Replica))
			app := newApp(t, db, "shop")
			closed, ended := line.CloseAtCommit(test.before), make(chan error, 1)
			go func() {
				ended <- db.Update(t.Context(), func(tx *store.Tx) error {
					return tx.CreateMove(t.Context(), landfall.Move{App: app.ID, Pointer: landfall.LivePointer,
						To: "aaaaaaaa", At: noon})
				})
			}()
			<-closed
			pair.Failover()
			err, want := receive(t, "the end of the transaction", ended), 1
			if test.before {
				want = 0
				testkit.Kind(t, "the transaction", err, landfall.Unavailable)
			} else if err != nil {
				t.Errorf("the transaction: got %v, want none: it was committed", err)
			}
			// R13: what became of a commit whose answer was lost is found out by its key, on the server that was
			// promoted
			testkit.Same(t, "moves that are there", len(testkit.Must(db.Moves(t.Context(), app.ID, "", 10))(t)), want)
			newApp(t, db, "another") // and it goes on there
		})
	}
}

// A server that takes no writes any more is left, also by connections that only read or listen, or have the owner's
// lock.
func TestPostgresReadOnly(t *testing.T) {
	t.Parallel()
	pair := storetest.NewPair(t)
	db := storetest.Open(t, pair.URL)
	listening, deaf := make(chan bool, 1), make(chan error, 1)
	go func() { deaf <- db.Notices(t.Context(), func() { listening <- true }, func(landfall.AppChange) {}) }()
	receive(t, "the start of listening", listening)
	o := own(t, db)
	receive(t, "ownership", o.owned)
	pair.Demote()
	var err error
	for err == nil { // a connection hears of it a little later
		err = db.Update(t.Context(), func(tx *store.Tx) error { return tx.EnsureNamespace(t.Context(), "early", 1) })
	}
	testkit.Kind(t, "a transaction on a server that takes no writes", err, landfall.Unavailable)
	pair.Promote()
	update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(t.Context(), "later", 1) })
	if got := testkit.Must(db.Namespaces(t.Context()))(t); !slices.Contains(got, "later") {
		t.Errorf("got the namespaces %q, want those of the server that takes writes", got)
	}
	receive(t, "ownership of the promoted server", o.owned)
	testkit.Must(0, ensure(t, db, "owned"))(t)
	testkit.Kind(t, "what listened to the first", receive(t, "its end", deaf), landfall.Unavailable)
}

// Of several hosts the one that takes writes is used, whichever it is and whatever the others are.
func TestPostgresHosts(t *testing.T) {
	t.Parallel()
	pair := storetest.NewPair(t)
	for name, address := range map[string]string{
		"a replica first":   storetest.Join(pair.Replica, pair.Primary),
		"nobody first":      strings.Replace(pair.Primary, "@", "@127.0.0.1:1,", 1),
		"a replica behind":  pair.URL,
		"any server":        storetest.Join(pair.Replica, pair.Primary) + "&target_session_attrs=any",
		"the one that says": storetest.Join(pair.Replica, pair.Primary) + "&target_session_attrs=primary",
	} {
		db := storetest.Open(t, address)
		if err := db.Update(t.Context(), func(tx *store.Tx) error {
			return tx.EnsureNamespace(t.Context(), "there", 1)
		}); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := store.Open(t.Context(), pair.Replica)
	testkit.Kind(t, "a replica alone", err, landfall.Unavailable, "no server there takes writes", "promote",
		"LANDFALL_DATABASE")
}

// leadership is what a process hears of owning a database.
type leadership struct {
	owned chan bool
	ended chan error
	stop  func()
}

// own makes a process try to own a database until it is stopped.
func own(t *testing.T, db *store.DB) leadership {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	o := leadership{owned: make(chan bool, 10), ended: make(chan error, 1), stop: stop}
	go func() { o.ended <- db.Lead(ctx, func() { o.owned <- true }) }()
	return o
}

// ensure writes as the owner only.
func ensure(t *testing.T, db *store.DB, namespace string) error {
	t.Helper()
	return db.UpdateAsLeader(t.Context(), func(tx *store.Tx) error {
		return tx.EnsureNamespace(t.Context(), namespace, 1)
	})
}

// When the database moves to its replica, its owner becomes the owner there, and nobody else does.
func TestPostgresOwnAfterFailover(t *testing.T) {
	t.Parallel()
	pair := storetest.NewPair(t)
	db, other := storetest.Open(t, pair.URL), storetest.Open(t, pair.URL)
	testkit.Kind(t, "a write before anybody owns it", ensure(t, db, "before"), landfall.Unavailable)
	o := own(t, db)
	receive(t, "ownership", o.owned)
	testkit.Must(0, ensure(t, db, "owned"))(t)
	tenure := testkit.Must(db.Leader(t.Context()))(t)
	pair.Failover()
	receive(t, "ownership of the promoted server", o.owned)
	testkit.Must(0, ensure(t, db, "again"))(t)
	// Nobody else had it meanwhile, so what was begun before goes on.
	testkit.Must(0, tenure.Update(t.Context(), func(*store.Tx) error { return nil }))(t)
	testkit.Kind(t, "another process", receive(t, "its end", own(t, other).ended), landfall.Conflict,
		"another landfall process uses this database")
	testkit.Kind(t, "a write of the other", ensure(t, other, "other"), landfall.Unavailable)
	testkit.Same(t, "namespaces", testkit.Must(db.Namespaces(t.Context()))(t), []string{"again", "owned"})
}

// A process that was cut off while another one won finds that out in its transactions, which change nothing; it becomes
// the owner again when the other one leaves, and otherwise says who is.
func TestPostgresOwnMeanwhile(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	line := storetest.NewProxy(t, address)
	zombie, other := storetest.Open(t, line.URL), storetest.Open(t, address)
	first := own(t, zombie)
	receive(t, "the first's ownership", first.owned)
	tenure := testkit.Must(zombie.Leader(t.Context()))(t)

	resume := line.Stall()
	storetest.EndLeader(t, address)
	second := own(t, other)
	receive(t, "the second's ownership", second.owned)
	resume()

	called := false
	f := func(*store.Tx) error { called = true; return nil }
	testkit.Kind(t, "a write of the first", tenure.Update(t.Context(), f), landfall.Conflict,
		"another landfall process owns the database meanwhile")
	testkit.Same(t, "whether it got anywhere", called, false)
	if err := zombie.CheckLeader(t.Context()); err == nil {
		t.Error("the first still takes itself for the owner")
	}
	testkit.Must(0, ensure(t, other, "second"))(t)

	second.stop()
	receive(t, "the end of the second", second.ended)
	receive(t, "the first's ownership again", first.owned)
	testkit.Must(0, ensure(t, zombie, "first"))(t)
	testkit.Kind(t, "what the first began before", tenure.Update(t.Context(), f), landfall.Conflict)
	testkit.Kind(t, "a write of the second", ensure(t, other, "late"), landfall.Unavailable)
	testkit.Same(t, "namespaces", testkit.Must(other.Namespaces(t.Context()))(t), []string{"first", "second"})

	first.stop()
	if err := receive(t, "the end of the first", first.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the first ended with %v", err)
	}
}

// On SQLite, whoever has the file owns it: nobody else can.
func TestSQLiteOwn(t *testing.T) {
	t.Parallel()
	path := storetest.SQLite(t)
	for _, name := range []string{"first", "second"} { // one life after the other
		db := testkit.Must(store.Open(t.Context(), path))(t)
		testkit.Must(0, db.CheckLeader(t.Context()))(t)
		tenure := testkit.Must(db.Leader(t.Context()))(t)
		testkit.Must(0, ensure(t, db, name))(t)
		testkit.Must(0, tenure.Update(t.Context(), func(*store.Tx) error { return nil }))(t)
		testkit.Must(0, db.Close())(t)
	}
	testkit.Same(t, "namespaces", testkit.Must(storetest.Open(t, path).Namespaces(t.Context()))(t),
		[]string{"first", "second"})
}
