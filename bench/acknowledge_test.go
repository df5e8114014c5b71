package bench_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/bench"
)

const secret = "a secret that the forge and the installation share"

// deliveries is how many webhooks a round sends.
const deliveries = 50

// BenchmarkWebhook is the time from a signed push webhook to its 202. Each announces a commit of its own, and comes when the
// release of the one before is made: low load.
func BenchmarkWebhook(b *testing.B) {
	f := newForge(b)
	s := newServer(b, "LANDFALL_GITHUB_WEBHOOK_SECRET="+secret, "LANDFALL_ALLOWED_HOSTS="+f.host)
	dir, address := f.repository(b, "harbor/shop")
	work := newSite(b, 1)
	run(b, work.dir, "git", "remote", "add", "origin", dir)
	s.app(client.NewApp{Name: "shop", Repository: address, Branch: "main"})
	middle := table.Row(bench.Row{Figure: "Acknowledgement of a webhook, median", Unit: "ms"})
	slow := table.Row(bench.Row{Figure: "Acknowledgement of a webhook, 99th percentile", Unit: "ms"})

	hook := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // a forge comes anew for each
	before := landfall.CommitSHA("0000000000000000000000000000000000000000")
	var all []float64
	for b.Loop() {
		for range deliveries {
			work.change(0)
			after := work.commit()
			run(b, work.dir, "git", "push", "--quiet", "origin", "main")
			request := s.webhook(address, before, after)
			s.settled()
			all = append(all, timed(func() { accepted(b, &hook, request) }))
			s.finished("shop", after)
			before = after
		}
	}
	middle.Add(bench.Quantile(all, 0.5), 0)
	slow.Add(bench.Quantile(all, 0.99), 0)
	table.Notef("Acknowledgement of a webhook: %d deliveries, one after the other, each on a connection of its own.", len(all))
	summarize(b, middle)
}

// webhook returns the signed delivery of a push to main, as GitHub sends it.
func (s *server) webhook(address string, before, after landfall.CommitSHA) *http.Request {
	s.b.Helper()
	data, err := os.ReadFile("../testdata/github/push_branch_update.json")
	if err != nil {
		s.b.Fatal(err)
	}
	var payload map[string]any
	if err := json.Unmarshal(data, &payload); err != nil {
		s.b.Fatal(err)
	}
	maps.Copy(payload, map[string]any{"before": before, "after": after})
	payload["head_commit"].(map[string]any)["id"] = after
	maps.Copy(payload["repository"].(map[string]any), map[string]any{"clone_url": address, "html_url": strings.TrimSuffix(address, ".git")})
	if data, err = json.Marshal(payload); err != nil {
		s.b.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, s.URL+"/webhooks/github", bytes.NewReader(data))
	if err != nil {
		s.b.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(data)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	r.Header.Set("X-Github-Event", "push")
	r.Header.Set("X-Github-Delivery", rand.Text())
	return r
}

// accepted sends a delivery, which must be answered 202.
func accepted(b *testing.B, c *http.Client, r *http.Request) {
	b.Helper()
	resp, err := c.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusAccepted {
		b.Fatalf("got %s %s (%v), want 202", resp.Status, text, err)
	}
}

// BenchmarkAccept is the time of a small `git push`: until it is accepted, which is when its run may begin, and until git
// returns, when its release is made.
func BenchmarkAccept(b *testing.B) {
	f := newForge(b)
	s := newServer(b)
	work := newSite(b, 100)
	run(b, work.dir, "git", "remote", "add", "landfall", s.app(client.NewApp{Name: "bench"}))
	_, address := f.repository(b, "plain")
	run(b, work.dir, "git", "remote", "add", "plain", address)
	peer := "git push to git http-backend"
	accept := table.Row(bench.Row{Figure: "git push of 1 of 100 files, until accepted", Unit: "ms", Peer: peer})
	whole := table.Row(bench.Row{Figure: "git push of 1 of 100 files, until it returns with its release", Unit: "ms", Peer: peer})
	work.commit()
	s.pushUntilLive(work, work.all())
	run(b, work.dir, "git", "push", "--quiet", "plain", "main")
	var steps stepTimes
	for i := 0; b.Loop(); i++ {
		work.change(i % 100)
		commit := work.commit()
		s.settled()
		ours := s.pushedAt(work, commit, &steps)
		s.settled()
		theirs := timed(func() { run(b, work.dir, "git", "push", "--quiet", "plain", "main") })
		accept.Add(ours.accepted, theirs)
		whole.Add(ours.returned, theirs)
	}
	table.Notef("git push of 1 of 100 files, where the time of the server goes: %s", &steps)
	summarize(b, accept)
}
