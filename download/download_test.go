package download_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/download"
	"landfall.dev/landfall/test/testkit"
)

// serve returns the address of a server, and a dialer that may go there and nowhere else of this machine.
func serve(t *testing.T, handler http.HandlerFunc) (address string, dialer *builder.Dialer) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, &builder.Dialer{AllowedHosts: []string{strings.TrimPrefix(server.URL, "http://")}}
}

const most = 1000

func get(ctx context.Context, dialer *builder.Dialer, address string, digest landfall.Digest) (string, error) {
	var got bytes.Buffer
	err := download.Get(ctx, dialer, download.File{URL: address, Digest: digest, MaxBytes: most}, &got)
	return got.String(), err
}

// A file is written as it is sent, and must have the digest that was said.
func TestGet(t *testing.T) {
	t.Parallel()
	address, dialer := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Error("the file is asked for in another form than its own")
		}
		_, _ = io.WriteString(w, r.URL.RawQuery)
	})
	digest := landfall.DigestOf([]byte("key=secret"))
	text, err := get(t.Context(), dialer, address+"/a?key=secret", digest)
	if err != nil || text != "key=secret" {
		t.Errorf("got %q, %v", text, err)
	}
	_, err = get(t.Context(), dialer, address+"/a?key=other", digest)
	testkit.Kind(t, "other bytes", err, landfall.Invalid, address+"/a has the digest sha256:", ", not "+string(digest))
	if strings.Contains(err.Error(), "other") {
		t.Errorf("the error tells what stands behind the ?: %v", err)
	}
}

// What cannot be fetched is said with the address, and whether another try may help.
func TestNotFetched(t *testing.T) {
	t.Parallel()
	address, dialer := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gone":
			http.NotFound(w, r)
		case "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/busy":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/exact", "/large":
			_, _ = io.WriteString(w, strings.Repeat("x", most+len(r.URL.Path)-len("/exact")))
			if r.URL.Path == "/large" {
				_, _ = io.WriteString(w, "x")
			}
		case "/broken":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		case "/around":
			http.Redirect(w, r, "/around?again", http.StatusFound)
		case "/closed":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil || conn.Close() != nil {
				t.Error(err)
			}
		}
	})
	if text, err := get(t.Context(), dialer, address+"/exact", ""); err != nil || len(text) != most {
		t.Errorf("a file as large as it may be: got %d bytes, %v", len(text), err)
	}
	for path, want := range map[string]struct {
		kind landfall.Kind
		says string
	}{
		"/gone":   {landfall.Invalid, "it answers 404 Not Found"},
		"/down":   {landfall.Unavailable, "it answers 503 Service Unavailable"},
		"/busy":   {landfall.Unavailable, "it answers 429 Too Many Requests"},
		"/large":  {landfall.Invalid, "it has more than 1000 bytes"},
		"/broken": {landfall.Unavailable, "is not whole"},
		"/around": {landfall.Invalid, "it leads to more than 10 others"},
		"/closed": {landfall.Unavailable, "is not whole"},
	} {
		_, err := get(t.Context(), dialer, address+path+"?key=secret", "")
		testkit.Kind(t, path, err, want.kind, address+path+" cannot be fetched: ", want.says)
		if strings.Contains(landfall.MessageOf(err), "secret") {
			t.Errorf("%s: the error tells what stands behind the ?: %v", path, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := get(ended, dialer, address, "")
	testkit.Kind(t, "when we are stopping", err, landfall.Canceled)
	late, end := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer end()
	_, err = get(late, dialer, address, "")
	testkit.Kind(t, "when time is over", err, landfall.Unavailable, "it takes too long")

	closed := httptest.NewServer(nil)
	host := strings.TrimPrefix(closed.URL, "http://")
	closed.Close()
	_, err = get(t.Context(), &builder.Dialer{AllowedHosts: []string{host}}, closed.URL, "")
	testkit.Kind(t, "where nobody listens", err, landfall.Unavailable, host+" cannot be reached")
}

// Nothing is fetched from the installation's own network, also when an address outside leads there, and no other server
// hears the address before.
func TestGetStaysOutside(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(inner.Close)
	safe := strings.Replace(inner.URL, "http://", "https://", 1)
	address, dialer := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/inside":
			http.Redirect(w, r, inner.URL, http.StatusFound)
		case "/safe":
			http.Redirect(w, r, safe, http.StatusFound)
		case "/user":
			http.Redirect(w, r, strings.Replace("http://"+r.Host, "://", "://me:secret@", 1), http.StatusFound)
		case "/on":
			http.Redirect(w, r, "/end", http.StatusFound)
		default:
			_, _ = io.WriteString(w, r.Header.Get("Referer")+r.Header.Get("Authorization"))
		}
	})
	text, err := get(t.Context(), dialer, address+"/on?key=secret", "")
	if err != nil || text != "" {
		t.Errorf("the next server hears %q, %v", text, err)
	}
	for at, want := range map[string]landfall.Kind{
		address + "/inside": landfall.Invalid, address + "/safe": landfall.Forbidden, address + "/user": landfall.Invalid,
		inner.URL: landfall.Invalid, safe: landfall.Forbidden, "file:///etc/passwd": landfall.Invalid,
		"https://me:secret@example.com/": landfall.Invalid, "https://\x00/": landfall.Invalid,
	} {
		_, err := get(t.Context(), dialer, at, "")
		testkit.Kind(t, at, err, want)
	}
	if asked.Load() != 0 {
		t.Errorf("the own network was asked %d times", asked.Load())
	}
}
