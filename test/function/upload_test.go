package function_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// repeated is a text without an end.
type repeated string

// Read implements io.Reader.
func (r repeated) Read(p []byte) (int, error) {
	n := 0
	for n+len(r) <= len(p) {
		n += copy(p[n:], r)
	}
	if n == 0 {
		n = copy(p, r[:min(len(p), len(r))])
	}
	return n, nil
}

// upload posts a body to a function of the app shop, and returns the answer, of which nothing was read.
func upload(s *site.Site, path string, body io.Reader, headers ...string) *http.Response {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, path, body)
	if err != nil {
		s.T.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	transport := client.LocalTransport()
	transport.ExpectContinueTimeout = testkit.Patience
	answer, err := (&http.Client{Transport: transport, Timeout: testkit.Patience}).Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// text reads the rest of an answer.
func text(s *site.Site, answer *http.Response) string {
	s.T.Helper()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.T.Error(err)
	}
	return string(body)
}

// A function reads a body while it comes, however large, and neither it nor the server holds it.
func TestStreamedBody(t *testing.T) {
	t.Parallel()
	streamsBodies(site.New(t))
}

// The same holds where a router and a runner are processes of their own: none of them holds the body.
func TestStreamedBodyElsewhere(t *testing.T) {
	t.Parallel()
	on := site.EngineOf(t, "sqlite+"+site.WithS3)
	runner, router := site.NewStopped(t, site.Engine{Bucket: on.Bucket}), site.NewStopped(t, site.Engine{})
	s := site.NewStopped(t, on, "LANDFALL_ROUTER=127.0.0.1:"+router.Port, "LANDFALL_ROLE_SECRET="+site.RoleSecret)
	s.Env = append(s.Env, "LANDFALL_URL="+s.URL)
	runner.Env = append(runner.Env, "LANDFALL_ROLE=runner", "LANDFALL_REGISTRY=127.0.0.1:"+s.Port,
		"LANDFALL_ROLE_SECRET="+site.RoleSecret)
	router.Env = append(router.Env, "LANDFALL_ROLE=router", "LANDFALL_RUNNERS=127.0.0.1:"+runner.Port,
		"LANDFALL_ROLE_SECRET="+site.RoleSecret)
	s.Start()
	runner.Start()
	router.Start()
	s.ReadToken()
	streamsBodies(s, router, runner)
}

// streamsBodies fails the test unless functions read bodies while they come, and neither the server nor the other
// processes on the way hold them.
func streamsBodies(s *site.Site, others ...*site.Site) {
	const size, limit, held = 64 << 20, 1 << 20, 48 // of which the last is in MiB: who holds a body takes more
	t := s.T
	t.Helper()
	r := s.Repository(s.App("shop"))
	spec := site.FunctionsSpec("python-env", "hash hash.main", "back back.main", "early early.main", "count count.main")
	for _, name := range []string{"hash", "back", "early", "count"} {
		entry, most := "functionName: "+name+".main}\n", "100Mi"
		if name == "count" {
			most = "1Mi"
		}
		spec = strings.Replace(spec, entry, entry+"  stream_body: true\n  max_body: "+most+
			"\n  concurrency: 1\n  functionTimeout: 120\n"+
			"  resources: {limits: {memory: 64Mi}}\n", 1)
	}
	spec = strings.Replace(spec, "relativeurl: /api/early", "relativeurl: /api/early, access: token", 1)
	r.Write("specs/functions.yaml", spec, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hash/hash.py", `import hashlib
from flask import request


def main():
    sum, size = hashlib.sha256(), 0
    while piece := request.stream.read(1 << 16):
        sum.update(piece)
        size += len(piece)
    return f"{size} {sum.hexdigest()} {request.content_length}"
`, "back/back.py", `def main(event):
    for piece in event["data"]:
        yield piece
`, "early/early.py", `calls = 0


def main(event):
    global calls
    calls += 1
    return f"early {calls}"
`, "count/count.py", `calls = 0


def main(event):
    global calls
    calls += 1
    return f"{calls} {sum(len(piece) for piece in event['data'])}"
`)
	s.Pushed(r, "shop", "Functions that take bodies in parts")
	address := func(name string) string { return s.At("shop", "/api/"+name) }

	small := sha256.Sum256([]byte("small"))
	testkit.Equal(t, "a small body", text(s, upload(s, address("hash"), strings.NewReader("small"))),
		"5 "+hex.EncodeToString(small[:])+" 5")
	// what a process takes for any body
	warm := text(s, upload(s, address("hash"), io.LimitReader(repeated("0123456789abcdef"), size/4)))
	testkit.Contains(t, site.Told{warm}, "16777216 ")
	sum, all := sha256.New(), append([]*site.Site{s}, others...)
	var before []int
	for _, on := range all {
		before = append(before, on.Peak())
	}
	large := upload(s, address("hash"), io.TeeReader(io.LimitReader(repeated("0123456789abcdef"), size), sum))
	testkit.Equal(t, "a large body", text(s, large), "67108864 "+hex.EncodeToString(sum.Sum(nil))+" None")
	for i, on := range all {
		grown := on.Peak() - before[i]
		if grown > held {
			t.Errorf("the memory of process %d has grown by %d MiB", i, grown)
		}
	}
	var x landfall.Execution
	s.Eventually("the execution is on record", func() bool {
		return s.Do(t.Context(), http.MethodGet, "/executions/"+large.Header.Get("Landfall-Execution"), nil, &x) == nil &&
			!x.Finished.IsZero()
	})
	testkit.Equal(t, "bytes of the recorded execution", x.Input, int64(size))

	// What the client has sent is back before it sends more.
	in, out := io.Pipe()
	go func() { _, _ = io.WriteString(out, "one") }()
	back := upload(s, address("back"), in)
	for _, word := range []string{"one", "two", "three"} {
		got := make([]byte, len(word))
		if _, err := io.ReadFull(back.Body, got); err != nil || string(got) != word {
			t.Fatalf("got %q, %v; want %q back before more is sent", got, err, word)
		}
		if next := map[string]string{"one": "two", "two": "three"}[word]; next != "" {
			_, _ = io.WriteString(out, next)
		}
	}
	_ = out.Close()
	testkit.Equal(t, "the rest", text(s, back), "")

	// Who may not call sends nothing; who may is answered while the body is still coming, and the process goes on.
	asked := false
	refused := upload(s, address("early"), reading(func() { asked = true }), "Expect", "100-continue")
	testkit.Equal(t, "status without a token", refused.StatusCode, http.StatusUnauthorized)
	if asked {
		t.Error("the body is asked for before it is known who calls")
	}
	for _, want := range []string{"early 1", "early 2"} {
		s.Eventually(want, func() bool {
			in, out := io.Pipe()
			go func() { _, _ = io.WriteString(out, `{"specversion":"1.0","id":"1","source":"/x","type":"y"}`+"\n") }()
			defer func() { _ = out.CloseWithError(errors.New("gone")) }()
			early := upload(s, address("early"), in, "Authorization", "Bearer "+s.Token)
			if early.StatusCode == http.StatusServiceUnavailable {
				return false // the one process still reads what was left
			}
			if got := text(s, early); got != "early 1" && got != want { // a process that is too slow to read on is replaced
				t.Errorf("got %q as an early answer, want %q", got, want)
			}
			return true
		})
	}

	// A body that is too large is refused, said or not; one that breaks off costs no process.
	testkit.Equal(t, "first call", text(s, upload(s, address("count"), strings.NewReader("123"))), "1 3")
	said, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address("count"),
		io.LimitReader(repeated("x"), limit+1))
	if err != nil {
		t.Fatal(err)
	}
	said.ContentLength = limit + 1
	if answer, err := (&http.Client{Transport: client.LocalTransport()}).Do(said); err == nil {
		testkit.Equal(t, "status of what is said to be too large", answer.StatusCode, http.StatusRequestEntityTooLarge)
		_ = answer.Body.Close()
	}
	testkit.Equal(t, "status of what is too large",
		upload(s, address("count"), io.LimitReader(repeated("0123456789abcdef"), limit+1)).StatusCode,
		http.StatusRequestEntityTooLarge)
	in, out = io.Pipe()
	half, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address("count"), in)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(out, "half")
		_ = out.CloseWithError(errors.New("gone"))
	}()
	if answer, err := (&http.Client{Transport: client.LocalTransport()}).Do(half); err == nil {
		_ = answer.Body.Close()
		t.Errorf("half a body is answered with %s", answer.Status)
	}
	s.Eventually("the next call", func() bool {
		answer := upload(s, address("count"), strings.NewReader("12"))
		if answer.StatusCode == http.StatusServiceUnavailable {
			return false
		}
		if got := text(s, answer); got != "3 2" && got != "4 2" { // the half may have broken off before any of it was sent
			t.Errorf("got %q as calls of the process and bytes, want that it is the one of the first call", got)
		}
		return true
	})
	if got := text(s, upload(s, "http://localhost:"+s.Port+"/r/default/shop/count",
		strings.NewReader("1"))); !strings.HasSuffix(got, " 1") {
		t.Errorf("at /r/: got %q", got)
	}
}

// reading is a body that tells when it is read.
type reading func()

// Read implements io.Reader.
func (r reading) Read([]byte) (int, error) {
	r()
	return 0, io.EOF
}
