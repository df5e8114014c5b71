package jobs_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/jobs"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/upkeep"
)

// silentRepository is the host of a repository that takes connections, and says nothing until it hangs up.
func silentRepository(t *testing.T) (host string, hangUp func()) {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	hangUp = sync.OnceFunc(func() {
		close(over)
		server.Close()
	})
	t.Cleanup(hangUp)
	return server.Listener.Addr().String(), hangUp
}

// Two workers share a database, and the clock of one is two hours ahead of the other's: each leaves the other the run
// that it is at, and whoever asks is told that both are alive.
func TestWorkersWhoseClocksAreApart(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t))
	s := newShopIn(t, db)
	host, hangUp := silentRepository(t)
	worker := func(name string, off time.Duration) (w *jobs.Worker, asked *atomic.Int64) {
		asked = new(atomic.Int64)
		p := &pipeline.Pipeline{
			DB: db, Rollout: s.Receiver.Rollout, Runs: s.Receiver.Runs, Acceptor: s.Receiver.Acceptor, Logger: s.Receiver.Logger,
			Worker: name, Lease: 3 * time.Second, Scratch: filepath.Join(t.TempDir(), "scratch"),
			Mirrors: &builder.Mirrors{Root: t.TempDir(), Dialer: &builder.Dialer{AllowedHosts: []string{host}}},
			Now: func() time.Time {
				asked.Add(1)
				return time.Now().Add(off)
			},
		}
		return &jobs.Worker{
			DB: db, Process: name, Scratch: p.Scratch, Acceptor: s.Receiver.Acceptor, Pipeline: p, Logger: p.Logger,
			Canaries: &canary.Controller{DB: db, Now: time.Now},
			Upkeep:   &upkeep.Upkeep{DB: db, Mirrors: p.Mirrors, Now: p.Now, Logger: p.Logger},
		}, asked
	}
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		app := landfall.App{ID: "slow", Namespace: landfall.DefaultNamespace, Name: "slow", Branch: "main",
			UIDSpace: uuid.New(), Repository: "http://" + host + "/slow.git"}
		if err := tx.CreateApp(t.Context(), app); err != nil {
			return err
		}
		return tx.CreateRun(t.Context(), landfall.Run{ID: "run", App: app.ID,
			Commit: landfall.CommitSHA(landfall.DigestOf(nil).Hex()[:40]), State: landfall.RunQueued, Step: landfall.StepAccept,
			UID: "aaaaaaaa", Created: time.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	defer hangUp() // else a worker that stops waits for the run
	work := func(w *jobs.Worker) {
		group.Go(func() {
			if err := w.Run(ctx, jobs.Duties{Work: true}); err != nil {
				t.Error(err)
			}
		})
	}
	eventually := func(what string, is func(landfall.Run) bool) {
		t.Helper()
		testkit.Eventually(t, what, func() bool { return is(testkit.Must(db.Run(t.Context(), "run"))(t)) })
	}
	behind, _ := worker("behind", -time.Hour)
	work(behind)
	eventually("the first worker is at the run", func(r landfall.Run) bool {
		return r.Attempt == 1 && r.Step == landfall.StepFetch
	})
	ahead, asked := worker("ahead", time.Hour)
	work(ahead)
	const looks = 8 // at what is due, and more than once
	eventually("the second worker has looked for work, or has taken the run", func(r landfall.Run) bool {
		return asked.Load() > looks || r.Attempt > 1
	})
	run, err := db.Run(t.Context(), "run")
	if err != nil || run.Attempt != 1 || run.State != landfall.RunRunning {
		t.Errorf("got the run %+v, %v, want it at its first worker still", run, err)
	}
	apart := runs.Runs{DB: db, Now: ahead.Pipeline.Now, RemoteWorkers: true} // as for a process that has no worker
	if deserted, err := apart.NoWorker(t.Context()); err != nil || deserted {
		t.Errorf("got %v, %v, want to be told that a worker is alive", deserted, err)
	}
}
