package metrics_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/metrics"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/gateway/files"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

// fixture is an installation a minute after noon.
type fixture struct {
	*metrics.Metrics
	t   *testing.T
	db  *store.DB
	log logtest.Buffer

	deleted []registry.App
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "landfall.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	f := &fixture{t: t, db: db}
	f.Metrics = metrics.New(metrics.Config{
		DB: f.db, Deleted: func() []registry.App {
			return f.deleted
		}, Now: func() time.Time { return noon.Add(time.Minute) }, Logger: slog.New(slog.NewTextHandler(&f.log, nil)),
		Cache: func() files.Cache {
			return files.Cache{InMemory: 1, InFolder: 2, Missed: 3, Loaded: 4, MemoryBytes: 5, FolderBytes: 6}
		},
	})
	return f
}

// update changes the database.
func (f *fixture) update(change func(ctx context.Context, tx *store.Tx) error) {
	f.t.Helper()
	if err := f.db.Update(f.t.Context(), func(tx *store.Tx) error { return change(f.t.Context(), tx) }); err != nil {
		f.t.Fatal(err)
	}
}

// scrape returns the lines that Prometheus reads.
func (f *fixture) scrape() []string {
	f.t.Helper()
	server := httptest.NewServer(f.Handler())
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		f.t.Fatalf("got status %d: %s", resp.StatusCode, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(string(body))); err != nil {
		f.t.Fatalf("what is answered is not what Prometheus reads: %v", err)
	}
	return strings.Split(string(body), "\n")
}

// want fails the test unless each line is there.
func (f *fixture) want(lines ...string) {
	f.t.Helper()
	got := f.scrape()
	for _, line := range lines {
		if !slices.Contains(got, line) {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			f.t.Errorf("got no line %s; of this metric there are:\n%s", line, strings.Join(about(got, name), "\n"))
		}
	}
}

func about(lines []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, name) })
}

// eventful lets every kind of thing happen once.
func (f *fixture) eventful() {
	f.t.Helper()
	f.Delivered("push", webhook.Accepted)
	f.StepDone(landfall.StepBuild, time.Second)
	f.Released(time.Second)
	f.Answered("shop", http.StatusOK, 10)
	f.Called(&landfall.Function{Namespace: "default", Name: "hello", Version: "owf2k7qa"}, execution.Succeeded,
		time.Second)
	f.Unrecorded(1)
}

// Calls are counted by version, and no number of versions makes the metrics many.
func TestFunctionCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const versions, own = 1000, 200
	for i := range versions {
		f.Called(&landfall.Function{Namespace: "default", Name: "hello", Version: landfall.UID(fmt.Sprint("v", i))},
			execution.Succeeded, time.Second)
	}
	hello := &landfall.Function{Namespace: "default", Name: "hello", Version: "v0"}
	f.Called(hello, execution.Failed, time.Minute)
	f.Called(hello, execution.Busy, 0)
	f.want(`landfall_function_calls_total{function="hello",namespace="default",outcome="succeeded",version="v0"} 1`,
		`landfall_function_calls_total{function="hello",namespace="default",outcome="failed",version="v0"} 1`,
		`landfall_function_calls_total{function="hello",namespace="default",outcome="busy",version="v0"} 1`,
		`landfall_function_duration_seconds_count{function="hello",namespace="default",version="v0"} 2`,
		fmt.Sprintf(`landfall_function_calls_total{function="",namespace="",outcome="succeeded",version=""} %d`,
			versions-own))
}

// Metrics have the names and the help that Prometheus' own conventions want.
func TestConventions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.eventful()
	problems, err := testutil.GatherAndLint(f.Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// What waits is read from the store when it is asked for.
func TestState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.want("landfall_database_up 1", "landfall_dead_letters 0",
		"landfall_oldest_unfinished_commit_age_seconds 0", "landfall_queue_age_seconds 0",
		`landfall_runs_unfinished{state="queued"} 0`, `landfall_runs_ended_total{state="error"} 0`,
		`landfall_outbox_age_seconds{kind="status"} 0`, `landfall_outbox_age_seconds{kind="comment"} 0`)
	run := landfall.Run{ID: "r1", App: "a", Commit: "1111111111111111111111111111111111111111", State: landfall.RunQueued,
		Created: noon}
	f.update(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.EnsureNamespace(ctx, "default", noon.UnixMicro()); err != nil {
			return err
		}
		if err := tx.CreateApp(ctx, landfall.App{ID: "a", Namespace: "default", Name: "shop", Created: noon}); err != nil {
			return err
		}
		if err := tx.CreateReport(ctx, landfall.Report{App: "a", Run: "r1", NextAt: noon.Add(20 * time.Second)}); err != nil {
			return err
		}
		if err := tx.WantComment(ctx, landfall.GitHubRepository{ID: 1}, 12, noon.Add(30*time.Second)); err != nil {
			return err
		}
		dead := landfall.Execution{ID: "dead", AppID: "a", Namespace: "default", Function: "hello", Number: 1,
			State: landfall.ExecutionFailed, Dead: true, Created: noon, Finished: noon}
		if err := tx.RecordExecutions(ctx, noon, []store.ExecutionRecord{{Execution: dead}}); err != nil {
			return err
		}
		return tx.CreateRun(ctx, run)
	})
	f.want("landfall_dead_letters 1", "landfall_oldest_unfinished_commit_age_seconds 60", "landfall_queue_age_seconds 60",
		`landfall_runs_unfinished{state="queued"} 1`, `landfall_outbox_owed{kind="status"} 1`,
		`landfall_outbox_age_seconds{kind="status"} 40`, `landfall_outbox_owed{kind="comment"} 1`,
		`landfall_outbox_age_seconds{kind="comment"} 30`)
	run.State, run.Release, run.Finished = landfall.RunSucceeded, "abcdefgh", noon
	run.Stats = landfall.RunStats{Bytes: 100, BytesUploaded: 30, Built: 2, Cached: 1}
	f.update(func(ctx context.Context, tx *store.Tx) error { return tx.FinishRun(ctx, run) })
	f.want("landfall_oldest_unfinished_commit_age_seconds 0", `landfall_runs_unfinished{state="queued"} 0`,
		`landfall_runs_ended_total{state="succeeded"} 1`, `landfall_release_bytes_total{transfer="uploaded"} 30`,
		`landfall_release_bytes_total{transfer="unchanged"} 70`, `landfall_builds_total{result="run"} 2`,
		`landfall_builds_total{result="cached"} 1`)
}

// A database that is away is said, and takes nothing else along.
func TestDatabaseDown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.eventful()
	if err := f.db.Close(); err != nil {
		t.Fatal(err)
	}
	f.want("landfall_database_up 0", `landfall_gateway_requests_total{app="shop",class="2xx"} 1`)
	if lines := about(f.scrape(), "landfall_queue_age_seconds"); len(lines) != 0 {
		t.Errorf("got %q of a database that cannot be read", lines)
	}
}

// What happens in the process is counted.
func TestCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.eventful()
	f.Answered("shop", http.StatusNotFound, 5)
	f.Answered("shop", http.StatusInternalServerError, 5)
	f.Answered("", http.StatusNotFound, 7)
	f.Called(&landfall.Function{App: "id of the shop", Namespace: "default", Name: "of-the-shop", Version: "owf2k7qa"},
		execution.Succeeded, time.Second)
	f.Delivered("a_word_of_a_stranger", webhook.Refused)
	f.Delivered("another_one", webhook.Refused)
	f.Fired(store.FiringSkipped)
	f.want(`landfall_schedule_firings_total{state="skipped"} 1`)
	f.want(`landfall_deliveries_total{decision="accepted",event="push"} 1`,
		`landfall_deliveries_total{decision="refused",event="other"} 2`,
		`landfall_run_step_duration_seconds_count{step="build"} 1`, `landfall_release_duration_seconds_sum 1`,
		`landfall_gateway_requests_total{app="shop",class="2xx"} 1`,
		`landfall_gateway_requests_total{app="shop",class="4xx"} 1`,
		`landfall_gateway_requests_total{app="shop",class="5xx"} 1`, `landfall_gateway_requests_total{app="",class="4xx"} 1`,
		`landfall_gateway_response_bytes_total{app="shop"} 20`,
		`landfall_gateway_cache_lookups_total{result="memory"} 1`, `landfall_gateway_cache_lookups_total{result="folder"} 2`,
		`landfall_gateway_cache_lookups_total{result="miss"} 3`, `landfall_gateway_loaded_bytes_total 4`,
		`landfall_gateway_cache_bytes{place="memory"} 5`, `landfall_gateway_cache_bytes{place="folder"} 6`)
	// K-015: of a deleted app nothing is told any more, neither of its answers nor of its functions
	f.deleted = []registry.App{{ID: "gone", Name: "gone"}, {ID: "id of the shop", Name: "shop"}}
	for _, line := range f.scrape() {
		if strings.Contains(line, `"shop"`) || strings.Contains(line, `function="of-the-shop"`) {
			t.Errorf("after its deletion there is %s", line)
		}
	}
}

func BenchmarkAnswered(b *testing.B) {
	m := metrics.New(metrics.Config{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Answered("shop", http.StatusOK, 4096)
		}
	})
}

// The alerts that are published name metrics, and values of their labels, that there are.
func TestAlerts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.eventful()
	f.Delivered("push", webhook.Refused)
	f.Answered("shop", http.StatusInternalServerError, 0)
	lines := f.scrape()
	data, err := os.ReadFile("../docs/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	selector := regexp.MustCompile(`(landfall_\w+)(?:\{(\w+="\w+")\})?`)
	alerts := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			alerts++
			if rule.Alert == "" || rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%+v: an alert has a name, a severity and a summary", rule)
			}
			if _, err := model.ParseDuration(rule.For); rule.For != "" && err != nil {
				t.Errorf("%s: %v", rule.Alert, err)
			}
			found := selector.FindAllStringSubmatch(rule.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%s: %q names no metric", rule.Alert, rule.Expr)
			}
			for _, match := range found {
				if !slices.ContainsFunc(lines, func(l string) bool { return named(l, match[1], match[2]) }) {
					t.Errorf("%s: there is no metric %s", rule.Alert, match[0])
				}
			}
		}
	}
	if alerts < 5 || !strings.Contains(string(data), "landfall_oldest_unfinished_commit_age_seconds") {
		t.Errorf("got %d alerts; the oldest unfinished commit must be among them", alerts)
	}
}

// named reports whether a line is of a metric, with a label if one is given.
func named(line, metric, label string) bool {
	rest, ok := strings.CutPrefix(line, metric)
	return ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "{")) && strings.Contains(rest, label)
}

// Strangers cannot make metrics grow.
func TestBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.eventful()
	before := len(f.scrape())
	for i := range 1000 {
		f.Delivered(fmt.Sprintf("event_%d", i), webhook.Accepted)
		f.Answered("", http.StatusOK+i%300, 1)
	}
	if after := len(f.scrape()); after > before+20 {
		t.Errorf("got %d lines after a thousand strangers, %d before", after, before)
	}
}
