package bench_test

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/testkit"
)

// deliveries is how many webhooks a round sends.
const deliveries = 50

// BenchmarkWebhook is the time from a signed push webhook to its 202. Each announces a commit of its own, and comes
// when the release of the one before is made: low load.
func BenchmarkWebhook(b *testing.B) {
	f := forge.New(b)
	s := newServer(b, "", "LANDFALL_GITHUB_WEBHOOK_SECRET="+forge.WebhookSecret,
		"LANDFALL_ALLOWED_HOSTS="+strings.TrimPrefix(f.Address, "http://"))
	h := hosted(b, f, "harbor/shop")
	work := fillTree(h.Repository, 1)
	s.Call(http.MethodPost, "/apps", client.NewApp{Name: "shop", Repository: h.Clone(), Branch: "main"}, nil)
	middle := table.Row(bench.Row{Figure: "Acknowledgement of a webhook, median", Unit: "ms"})
	slow := table.Row(bench.Row{Figure: "Acknowledgement of a webhook, 99th percentile", Unit: "ms"})

	var all []float64
	for b.Loop() {
		for range deliveries {
			work.change(0)
			after := work.commit()
			d := h.Send("main")
			signature := forge.Signature(forge.WebhookSecret, d.Body)
			s.settled()
			all = append(all, timed(func() {
				testkit.Equal(b, "status of a delivery", forge.Post(b, s.URL+"/webhooks/github", d, signature).Status,
					http.StatusAccepted)
			}))
			s.finished("shop", after)
		}
	}
	middle.Add(bench.Quantile(all, 0.5), 0)
	slow.Add(bench.Quantile(all, 0.99), 0)
	table.Notef("Acknowledgement of a webhook: %d deliveries, one after the other, each on a connection of its own.",
		len(all))
	summarize(b, middle)
}

// BenchmarkAccept is the time of a small `git push`: until it is accepted, which is when its run may begin, and until
// git returns, when its release is made.
func BenchmarkAccept(b *testing.B) {
	s := newServer(b, "")
	work := newWorkTree(b, 100)
	work.Git("remote", "add", "landfall", s.Remote(s.App("bench")))
	work.Git("remote", "add", "plain", hosted(b, forge.New(b), "plain").Clone())
	peer := "git push to git http-backend"
	accept := table.Row(bench.Row{Figure: "git push of 1 of 100 files, until accepted", Unit: "ms", Peer: peer})
	whole := table.Row(bench.Row{Figure: "git push of 1 of 100 files, until it returns with its release", Unit: "ms",
		Peer: peer})
	work.commit()
	s.pushUntilLive(work, work.all())
	work.Git("push", "--quiet", "plain", "main")
	var steps stepTimes
	for i := 0; b.Loop(); i++ {
		work.change(i % 100)
		commit := work.commit()
		s.settled()
		ours := s.pushedAt(work, commit, &steps)
		s.settled()
		theirs := timed(func() { work.Git("push", "--quiet", "plain", "main") })
		accept.Add(ours.accepted, theirs)
		whole.Add(ours.returned, theirs)
	}
	table.Notef("git push of 1 of 100 files, where the time of the server goes: %s", &steps)
	summarize(b, accept)
}
