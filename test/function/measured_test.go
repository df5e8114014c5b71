package function_test

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// wantMeasures fails the test unless the metrics have these values.
func wantMeasures(t *testing.T, got, want site.Measures) {
	t.Helper()
	for name, value := range want {
		if is, ok := got[name]; !ok || is != value {
			t.Errorf("%s: got %v (%t), want %v", name, is, ok, value)
		}
	}
}

const metricsToken = "a token that reads metrics and nothing else"

// What operators watch follows a push from its webhook to its visitors.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t, "LANDFALL_METRICS_TOKEN="+metricsToken)
	read := func() site.Measures {
		t.Helper()
		status, got := w.Metrics(metricsToken)
		testkit.Equal(t, "status", status, http.StatusOK)
		return got
	}
	wantMeasures(t, read(), site.Measures{"landfall_oldest_unfinished_commit_age_seconds": 0, "landfall_database_up": 1})

	h, _ := w.Follow("shop")
	h.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "one", "site/a.txt", "1234567890")
	open := h.Hold()
	one := h.Commit("Open the shop")
	push := h.Send("main")
	w.Hears(push)
	testkit.Equal(t, "a delivery that comes again", w.Deliver(w.Installation(), push).Status, http.StatusOK)
	w.Deliver(forge.Hook{URL: w.Installation().URL, Secret: "another secret"}, h.Send("main"))
	got := read()
	if age := got["landfall_oldest_unfinished_commit_age_seconds"]; age <= 0 || age > testkit.Patience.Seconds() {
		t.Errorf("a commit that is not fetched yet is %v seconds old", age)
	}
	testkit.Equal(t, "unfinished runs", got[`landfall_runs_unfinished{state="queued"}`]+
		got[`landfall_runs_unfinished{state="running"}`], 1)
	wantMeasures(t, got, site.Measures{
		`landfall_deliveries_total{decision="accepted",event="push"}`: 1,
		`landfall_deliveries_total{decision="repeat",event="push"}`:   1,
		`landfall_deliveries_total{decision="refused",event="push"}`:  1,
	})

	open()
	w.Ends("shop", one, landfall.RunSucceeded)
	w.Quiet("shop")
	w.Get(w.At("shop", "/"))
	w.Get(w.At("shop", "/none"))
	w.Get(w.At("stranger", "/"))
	w.Eventually("the gateway's answers are counted", func() bool {
		got := read()
		return got[`landfall_gateway_requests_total{app="",class="4xx"}`] == 1 &&
			got[`landfall_gateway_requests_total{app="shop",class="4xx"}`] == 1
	})
	wantMeasures(t, read(), site.Measures{
		"landfall_oldest_unfinished_commit_age_seconds":             0,
		"landfall_queue_age_seconds":                                0,
		`landfall_runs_ended_total{state="succeeded"}`:              1,
		`landfall_run_step_duration_seconds_count{step="upload"}`:   1,
		`landfall_run_step_duration_seconds_count{step="swap"}`:     1,
		"landfall_release_duration_seconds_count":                   1,
		`landfall_release_bytes_total{transfer="uploaded"}`:         13,
		`landfall_outbox_owed{kind="status"}`:                       0,
		`landfall_outbox_ended_total{kind="status",outcome="sent"}`: 2,
		`landfall_gateway_cache_lookups_total{result="miss"}`:       1,
	})

	w.Kill()
	// What the store counts goes on after a kill.
	wantMeasures(t, read(), site.Measures{`landfall_runs_ended_total{state="succeeded"}`: 1})
	w.Call(http.MethodDelete, "/apps/shop?force=true", nil, nil)
	w.Get(w.At("shop", "/"))
	for name := range read() {
		if strings.Contains(name, `app="shop"`) {
			t.Errorf("the app was deleted, and there is %s", name)
		}
	}
}

// Metrics name apps: they are not for everybody, and their token is good for nothing else.
func TestMetricsToken(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_METRICS_TOKEN="+metricsToken)
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, s.Token: http.StatusOK, metricsToken: http.StatusOK,
	} {
		status, got := s.Metrics(token)
		testkit.Equal(t, "status with the token "+token, status, want)
		if _, told := got["landfall_database_up"]; told != (want == http.StatusOK) {
			t.Errorf("with the token %q metrics were told: %t", token, told)
		}
	}
	other := *s.Client
	other.Token = metricsToken
	err := other.Do(t.Context(), http.MethodGet, "/apps", nil, nil)
	testkit.Equal(t, "the API refuses the metrics' token", landfall.KindOf(err), landfall.Unauthorized)
	p := s.Get(s.At("shop", "/metrics"))
	testkit.Equal(t, "the host of a release has no metrics", p.Status, http.StatusNotFound)
}
