package bench_test

import (
	"context"
	"encoding/json"
	"errors"
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
	b        *testing.B
	port     string
	data     string
	profiler string // address of its profiles; empty: it has none
	process  *os.Process
	pid      int
	begin    time.Time     // when its process was started
	took     time.Duration // until it was ready
	ended    chan error
	log      logtest.Buffer
	web      http.Client // connects here whatever the host is
}

const token = "0123456789abcdef0123456789abcdef"

// module is the folder of the module that is measured.
const module = ".."

// built is the program that is measured. Only the address of its profiles is added to it, which is off unless asked for.
var built string

func program(b *testing.B) string {
	b.Helper()
	if built != "" {
		return built
	}
	root, err := filepath.Abs(module)
	if err != nil {
		b.Fatal(err)
	}
	folder := newFolder(b)
	overlay := filepath.Join(folder, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(root, "cmd/landfall/profile_for_bench.go"): filepath.Join(root, "bench/testdata/profile.go.txt")}})
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(folder, "landfall")
	build := exec.Command("go", "build", "-trimpath", "-overlay", overlay, "-o", path, "./cmd/landfall")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, text)
	}
	built = path
	return built
}

// newServer starts a server on a free port with an empty data folder. env are NAME=VALUE settings.
func newServer(b *testing.B, env ...string) *server {
	b.Helper()
	return startServer(b, filepath.Join(b.TempDir(), "data"), "", env...)
}

// startServer starts a server on a free port with a data folder, on one core unless that is empty.
func startServer(b *testing.B, data, core string, env ...string) *server {
	b.Helper()
	s := &server{b: b, port: freePort(b), data: data, ended: make(chan error, 1)}
	s.profiler = "127.0.0.1:" + freePort(b)
	s.Client = &client.Client{URL: "http://localhost:" + s.port, Token: token}
	s.web.Transport = &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+s.port)
		},
	}
	cmd := onCore(core, program(b), "serve")
	cmd.Env = environ(append([]string{"LANDFALL_DATA=" + data, "LANDFALL_LISTEN=127.0.0.1:" + s.port,
		"LANDFALL_TOKEN=" + token, "LANDFALL_BENCH_PROFILE=" + s.profiler}, env...)...)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	s.begin = time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s.process, s.pid = cmd.Process, cmd.Process.Pid
	go func() { s.ended <- cmd.Wait() }()
	b.Cleanup(s.stop)
	s.await("the server is ready", time.Millisecond, func() bool {
		resp, err := http.Get("http://127.0.0.1:" + s.port + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	s.took = time.Since(s.begin)
	return s
}

// onCore returns a command that stays on one core, or on any for an empty one.
func onCore(core, program string, args ...string) *exec.Cmd {
	if core != "" {
		program, args = "taskset", append([]string{"--cpu-list", core, program}, args...)
	}
	return exec.Command(program, args...)
}

// stop ends the server as an operator does. Repeating it is safe.
func (s *server) stop() {
	if s.process == nil {
		return
	}
	_ = s.process.Signal(syscall.SIGTERM)
	s.process = nil
	if err := <-s.ended; err != nil || s.b.Failed() {
		s.b.Logf("the server ended: %v; the end of its log:\n%s", err, s.lastLines())
	}
}

func (s *server) lastLines() string {
	const most = 4 << 10
	text := s.log.String()
	return text[max(0, len(text)-most):]
}

// kill ends the server as a power cut does.
func (s *server) kill() {
	_ = s.process.Kill()
	s.process = nil
	<-s.ended
}

// profile returns where the server's processor time goes while work is under way: the functions that take most of it.
func (s *server) profile(work func()) string {
	s.b.Helper()
	path := filepath.Join(s.b.TempDir(), "profile")
	got := make(chan error, 1)
	go func() {
		got <- func() error {
			resp, err := http.Get("http://" + s.profiler + "/debug/pprof/profile?seconds=1")
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			return errors.Join(err, os.WriteFile(path, data, 0o600))
		}()
	}()
	work()
	if err := <-got; err != nil {
		s.b.Fatal(err)
	}
	var parts []string
	for l := range strings.Lines(run(s.b, "", "go", "tool", "pprof", "-top", "-nodecount=10", path)) {
		if columns := strings.Fields(l); len(columns) >= 6 && strings.HasSuffix(columns[1], "%") {
			parts = append(parts, columns[1]+" "+strings.Join(columns[5:], " "))
		}
	}
	return strings.Join(parts, ", ")
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
			s.b.Fatalf("waited %s in vain until %s; the server's log:\n%s", patience, what, s.lastLines())
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
	return fmt.Sprint(cpu(s.b, s.pid))
}

// cpu returns the processor time that a process and its children have used, in ms.
func cpu(b *testing.B, pid int) float64 {
	b.Helper()
	const tick = 10 // ms, of the kernel's accounts
	sum := 0.0
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
		data, err := os.ReadFile("/proc/" + p + "/stat")
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		for _, ticks := range strings.Fields(rest)[11:13] {
			n, err := strconv.ParseFloat(ticks, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += n * tick
		}
	}
	return sum
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

// String returns the share of each in all.
func (t *stepTimes) String() string {
	var sum float64
	for _, name := range t.names {
		sum += bench.Quantile(t.took[name], 0.5)
	}
	var parts []string
	for _, name := range t.names {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", name, 100*bench.Quantile(t.took[name], 0.5)/sum))
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
