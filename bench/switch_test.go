package bench_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/test/testkit"
)

// visitors ask for one page again and again, and look at every answer: it is one of the two pages, whole.
type visitors struct {
	pages   [2][]byte
	request *http.Request
	client  *http.Client

	wanted atomic.Int32                 // the page that is being switched to
	seen   [2]atomic.Pointer[time.Time] // when each was first answered since it is wanted

	answers, failed, mixed atomic.Int64
}

// crowd is how many visitors there are, and offered how many requests they make together in a second if they are
// answered.
const (
	crowd   = 16
	offered = 10_000
)

// newVisitors returns visitors of an address at a server.
func newVisitors(b *testing.B, w *web, address string, pages [2][]byte) *visitors {
	b.Helper()
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "identity")
	v := &visitors{pages: pages, request: r, client: w.client()}
	v.client.Transport.(*http.Transport).MaxIdleConnsPerHost = crowd
	return v
}

// come makes the visitors ask until the function that it returns is called.
func (v *visitors) come() (leave func()) {
	const often = time.Millisecond
	tokens, done := make(chan struct{}, offered/int(time.Second/often)), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(often)
		defer tick.Stop()
		defer close(tokens)
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			for range cap(tokens) {
				select {
				case tokens <- struct{}{}:
				default: // more than can be answered
				}
			}
		}
	})
	for range crowd {
		group.Go(func() {
			body := bytes.NewBuffer(make([]byte, 0, 2*fileSize))
			for range tokens {
				v.look(body)
			}
		})
	}
	return func() {
		close(done)
		group.Wait()
		v.client.CloseIdleConnections()
	}
}

func (v *visitors) look(body *bytes.Buffer) {
	v.answers.Add(1)
	resp, err := v.client.Do(v.request)
	if err != nil {
		v.failed.Add(1)
		return
	}
	defer resp.Body.Close()
	body.Reset()
	if _, err := io.Copy(body, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		v.failed.Add(1)
		return
	}
	for i, page := range v.pages {
		if bytes.Equal(body.Bytes(), page) {
			if v.wanted.Load() == int32(i) && v.seen[i].Load() == nil {
				now := time.Now()
				v.seen[i].CompareAndSwap(nil, &now)
			}
			return
		}
	}
	v.mixed.Add(1)
}

// until switches to a page, and returns after how long a visitor first got it, in ms.
func (v *visitors) until(b *testing.B, page int, swap func()) float64 {
	b.Helper()
	v.seen[page].Store(nil)
	v.wanted.Store(int32(page))
	begin := time.Now()
	swap()
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for deadline := begin.Add(testkit.Patience); ; <-tick.C {
		if at := v.seen[page].Load(); at != nil {
			return ms(at.Sub(begin))
		}
		if time.Now().After(deadline) {
			b.Fatal("nobody ever got the page that was switched to")
		}
	}
}

// BenchmarkP12 moves live between two releases while visitors come.
func BenchmarkP12(b *testing.B) {
	const switches, reloads, most = 3_000, 30, 15 * time.Second // a round
	t := newTown(b)
	s := startServer(b, t.data, "")
	var page struct{ Items []client.Release }
	s.Call(http.MethodGet, "/apps/"+townApp(0)+"/releases", nil, &page)
	var releases [2]string
	for _, r := range page.Items {
		for i := range releases {
			if r.Branch == branchOf(i) {
				releases[i] = string(r.ID)
			}
		}
	}
	pages := [2][]byte{t.pages[0][0], t.other[0]}
	ours := newVisitors(b, &web{name: "landfall", port: s.Port},
		"http://"+townApp(0)+".localhost:"+s.Port+townPage(0), pages)

	root := b.TempDir()
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		b.Fatal(err)
	}
	var roots [2]string
	for i, data := range pages {
		roots[i] = filepath.Join(root, branchOf(i))
		if err := os.MkdirAll(roots[i], 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(roots[i], "page.html"), data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	peer, reload := nginx(b, "", roots[0])
	theirs := newVisitors(b, peer, "http://app.localhost:"+peer.port+"/page.html", pages)

	failed := table.Row(bench.Row{Figure: "P12 requests that failed during switches", Unit: "requests", Absolute: true})
	mixed := table.Row(bench.Row{Figure: "P12 answers of neither release", Unit: "answers", Absolute: true})
	slow := table.Row(bench.Row{Figure: "P12 99th percentile until a visitor gets the other release", Unit: "ms",
		Absolute: true, Floor: 100, Target: 10})
	middle := table.Row(bench.Row{Figure: "P12 median until a visitor gets the other release", Unit: "ms",
		Peer: "nginx -s reload"})
	var began time.Duration
	var count int
	for b.Loop() {
		var took, peers []float64
		begin := time.Now()
		leave := ours.come()
		for i := 0; i < switches && time.Since(begin) < most; i++ {
			took = append(took, ours.until(b, (i+1)%2, func() {
				s.Call(http.MethodPost, "/apps/"+townApp(0)+"/live", map[string]string{"release": releases[(i+1)%2]}, nil)
			}))
		}
		leave()
		began += time.Since(begin)
		count += len(took)
		leave = theirs.come()
		for i := range reloads {
			peers = append(peers, theirs.until(b, (i+1)%2, func() { reload(roots[(i+1)%2]) }))
		}
		leave()
		slow.Add(bench.Quantile(took, 0.99), 0)
		middle.Add(bench.Quantile(took, 0.5), bench.Quantile(peers, 0.5))
	}
	failed.Add(float64(ours.failed.Load()), 0)
	mixed.Add(float64(ours.mixed.Load()), 0)
	if ours.answers.Load() == 0 {
		b.Fatal("nobody came")
	}
	table.Notef("P12: %d switches while visitors made %.0f of %d requests a second; timed from the request to switch, "+
		"which is before its commit. nginx failed %d of %d requests.",
		count, float64(ours.answers.Load())/began.Seconds(), offered, theirs.failed.Load(), theirs.answers.Load())
	table.Notef("P12, where our processor time goes: %s", s.profile(func() {
		leave := ours.come()
		for i := range 200 {
			ours.until(b, (i+1)%2, func() {
				s.Call(http.MethodPost, "/apps/"+townApp(0)+"/live", map[string]string{"release": releases[(i+1)%2]}, nil)
			})
		}
		leave()
	}))
	summarize(b, slow)
}
