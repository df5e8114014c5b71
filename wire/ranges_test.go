package wire_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/wire"
)

func TestRanged(t *testing.T) {
	t.Parallel()
	const beyond = "99999999999999999999999999"
	for ranges, want := range map[string]string{
		// K-020: ranges follow RFC 9110 at their edges
		"bytes=-0": "416 bytes */10", "bytes=-00": "416 bytes */10", "bytes=10-": "416 bytes */10",
		"bytes=" + beyond + "-": "416 bytes */10", "bytes=-0,10-": "416 bytes */10", "bytes=-0,0-0": "206 bytes 0-0/10 0",
		"bytes=10-,-1": "206 bytes 9-9/10 9", "bytes=0-" + beyond: "206 bytes 0-9/10 0123456789",
		"bytes=9-" + beyond: "206 bytes 9-9/10 9", "bytes=-" + beyond: "206 bytes 0-9/10 0123456789", "bytes=" + beyond +
			"-" + beyond + "0": "416 bytes */10", "bytes=0000000000000000000000000003-4": "206 bytes 3-4/10 34",
		"bytes=9223372036854775807-": "416 bytes */10", "bytes=1-9223372036854775808": "206 bytes 1-9/10 123456789",
		"bytes=0-9": "206 bytes 0-9/10 0123456789", "bytes=9-9": "206 bytes 9-9/10 9", "bytes=-1": "206 bytes 9-9/10 9",
		"bytes=-10": "206 bytes 0-9/10 0123456789", "bytes=3-": "206 bytes 3-9/10 3456789",
		"Bytes=0-1": "206 bytes 0-1/10 01", "bytes= 0-1 ,": "206 bytes 0-1/10 01", "bytes=,\t,0-1": "206 bytes 0-1/10 01",
		"bytes=4-3": "416 bytes */10", "bytes=" + beyond + "-1": "416 bytes */10", "bytes=+0-1": "416 bytes */10",
		"bytes=0-+1": "416 bytes */10", "bytes=--1": "416 bytes */10", "bytes=-": "416 bytes */10",
		"bytes=a-b": "416 bytes */10", "bytes=1": "416 bytes */10", "bytes=0 - 1": "416 bytes */10",
		"bytes=0x0-1": "416 bytes */10", "bytes=0-1,x": "416 bytes */10", "bytes=": "200  0123456789",
		"bytes": "200  0123456789", "lines=0-1": "200  0123456789", "": "200  0123456789",
		"bytes=0-1" + strings.Repeat(",2-2", 16): "200  0123456789",
	} {
		if got := serve(http.MethodGet, "0123456789", ranges); got != want {
			t.Errorf("%s: got %q, want %q", ranges, got, want)
		}
	}
	for _, c := range []struct {
		method, content string
		ranges          []string
		want            string
	}{
		{http.MethodHead, "0123456789", []string{"bytes=0-1"}, "200  "},
		{http.MethodGet, "0123456789", []string{"bytes=0-1", "bytes=2-3"}, "200  0123456789"},
		{http.MethodGet, "0123456789", nil, "200  0123456789"},
		{http.MethodGet, "", []string{"bytes=-5"}, "200  "},
		{http.MethodGet, "", []string{"bytes=0-"}, "200  "},
		{http.MethodGet, "", []string{"bytes=-0"}, "200  "},
	} {
		if got := serve(c.method, c.content, c.ranges...); got != c.want {
			t.Errorf("%s %q of %q: got %q, want %q", c.method, c.ranges, c.content, got, c.want)
		}
	}
}

// serve returns the status of a part of the content, its Content-Range, and the body unless it is an error.
func serve(method, content string, ranges ...string) string {
	r := httptest.NewRequest(method, "/", http.NoBody)
	r.Header["Range"] = ranges
	w := httptest.NewRecorder()
	http.ServeContent(w, wire.NormalizeRange(r, int64(len(content))), "", time.Time{}, strings.NewReader(content))
	got := w.Result().Status[:3] + " " + w.Header().Get("Content-Range")
	if w.Code < http.StatusBadRequest {
		got += " " + w.Body.String()
	}
	return got
}
