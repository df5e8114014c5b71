package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
)

// A server whose disk has no byte left is started, after it was stopped and after it was killed: pages and functions answer, what
// cannot be done is said, and all of it goes on when there is room again, without a restart.
func TestFaultStartOnFullDisk(t *testing.T) {
	t.Parallel()
	for who, user := range map[string]int{"the tests' user": 0, "an ordinary user": somebody} {
		if user != 0 && os.Getuid() != 0 {
			continue // it is one
		}
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			testStartOnFullDisk(t, user)
		})
	}
}

func testStartOnFullDisk(t *testing.T, user int) {
	t.Helper()
	s := newStopped(t, engineOf(t, "sqlite+folder"))
	v := newVolumeOf(t, user, 32<<20, s.data, ".")
	s.within = v.enter()
	s.env = append(s.env, "TMPDIR="+v.folder)
	s.start()
	inside, outside := s.data, v.outside(s.data)
	s.data = outside
	s.readToken()
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "greet greet.main"), "specs/app.yaml", appSpec("shop"),
		"site/index.html", strings.Repeat("<p>page</p>\n", 100), "site/large.txt", strings.Repeat("a long text. ", 40_000),
		"greet/greet.py", "def main(event):\n    return 'hello'\n")
	first := s.pushed(r, "shop", "Open")
	wantServed(t, s, "shop", "/api/greet", "hello")

	for _, ends := range []struct {
		how string
		end func()
	}{{"stopped", s.stop}, {"killed", func() { _ = s.cmd.Process.Kill(); <-s.done }}} {
		ends.end()
		keys := []string{filepath.Join(s.data, "installation"), filepath.Join(s.data, "objects", ".installation")}
		for _, key := range keys { // as an earlier program left the folder
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
		}
		v.fill(0)
		s.data = inside
		s.start()
		s.data = outside
		v.topUp()
		// K-017: a server starts while its disk is full, and pages and functions answer
		wantServed(t, s, "shop", "/", strings.Repeat("<p>page</p>\n", 100))
		wantServed(t, s, "shop--"+string(first), "/large.txt", strings.Repeat("a long text. ", 40_000))
		wantServed(t, s, "shop", "/api/greet", "hello")
		wantEqual(t, "a page for who takes it compressed, "+ends.how, s.getCompressed("shop", "/large.txt"), http.StatusOK)
		// K-017: it says what it cannot do
		wantText(t, told{s.get("http://127.0.0.1:" + s.port + "/readyz").body}, "disk: it is full; pushes and webhooks are refused")
		if said := s.ready(); strings.Contains(said, "not the one") {
			t.Errorf("without a key that cannot be stored: %s", said)
		}
		out, code := s.run(t.TempDir(), "status")
		wantEqual(t, "the exit code of status", code, 0)
		wantText(t, told{out}, "disk: it is full")
		r.write("site/index.html", "page "+ends.how)
		r.commit("Change while full")
		refused, err := r.try("push", "origin", "HEAD")
		if err == nil {
			t.Errorf("%s: a push to a full disk was taken:\n%s", ends.how, refused)
		}
		wantText(t, told{refused}, "No space left on device")
		wantText(t, s.log, "runs wait until the database takes writes again", "disk is full")

		v.drain()
		var uid landfall.UID
		// K-017: it goes on by itself when there is room
		s.eventually("a push is taken again", func() bool {
			again, err := r.try("push", "origin", "HEAD")
			if err != nil {
				return false
			}
			var ok bool
			uid, ok = s.releasedIn(toldBy(again), "shop")
			return ok
		})
		wantServed(t, s, "shop--"+string(uid), "/", "page "+ends.how)
		for _, key := range keys {
			// K-017: the key of the installation as well
			s.eventually(key+" is there", func() bool { _, err := os.Stat(key); return err == nil })
		}
		r.write("site/index.html", strings.Repeat("<p>page</p>\n", 100))
		s.pushed(r, "shop", "Back, after it was "+ends.how)
	}
	wantSound(t, s, true)
}

// getCompressed asks for a file as a client does that takes it compressed, and returns the status.
func (s *site) getCompressed(host, path string) int {
	s.t.Helper()
	req := must(http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://127.0.0.1:"+s.port+path, http.NoBody))(s.t)
	req.Host = host + ".localhost:" + s.port
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}
