package webhook_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/testkit"
)

// shows waits until an environment has these deployments, "REF COMMIT STATE" each, oldest first.
func shows(t *testing.T, w *forge.World, h *forge.Hosted, environment string, want ...string) []githubtest.Deployment {
	t.Helper()
	var all []githubtest.Deployment
	w.In(t).Eventually(environment+" has "+strings.Join(want, ", "), func() bool {
		all = w.API.Deployments(h.Name, environment)
		var got []string
		for _, d := range all {
			got = append(got, d.Ref+" "+landfall.CommitSHA(d.SHA).Short()+" "+d.State())
		}
		return slices.Equal(got, want)
	})
	return all
}

// pushes pushes a commit to a branch, and waits for its release.
func pushes(t *testing.T, w *forge.World, h *forge.Hosted, branch, page string) (landfall.CommitSHA, client.Run) {
	t.Helper()
	commit, push := h.Release(page)
	w.API.Point(h.Name, branch, string(commit), false)
	w.Hears(push)
	return commit, forge.WantEnds(t, w, "shop", commit, landfall.RunSucceeded)
}

// GitHub shows what is live, whoever moved it; several apps of a repository have environments of their own.
func TestDeploymentsOfLive(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t, "LANDFALL_GITHUB_DEPLOYMENTS=true")
	h, _ := w.Follow("shop")
	zero, run := pushes(t, w, h, "main", "zero")
	live := shows(t, w, h, "production", "main "+zero.Short()+" success")
	testkit.Same(t, "what production says", live[0].Statuses[0], githubtest.DeploymentStatus{
		State: "success", Description: "Release " + string(run.Release) + " of shop is live.",
		EnvironmentURL: w.At("shop", "/"), LogURL: w.RunPage(run.ID), AutoInactive: new(false)})
	one, _ := pushes(t, w, h, "main", "one")
	shows(t, w, h, "production", "main "+zero.Short()+" inactive", "main "+one.Short()+" success")
	w.Landfall("release", "rollback", "shop")
	// L-016: after a rollback GitHub says what is live, though no branch is there
	shows(t, w, h, "production", "main "+zero.Short()+" inactive", "main "+one.Short()+" inactive",
		string(zero)+" "+zero.Short()+" success")
	var admin client.App
	w.Call(http.MethodPost, "/apps", client.NewApp{Name: "admin", Repository: h.Clone(), Branch: "main"}, &admin)
	two, _ := pushes(t, w, h, "main", "two")
	shows(t, w, h, "admin/production", "main "+two.Short()+" success")
}

// GitHub shows the preview of a pull request's head until the pull request is closed or the branch is gone.
func TestDeploymentsOfBranch(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t, "LANDFALL_GITHUB_DEPLOYMENTS=true", "LANDFALL_GITHUB_COMMENTS=false")
	h, _ := w.Follow("shop")
	pushes(t, w, h, "main", "zero")
	h.Git("switch", "--quiet", "-c", "feature")
	one, run := pushes(t, w, h, "feature", "one")
	w.Hears(h.Pull("opened", 12, "feature"))
	made := shows(t, w, h, "preview/feature", "feature "+one.Short()+" success")
	// L-016: the deployment is of the pull request's head, with the address of its release
	testkit.Equal(t, "the address", made[0].Statuses[0].EnvironmentURL, w.At("shop--"+string(run.Release), "/"))
	testkit.Equal(t, "it ends some day", made[0].Transient && !made[0].Production, true)
	w.Hears(h.Pull("closed_unmerged", 12, "feature"))
	first := "feature " + one.Short() + " inactive"
	shows(t, w, h, "preview/feature", first)
	two, _ := pushes(t, w, h, "feature", "two")
	shows(t, w, h, "preview/feature", first, "feature "+two.Short()+" success")
	w.Hears(h.Remove("feature"))
	shows(t, w, h, "preview/feature", first, "feature "+two.Short()+" inactive")
}

// Where the token may not make deployments, the app says so, and its statuses arrive all the same.
func TestDeploymentsRefused(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t, "LANDFALL_GITHUB_DEPLOYMENTS=true")
	w.API.Fail(4, githubtest.Fault{Status: http.StatusForbidden}) // after two statuses and a look at what is there
	h, _ := w.Follow("shop")
	one, push := h.Release("one")
	w.API.Point(h.Name, "main", string(one), false)
	w.Hears(push)
	run := forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded)
	w.Eventually("the app says what is missing", func() bool {
		out, _ := w.Run(t.TempDir(), "app", "show", "shop")
		return strings.Contains(out, "may not make deployments of harbor/shop")
	})
	forge.WantTold(t, w, one, landfall.StatusSuccess, w.At("shop--"+string(run.Release), "/"))
	testkit.Equal(t, "deployments", len(w.API.Deployments(h.Name, "")), 0)
}
