package webhook_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
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
	one, push := shop.Release("one")
	w.API.Deliver(shop.Name, push.Event, push.Body)
	forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded)

	t.Run("deliveries to the App", func(t *testing.T) {
		w := w.In(t)
		w.Stop()
		shop.Git("switch", "--quiet", "-c", "feature")
		two, _ := shop.Release("two")
		opened := shop.Pull("opened", 4, "feature")
		missed := w.API.Deliver(shop.Name, opened.Event, opened.Body)
		starred := w.API.Deliver(shop.Name, opened.Event, opened.With(t, func(payload map[string]any) {
			payload["action"] = "assigned"
		}).Body)
		w.Start()
		run := forge.WantEnds(t, w, "shop", two, landfall.RunSucceeded)
		w.Eventually("the pull request has its preview", func() bool { return w.Tagged("shop")["pr-4"] == run.Release })
		// L-019: what could not be delivered to the App is asked for again, under the same id, and its record says so
		w.Eventually("the delivery is recovered", func() bool {
			d, ok := w.Recorded(missed)
			return ok && d.Asked == 1 && len(d.Runs) == 1 && strings.Contains(d.Decision, "Recovered")
		})
		testkit.Contains(t, site.Told{w.Landfall("run", "logs", run.ID)}, "recovered: ")
		attempts := map[string]int{}
		for _, d := range w.API.Hooks("")[0].Deliveries {
			attempts[d.GUID]++
		}
		// L-019: only what matters is asked for again, and once
		testkit.Equal(t, "attempts at the pull request", attempts[missed], 2)
		testkit.Equal(t, "attempts at what changes nothing", attempts[starred], 1)
	})
}
