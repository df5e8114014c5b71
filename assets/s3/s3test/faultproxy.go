package s3test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall/assets/s3"
)

// FaultProxy is a proxy to a server that understands its requests: it can answer in the server's place, and change the
// server's answers.
type FaultProxy struct {
	server http.Handler

	mu       sync.Mutex
	rules    []*rule
	requests []*Request
}

// Request is a request that the server, or the proxy in its place, has answered.
type Request struct {
	Method string
	Path   string
	Status int // of the server's answer; 0: the server did not get the request
}

// rule applies a fault to some requests.
type rule struct {
	matches func(*http.Request) bool
	left    int
	fault   Fault
}

// Fault answers a request. It can let server answer.
type Fault func(w http.ResponseWriter, r *http.Request, server http.Handler)

// NewFaultProxy starts a proxy to a bucket, without a fault yet, and returns the bucket's address through the proxy.
func NewFaultProxy(t testing.TB, c s3.Config) (*FaultProxy, s3.Config) {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: c.Endpoint}
	l := &FaultProxy{server: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // because it is signed
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { breakOff(w) },
	}}
	server := httptest.NewServer(l)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	c.Endpoint = strings.TrimPrefix(server.URL, "http://")
	return l, c
}

// Spoil applies a fault to the next times requests that match.
func (l *FaultProxy) Spoil(times int, fault Fault, matches func(*http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = append(l.rules, &rule{matches, times, fault})
}

// Clear takes all faults away.
func (l *FaultProxy) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = nil
}

// Requests returns the requests so far, and forgets them.
func (l *FaultProxy) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var requests []Request
	for _, r := range l.requests {
		requests = append(requests, *r)
	}
	l.requests = nil
	return requests
}

// ServeHTTP implements http.Handler.
func (l *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	fault := Fault(func(w http.ResponseWriter, r *http.Request, server http.Handler) { server.ServeHTTP(w, r) })
	if i := slices.IndexFunc(l.rules, func(rule *rule) bool { return rule.left > 0 && rule.matches(r) }); i >= 0 {
		l.rules[i].left--
		fault = l.rules[i].fault
	}
	asked := &Request{Method: r.Method, Path: r.URL.Path}
	l.requests = append(l.requests, asked)
	l.mu.Unlock()
	fault(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.server.ServeHTTP(&statusRecorder{w, func(status int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			asked.Status = status
		}}, r)
	}))
}

// statusRecorder records the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	note func(status int)
}

// WriteHeader implements http.ResponseWriter.
func (n *statusRecorder) WriteHeader(status int) {
	n.note(status)
	n.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (n *statusRecorder) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// breakOff closes the connection, wherever the answer is.
func breakOff(w http.ResponseWriter) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = connection.Close()
	}
}

// Refuse answers in the server's place with an error of S3's.
func Refuse(status int, code string) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>The test says so.</Message></Error>", code)
	}
}

// Lose lets the server do what it is asked, and closes the connection in place of the answer.
func Lose(w http.ResponseWriter, r *http.Request, server http.Handler) {
	server.ServeHTTP(httptest.NewRecorder(), r)
	breakOff(w)
}

// Truncate closes the connection in the middle of the answer's body.
func Truncate(w http.ResponseWriter, r *http.Request, server http.Handler) {
	change(w, r, server, func(body []byte) []byte { return body[:len(body)/2] }, false)
	breakOff(w)
}

// Shorten answers with half of the body, as if that were all.
func Shorten(w http.ResponseWriter, r *http.Request, server http.Handler) {
	change(w, r, server, func(body []byte) []byte { return body[:len(body)/2] }, true)
}

// Garble changes a byte of the answer's body.
func Garble(w http.ResponseWriter, r *http.Request, server http.Handler) {
	change(w, r, server, func(body []byte) []byte {
		if len(body) > 0 {
			body[len(body)/2] ^= 1
		}
		return body
	}, true)
}

// GarbleRequest changes a byte of the request to the server.
func GarbleRequest(w http.ResponseWriter, r *http.Request, server http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		breakOff(w)
		return
	}
	if len(body) > 0 {
		body[len(body)/2] ^= 1
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	server.ServeHTTP(w, r)
}

// change answers with another body. sized says that its own length is announced, and not that of the server's.
func change(w http.ResponseWriter, r *http.Request, server http.Handler, to func([]byte) []byte, sized bool) {
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	body = to(body)
	if sized {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
	_ = http.NewResponseController(w).Flush()
}

// ListNothing answers in the server's place that the bucket is empty.
func ListNothing(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, `<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>`)
}

// Writes matches requests that create an object or a part of one.
func Writes(r *http.Request) bool { return r.Method == http.MethodPut }

// Reads matches requests for an object.
func Reads(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.RawQuery == "" }

// Lists matches requests for a list of objects.
func Lists(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Query().Has("list-type") }
