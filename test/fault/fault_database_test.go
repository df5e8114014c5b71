package fault_test

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/machine"
	"landfall.dev/landfall/test/site"
)

// The database goes away, or is held by somebody else, while pushes come in: each push that was accepted becomes a
// release once, in order, and nothing needs to be started again.
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
		testDatabase(t, server.URL, server.URL, machine.Dose(t, 3, restarts), func(w *forge.Twins, i int) *forge.Attempt {
			a := w.Launch(2+i, forge.NearApp, forge.FarApp)
			<-time.After(rand.N(time.Second)) // each time somewhere else on their way
			server.Restart(i%2 == 0)
			<-time.After(triedFirst)
			return a
		})
	})
	t.Run("reset at a commit", func(t *testing.T) {
		t.Parallel()
		address := storetest.Postgres(t)
		line := storetest.NewProxy(t, address)
		testDatabase(t, line.URL, address, machine.Dose(t, 4, commits), func(w *forge.Twins, i int) *forge.Attempt {
			line.CutAtCommit(i%2 == 0)
			a := w.Launch(2+i, forge.NearApp, forge.FarApp)
			w.Eventually("a commit lost its connection", line.WasCut)
			return a
		})
	})
	t.Run("lock", func(t *testing.T) {
		t.Parallel()
		address := storetest.Postgres(t)
		tables := []string{"runs", "apps", "river_job", "reports"}
		testDatabase(t, address, address, machine.Dose(t, 4, locks), func(w *forge.Twins, i int) *forge.Attempt {
			waiting, release := storetest.Hold(t, address, tables[i%len(tables)])
			defer release()
			a := w.Launch(2+i, forge.NearApp, forge.FarApp)
			w.Eventually("somebody waits for the lock", waiting)
			if i == 0 {
				<-time.After(lockFor(t)) // longer than a lease
			}
			return a
		})
	})
}

// The database's server dies, and its replica takes its place, while pushes come in: each push that was accepted
// becomes a release once, in order, and nothing needs to be started again.
func TestFaultDatabaseFailover(t *testing.T) {
	t.Parallel()
	const failovers = 2
	pair := storetest.NewPair(t)
	// R13: a replica is promoted while pushes come in: none that was accepted is lost, and none is done twice
	testDatabase(t, pair.URL, pair.URL, machine.Dose(t, 2, failovers), func(w *forge.Twins, i int) *forge.Attempt {
		pair.Repair()
		a := w.Launch(2+i, forge.NearApp, forge.FarApp)
		if i%2 == 0 {
			<-a.Heard[forge.FarApp] // it was accepted just now
		} else {
			<-time.After(rand.N(time.Second)) // each time somewhere else on their way
		}
		pair.Failover()
		<-time.After(triedFirst)
		return a
	})
}

// triedFirst is how long a connection must be idle that is tried before it is used: after that, none is left from
// before a restart. Until then requests may fail.
const triedFirst = 1100 * time.Millisecond

// lockFor is how long the first lock is held.
func lockFor(t *testing.T) time.Duration {
	t.Helper()
	const short, full = 5 * time.Second, 30 * time.Second
	if machine.Dose(t, 1, 1) == 1 {
		return short
	}
	return full
}

// testDatabase makes the fault so often, each time to a push to both apps. address is the database's for the server,
// and direct the one without any fault.
func testDatabase(t *testing.T, address, direct string, times int, fault func(w *forge.Twins, i int) *forge.Attempt) {
	t.Helper()
	w := forge.NewStoppedTwins(t, site.Engine{Database: address})
	w.Env = append(append(w.Env, w.Reports...), "LANDFALL_LEASE=3s")
	w.Start()
	w.Populate()
	w.Settled(1)
	visitors := []*forge.Watcher{w.Watch(forge.NearApp), w.Watch(forge.FarApp)}
	for i := range times {
		a := fault(w, i)
		for app, commit := range a.Commits {
			<-a.Heard[app]
			if !w.Accepted(a, app) {
				comesAgain(w, a, app)
			}
			w.Ends(app, commit, landfall.RunSucceeded)
			w.WantRound(app, app, a.Round)
		}
	}
	w.Quiet(forge.FarApp)
	w.WantClosed(times)
	for _, v := range visitors {
		v.Sees(times + 1)
		if got := v.Rounds(t); !slices.IsSorted(got) {
			t.Errorf("a visitor of %s saw the rounds %v, want none twice", v.App, got)
		}
	}
	if result, code := w.Fsck(); code != 0 || len(result.Findings) > 0 {
		t.Errorf("fsck: got %d %+v, want nothing damaged", code, result)
	}
	w.Stop()
	w.Engine.Database = direct
	site.WantSound(t, w.Site, true)
}

// comesAgain does what a sender does who was told that a push was not accepted, or nothing: a delivery that was not
// answered with 202 may be there all the same when nobody knows what became of its transaction.
func comesAgain(w *forge.Twins, a *forge.Attempt, app string) {
	w.T.Helper()
	if app == forge.NearApp {
		w.Near.Push("main")
		return
	}
	if a.Status != http.StatusServiceUnavailable {
		w.T.Errorf("a delivery got %d, want 202 or 503", a.Status)
	}
	w.Eventually("the delivery is taken", func() bool {
		status := w.SendTo(a.Delivery)
		return status == http.StatusAccepted || status == http.StatusOK
	})
}
