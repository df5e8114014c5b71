package s3test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall/assets/s3"
)

// Toxic is a connection to a server through toxiproxy, which makes it slow, breaks it or stalls it without knowing what
// it carries.
type Toxic struct {
	t   testing.TB
	url string // of the proxy in toxiproxy's own API
}

// NewToxic starts a proxy to a bucket, without a fault yet, and returns the bucket's address through the proxy.
func NewToxic(t testing.TB, c s3.Config) (*Toxic, s3.Config) {
	t.Helper()
	s, err := proxies()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("proxy%d", s.last.Add(1))
	toxic := &Toxic{t: t, url: s.url + "/proxies/" + name}
	var made struct {
		Listen string `json:"listen"`
	}
	toxic.call(http.MethodPost, s.url+"/proxies",
		map[string]any{"name": name, "listen": "127.0.0.1:0", "upstream": c.Endpoint, "enabled": true}, &made)
	c.Endpoint = made.Listen
	return toxic, c
}

// Spoil adds a fault (https://github.com/Shopify/toxiproxy#toxics) to one direction: upstream, to the server, or
// downstream.
func (x *Toxic) Spoil(kind, stream string, attributes map[string]any) {
	x.t.Helper()
	x.call(http.MethodPost, x.url+"/toxics", map[string]any{"type": kind, "stream": stream, "attributes": attributes}, nil)
}

// Clear takes all faults away.
func (x *Toxic) Clear() {
	x.t.Helper()
	var toxics []struct {
		Name string `json:"name"`
	}
	x.call(http.MethodGet, x.url+"/toxics", nil, &toxics)
	for _, toxic := range toxics {
		x.call(http.MethodDelete, x.url+"/toxics/"+toxic.Name, nil, nil)
	}
}

// call sends a request to toxiproxy.
func (x *Toxic) call(method, url string, in, out any) {
	x.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		x.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(x.t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %d %s", method, url, response.StatusCode, answer)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(answer, out)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// toxiproxy is the running toxiproxy of this test program.
type toxiproxy struct {
	url   string
	alive io.Closer // open until the program ends
	last  atomic.Int64
}

var proxies = sync.OnceValues(func() (*toxiproxy, error) {
	dir, err := os.MkdirTemp("", "landfall-toxiproxy-")
	if err != nil {
		return nil, err
	}
	endpoint, err := freeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nil, err
	}
	alive, err := run(dir, endpoint, "build/bin/toxiproxy", "-host", host, "-port", port)
	if err != nil {
		return nil, fmt.Errorf("toxiproxy, which the tests need, did not start: %w", err)
	}
	return &toxiproxy{url: "http://" + endpoint, alive: alive}, nil
})
