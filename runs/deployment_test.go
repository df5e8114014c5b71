package runs_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// Nothing is told of deployments while there are no credentials, and what is live when there are some is told then.
func TestDeploymentsWaitForCredentials(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.Receiver.Runs.Reporting = false
	box := runs.Deployments{Deployments: store.NewDeployments(s.Receiver.DB), Runs: s.Receiver.Runs}
	due := func() []landfall.Deployment { return testkit.Must(box.Due(t.Context(), time.Now(), 10))(t) }
	s.Update(func(tx *store.Tx) error {
		return tx.WantDeployment(t.Context(), accepttest.AppID, deploy.BranchPointer("gone"), time.Now())
	})
	testkit.Equal(t, "due without credentials", len(due()), 0)
	s.Update(func(tx *store.Tx) error {
		return tx.PutGitHubApp(t.Context(), landfall.GitHubApp{ID: 1, Slug: "landfall"})
	})
	got := due()
	if len(got) != 1 || got[0].Report.Release != "" || got[0].Report.Repository.Owner != "harbor" {
		t.Errorf("got %+v, want that there is nothing", got)
	}
}
