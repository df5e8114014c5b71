package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/assetstest"
	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/assets/s3/s3test"
)

// The bucket of a real server keeps what every store promises.
func TestConformance(t *testing.T) {
	t.Parallel()
	assetstest.Conformance(t, func(t *testing.T) assets.Store {
		t.Helper()
		return open(t, s3test.Bucket(t))
	})
}

func open(t *testing.T, c s3.Config) *s3.Store {
	t.Helper()
	store, err := s3.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// line is the way to the server. Each request may be answered, or spoilt, by a test.
type line struct {
	mu     sync.Mutex
	seen   []string // METHOD KEY
	before func(r *http.Request) (*http.Response, error)
	after  func(r *http.Request, response *http.Response) (*http.Response, error)
}

// errPass lets a request pass.
var errPass = errors.New("pass")

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, r.Method+" "+r.URL.Path)
	if l.before != nil {
		if response, err := l.before(r); !errors.Is(err, errPass) {
			return response, err
		}
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && l.after != nil {
		return l.after(r, response)
	}
	return response, err
}

// requests returns and forgets what was asked.
func (l *line) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.seen
	l.seen = nil
	return seen
}

// over returns a store that is reached over a line.
func over(t *testing.T) (*s3.Store, *line) {
	t.Helper()
	l := &line{}
	c := s3test.Bucket(t)
	c.Transport = l
	store := open(t, c)
	l.requests()
	return store, l
}

func create(t *testing.T, store assets.Store, key string, data []byte) {
	t.Helper()
	if _, err := store.Create(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatalf("create %q: %v", key, err)
	}
}

func read(store assets.Store, key string) ([]byte, error) {
	object, err := store.Open(context.Background(), key)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(object)
	return data, errors.Join(err, object.Close())
}

func wantKind(t *testing.T, what string, err error, kind landfall.Kind, words ...string) {
	t.Helper()
	if err == nil || landfall.KindOf(err) != kind {
		t.Errorf("%s: got the error %v, want one of kind %s", what, err, kind)
	}
	for _, w := range words {
		if !strings.Contains(fmt.Sprint(err), w) {
			t.Errorf("%s: got %v, want the words %q", what, err, w)
		}
	}
}

// A server that would overwrite what it is told to create once is not used.
func TestOpenRefusesOverwriting(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer server.Close()
	_, err := s3.Open(t.Context(), s3.Config{Endpoint: strings.TrimPrefix(server.URL, "http://"), Bucket: "bucket",
		Region: "r", AccessKey: "a", SecretKey: "b", Insecure: true, Style: s3.PathStyle})
	wantKind(t, "Open", err, landfall.Invalid, "overwrites", "If-None-Match")
}

// What is wrong with the way to a bucket is said in one sentence: the setting to change, and the cause, without the
// key.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	const settings = "LANDFALL_S3_"
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	for name, test := range map[string]struct {
		change func(c *s3.Config)
		kind   landfall.Kind
		words  []string
	}{
		"another secret": {func(c *s3.Config) {
			c.SecretKey = "open-sesame"
		}, landfall.Invalid, []string{settings + "SECRET_KEY", "SignatureDoesNotMatch"}},
		"another key": {func(c *s3.Config) {
			c.AccessKey = "open-sesame"
		}, landfall.Invalid, []string{settings + "ACCESS_KEY", "access key ID"}},
		"nobody there": {func(c *s3.Config) {
			c.Endpoint = "127.0.0.1:1"
		}, landfall.Unavailable, []string{"does not answer", settings + "ENDPOINT", "connection refused"}},
		"no such host": {func(c *s3.Config) {
			c.Endpoint = strings.Repeat("x", 64) + ".example.com"
		}, landfall.Invalid, []string{settings + "ENDPOINT", "no such host"}},
		"an address": {func(c *s3.Config) {
			c.Endpoint = "127.0.0.1:1/bucket"
		}, landfall.Invalid, []string{settings + "ENDPOINT"}},
		"https where http is": {func(c *s3.Config) {
			c.Insecure = false
		}, landfall.Invalid, []string{settings + "INSECURE", "HTTP response to HTTPS client"}},
		"http where https is": {func(c *s3.Config) {
			c.Endpoint = secure.Listener.Addr().String()
		}, landfall.Invalid, []string{settings + "ENDPOINT", "400 Bad Request"}},
		"no bucket name": {func(c *s3.Config) {
			c.Bucket = "Bad_Bucket/x"
		}, landfall.Invalid, []string{settings + "BUCKET", "Bad_Bucket/x", "3 to 63"}},
		"a short bucket name": {func(c *s3.Config) {
			c.Bucket = "a"
		}, landfall.Invalid, []string{settings + "BUCKET", "3 to 63"}},
		"a bucket with a capital": {func(c *s3.Config) {
			c.Bucket = "Bucket"
		}, landfall.Invalid, []string{settings + "BUCKET", "3 to 63"}},
		"a host below an address": {func(c *s3.Config) {
			c.Style = s3.HostStyle
		}, landfall.Invalid, []string{settings + "STYLE", "path"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := s3test.Bucket(t)
			test.change(&c)
			_, err := s3.Open(t.Context(), c)
			text := landfall.MessageOf(err)
			wantKind(t, name, err, test.kind)
			for _, word := range test.words {
				if strings.Count(text, word) != 1 || strings.Contains(text, "\n") {
					t.Errorf("got %q (%v), want one sentence with %q once", text, err, word)
				}
			}
			if c.SecretKey == "open-sesame" && strings.Contains(fmt.Sprint(err), "sesame") {
				t.Errorf("the secret stands in %v", err)
			}
		})
	}
}

// A bucket that is there is used as it is, also by several at once.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	c := s3test.Bucket(t)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			store, err := s3.Open(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := store.Create(t.Context(), fmt.Sprintf("a/%d", i), strings.NewReader("x"), 1); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	var keys []string
	for key, err := range open(t, c).List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if want := []string{"a/0", "a/1", "a/2", "a/3"}; !slices.Equal(keys, want) {
		t.Errorf("got the keys %q, want %q: what Open tries leaves nothing", keys, want)
	}
}

// Somebody else's objects in the bucket are passed over.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	c, folder := s3test.BucketInFolder(t)
	store := open(t, c)
	own := []string{"a/!", `a/b\c`, "a/d!4"}
	for _, key := range own {
		create(t, store, key, []byte("x"))
	}
	for _, name := range []string{"a!4", "a!", "a!zz", "a!41", "a!2f", "a!+1", "a!!21", "a!e9", "a!00"} {
		if err := os.WriteFile(filepath.Join(folder, "a", name), []byte("not ours"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for key, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if !slices.Equal(keys, own) {
		t.Errorf("got the keys %q, want %q", keys, own)
	}
}

// An upload that the store has dropped is tried again: it is no reason to fail for good.
func TestDroppedUpload(t *testing.T) {
	t.Parallel()
	store, l := over(t)
	drop := true
	l.before = func(r *http.Request) (*http.Response, error) {
		if !drop || r.Method != http.MethodPut || !r.URL.Query().Has("uploadId") {
			return nil, errPass
		}
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(
			`<Error><Code>NoSuchUpload</Code><Message>The specified upload does not exist.</Message></Error>`))}, nil
	}
	data := make([]byte, 20<<20)
	_, err := store.Create(t.Context(), "a", bytes.NewReader(data), int64(len(data)))
	wantKind(t, "an upload in parts that was dropped", err, landfall.Unavailable, "dropped")
	drop = false
	create(t, store, "a", data)
}

// Bytes that somebody changed are never taken for those that were stored.
func TestTampered(t *testing.T) {
	t.Parallel()
	c, folder := s3test.BucketInFolder(t)
	store := open(t, c)
	create(t, store, "a/b", []byte("what was stored"))
	if err := os.WriteFile(filepath.Join(folder, "a", "b"), []byte("what was forged"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := read(store, "a/b")
	// N-017: a store that has other bytes than it was given is found out by the checksum
	wantKind(t, "reading it", err, landfall.Internal, `"a/b" is damaged`)
}

// A store that is away for a moment is not noticed; one that stays away is Unavailable.
func TestOutage(t *testing.T) {
	t.Parallel()
	store, l := over(t)
	create(t, store, "there", []byte("x"))
	for name, fault := range map[string]func() (*http.Response, error){
		"nobody answers": func() (*http.Response, error) { return nil, errors.New("connection reset by peer") },
		"slow down": func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{},
				Body: io.NopCloser(strings.NewReader(
					`<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>`))}, nil
		},
	} {
		left := 2
		l.before = func(*http.Request) (*http.Response, error) {
			left--
			if left >= 0 {
				return fault()
			}
			return nil, errPass
		}
		key := "a/" + strings.ReplaceAll(name, " ", "-")
		create(t, store, key, []byte(name))
		left = 2
		if data, err := read(store, key); string(data) != name || err != nil {
			t.Errorf("%s: got %q (%v), want %q", name, data, err, name)
		}
		l.before = func(*http.Request) (*http.Response, error) { return fault() }
		_, err := store.Create(t.Context(), "b", strings.NewReader("x"), 1)
		wantKind(t, name+" for long: create", err, landfall.Unavailable)
		_, err = store.Open(t.Context(), "there")
		wantKind(t, name+" for long: open", err, landfall.Unavailable)
		wantKind(t, name+" for long: delete", store.Delete(t.Context(), "there"), landfall.Unavailable)
		l.before = nil
	}
}

// That a store is at work on the same object does not say that there is one: it is tried again.
func TestAtWork(t *testing.T) {
	t.Parallel()
	store, l := over(t)
	l.before = func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusConflict, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(
			`<Error><Code>ConditionalRequestConflict</Code><Message>At work.</Message></Error>`))}, nil
	}
	_, err := store.Create(t.Context(), "a", strings.NewReader("x"), 1)
	wantKind(t, "a store that is at work for long", err, landfall.Unavailable, "at work")
}

// A connection that breaks in the middle of an object is followed by another one, and the bytes are those that were
// stored.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	store, l := over(t)
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	create(t, store, "a", data)
	cuts := 3
	l.after = func(_ *http.Request, response *http.Response) (*http.Response, error) {
		cuts--
		if cuts >= 0 {
			response.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(io.LimitReader(response.Body, 100_000), broken{}), response.Body}
		}
		return response, nil
	}
	got, err := read(store, "a")
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("got %d bytes (%v), want the %d that were stored", len(got), err, len(data))
	}
	l.after = func(_ *http.Request, response *http.Response) (*http.Response, error) {
		response.Body = io.NopCloser(broken{})
		return response, nil
	}
	_, err = read(store, "a")
	wantKind(t, "a body that always breaks", err, landfall.Unavailable)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// An object whose creation was not answered is there once, and whoever creates it again is told so.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 20 << 20} {
		store, l := over(t)
		lost := false
		l.after = func(r *http.Request, response *http.Response) (*http.Response, error) {
			last := r.Method == http.MethodPut && size == 10 || r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
			if last && !lost {
				lost = true
				_ = response.Body.Close()
				return nil, io.ErrUnexpectedEOF
			}
			return response, nil
		}
		data := bytes.Repeat([]byte("0123456789"), size/10)
		_, err := store.Create(t.Context(), "a", bytes.NewReader(data), int64(len(data)))
		if !lost || err != nil && landfall.KindOf(err) != landfall.Conflict && landfall.KindOf(err) != landfall.Unavailable {
			t.Errorf("%d bytes: got %v, want none, that it is there, or what is tried again", size, err)
		}
		if got, err := read(store, "a"); !bytes.Equal(got, data) || err != nil {
			t.Errorf("%d bytes: got %d (%v)", size, len(got), err)
		}
	}
}

// A push costs as many requests as it has changed files, and one for the manifest: nothing is listed, headed or copied.
func TestUploadRequests(t *testing.T) {
	t.Parallel()
	const files, changed = 300, 7
	store, l := over(t)
	content := map[string]string{}
	var all []landfall.File
	for i := range files {
		all = append(all, landfall.File{Path: fmt.Sprintf("site/%03d.html", i)})
	}
	change := func(i int, text string) {
		name := landfall.DigestOf([]byte(text)).Hex()[:40]
		all[i].Blob, all[i].Size, content[name] = name, int64(len(text)), text
	}
	upload := func(uid landfall.UID, before ...*assets.Manifest) *assets.Manifest {
		t.Helper()
		units, _, err := assets.Select([]assets.Rule{{Src: "site", Path: "/"}}, all)
		if err != nil {
			t.Fatal(err)
		}
		manifest, _, err := assets.Uploader{Store: store,
			Read: func(_ context.Context, f landfall.File) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(content[f.Blob])), nil
			}}.Upload(t.Context(), assets.Plan(units[0], assets.Prefix("apps/default/shop/", "/", uid), before...))
		if err != nil {
			t.Fatal(err)
		}
		return manifest
	}
	for i := range files {
		change(i, fmt.Sprintf("first %d", i))
	}
	first := upload("aaaaaaaa")
	wantPuts(t, "the first push", l.requests(), files+1)
	for i := range changed {
		change(i*40, fmt.Sprintf("second %d", i))
	}
	upload("bbbbbbbb", first)
	// P-006: on S3, too, exactly the changed files and one manifest are written
	wantPuts(t, "the second push", l.requests(), changed+1)
}

func wantPuts(t *testing.T, what string, requests []string, want int) {
	t.Helper()
	for _, r := range requests {
		if !strings.HasPrefix(r, http.MethodPut+" ") {
			t.Errorf("%s asked for %s, want only %s", what, r, http.MethodPut)
		}
	}
	if len(requests) != want {
		t.Errorf("%s: got %d requests, want %d", what, len(requests), want)
	}
}

// A range is asked for as a range: the front of a large object does not travel for its end.
func TestSeek(t *testing.T) {
	t.Parallel()
	store, l := over(t)
	create(t, store, "a", bytes.Repeat([]byte("0123456789"), 100_000))
	var sent int64
	l.after = func(_ *http.Request, response *http.Response) (*http.Response, error) {
		sent += response.ContentLength
		return response, nil
	}
	object, err := store.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if at, err := object.Seek(-15, io.SeekEnd); at != 999_985 || err != nil {
		t.Fatalf("got %d (%v)", at, err)
	}
	data, err := io.ReadAll(object)
	if err := errors.Join(err, object.Close()); err != nil || string(data) != "567890123456789" {
		t.Errorf("got %q (%v)", data, err)
	}
	if got := sent; got != 1_000_000+15 {
		t.Errorf("%d bytes were announced, want the whole, which is not read, and 15", got)
	}
}
