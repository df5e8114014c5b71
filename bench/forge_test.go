package bench_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/testkit"
)

// reported is a server that reports to a stand-in of GitHub's API.
type reported struct {
	*server
	api *githubtest.Server
}

func newReported(b *testing.B, f *forge.Forge, env ...string) *reported {
	b.Helper()
	b.Setenv(githubtest.DescriptionVariable, filepath.Join(module, "build/openapi/api.github.com.json"))
	api := githubtest.New(b, testkit.Must(forge.Description())(b), forge.APIToken)
	return &reported{api: api, server: newServer(b, "", append(env, "LANDFALL_GITHUB_WEBHOOK_SECRET="+forge.WebhookSecret,
		"LANDFALL_GITHUB_TOKEN="+forge.APIToken, "LANDFALL_GITHUB_API="+api.URL, "LANDFALL_ALLOWED_HOSTS="+
			strings.TrimPrefix(f.Address, "http://")+","+strings.TrimSuffix(strings.TrimPrefix(api.URL, "http://"), "/"))...)}
}

// deliver sends a delivery that must be accepted.
func (r *reported) deliver(b *testing.B, d forge.Delivery) {
	b.Helper()
	got := forge.Post(b, r.URL+"/webhooks/github", d, forge.Signature(forge.WebhookSecret, d.Body))
	testkit.Equal(b, "status of a delivery", got.Status, http.StatusAccepted)
}

// ended reports whether so many apps have the final status of a commit.
func (r *reported) ended(commit landfall.CommitSHA, apps int) bool {
	n := 0
	for _, s := range r.api.Statuses(string(commit)) {
		if s.State != string(landfall.StatusPending) {
			n++
		}
	}
	return n >= apps
}

// BenchmarkP17 is the time from a push webhook until GitHub has the final status of the commit, beside the time until
// the release is live.
func BenchmarkP17(b *testing.B) {
	f := forge.New(b)
	s := newReported(b, f)
	h := hosted(b, f, "harbor/shop")
	s.Call(http.MethodPost, "/apps", client.NewApp{Name: "shop", Repository: h.Clone(), Branch: "main"}, nil)
	row := table.Row(bench.Row{Figure: "P17 webhook until GitHub has the final status", Unit: "ms", Peer: "until live"})
	middle := table.Row(bench.Row{Figure: "P17 final status after live, median", Unit: "ms", Absolute: true, Target: 300})
	slow := table.Row(bench.Row{Figure: "P17 final status after live, 95th percentile", Unit: "ms", Absolute: true,
		Target: 300})
	var late []float64
	for i := 0; b.Loop(); i++ {
		page := fmt.Sprint("page ", i)
		h.Write("index.html", page)
		commit := h.Commit(page)
		push := h.Send("main")
		s.settled()
		begin := time.Now()
		s.deliver(b, push)
		var live, told time.Duration
		await(b, "it is live, and GitHub knows it", time.Millisecond, func() bool {
			if live == 0 && string(get(b, &s.web, s.At("shop", "/"))) == page {
				live = time.Since(begin)
			}
			if told == 0 && s.ended(commit, 1) {
				told = time.Since(begin)
			}
			return live > 0 && told > 0
		})
		row.Add(ms(told), ms(live))
		late = append(late, ms(max(0, told-live)))
	}
	middle.Add(bench.Quantile(late, 0.5), 0)
	slow.Add(bench.Quantile(late, 0.95), 0)
	summarize(b, row)
}

// BenchmarkP5Webhook is the time from a push webhook until GitHub has the final status of the commit, with an object
// store, beside a script that a webhook would run.
func BenchmarkP5Webhook(b *testing.B) {
	m := newMinIO(b)
	f := forge.New(b)
	s := newReported(b, f, m.settings()...)
	h := hosted(b, f, "harbor/shop")
	work := fillTree(h.Repository, siteFiles)
	s.Call(http.MethodPost, "/apps", client.NewApp{Name: "bench", Repository: h.Clone(), Branch: "main"}, nil)
	m.mc(b, "mb", "here/tuned")
	pulled := filepath.Join(b.TempDir(), "pulled")
	push := func(what string, changed []int) (told float64) {
		commit := h.Commit(what)
		d := h.Send("main")
		s.settled()
		told = timed(func() {
			s.deliver(b, d)
			await(b, "GitHub has the final status", time.Millisecond, func() bool { return s.ended(commit, 1) })
		})
		work.check(some(changed), s.live("bench"))
		s.settled()
		return told
	}
	push("all", work.all())
	run(b, "", "git", "clone", "--quiet", h.Clone(), pulled)
	m.rclone(b, filepath.Join(pulled, "site"), "tuned")
	row := table.Row(bench.Row{Figure: "P5 webhook of a push of 100 of 10,000 files, until GitHub has its status, S3",
		Unit: "ms", Peer: "git pull, rclone sync " + checksum + " --fast-list", Floor: 0.5, Target: 0.25})
	for b.Loop() {
		changed := work.changeSome()
		row.Add(push(fmt.Sprint("round ", work.round), changed), timed(func() {
			run(b, pulled, "git", "pull", "--quiet", "--ff-only", "origin", "main")
			m.rclone(b, filepath.Join(pulled, "site"), "tuned")
		}))
		work.check(some(changed), m.read(b, "tuned"))
	}
	summarize(b, row)
}

// refilled is how long it takes until what was said of a push counts no more in GitHub's limits.
const refilled = 35 * time.Second

// BenchmarkMonorepo is the time from a push webhook until GitHub has the final status of every app of its repository:
// fifty apps, of which one changes, beside one app in a repository of its own.
func BenchmarkMonorepo(b *testing.B) {
	const apps = 50
	f := forge.New(b)
	s := newReported(b, f)
	many, one := hosted(b, f, "harbor/many"), hosted(b, f, "harbor/one")
	s.Call(http.MethodPost, "/apps", client.NewApp{Name: "one", Repository: one.Clone(), Branch: "main"}, nil)
	names := make([]string, apps)
	for i := range names {
		names[i] = fmt.Sprint("app-", i)
		s.Call(http.MethodPost, "/apps", client.NewApp{Name: names[i], Repository: many.Clone(), Branch: "main",
			Folder: names[i]}, nil)
		many.Write(names[i]+"/index.html", "page of "+names[i])
	}
	one.Write("index.html", "page")
	push := func(h *forge.Hosted, page string, apps ...string) (told, changed float64) {
		h.Write(page, time.Now().String())
		commit := h.Commit(page)
		d := h.Send("main")
		<-time.After(refilled)
		s.settled()
		begin := time.Now()
		s.deliver(b, d)
		await(b, "GitHub knows what became of every app", time.Millisecond, func() bool {
			return s.ended(commit, len(apps))
		})
		told = ms(time.Since(begin))
		for _, app := range apps {
			if run := s.finished(app, commit); run.Stats.UnitsChanged > 0 {
				changed = ms(run.Finished.Sub(begin))
			}
		}
		return told, changed
	}
	push(many, "app-0/index.html", names...)
	push(one, "index.html", "one")
	row := table.Row(bench.Row{Figure: "50 apps in a repository, of which one changes: until GitHub knows of all",
		Unit: "ms", Peer: "one app in its own", Floor: 2})
	first := table.Row(bench.Row{Figure: "50 apps in a repository: until the one that changes is released", Unit: "ms",
		Peer: "one app in its own"})
	for b.Loop() {
		manyTold, manyChanged := push(many, "app-7/index.html", names...)
		oneTold, oneChanged := push(one, "index.html", "one")
		row.Add(manyTold, oneTold)
		first.Add(manyChanged, oneChanged)
	}
	summarize(b, row)
}
