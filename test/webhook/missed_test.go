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
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// While the server is down, things happen at GitHub. All of it is made good when the server is back.
func TestMissedWhileDown(t *testing.T) {
	t.Parallel()
	w := forge.NewUnconnectedWorld(t)
	w.Connect()
	shop := w.Private("harbor/shop")
	w.API.Install("harbor", map[string]int64{shop.Name: shop.ID})
	if out, code := w.Run(t.TempDir(), "app", "create", "shop", "--repo", "harbor/shop", "--branch", "main"); code != 0 {
		t.Fatal(out)
	}
	happens := func(d forge.Delivery) string { return w.API.Deliver(shop.Name, d.Event, d.Body) }
	branch := func(name string) landfall.CommitSHA {
		shop.Git("switch", "--quiet", "-c", name)
		commit, _ := shop.Release(name)
		return commit
	}
	_, push := shop.Release("one")
	happens(push)
	before := branch("before")
	happens(shop.Pull("opened", 3, "before"))
	run := forge.WantEnds(t, w, "shop", before, landfall.RunSucceeded)
	w.Eventually("the pull request has its preview", func() bool { return w.Tagged("shop")["pr-3"] == run.Release })
	w.Stop()

	listed := branch("listed")
	opened := shop.Pull("opened", 4, "listed")
	missed := happens(opened)
	nothing := happens(opened.With(t, func(payload map[string]any) { payload["action"] = "assigned" }))
	hook := w.API.Hooks("")[0].ID
	w.API.ChangeHook(hook, func(h *githubtest.Hook) { h.Active = false }) // so no failed delivery is on record
	unlisted := branch("unlisted")
	happens(shop.Pull("opened", 5, "unlisted"))
	happens(shop.Pull("closed_unmerged", 3, "before"))
	foreign, told := shop.Fork(t, 6).Push("opened_fork", "from elsewhere")
	happens(told)
	w.API.ChangeHook(hook, func(h *githubtest.Hook) { h.Active = true })
	w.Start()

	t.Run("what could not be delivered to the App", func(t *testing.T) {
		w := w.In(t)
		run := forge.WantEnds(t, w, "shop", listed, landfall.RunSucceeded)
		w.Eventually("the pull request has its preview", func() bool { return w.Tagged("shop")["pr-4"] == run.Release })
		// L-019: it is asked for again, under the same id, and its record says so
		w.Eventually("the delivery is recovered", func() bool {
			d, ok := w.Recorded(missed)
			return ok && d.Asked == 1 && len(d.Runs) == 1 && strings.Contains(d.Decision, "Recovered")
		})
		testkit.Contains(t, site.Told{w.Landfall("run", "logs", run.ID)}, "recovered: the forge could not deliver this event")
		attempts := map[string]int{}
		for _, d := range w.API.Hooks("")[0].Deliveries {
			attempts[d.GUID]++
		}
		// L-019: only what matters is asked for again, and once
		testkit.Equal(t, "attempts at the pull request", attempts[missed], 2)
		testkit.Equal(t, "attempts at what changes nothing", attempts[nothing], 1)
	})

	t.Run("what no delivery tells of", func(t *testing.T) {
		w := w.In(t)
		run := forge.WantEnds(t, w, "shop", unlisted, landfall.RunSucceeded)
		w.Eventually("the tags follow the pull requests", func() bool {
			tags := w.Tagged("shop")
			return tags["pr-5"] == run.Release && tags["pr-3"] == ""
		})
		// L-018: a pull request that was opened gets its preview, one that was closed loses it, and the log says why
		testkit.Contains(t, site.Told{w.Landfall("run", "logs", run.ID)}, "no delivery told of")
		// That of a fork waits for approval, as always.
		w.Eventually("the commit of the fork waits", func() bool {
			return slices.ContainsFunc(w.Runs("shop"), func(run client.Run) bool {
				return run.Commit == foreign && run.State == landfall.RunWaiting
			})
		})
	})

	t.Run("a replay of what is over", func(t *testing.T) {
		w := w.In(t)
		late := w.Private("harbor/late")
		w.API.Install("harbor", map[string]int64{late.Name: late.ID})
		late.Release("one")
		late.Git("switch", "--quiet", "-c", "feature")
		two, _ := late.Release("two")
		opened, closed := late.Pull("opened", 9, "feature"), late.Pull("closed_unmerged", 9, "feature")
		id := w.API.Deliver(late.Name, opened.Event, opened.Body)
		w.API.Deliver(late.Name, closed.Event, closed.Body)
		if out, code := w.Run(t.TempDir(), "app", "create", "late", "--repo", late.Name, "--branch", "main"); code != 0 {
			t.Fatal(out)
		}
		w.Landfall("app", "deliveries", "replay", id)
		forge.WantEnds(t, w, "late", two, landfall.RunSucceeded)
		// L-024: a pull request that was closed has no address, also when its opening is replayed
		w.Eventually("the pull request has no tag", func() bool { return w.Tagged("late")["pr-9"] == "" })
	})

	t.Run("a transfer to where the App is not", func(t *testing.T) {
		w := w.In(t)
		moving := w.Private("harbor/moving")
		w.API.Install("harbor", map[string]int64{moving.Name: moving.ID})
		one, push := moving.Release("one")
		if out, code := w.Run(t.TempDir(), "app", "create", "moving", "--repo", moving.Name, "--branch", "main"); code != 0 {
			t.Fatal(out)
		}
		w.Tells(push)
		forge.WantEnds(t, w, "moving", one, landfall.RunSucceeded)
		moving.Move("reef/moving")
		two, push := moving.Release("two")
		w.Tells(push)
		forge.WantEnds(t, w, "moving", two, landfall.RunError, "Transferred to reef/moving")
		out, code := w.Run(t.TempDir(), "app", "set", "moving", "--repo", "reef/moving")
		// N-044: what the App cannot reach is not confirmed
		if code != 5 || !strings.Contains(out, "not installed on reef/moving") {
			t.Errorf("got %d %s, want that the App is to be installed there", code, out)
		}
		testkit.Contains(t, site.Told{w.Landfall("app", "show", "moving")}, "landfall app set moving --repo reef/moving")
	})

	t.Run("a repository that is not there", func(t *testing.T) {
		w := w.In(t)
		w.Call(http.MethodPost, "/apps", client.NewApp{Name: "ghost", Repository: w.Address + "/harbor/nosuch.git"}, nil)
		// What cannot be looked at is said where people look.
		w.Eventually("the app says it", func() bool {
			return strings.Contains(w.Landfall("app", "show", "ghost"), "/harbor/nosuch.git cannot be looked at since")
		})
	})
}
