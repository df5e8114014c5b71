package trace_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/trace"
)

// open opens a Tracer by an environment of NAME=VALUE lines.
func open(t *testing.T, log *logtest.Buffer, environment ...string) (*trace.Tracer, error) {
	t.Helper()
	values := map[string]string{}
	for _, line := range environment {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	return trace.Open(t.Context(), func(name string) string {
		return values[name]
	}, "1", slog.New(slog.NewTextHandler(log, nil)))
}

// What cannot be meant stops the start, with the variable that says it; secrets are not shown.
func TestSettings(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT="
	for environment, want := range map[string]string{
		"":                          "off",
		endpoint:                    "off",
		"OTEL_TRACES_EXPORTER=none": "off",
		"OTEL_TRACES_EXPORTER=otlp": "on",
		"OTEL_TRACES_EXPORTER=zipkin|" + endpoint +
			"http://localhost:1": `OTEL_TRACES_EXPORTER is "zipkin"`,
		"OTEL_SDK_DISABLED=True|" + endpoint + "http://localhost:1":    "off",
		endpoint + "localhost:4318":                                    "OTEL_EXPORTER_OTLP_ENDPOINT is no address",
		endpoint + "http://me:canary@localhost:4318":                   "OTEL_EXPORTER_OTLP_ENDPOINT is no address",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://localhost:1":       "on",
		endpoint + "http://localhost:1|OTEL_EXPORTER_OTLP_TIMEOUT=10s": `OTEL_EXPORTER_OTLP_TIMEOUT is "10s"`, endpoint +
			"http://localhost:1|OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=br": `OTEL_EXPORTER_OTLP_TRACES_COMPRESSION is "br"`,
		endpoint + "http://localhost:1|OTEL_EXPORTER_OTLP_HEADERS=canary":          "OTEL_EXPORTER_OTLP_HEADERS is no list",
		endpoint + "http://localhost:1|OTEL_EXPORTER_OTLP_HEADERS=a=canary%0d%0ab": "OTEL_EXPORTER_OTLP_HEADERS is no list",
		endpoint + "http://localhost:1|OTEL_EXPORTER_OTLP_PROTOCOL=grpc":           `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc"`,
		endpoint +
			"http://localhost:1|OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere": `OTEL_EXPORTER_OTLP_CERTIFICATE is "/nowhere"`,
		endpoint + "http://localhost:1|OTEL_EXPORTER_OTLP_CLIENT_KEY=/nowhere": "OTEL_EXPORTER_OTLP_CLIENT_KEY name no " +
			"certificate", endpoint + "grpc://x|OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://localhost:1/p": "on",
		endpoint + "http://localhost:1|OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf":                  "on",
		endpoint + "http://localhost:1|OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20b, other=c":          "on",
		endpoint + "http://localhost:1|OTEL_EXPORTER_OTLP_COMPRESSION=gzip|OTEL_TRACES_EXPORTER= ": "on",
	} {
		tracer, err := open(t, &logtest.Buffer{}, strings.Split(environment, "|")...)
		got := "off"
		switch {
		case err != nil:
			got = landfall.MessageOf(err)
		case tracer != nil:
			got = "on"
			_ = tracer.Close(t.Context())
		}
		if !strings.Contains(got, want) || strings.Contains(got, "canary") {
			t.Errorf("%s: got %s, want %s", environment, got, want)
		}
	}
}

// A collector that is there again gets what it missed, compressed and with the headers it wants.
func TestCollectorReturns(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	names := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var got tracepb.TracesData
		if unpacked, err := gzip.NewReader(r.Body); err != nil {
			t.Error(err)
		} else if body, err := io.ReadAll(unpacked); err != nil || proto.Unmarshal(body, &got) != nil {
			t.Errorf("got %d bytes that are no spans: %v", len(body), err)
		}
		for _, of := range got.GetResourceSpans() {
			names <- of.GetScopeSpans()[0].GetSpans()[0].GetName() + " " + r.URL.Path + " " + r.Header.Get("Api-Key")
		}
	}))
	defer collector.Close()
	tracer, err := open(t, &logtest.Buffer{}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+collector.URL+"/as/it/is",
		"OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20b")
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(t.Context(), "work")
	span.End(nil)
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-names; got != "work /as/it/is a b" {
		t.Errorf("got %s", got)
	}
}

// A Tracer that is none costs nothing.
func TestNone(t *testing.T) { //nolint:paralleltest // what allocates is counted
	var none *trace.Tracer
	handler, transport, log := http.NotFoundHandler(), http.DefaultTransport,
		slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	allocated := testing.AllocsPerRun(100, func() {
		ctx, span := none.Start(context.Background(), "work")
		span.End(nil)
		_, span = none.Resume(ctx, "", "work")
		span.Failed("so")
		_, span = none.Call(ctx, "", "work")
		span.End(nil)
		_, span = none.Serve(r, "/")
		span.Answered(http.StatusOK)
		_ = trace.Parent(ctx)
	})
	if allocated != 0 {
		t.Errorf("got %v allocations, want none", allocated)
	}
	if none.Transport(transport) != transport || none.Logger(log) != log || none.Close(t.Context()) != nil {
		t.Error("it is in the way")
	}
	w := httptest.NewRecorder()
	none.Handler("/", handler).ServeHTTP(w, r)
	if w.Code != http.StatusNotFound {
		t.Errorf("got status %d", w.Code)
	}
}
