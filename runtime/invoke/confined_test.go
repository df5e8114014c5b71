package invoke_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"testing"

	"landfall.dev/landfall/runtime/invoke"
)

// What a function answers at the control host has the headers that its reader needs, and no others: at once, before its
// answer, or behind it.
func TestConfined(t *testing.T) {
	t.Parallel()
	given := map[string]string{
		"Content-Type": "text/html", "Content-Disposition": "attachment", "Cache-Control": "max-age=1", "Etag": `"a"`,
		"Location": "/a", "Retry-After": "1", "Www-Authenticate": "Bearer", "Access-Control-Allow-Origin": "*", "Ce-Id": "1",
		"Landfall-Release": "aaaaaaa2", "Link": "</a>; rel=next",
	}
	held := []string{
		"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Service-Worker-Allowed", "Alt-Svc", "Strict-Transport-Security",
		"Nel", "Report-To", "Reporting-Endpoints", "Refresh", "Sourcemap", "Origin-Agent-Cluster", "Speculation-Rules",
		"Public-Key-Pins", "X-Accel-Redirect", "X-Sendfile", "X-Mine", "Server", "Via",
	}
	server := httptest.NewServer(invoke.Confined(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for _, name := range held {
			h.Set(name, "x")
		}
		if r.URL.Path == "/early" {
			w.WriteHeader(http.StatusEarlyHints)
		}
		for name, value := range given {
			h.Set(name, value)
		}
		for _, name := range held {
			h.Set(name, "x")
			h.Set(http.TrailerPrefix+name, "x")
		}
		_, _ = io.WriteString(w, "made")
	})))
	defer server.Close()
	wantNone := func(what string, h http.Header) {
		for _, name := range held {
			// K-019: on the control host only listed headers leave
			if h.Get(name) != "" {
				t.Errorf("%s: %s left", what, name)
			}
		}
	}
	for _, path := range []string{"/", "/early"} {
		hints := 0
		ctx := httptrace.WithClientTrace(t.Context(),
			&httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				hints++
				wantNone("hints", http.Header(h))
				return nil
			}})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: server.Client().Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			}}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(body) != "made" || (hints == 1) != (path == "/early") {
			t.Errorf("%s: got %q with %d hints, %v", path, body, hints, err)
		}
		wantNone(path, answer.Header)
		wantNone(path, answer.Trailer)
		for name, want := range given {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}
