package main

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// measures are what /metrics says, by name with labels.
type measures map[string]float64

// metrics asks for /metrics with a token.
func (s *site) metrics(token string) (status int, got measures) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	c := http.Client{Transport: client.LocalTransport(), Timeout: patience}
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	got = measures{}
	for line := range strings.Lines(string(body)) {
		at := strings.LastIndexByte(line, ' ')
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64); err == nil && !strings.HasPrefix(line, "#") {
			got[line[:at]] = value
		}
	}
	return resp.StatusCode, got
}

// wantMeasures fails the test unless the metrics have these values.
func wantMeasures(t *testing.T, got, want measures) {
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
	w := newReportingWorld(t, "LANDFALL_METRICS_TOKEN="+metricsToken)
	read := func() measures {
		t.Helper()
		status, got := w.metrics(metricsToken)
		wantEqual(t, "status", status, http.StatusOK)
		return got
	}
	wantMeasures(t, read(), measures{"landfall_oldest_unfinished_commit_age_seconds": 0, "landfall_database_up": 1})

	h, _ := w.follow("shop")
	h.write("specs/app.yaml", appSpec("shop"), "site/index.html", "one", "site/a.txt", "1234567890")
	open := h.hold()
	one := h.commit("Open the shop")
	push := h.send("main")
	w.hears(push)
	wantEqual(t, "a delivery that comes again", w.deliver(w.installation(), push).status, http.StatusOK)
	w.deliver(hook{w.installation().url, "another secret"}, h.send("main"))
	got := read()
	if age := got["landfall_oldest_unfinished_commit_age_seconds"]; age <= 0 || age > patience.Seconds() {
		t.Errorf("a commit that is not fetched yet is %v seconds old", age)
	}
	wantEqual(t, "unfinished runs", got[`landfall_runs_unfinished{state="queued"}`]+got[`landfall_runs_unfinished{state="running"}`], 1)
	wantMeasures(t, got, measures{
		`landfall_deliveries_total{decision="accepted",event="push"}`: 1,
		`landfall_deliveries_total{decision="repeat",event="push"}`:   1,
		`landfall_deliveries_total{decision="refused",event="push"}`:  1,
	})

	open()
	w.ends("shop", one, landfall.RunSucceeded)
	w.quiet("shop")
	w.get(w.at("shop", "/"))
	w.get(w.at("shop", "/none"))
	w.get(w.at("stranger", "/"))
	w.eventually("the gateway's answers are counted", func() bool {
		got := read()
		return got[`landfall_gateway_requests_total{app="",class="4xx"}`] == 1 && got[`landfall_gateway_requests_total{app="shop",class="4xx"}`] == 1
	})
	wantMeasures(t, read(), measures{
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

	w.kill()
	// What the store counts goes on after a kill.
	wantMeasures(t, read(), measures{`landfall_runs_ended_total{state="succeeded"}`: 1})
	w.call(http.MethodDelete, "/apps/shop?force=true", nil, nil)
	w.get(w.at("shop", "/"))
	for name := range read() {
		if strings.Contains(name, `app="shop"`) {
			t.Errorf("the app was deleted, and there is %s", name)
		}
	}
}

// Metrics name apps: they are not for everybody, and their token is good for nothing else.
func TestMetricsToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_METRICS_TOKEN="+metricsToken)
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, s.Token: http.StatusOK, metricsToken: http.StatusOK,
	} {
		status, got := s.metrics(token)
		wantEqual(t, "status with the token "+token, status, want)
		if _, told := got["landfall_database_up"]; told != (want == http.StatusOK) {
			t.Errorf("with the token %q metrics were told: %t", token, told)
		}
	}
	other := *s.Client
	other.Token = metricsToken
	err := other.Do(t.Context(), http.MethodGet, "/apps", nil, nil)
	wantEqual(t, "the API refuses the metrics' token", landfall.KindOf(err), landfall.Unauthorized)
	p := s.get(s.at("shop", "/metrics"))
	wantEqual(t, "the host of a release has no metrics", p.status, http.StatusNotFound)
}
