package jobs_test

import (
	"testing"
	"time"

	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/jobs"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/upkeep"
)

// shop is an app with its repository in the built-in remote, and all that works its runs.
type shop struct {
	*accepttest.Shop

	pipeline *pipeline.Pipeline
	upkeep   *upkeep.Upkeep
	jobs     *jobs.Worker
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return newShopIn(t, storetest.Open(t, storetest.SQLite(t)))
}

// newShopIn is newShop in a database.
func newShopIn(t *testing.T, db *store.DB) *shop {
	t.Helper()
	s := accepttest.NewIn(t, db)
	a := s.Receiver.Acceptor
	p := &pipeline.Pipeline{
		DB: db, Mirrors: a.Mirrors, Builds: &pipeline.Builds{Folder: t.TempDir()}, Rollout: a.Rollout, Runs: a.Runs,
		Acceptor: a, Now: time.Now, Logger: a.Logger,
	}
	u := &upkeep.Upkeep{
		DB: db, Runs: a.Runs, Rollout: a.Rollout, Mirrors: a.Mirrors, Repositories: s.Repos, Builds: p.Builds, Now: time.Now,
		Logger: a.Logger,
	}
	w := &jobs.Worker{DB: db, Acceptor: a, Pipeline: p, Upkeep: u, Logger: a.Logger,
		Canaries: &canary.Controller{DB: db, Now: time.Now}}
	return &shop{s, p, u, w}
}
