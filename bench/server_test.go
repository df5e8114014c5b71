package bench_test

import (
	"context"
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
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// server is a running `landfall serve`, built as it is shipped.
type server struct {
	*site.Site
	profiler string        // address of its profiles
	begin    time.Time     // when its process was started
	took     time.Duration // until it was ready
	web      http.Client   // connects here whatever the host is
}

const token = "0123456789abcdef0123456789abcdef"

// module is the folder of the module that is measured.
const module = ".."

// built is the program that is measured. Only the address of its profiles is added to it, which is off unless asked
// for.
var built string

func program(b *testing.B) string {
	b.Helper()
	if built != "" {
		return built
	}
	root, folder := testkit.Must(site.Root())(b), newFolder(b)
	overlay := filepath.Join(folder, "overlay.json")
	text := testkit.Encode(b, map[string]map[string]string{"Replace": {
		filepath.Join(root, "cmd/landfall/profile_for_bench.go"): filepath.Join(root, "bench/testdata/profile.go.txt")}})
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := site.InstallIn(folder, []string{"CGO_ENABLED=0"}, "-trimpath", "-tags", "nomsgpack", "-overlay", overlay,
		"./cmd/landfall"); err != nil {
		b.Fatal(err)
	}
	built = filepath.Join(folder, "landfall")
	return built
}

// newServer starts a server with an empty data folder, on one core unless that is empty. env are NAME=VALUE settings.
func newServer(b *testing.B, core string, env ...string) *server {
	b.Helper()
	return startServer(b, b.TempDir(), core, env...)
}

// startServer is newServer with a data folder.
func startServer(b *testing.B, data, core string, env ...string) *server {
	b.Helper()
	s := &server{profiler: "127.0.0.1:" + site.FreePort(b)}
	s.Site = site.NewStopped(b, site.Engine{},
		append([]string{"LANDFALL_TOKEN=" + token, "LANDFALL_BENCH_PROFILE=" + s.profiler}, env...)...)
	s.Data, s.Token, s.Main = data, token, onCore(core, program(b), "serve").Args
	s.web.Transport = &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+s.Port)
		},
	}
	s.begin = time.Now()
	s.Launch()
	await(b, "the server is ready", time.Millisecond, func() bool {
		resp, err := http.Get("http://127.0.0.1:" + s.Port + "/readyz")
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

// pid is the server's process.
func (s *server) pid() int { return s.Cmd.Process.Pid }

// kill ends the server as a power cut does.
func (s *server) kill() {
	_ = s.Cmd.Process.Kill()
	<-s.Done
}

// profile returns where the server's processor time goes while work is under way: the functions that take most of it.
func (s *server) profile(work func()) string {
	s.T.Helper()
	path := filepath.Join(s.T.TempDir(), "profile")
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
		s.T.Fatal(err)
	}
	var parts []string
	for l := range strings.Lines(run(s.T, "", "go", "tool", "pprof", "-top", "-nodecount=10", path)) {
		if columns := strings.Fields(l); len(columns) >= 6 && strings.HasSuffix(columns[1], "%") {
			parts = append(parts, columns[1]+" "+strings.Join(columns[5:], " "))
		}
	}
	return strings.Join(parts, ", ")
}

// await looks every so often until what is true: that moment is measured, which testkit.Eventually finds less exactly.
func await(tb testing.TB, what string, every time.Duration, is func() bool) {
	tb.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for deadline := time.Now().Add(testkit.Patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("waited %s in vain until %s", testkit.Patience, what)
		}
	}
}

// live returns what the app's live release serves at a path; nil when that is not status 200.
func (s *server) live(app string) func(path string) []byte {
	return func(path string) []byte { return get(s.T, &s.web, "http://"+app+".localhost:"+s.Port+path) }
}

func get(b testing.TB, c *http.Client, address string) []byte {
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
	s.T.Helper()
	const quiet = 100 * time.Millisecond
	before := ""
	await(s.T, "the server is idle", quiet, func() bool {
		now := s.cpu()
		same := now == before
		before = now
		return same
	})
}

// cpu returns the processor time that the server has used.
func (s *server) cpu() string {
	s.T.Helper()
	return fmt.Sprint(cpu(s.T, s.pid()))
}

// cpu returns the processor time that a process and its children have used, in ms.
func cpu(b testing.TB, pid int) float64 {
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
	s.T.Helper()
	run := s.Finished(app, commit)
	if run.State != landfall.RunSucceeded {
		s.T.Fatalf("the run of %s ended as %s: %s", commit.Short(), run.State, run.Reason)
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

// pushed pushes a commit and returns when its run began, at the latest a moment after the push was accepted, and when
// git came back.
func (s *server) pushedAt(work *workTree, commit landfall.CommitSHA, steps *stepTimes) pushTimes {
	s.T.Helper()
	var begin time.Time
	returned := timed(func() {
		begin = time.Now()
		work.Git("push", "--quiet", "landfall", "main")
	})
	made := s.finished("bench", commit)
	steps.add(made)
	return pushTimes{accepted: ms(made.Started.Sub(begin)), returned: returned}
}
