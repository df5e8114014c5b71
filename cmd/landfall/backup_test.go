package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/backup"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// restored restores an archive into places of the test's own, of the kind that the test runs on, and starts a server there.
func restored(t *testing.T, archive string) *site {
	t.Helper()
	s := &site{t: t, engine: newEngine(t), data: filepath.Join(t.TempDir(), "restored"), port: freePort(t)}
	s.env = s.engine.settings()
	s.Client = &client.Client{URL: "http://localhost:" + s.port}
	if out, code := s.restore(archive); code != 0 {
		t.Fatalf("landfall restore: %d\n%s", code, out)
	}
	s.start()
	token, err := os.ReadFile(filepath.Join(s.data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	s.Token = strings.TrimSpace(string(token))
	t.Cleanup(s.stop)
	return s
}

// restore runs landfall restore with the settings of the site.
func (s *site) restore(archive string) (out string, code int) {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(path, "restore", archive)
	cmd.Env = append(append(os.Environ(), "LANDFALL_DATA="+s.data), s.env...)
	data, _ := cmd.CombinedOutput()
	return string(data), cmd.ProcessState.ExitCode()
}

// A backup of a process that does not own the database, or not any more when it ends, is none to whoever reads it: somebody else may
// have collected meanwhile.
func TestBackupIsTheOwners(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	s := serverAt(t, address, map[string]string{})
	defer func() { _ = s.Close() }()
	other := storetest.Open(t, address)
	want := func(what, problem string) {
		t.Helper()
		var archive bytes.Buffer
		err := s.Backup(t.Context(), &archive, true)
		_, _, read := backup.Reader{}.Read(t.Context(), &archive)
		if problem == "" {
			if err != nil || read != nil {
				t.Errorf("%s: got %v, and %v of who read it, want none", what, err, read)
			}
			return
		}
		if err == nil || read == nil || !strings.Contains(landfall.MessageOf(read), problem) {
			t.Errorf("%s: got %v, and %v of who read it, want %q", what, err, read, problem)
		}
	}
	want("before it owns the database", "this process does not own the database")
	stop := owning(t, s.db)
	want("the owner", "")
	stopOther := func() {}
	objects := s.objects
	s.objects = listed{objects, func() {
		stop()
		stopOther = owning(t, other)
	}}
	want("replaced before the end", "another landfall process owns the database")
	s.objects = objects
	stopOther()
}

// Whoever asks for a backup and stops reading it holds collection up for a while, and not for ever.
func TestBackupPaused(t *testing.T) {
	t.Parallel()
	config, err := loadConfig(os.DevNull, func(name string) string {
		return map[string]string{"LANDFALL_TOKEN": strings.Repeat("t", minToken)}[name]
	},
		map[string]string{"DATA": t.TempDir(), "LISTEN": "127.0.0.1:0", "SANDBOX": "off"})
	if err != nil {
		t.Fatal(err)
	}
	config.StallTimeout = time.Second
	log := &logtest.Buffer{}
	s, err := newServer(t.Context(), config, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.storeTokens(t.Context()); err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 32<<20) // more than connections hold
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	if err := os.WriteFile(filepath.Join(config.Data, tokenFile), large, 0o600); err != nil {
		t.Fatal(err)
	}
	serves := httptest.NewServer(s.handler)
	defer serves.Close()
	conn, err := net.Dial("tcp", serves.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "GET /api/v1/backup HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", s.config.URL.Host, config.Token)
	if line, err := bufio.NewReaderSize(conn, 1).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("got %q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.pipeline.Uncollected(ctx, func() error { return nil }); err != nil {
		t.Errorf("nothing is collected while nobody reads: %v", err)
	}
	serves.Close() // the request is over
	wantText(t, log, "a backup was broken off", "has read nothing of the answer for 1s")
}

// owning makes a process own a database until it is stopped.
func owning(t *testing.T, db *store.DB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	owned, ended := make(chan bool, 1), make(chan error, 1)
	go func() { ended <- db.Own(ctx, func() { owned <- true }) }()
	select {
	case <-owned:
	case err := <-ended:
		t.Fatalf("it does not own the database: %v", err)
	}
	return func() {
		cancel()
		<-ended
	}
}

// listed is objects of which something happens when they are listed.
type listed struct {
	objectStore

	happens func()
}

func (l listed) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	l.happens()
	return l.objectStore.List(ctx, prefix)
}

// A backup that is made while pushes, promotions and collections go on is restored elsewhere, as what was there at a moment
// after the backup began: everything that it names is there and is its own, unfinished runs go on, and pushes come in.
func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app(nearApp))
	r.round(nearApp, 1)
	first := s.released(r.push("main"), nearApp)
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
			r.round(nearApp, n)
			out, err := r.try("push", "origin", "main")
			uid, ok := s.releasedIn(toldBy(out), nearApp)
			if err != nil || !ok {
				t.Errorf("a push while a backup was made: %v\n%s", err, out)
				return
			}
			pushed.Lock()
			rounds[uid] = n
			pushed.Unlock()
		}
	}()
	f := s.repository(s.app(farApp))
	var ends []landfall.UID // the pointers of another app move between two releases
	for n := range 2 {
		f.round(farApp, n+1)
		ends = append(ends, s.released(f.push("main"), farApp))
	}
	for i := range dose(t, 3, 10) {
		archive := filepath.Join(archives, fmt.Sprint(i))
		before, moved := s.showApp(nearApp).Live, s.moves(farApp)
		var moving sync.WaitGroup
		moving.Go(func() { s.moveBetween(farApp, ends[0], ends[1]) })
		if out, code := s.run(archives, "backup", archive); code != 0 {
			t.Fatalf("landfall backup: %d\n%s", code, out)
		}
		moving.Wait()
		c := restored(t, archive)
		c.wantMoved(farApp, moved, s.moves(farApp))
		c.wantNotBefore(nearApp, before, func(uid landfall.UID) int {
			pushed.Lock()
			defer pushed.Unlock()
			return rounds[uid]
		})
		wantSound(t, c, true)
		if t.Failed() {
			break
		}
	}
	close(stop)
	<-stopped
}

// moveBetween goes back to an app's first release, and on to its second one, and tags them.
func (s *site) moveBetween(app string, first, second landfall.UID) {
	s.t.Helper()
	for _, args := range [][]string{
		{"rollback", app, string(first)}, {"tag", app, string(first), "v1"}, {"live", app, string(second)}, {"tag", app, string(second), "v1"},
	} {
		if out, code := s.run(s.data, append([]string{"release"}, args...)...); code != 0 {
			s.t.Errorf("landfall release %v while a backup was made: %d\n%s", args, code, out)
		}
	}
}

// moves returns every move of an app's live release and tags, oldest first.
func (s *site) moves(app string) []client.Move {
	s.t.Helper()
	all := list[client.Move](s, "/apps/"+app+"/moves?limit=1000")
	slices.Reverse(all)
	return all
}

// wantMoved fails the test unless the moves are those that there were at a moment after the backup began, and the pointers are
// where the last ones left them.
func (s *site) wantMoved(app string, before, after []client.Move) {
	s.t.Helper()
	got := s.moves(app)
	if len(got) < len(before) || len(got) > len(after) || !reflect.DeepEqual(got, after[:len(got)]) {
		s.t.Errorf("got %d moves: %+v\nwant the first ones, at least %d, of %+v", len(got), got, len(before), after)
	}
	at := map[string]landfall.UID{}
	for _, m := range got {
		at[m.Pointer] = m.To
	}
	wantEqual(s.t, "what is live", s.showApp(app).Live, at[landfall.LivePointer])
	for pointer, uid := range at {
		host := app
		if tag, ok := strings.CutPrefix(pointer, "tag "); ok {
			host += "--" + tag
		}
		wantServed(s.t, s, host, "/", s.get(s.at(app+"--"+string(uid), "/")).body)
	}
}

// wantNotBefore fails the test unless live is at least what it was before the backup began, every release serves its own round,
// and pushes come in.
func (s *site) wantNotBefore(app string, before landfall.UID, roundOf func(landfall.UID) int) {
	s.t.Helper()
	s.eventually("every run is over", func() bool {
		for _, run := range list[client.Run](s, "/runs?limit=1000&app="+app) {
			if !run.State.Final() {
				return false
			}
		}
		return true
	})
	live := s.showApp(app).Live
	if live == "" {
		s.t.Fatalf("nothing is live; it was %s before the backup", before)
	}
	last := 0
	for _, uid := range s.accessible(app) {
		n := 0
		page := s.get(s.at(app+"--"+string(uid), "/")).body
		if _, err := fmt.Sscanf(page, pageFormat(app), &n); err != nil {
			s.t.Errorf("the release %s answers %.200q", uid, page)
			continue
		}
		if known := roundOf(uid); known != 0 && known != n {
			s.t.Errorf("the release %s answers round %d, and is round %d", uid, n, known)
		}
		wantServed(s.t, s, app+"--"+string(uid), "/app.js", scriptOf(app, n))
		wantServed(s.t, s, app+"--"+string(uid), "/fixed/logo.svg", "<svg/>")
		if uid == live {
			last = n
		}
	}
	if known := roundOf(before); last < known {
		s.t.Errorf("live is round %d, and was round %d before the backup began", last, known)
	}
	var found client.App
	s.call(http.MethodGet, "/apps/"+app, nil, &found)
	r := s.repository(found)
	r.git("fetch", "--quiet", "origin")
	r.git("reset", "--quiet", "--hard", "origin/main")
	const further = 100_000
	r.round(app, further)
	uid := s.released(r.push("HEAD:main"), app)
	wantServed(s.t, s, app, "/", pageOf(app, further))
	wantServed(s.t, s, app+"--"+string(uid), "/app.js", scriptOf(app, further))
}

// A stopped server's folder is backed up as well, and a running one's is not touched past the server.
func TestBackupOffline(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app(nearApp))
	r.round(nearApp, 1)
	uid := s.released(r.push("main"), nearApp)
	archive := filepath.Join(t.TempDir(), "landfall.tar.zst")
	offline := func() (string, int) {
		path, err := binary()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "backup", "--offline", archive)
		cmd.Env = append(append(os.Environ(), "LANDFALL_DATA="+s.data), s.env...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := offline(); code != exitConflict || !strings.Contains(out, "another landfall process") {
		t.Errorf("beside a running server: got %d %s, want %d and why", code, out, exitConflict)
	}
	if left, err := os.ReadDir(filepath.Dir(archive)); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v left behind, want nothing", left, err)
	}
	s.stop()
	if out, code := offline(); code != 0 || !strings.Contains(out, "1 repository") {
		t.Fatalf("got %d %s, want the totals", code, out)
	}
	if info, err := os.Stat(archive); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file for its user only", info, err)
	}
	c := restored(t, archive)
	wantServed(t, c, nearApp+"--"+string(uid), "/", pageOf(nearApp, 1))
	if out, code := c.restore(archive); code != exitConflict || !strings.Contains(out, "not empty") {
		t.Errorf("restoring over an installation: got %d %s, want %d and why", code, out, exitConflict)
	}
	wantServed(t, c, nearApp, "/", pageOf(nearApp, 1))
}

// A server does not start on what a restore left that was killed in the middle.
func TestRestoreKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app(nearApp))
	large := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // it cannot be compressed, so the archive has many blocks
	r.write("site/large", string(large))
	r.round(nearApp, 1)
	r.push("main")
	archive := filepath.Join(t.TempDir(), "landfall.tar.zst")
	if out, code := s.run(t.TempDir(), "backup", archive); code != 0 {
		t.Fatalf("landfall backup: %d\n%s", code, out)
	}
	whole, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	c := &site{t: t, engine: newEngine(t), data: filepath.Join(t.TempDir(), "restored"), port: freePort(t)}
	c.env = c.engine.settings()
	cmd := exec.Command(path, "restore", "-")
	cmd.Env = append(append(os.Environ(), "LANDFALL_DATA="+c.data), c.env...)
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
	c.eventually("the restore is at its work", func() bool {
		_, err := os.Stat(filepath.Join(c.data, "restoring"))
		return err == nil
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.start()
	c.dies()
	wantText(t, c.log, "that did not end", "restore again")
	if out, code := c.restore(archive); code != exitConflict || !strings.Contains(out, "did not end") {
		t.Errorf("restoring into the same folder: got %d %s, want %d and what to do", code, out, exitConflict)
	}
}
