package api

import (
	"bytes"
	"io"
	"net/http"

	"landfall.dev/landfall/api/client"
)

// Local returns a client of the handler in the same process. Its requests bear no token: make them in a context of As.
// It holds an answer whole, so a log is not followed with it.
func Local(h http.Handler) *client.Client {
	return &client.Client{URL: "http://localhost", HTTP: &http.Client{Transport: local{h}}}
}

// local calls a handler where a transport would call a server.
type local struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	a := &held{header: http.Header{}, status: http.StatusOK}
	in := r.Clone(r.Context()) // as a server would have it
	in.Host = r.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	l.ServeHTTP(a, in)
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}, nil
}

// held is an answer.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (h *held) Header() http.Header { return h.header }

// WriteHeader implements http.ResponseWriter.
func (h *held) WriteHeader(status int) { h.status = status }

// Write implements http.ResponseWriter.
func (h *held) Write(data []byte) (int, error) { return h.body.Write(data) }
