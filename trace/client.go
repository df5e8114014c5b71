package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// client posts spans by OTLP over HTTP, as protobuf. The client of the SDK would add gRPC to the program.
type client struct {
	settings settings
	http     *http.Client
	stopped  chan struct{}
}

var _ otlptrace.Client = (*client)(nil)

func newClient(s settings) *client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: s.tls, ForceAttemptHTTP2: true, MaxConnsPerHost: 1,
		IdleConnTimeout: time.Minute,
	}
	return &client{s, &http.Client{
		Transport: transport, Timeout: s.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // headers may be secret
	}, make(chan struct{})}
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	close(c.stopped)
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. While the other side cannot be reached, it tries again until ctx ends: the
// SDK gives it half a minute, and drops further spans when its queue is full.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // a request for an export has the same encoding
	if err != nil {
		return err
	}
	if c.settings.gzip {
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		body = small.Bytes()
	}
	const first, longest = time.Second, 10 * time.Second
	for wait := first; ; wait = min(2*wait, longest) {
		again, err := c.post(ctx, body)
		if err == nil || again < 0 {
			return err
		}
		pause := time.NewTimer(max(wait, again))
		select {
		case <-pause.C:
			continue
		case <-c.stopped:
		case <-ctx.Done():
		}
		pause.Stop()
		return err
	}
}

const never time.Duration = -1

// post sends spans once. With an error it returns after which time at least they may be sent again, or never.
func (c *client) post(ctx context.Context, body []byte) (again time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.settings.endpoint, bytes.NewReader(body))
	if err != nil {
		return never, err
	}
	for name, value := range c.settings.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if c.settings.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	const most = 64 << 10
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, most)) // so that the connection can be used again
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 16)
		if err != nil {
			seconds = 0
		}
		return time.Duration(seconds) * time.Second, errors.New("the collector answered " + answer.Status)
	}
	return never, fmt.Errorf("the collector answered %s", answer.Status)
}
