package fault_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/machine"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A backup that is made while pushes, promotions and collections go on is restored elsewhere, as what was there at a
// moment after the backup began: everything that it names is there and is its own, unfinished runs go on, and pushes
// come in.
func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App(forge.NearApp))
	forge.Round(r, forge.NearApp, 1)
	first := s.Released(r.Push("main"), forge.NearApp)
	archives := t.TempDir()
	rounds := map[landfall.UID]int{first: 1}
	var pushed sync.Mutex // guards rounds
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 2; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			forge.Round(r, forge.NearApp, n)
			out, err := r.Try("push", "origin", "main")
			uid, ok := s.ReleasedIn(site.ToldBy(out), forge.NearApp)
			if err != nil || !ok {
				t.Errorf("a push while a backup was made: %v\n%s", err, out)
				return
			}
			pushed.Lock()
			rounds[uid] = n
			pushed.Unlock()
		}
	}()
	f := s.Repository(s.App(forge.FarApp))
	var ends []landfall.UID // the pointers of another app move between two releases
	for n := range 2 {
		forge.Round(f, forge.FarApp, n+1)
		ends = append(ends, s.Released(f.Push("main"), forge.FarApp))
	}
	for i := range machine.Dose(t, 3, 10) {
		archive := filepath.Join(archives, fmt.Sprint(i))
		before, moved := s.ShowApp(forge.NearApp).Live, moves(s, forge.FarApp)
		var moving sync.WaitGroup
		moving.Go(func() { moveBetween(s, forge.FarApp, ends[0], ends[1]) })
		if out, code := s.Run(archives, "backup", archive); code != 0 {
			t.Fatalf("landfall backup: %d\n%s", code, out)
		}
		moving.Wait()
		c := site.Restored(t, archive)
		wantMoved(c, forge.FarApp, moved, moves(s, forge.FarApp))
		wantNotBefore(c, forge.NearApp, before, func(uid landfall.UID) int {
			pushed.Lock()
			defer pushed.Unlock()
			return rounds[uid]
		})
		site.WantSound(t, c, true)
		if t.Failed() {
			break
		}
	}
	close(stop)
	<-stopped
}

// moveBetween goes back to an app's first release, and on to its second one, and tags them.
func moveBetween(s *site.Site, app string, first, second landfall.UID) {
	s.T.Helper()
	for _, args := range [][]string{
		{"rollback", app, string(first)}, {"tag", app, string(first), "v1"}, {"live", app, string(second)},
		{"tag", app, string(second), "v1"},
	} {
		if out, code := s.Run(s.Data, append([]string{"release"}, args...)...); code != 0 {
			s.T.Errorf("landfall release %v while a backup was made: %d\n%s", args, code, out)
		}
	}
}

// moves returns every move of an app's live release and tags, oldest first.
func moves(s *site.Site, app string) []client.Move {
	s.T.Helper()
	all := site.List[client.Move](s, "/apps/"+app+"/moves?limit=1000")
	slices.Reverse(all)
	return all
}

// wantMoved fails the test unless the moves are those that there were at a moment after the backup began, and the
// pointers are where the last ones left them.
func wantMoved(s *site.Site, app string, before, after []client.Move) {
	s.T.Helper()
	got := moves(s, app)
	if len(got) < len(before) || len(got) > len(after) || !reflect.DeepEqual(got, after[:len(got)]) {
		s.T.Errorf("got %d moves: %+v\nwant the first ones, at least %d, of %+v", len(got), got, len(before), after)
	}
	at := map[string]landfall.UID{}
	for _, m := range got {
		at[m.Pointer] = m.To
	}
	testkit.Equal(s.T, "what is live", s.ShowApp(app).Live, at[landfall.LivePointer])
	for pointer, uid := range at {
		host := app
		if tag, ok := strings.CutPrefix(pointer, "tag "); ok {
			host += "--" + tag
		}
		site.WantServed(s.T, s, host, "/", s.Get(s.At(app+"--"+string(uid), "/")).Body)
	}
}

// wantNotBefore fails the test unless live is at least what it was before the backup began, every release serves its
// own round, and pushes come in.
func wantNotBefore(s *site.Site, app string, before landfall.UID, roundOf func(landfall.UID) int) {
	s.T.Helper()
	s.Eventually("every run is over", func() bool {
		for _, run := range site.List[client.Run](s, "/runs?limit=1000&app="+app) {
			if !run.State.Final() {
				return false
			}
		}
		return true
	})
	live := s.ShowApp(app).Live
	if live == "" {
		s.T.Fatalf("nothing is live; it was %s before the backup", before)
	}
	last := 0
	for _, uid := range s.Accessible(app) {
		n := 0
		page := s.Get(s.At(app+"--"+string(uid), "/")).Body
		if _, err := fmt.Sscanf(page, forge.PageFormat(app), &n); err != nil {
			s.T.Errorf("the release %s answers %.200q", uid, page)
			continue
		}
		if known := roundOf(uid); known != 0 && known != n {
			s.T.Errorf("the release %s answers round %d, and is round %d", uid, n, known)
		}
		site.WantServed(s.T, s, app+"--"+string(uid), "/app.js", forge.ScriptOf(app, n))
		site.WantServed(s.T, s, app+"--"+string(uid), "/fixed/logo.svg", "<svg/>")
		if uid == live {
			last = n
		}
	}
	if known := roundOf(before); last < known {
		s.T.Errorf("live is round %d, and was round %d before the backup began", last, known)
	}
	var found client.App
	s.Call(http.MethodGet, "/apps/"+app, nil, &found)
	r := s.Repository(found)
	r.Git("fetch", "--quiet", "origin")
	r.Git("reset", "--quiet", "--hard", "origin/main")
	const further = 100_000
	forge.Round(r, app, further)
	uid := s.Released(r.Push("HEAD:main"), app)
	site.WantServed(s.T, s, app, "/", forge.PageOf(app, further))
	site.WantServed(s.T, s, app+"--"+string(uid), "/app.js", forge.ScriptOf(app, further))
}

// A stopped server's folder is backed up as well, and a running one's is not touched past the server.
func TestBackupOffline(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App(forge.NearApp))
	forge.Round(r, forge.NearApp, 1)
	uid := s.Released(r.Push("main"), forge.NearApp)
	archive := filepath.Join(t.TempDir(), "landfall.tar.zst")
	offline := func() (string, int) {
		path, err := site.Binary()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "backup", "--offline", archive)
		cmd.Env = append(append(os.Environ(), "LANDFALL_DATA="+s.Data), s.Env...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := offline(); code != site.ExitConflict || !strings.Contains(out, "another landfall process") {
		t.Errorf("beside a running server: got %d %s, want %d and why", code, out, site.ExitConflict)
	}
	if left, err := os.ReadDir(filepath.Dir(archive)); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v left behind, want nothing", left, err)
	}
	s.Stop()
	if out, code := offline(); code != 0 || !strings.Contains(out, "1 repository") {
		t.Fatalf("got %d %s, want the totals", code, out)
	}
	if info, err := os.Stat(archive); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file for its user only", info, err)
	}
	c := site.Restored(t, archive)
	site.WantServed(t, c, forge.NearApp+"--"+string(uid), "/", forge.PageOf(forge.NearApp, 1))
	if out, code := c.Restore(archive); code != site.ExitConflict || !strings.Contains(out, "not empty") {
		t.Errorf("restoring over an installation: got %d %s, want %d and why", code, out, site.ExitConflict)
	}
	site.WantServed(t, c, forge.NearApp, "/", forge.PageOf(forge.NearApp, 1))
}

// A server does not start on what a restore left that was killed in the middle.
func TestRestoreKilled(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App(forge.NearApp))
	large := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // it cannot be compressed, so the archive has many blocks
	r.Write("site/large", string(large))
	forge.Round(r, forge.NearApp, 1)
	r.Push("main")
	archive := filepath.Join(t.TempDir(), "landfall.tar.zst")
	if out, code := s.Run(t.TempDir(), "backup", archive); code != 0 {
		t.Fatalf("landfall backup: %d\n%s", code, out)
	}
	whole, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	path, err := site.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c := &site.Site{T: t, Engine: site.NewEngine(t), Data: filepath.Join(t.TempDir(), "restored"), Port: site.FreePort(t)}
	c.Env = c.Engine.Settings()
	cmd := exec.Command(path, "restore", "-")
	cmd.Env = append(append(os.Environ(), "LANDFALL_DATA="+c.Data), c.Env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(whole[:len(whole)-1]); err != nil { // it waits for the last byte
		t.Fatal(err)
	}
	c.Eventually("the restore is at its work", func() bool {
		_, err := os.Stat(filepath.Join(c.Data, "restoring"))
		return err == nil
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.Start()
	c.Dies()
	testkit.Contains(t, c.Log, "that did not end", "restore again")
	if out, code := c.Restore(archive); code != site.ExitConflict || !strings.Contains(out, "did not end") {
		t.Errorf("restoring into the same folder: got %d %s, want %d and what to do", code, out, site.ExitConflict)
	}
}
