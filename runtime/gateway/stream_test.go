package gateway_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/trace"
)

// streaming is a function that hands on pieces of its answer, each when step says so, and then ends with an error or
// none.
func streaming(p event.Protocol, end error, step <-chan struct{}, pieces ...string) function.CallerFunc {
	return func(_ context.Context, c function.Call) (event.Event, error) {
		answer := textOf(c.Event, "", p)
		to := c.Stream
		err := to.Begin(answer)
		for _, piece := range pieces {
			if err == nil && step != nil {
				<-step
			}
			if err == nil {
				_, err = to.Write([]byte(piece))
			}
		}
		return answer, errors.Join(err, end)
	}
}

// What a function has made of its answer is with the client before the rest is made.
func TestStreamedAnswer(t *testing.T) {
	t.Parallel()
	step := make(chan struct{}, 1)
	s := open(t, streaming(event.Protocol{Status: 201, Streaming: true}, nil, step, "data: 1\n\n", "data: 2\n\n"), nil,
		"/")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	step <- struct{}{}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for _, want := range []string{"data: 1\n\n", "data: 2\n\n"} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != want {
			t.Fatalf("got %q, %v, want %q before the rest is made", got, err, want)
		}
		step <- struct{}{}
	}
	rest, err := io.ReadAll(answer.Body)
	if err != nil || len(rest) > 0 || answer.StatusCode != http.StatusCreated || answer.ContentLength != -1 {
		t.Errorf("got status %d, length %d and then %q, %v; want 201, none, and the end", answer.StatusCode,
			answer.ContentLength, rest, err)
	}
	for _, name := range []string{page.ReleaseHeader, page.VersionHeader, page.ExecutionHeader} {
		if answer.Header.Get(name) == "" {
			t.Errorf("the header %s is missing", name)
		}
	}
}

// An answer that breaks off is no whole one for anybody, and is counted as what went out.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	t.Run("traced", func(t *testing.T) {
		t.Parallel()
		tracer, err := trace.Open(t.Context(), func(name string) string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}[name]
		}, "1", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		breakStream(t, tracer)
		gone, cancel := context.WithCancel(t.Context())
		cancel() // there is nobody to tell
		_ = tracer.Close(gone)
	})
	t.Run("untraced", func(t *testing.T) {
		t.Parallel()
		breakStream(t, nil)
	})
}

func breakStream(t *testing.T, tracer *trace.Tracer) {
	t.Helper()
	counts := make(chan int64, 1)
	s := open(t, streaming(event.Protocol{Streaming: true}, errors.New("it fell over its secret"), nil, "half"),
		func(c *gateway.Config) {
			c.Tracer = tracer
			c.Answered = func(_ string, _ int, bytes int64) { counts <- bytes }
		}, "/")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "half" {
		t.Errorf("got %q, %v; want a half, and that it is one", body, err)
	}
	if got := <-counts; got != int64(len("half")) {
		t.Errorf("counted %d bytes", got)
	}
	if log := s.log.String(); !strings.Contains(log, "in the middle of its answer") {
		t.Errorf("got the log %q, want that it broke off", log)
	}
}

// Before anything went out, what is wrong with a streamed answer is a page as with every other.
func TestImpossibleStream(t *testing.T) {
	t.Parallel()
	s := open(t, streaming(event.Protocol{Status: 99, Streaming: true}, nil, nil), nil, "/")
	s.get(t, host, "/").wantPage(t, http.StatusBadGateway, "aaaaaaa2", "cannot be read")
}

// A client that reads nothing holds its function up for the time that a body has, and no longer; nothing is kept for it
// meanwhile.
func TestStreamNobodyReads(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	f := function.CallerFunc(func(_ context.Context, c function.Call) (event.Event, error) {
		answer, to, piece := textOf(c.Event, "", event.Protocol{Streaming: true}), c.Stream, make([]byte, 1<<20)
		err := to.Begin(answer)
		for err == nil {
			_, err = to.Write(piece)
		}
		ended <- err
		return answer, err
	})
	s := open(t, f, func(c *gateway.Config) { c.BodyTimeout = time.Second }, "/")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := <-ended; err == nil {
		t.Error("a client that reads nothing is never cut off")
	}
}
