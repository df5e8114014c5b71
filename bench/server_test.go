package bench_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/logtest"
)

// server is a running `landfall serve`, built as it is shipped.
type server struct {
	*client.Client
	b    *testing.B
	port string
	pid  int
	peak float64 // memory that it took until the last push was over, in MiB
	log  logtest.Buffer
	web  http.Client // connects here whatever the host is
}

const token = "0123456789abcdef0123456789abcdef"

// newServer starts a server on a free port with an empty data folder. env are NAME=VALUE settings.
func newServer(b *testing.B, env ...string) *server {
	b.Helper()
	program := filepath.Join(b.TempDir(), "landfall")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "landfall.dev/landfall/cmd/landfall")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, text)
	}
	s := &server{b: b, port: freePort(b)}
	s.Client = &client.Client{URL: "http://localhost:" + s.port, Token: token}
	s.web.Transport = &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+s.port)
	}}
	cmd := exec.Command(program, "serve")
	cmd.Env = environ(append([]string{"LANDFALL_DATA=" + filepath.Join(b.TempDir(), "data"), "LANDFALL_LISTEN=127.0.0.1:" + s.port,
		"LANDFALL_TOKEN=" + token}, env...)...)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || b.Failed() {
			b.Logf("the server ended: %v; its log:\n%s", err, s.log.String())
		}
	})
	s.await("the server is ready", 10*time.Millisecond, func() bool {
		resp, err := http.Get("http://127.0.0.1:" + s.port + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return s
}

func freePort(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// await looks again and again until what is true.
func (s *server) await(what string, every time.Duration, is func() bool) {
	s.b.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			s.b.Fatalf("waited %s in vain until %s; the server's log:\n%s", patience, what, s.log.String())
		}
	}
}

// call calls the API.
func (s *server) call(method, path string, in, out any) {
	s.b.Helper()
	if err := s.Do(s.b.Context(), method, path, in, out); err != nil {
		s.b.Fatalf("%s %s: %v", method, path, err)
	}
}

// app makes an app, and returns where to push to.
func (s *server) app(a client.NewApp) (remote string) {
	s.b.Helper()
	s.call(http.MethodPost, "/apps", a, nil)
	return "http://x:" + token + "@localhost:" + s.port + "/git/" + a.Name + ".git"
}

// live returns what the app's live release serves at a path; nil when that is not status 200.
func (s *server) live(app string) func(path string) []byte {
	return func(path string) []byte { return get(s.b, &s.web, "http://"+app+".localhost:"+s.port+path) }
}

func get(b *testing.B, c *http.Client, address string) []byte {
	b.Helper()
	resp, err := c.Get(address)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	return data
}

// settled waits until the server does nothing any more: nobody else pays for what it still had to do.
func (s *server) settled() {
	s.b.Helper()
	const quiet = 100 * time.Millisecond
	before := ""
	s.await("the server is idle", quiet, func() bool {
		now := s.cpu()
		same := now == before
		before = now
		return same
	})
}

// cpu returns the processor time that the server has used.
func (s *server) cpu() string {
	s.b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		s.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.Join(strings.Fields(rest)[11:13], " ")
}

// finished waits until the commit's run is over, and returns it. It must have succeeded.
func (s *server) finished(app string, commit landfall.CommitSHA) client.Run {
	s.b.Helper()
	var run client.Run
	s.await("the run of "+commit.Short()+" is over", 5*time.Millisecond, func() bool {
		var page struct{ Items []client.Run }
		s.call(http.MethodGet, "/runs?limit=10&app="+app, nil, &page)
		i := slices.IndexFunc(page.Items, func(r client.Run) bool { return r.Commit == commit && r.State.Final() })
		if i >= 0 {
			run = page.Items[i]
		}
		return i >= 0
	})
	s.call(http.MethodGet, "/runs/"+run.ID, nil, &run)
	if run.State != landfall.RunSucceeded {
		s.b.Fatalf("the run of %s ended as %s: %s", commit.Short(), run.State, run.Reason)
	}
	return run
}

// stepTimes collects how long the steps of runs took.
type stepTimes struct {
	names []string
	took  map[string][]float64
}

func (t *stepTimes) add(r client.Run) {
	if t.took == nil {
		t.took = map[string][]float64{}
	}
	note := func(name string, d time.Duration) {
		if !slices.Contains(t.names, name) {
			t.names = append(t.names, name)
		}
		t.took[name] = append(t.took[name], ms(d))
	}
	for i, step := range r.Steps {
		if i == 0 {
			note("queue", step.Started.Sub(r.Created))
		}
		if !step.Finished.IsZero() {
			note(string(step.Step), step.Finished.Sub(step.Started))
		}
	}
}

// String returns the median of each.
func (t *stepTimes) String() string {
	var parts []string
	for _, name := range t.names {
		parts = append(parts, fmt.Sprintf("%s %.1f", name, bench.Quantile(t.took[name], 0.5)))
	}
	return strings.Join(parts, ", ")
}

// pushTimes is what the person who pushed waits for, in ms.
type pushTimes struct{ accepted, returned float64 }

// pushed pushes a commit and returns when its run began, at the latest a moment after the push was accepted, and when git
// came back.
func (s *server) pushedAt(work *site, commit landfall.CommitSHA, steps *stepTimes) pushTimes {
	s.b.Helper()
	var begin time.Time
	returned := timed(func() {
		begin = time.Now()
		run(s.b, work.dir, "git", "push", "--quiet", "landfall", "main")
	})
	made := s.finished("bench", commit)
	steps.add(made)
	return pushTimes{accepted: ms(made.Started.Sub(begin)), returned: returned}
}
