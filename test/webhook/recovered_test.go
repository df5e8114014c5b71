package webhook_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// While the server was down, a forge had pushes to tell, and tells them to nobody again. They are found when the server
// is back.
func TestMissedPushesAreRecovered(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)
	h, _ := w.Follow("shop")
	one, push := h.Release("one")
	w.Hears(push)
	w.Ends("shop", one, landfall.RunSucceeded)
	w.Stop()

	missed := 50 // a tenth of what an hour may bring; LANDFALL_MISSED_PUSHES=500 for all of it
	if n, err := strconv.Atoi(os.Getenv("LANDFALL_MISSED_PUSHES")); err == nil {
		missed = n
	}
	commits := map[string]landfall.CommitSHA{}
	for n := range missed - 1 {
		branch := fmt.Sprintf("change-%d", n)
		h.Git("checkout", "--quiet", "-b", branch, "main")
		commits[branch], _ = h.Release(branch)
	}
	h.Git("checkout", "--quiet", "main")
	two, _ := h.Release("two")
	w.Start()
	// L-018: after an outage of ours, the production branch is where the repository has it
	run := forge.WantEnds(t, w, "shop", two, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "shop", "/", "two")
	// L-018: and the run's log says why it came late
	testkit.Contains(t, site.Told{w.Landfall("run", "logs", run.ID)}, "recovered: no delivery told of this push")
	w.Eventually("its status at the forge is final", func() bool {
		states := w.API.Statuses(string(two))
		return len(states) > 0 && states[len(states)-1].State == "success"
	})
	for branch, commit := range commits {
		// R6: no push that was missed is lost, on whatever branch
		made := forge.WantEnds(t, w, "shop", commit, landfall.RunSucceeded)
		site.WantServed(t, w.Site, landfall.JoinedLabel("shop", string(made.Release)), "/", branch)
	}
}
