package main

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store/storetest"
)

// The database goes away, or is held by somebody else, while pushes come in: each push that was accepted becomes a release
// once, in order, and nothing needs to be started again.
func TestFaultDatabase(t *testing.T) {
	t.Parallel()
	const (
		restarts = 8
		commits  = 8
		locks    = 4
	)
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		server := storetest.NewServer(t)
		testDatabase(t, server.URL, server.URL, dose(t, 3, restarts), func(w *twins, i int) *attempt {
			a := w.launch(2+i, nearApp, farApp)
			<-time.After(rand.N(time.Second)) // each time somewhere else on their way
			server.Restart(i%2 == 0)
			<-time.After(triedFirst)
			return a
		})
	})
	t.Run("reset at a commit", func(t *testing.T) {
		t.Parallel()
		address := storetest.Postgres(t)
		line := storetest.NewLine(t, address)
		testDatabase(t, line.URL, address, dose(t, 4, commits), func(w *twins, i int) *attempt {
			line.CutAtCommit(i%2 == 0)
			a := w.launch(2+i, nearApp, farApp)
			w.eventually("a commit lost its connection", line.WasCut)
			return a
		})
	})
	t.Run("lock", func(t *testing.T) {
		t.Parallel()
		address := storetest.Postgres(t)
		tables := []string{"runs", "apps", "river_job", "reports"}
		testDatabase(t, address, address, dose(t, 4, locks), func(w *twins, i int) *attempt {
			waiting, release := storetest.Hold(t, address, tables[i%len(tables)])
			defer release()
			a := w.launch(2+i, nearApp, farApp)
			w.eventually("somebody waits for the lock", waiting)
			if i == 0 {
				<-time.After(lockFor(t)) // longer than a lease
			}
			return a
		})
	})
}

// The database's server dies, and its replica takes its place, while pushes come in: each push that was accepted becomes a release
// once, in order, and nothing needs to be started again.
func TestFaultDatabaseFailover(t *testing.T) {
	t.Parallel()
	const failovers = 2
	pair := storetest.NewPair(t)
	// R13: a replica is promoted while pushes come in: none that was accepted is lost, and none is done twice
	testDatabase(t, pair.URL, pair.URL, dose(t, 2, failovers), func(w *twins, i int) *attempt {
		pair.Repair()
		a := w.launch(2+i, nearApp, farApp)
		if i%2 == 0 {
			<-a.heard[farApp] // it was accepted just now
		} else {
			<-time.After(rand.N(time.Second)) // each time somewhere else on their way
		}
		pair.Failover()
		<-time.After(triedFirst)
		return a
	})
}

// triedFirst is how long a connection must be idle that is tried before it is used: after that, none is left from before a
// restart. Until then requests may fail.
const triedFirst = 1100 * time.Millisecond

// lockFor is how long the first lock is held.
func lockFor(t *testing.T) time.Duration {
	t.Helper()
	const short, full = 5 * time.Second, 30 * time.Second
	if dose(t, 1, 1) == 1 {
		return short
	}
	return full
}

// testDatabase makes the fault so often, each time to a push to both apps. address is the database's for the server, and direct
// the one without any fault.
func testDatabase(t *testing.T, address, direct string, times int, fault func(w *twins, i int) *attempt) {
	t.Helper()
	w := newStoppedTwins(t, engine{database: address})
	w.env = append(append(w.env, w.token...), "LANDFALL_LEASE=3s")
	w.start()
	w.populate()
	w.settled(1)
	visitors := []*watcher{w.watch(nearApp), w.watch(farApp)}
	for i := range times {
		a := fault(w, i)
		for app, commit := range a.commits {
			<-a.heard[app]
			if !w.accepted(a, app) {
				w.comesAgain(a, app)
			}
			w.ends(app, commit, landfall.RunSucceeded)
			w.wantRound(app, app, a.round)
		}
	}
	w.quiet(farApp)
	w.wantClosed(times)
	for _, v := range visitors {
		v.sees(times + 1)
		if got := v.rounds(t); !slices.IsSorted(got) {
			t.Errorf("a visitor of %s saw the rounds %v, want none twice", v.app, got)
		}
	}
	if result, code := w.fsck(); code != 0 || len(result.Findings) > 0 {
		t.Errorf("fsck: got %d %+v, want nothing damaged", code, result)
	}
	w.stop()
	w.engine.database = direct
	wantSound(t, w.site, true)
}

// comesAgain does what a sender does who was told that a push was not accepted, or nothing: a delivery that was not answered
// with 202 may be there all the same when nobody knows what became of its transaction.
func (w *twins) comesAgain(a *attempt, app string) {
	w.t.Helper()
	if app == nearApp {
		w.near.push("main")
		return
	}
	if a.status != http.StatusServiceUnavailable {
		w.t.Errorf("a delivery got %d, want 202 or 503", a.status)
	}
	w.eventually("the delivery is taken", func() bool {
		status := w.sendTo(a.delivery)
		return status == http.StatusAccepted || status == http.StatusOK
	})
}
