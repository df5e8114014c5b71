package upkeep_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/upkeep"
)

// owns makes a process own a database until it is stopped.
func owns(t *testing.T, db *store.DB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	owned, ended := make(chan bool, 10), make(chan error, 1)
	go func() { ended <- db.Lead(ctx, func() { owned <- true }) }()
	select {
	case <-owned:
	case err := <-ended:
		t.Fatalf("it does not own the database: %v", err)
	case <-time.After(testkit.Patience):
		t.Fatal("it does not own the database")
	}
	return func() {
		cancel()
		<-ended
	}
}

// litter is a shop with something to collect, and a record that is too old.
type litter struct{ *shop }

const (
	litterPrefix = "apps/default/shop/static/site/aaaaaaaa/"
	litterObject = litterPrefix + "index.html"
)

func newLitter(t *testing.T, db *store.DB) litter {
	t.Helper()
	l := litter{newShopIn(t, db)}
	l.objects.put(litterObject)
	l.upkeep.Retention = upkeep.Retention{Deliveries: time.Hour}
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		long := time.Now().Add(-2 * time.Hour)
		run := landfall.Run{ID: "run", App: accepttest.AppID, State: landfall.RunFailed, Step: landfall.StepAccept,
			UID: "aaaaaaaa", Created: long, Finished: long}
		if err := tx.CreateRun(t.Context(), run); err != nil {
			return err
		}
		if _, err := tx.Reserve(t.Context(), "run", accepttest.AppID, []string{litterPrefix}, long); err != nil {
			return err
		}
		if err := tx.CreateDelivery(t.Context(), landfall.Delivery{ID: "old", Event: "ping", Received: long}); err != nil {
			return err
		}
		return tx.DropReservations(t.Context(), "run")
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// there reports whether the object and the record are there.
func (l litter) there() (object, record bool) {
	l.T.Helper()
	deliveries, err := l.Receiver.DB.Deliveries(l.T.Context(), landfall.Delivery{}, 10)
	if err != nil {
		l.T.Fatal(err)
	}
	return len(l.objects.keys("")) == 1, len(deliveries) == 1
}

// wantRefused fails the test unless every duty of the owner is refused, and nothing is gone.
func (l litter) wantRefused(want landfall.Kind) {
	l.T.Helper()
	ctx := l.T.Context()
	updates := []remote.Update{{Ref: l.Ref, After: l.Commit("pushed")}}
	for what, do := range map[string]func() error{
		"collection":     func() error { return l.upkeep.Collect(ctx, accepttest.AppID) },
		"retention":      func() error { return l.upkeep.Forget(ctx) },
		"a push's check": func() error { return l.Receiver.Check(ctx, remote.Repository{App: accepttest.AppID}, updates) },
		"a push": func() error {
			_, err := l.Receiver.Accept(ctx, remote.Repository{App: accepttest.AppID, Actor: "ada"}, updates)
			return err
		},
		"a report that was sent": func() error { return store.Outbox{DB: l.Receiver.DB}.Sent(ctx, time.Now(), 1) },
	} {
		if err := do(); err == nil || landfall.KindOf(err) != want {
			l.T.Errorf("%s: got %v, want it refused as %s", what, err, want)
		}
	}
	if object, record := l.there(); !object || !record {
		l.T.Errorf("the object is there: %t, the record: %t; want both", object, record)
	}
}

// wantTidied collects and forgets, and fails the test unless that worked.
func (l litter) wantTidied() {
	l.T.Helper()
	for _, err := range []error{l.upkeep.Collect(l.T.Context(), accepttest.AppID), l.upkeep.Forget(l.T.Context())} {
		if err != nil {
			l.T.Error(err)
		}
	}
	if object, record := l.there(); object || record {
		l.T.Errorf("the object is there: %t, the record: %t; want neither", object, record)
	}
}

// What one process does for all is done by the one that owns the database, and by no other.
func TestOnlyTheOwnerKeeps(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { // whoever has the file owns it
		t.Parallel()
		newLitter(t, storetest.Open(t, storetest.SQLite(t))).wantTidied()
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		address := storetest.Postgres(t)
		ours, other := storetest.Open(t, address), storetest.Open(t, address)
		l := newLitter(t, ours)
		l.wantRefused(landfall.Unavailable) // nobody owns it
		stop := owns(t, other)
		l.wantRefused(landfall.Unavailable)
		stop()
		defer owns(t, ours)()
		l.wantTidied()
	})
	t.Run("lost meanwhile", func(t *testing.T) {
		t.Parallel()
		address := storetest.Postgres(t)
		line := storetest.NewProxy(t, address)
		ours, other := storetest.Open(t, line.URL), storetest.Open(t, address)
		l := newLitter(t, ours)
		stopOurs := owns(t, ours)
		resume := line.Stall()
		storetest.EndLeader(t, address)
		stop := owns(t, other)
		resume()
		err := l.upkeep.Collect(t.Context(), accepttest.AppID)
		if landfall.KindOf(err) != landfall.Conflict ||
			!strings.Contains(landfall.MessageOf(err), "another landfall process owns the database") {
			t.Errorf("got %v, want a sentence about another process", err)
		}
		l.wantRefused(landfall.Unavailable) // it knows now
		stopOurs()
		stop()
		defer owns(t, ours)()
		l.wantTidied()
	})
	t.Run("lost in a collection", func(t *testing.T) {
		t.Parallel()
		address := storetest.Postgres(t)
		ours, other := storetest.Open(t, address), storetest.Open(t, address)
		l := newLitter(t, ours)
		stop := owns(t, ours)
		var stopOther func()
		l.objects.before = sync.OnceValue(func() error { // when it is known already what is to be deleted
			stop()
			stopOther = owns(t, other)
			return nil
		})
		if err := l.upkeep.Collect(t.Context(), accepttest.AppID); landfall.KindOf(err) != landfall.Conflict {
			t.Errorf("got %v from a collection that was overtaken, want a Conflict", err)
		}
		if object, _ := l.there(); !object {
			t.Error("the object was deleted by a process that did not own the database any more")
		}
		stopOther()
		defer owns(t, ours)()
		l.wantTidied()
	})
}
