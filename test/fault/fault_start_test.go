package fault_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/machine"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A server whose disk has no byte left is started, after it was stopped and after it was killed: pages and functions
// answer, what cannot be done is said, and all of it goes on when there is room again, without a restart.
func TestFaultStartOnFullDisk(t *testing.T) {
	t.Parallel()
	for who, user := range map[string]int{"the tests' user": 0, "an ordinary user": machine.Somebody} {
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
	s := site.NewStopped(t, site.EngineOf(t, "sqlite+folder"))
	v := machine.NewVolumeOf(t, user, 32<<20, s.Data, ".")
	s.Within = v.Enter()
	s.Env = append(s.Env, "TMPDIR="+v.Folder)
	s.Start()
	inside, outside := s.Data, v.Outside(s.Data)
	s.Data = outside
	s.ReadToken()
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "greet greet.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", strings.Repeat("<p>page</p>\n", 100), "site/large.txt",
		strings.Repeat("a long text. ", 40_000),
		"greet/greet.py", "def main(event):\n    return 'hello'\n")
	first := s.Pushed(r, "shop", "Open")
	site.WantServed(t, s, "shop", "/api/greet", "hello")

	for _, ends := range []struct {
		how string
		end func()
	}{{"stopped", s.Stop}, {"killed", func() { _ = s.Cmd.Process.Kill(); <-s.Done }}} {
		ends.end()
		keys := []string{filepath.Join(s.Data, "installation"), filepath.Join(s.Data, "objects", ".installation")}
		for _, key := range keys { // as an earlier program left the folder
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
		}
		v.Fill(0)
		s.Data = inside
		s.Start()
		s.Data = outside
		v.TopUp()
		// K-017: a server starts while its disk is full, and pages and functions answer
		site.WantServed(t, s, "shop", "/", strings.Repeat("<p>page</p>\n", 100))
		site.WantServed(t, s, "shop--"+string(first), "/large.txt", strings.Repeat("a long text. ", 40_000))
		site.WantServed(t, s, "shop", "/api/greet", "hello")
		testkit.Equal(t, "a page for who takes it compressed, "+ends.how, getCompressed(s, "shop", "/large.txt"),
			http.StatusOK)
		// K-017: it says what it cannot do
		testkit.Contains(t, site.Told{s.Get("http://127.0.0.1:" + s.Port + "/readyz").Body},
			"disk: it is full; pushes and webhooks are refused")
		if said := ready(s); strings.Contains(said, "not the one") {
			t.Errorf("without a key that cannot be stored: %s", said)
		}
		out, code := s.Run(t.TempDir(), "status")
		testkit.Equal(t, "the exit code of status", code, 0)
		testkit.Contains(t, site.Told{out}, "disk: it is full")
		r.Write("site/index.html", "page "+ends.how)
		r.Commit("Change while full")
		refused, err := r.Try("push", "origin", "HEAD")
		if err == nil {
			t.Errorf("%s: a push to a full disk was taken:\n%s", ends.how, refused)
		}
		testkit.Contains(t, site.Told{refused}, "No space left on device")
		testkit.Contains(t, s.Log, "runs wait until the database takes writes again", "disk is full")

		v.Drain()
		var uid landfall.UID
		// K-017: it goes on by itself when there is room
		s.Eventually("a push is taken again", func() bool {
			again, err := r.Try("push", "origin", "HEAD")
			if err != nil {
				return false
			}
			var ok bool
			uid, ok = s.ReleasedIn(site.ToldBy(again), "shop")
			return ok
		})
		site.WantServed(t, s, "shop--"+string(uid), "/", "page "+ends.how)
		for _, key := range keys {
			// K-017: the key of the installation as well
			s.Eventually(key+" is there", func() bool { _, err := os.Stat(key); return err == nil })
		}
		r.Write("site/index.html", strings.Repeat("<p>page</p>\n", 100))
		s.Pushed(r, "shop", "Back, after it was "+ends.how)
	}
	site.WantSound(t, s, true)
}

// getCompressed asks for a file as a client does that takes it compressed, and returns the status.
func getCompressed(s *site.Site, host, path string) int {
	s.T.Helper()
	req := testkit.Must(http.NewRequestWithContext(s.T.Context(), http.MethodGet, "http://127.0.0.1:"+s.Port+path,
		http.NoBody))(s.T)
	req.Host = host + ".localhost:" + s.Port
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.T.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}
