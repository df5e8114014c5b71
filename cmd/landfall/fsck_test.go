package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// fsckResult is what landfall fsck prints for programs.
type fsckResult struct {
	Findings []landfall.Finding `json:"findings"`
	Checked  *landfall.Checked  `json:"checked"`
}

// fsck goes over everything, and returns what it found and its exit code.
func (s *site) fsck(args ...string) (fsckResult, int) {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"fsck", "-o", "json"}, args...)...)
	cmd.Env = append(append(os.Environ(), "LANDFALL_SERVER="+s.URL, "LANDFALL_TOKEN="+s.Token, "LANDFALL_DATA="+s.data), s.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, _ := cmd.Output()
	if len(out) == 0 {
		s.t.Fatalf("landfall fsck %s: %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), &stderr)
	}
	return decode[fsckResult](s.t, out), cmd.ProcessState.ExitCode()
}

// A check that was broken off is no report that all is well: it has what was found, and does not say that it is all.
func TestFsckBrokenOff(t *testing.T) {
	t.Parallel()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	const finding = `{"finding":{"what":"object","key":"apps/a","problem":"it is gone"}}`
	for what, answered := range map[string]string{"at once": "", "after a finding": finding} {
		hangsUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, answered)
		}))
		t.Cleanup(hangsUp.Close)
		for _, format := range []string{"", "json"} {
			cmd := exec.Command(path, "fsck", "--output", format)
			cmd.Env = append(os.Environ(), "LANDFALL_SERVER="+hangsUp.URL, "LANDFALL_TOKEN=token")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err == nil || cmd.ProcessState.ExitCode() != exitUnavailable || !strings.HasPrefix(stderr.String(), "landfall: ") {
				t.Errorf("broken off %s: got %d and %q", what, cmd.ProcessState.ExitCode(), &stderr)
			}
			if said := string(out); strings.Contains(said, "checked") || strings.Contains(said, "it is gone") != (answered != "") ||
				(answered == "" && said != "") {
				t.Errorf("broken off %s: got %q, want what was found and no more", what, said)
			}
		}
	}
}

// wantWhole fails the test unless nothing is damaged.
func (s *site) wantWhole(args ...string) {
	s.t.Helper()
	if result, code := s.fsck(args...); code != 0 || len(result.Findings) > 0 || result.Checked == nil || result.Checked.Objects == 0 {
		s.t.Errorf("fsck: got %d %+v, want 0 and nothing damaged of some objects", code, result)
	}
}

// wantNamed fails the test unless a damage of this kind is found that names the app and the key.
func (s *site) wantNamed(what, app, key string, args ...string) landfall.Finding {
	s.t.Helper()
	result, code := s.fsck(args...)
	if code != 1 {
		s.t.Errorf("fsck: got the exit code %d, want 1", code)
	}
	for _, f := range result.Findings {
		if f.What == what && f.App == app && strings.Contains(f.Key, key) && f.Problem != "" && f.Remedy != "" {
			return f
		}
	}
	s.t.Errorf("fsck: got %+v, want a damaged %s of %q named %q", result.Findings, what, app, key)
	return landfall.Finding{}
}

// damage is a way in which bytes become other ones.
type damage struct {
	name string
	do   func(data []byte) []byte
}

// damages are some, by a generator of a test's own.
func damages(random *rand.Rand) []damage {
	return []damage{
		{"a bit flipped", func(data []byte) []byte {
			data = slices.Clone(data)
			data[random.IntN(len(data))] ^= 1 << random.IntN(8)
			return data
		}},
		{"cut off", func(data []byte) []byte { return slices.Clone(data[:random.IntN(len(data))]) }},
		{"zeros", func(data []byte) []byte {
			data = slices.Clone(data)
			at := random.IntN(len(data))
			if data[at] == 0 {
				data[at] = 1
			}
			clear(data[at+1:])
			data[at] ^= 0xff
			return data
		}},
	}
}

// replaceObject puts other bytes where an object lies, as a disk or a bucket would that loses some.
func (s *site) replaceObject(key string, change func([]byte) []byte) {
	s.t.Helper()
	objects, err := s.openObjects()
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	ctx := context.Background()
	object, err := objects.Open(ctx, key)
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := io.ReadAll(object)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = object.Close()
	data = change(data)
	if err := objects.Delete(ctx, key); err != nil {
		s.t.Fatal(err)
	}
	if _, err := objects.Create(ctx, key, bytes.NewReader(data), int64(len(data))); err != nil {
		s.t.Fatal(err)
	}
}

// Objects, manifests and archives of which bytes were lost are never served, are named by fsck, and are stored again by a run that
// rebuilds.
func TestDamagedObjects(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app(nearApp))
	random := rand.New(rand.NewPCG(12, 24))
	ways := damages(random)
	keys := []string{"/index.html", "/app.js", ".manifest.json", "deploy.zip", "source.zip"}
	for i := range dose(t, 7, 21) {
		r.round(nearApp, i+1)
		uid := s.released(r.push("main"), nearApp)
		s.wantWhole()
		way, name := ways[i%len(ways)], keys[i%len(keys)]
		key := keyOf(s.stored(nearApp), uid, name)
		s.stop() // what it has in its memory is no test
		if err := os.RemoveAll(filepath.Join(s.data, "cache", "gateway")); err != nil {
			t.Fatal(err)
		}
		s.replaceObject(key, way.do)
		s.start()
		what := map[bool]string{true: "archive", false: "object"}[strings.HasSuffix(name, ".zip")]
		if name == ".manifest.json" {
			what = "manifest"
		}
		f := s.wantNamed(what, nearApp, key)
		if t.Failed() {
			t.Fatalf("round %d: %s of %s", i, way.name, key)
		}
		for path, want := range map[string]string{"/": pageOf(nearApp, i+1), "/app.js": scriptOf(nearApp, i+1)} {
			p := s.get(s.at(nearApp+"--"+string(uid), path))
			hit := what == "manifest" || (what == "object" && (path == "/") == (name == "/index.html"))
			if hit && p.status != http.StatusBadGateway || !hit && (p.status != http.StatusOK || p.body != want) {
				t.Errorf("round %d, %s of %s: %s got %d %.100q", i, way.name, key, path, p.status, p.body)
			}
			if p.status == http.StatusOK && p.body != want {
				t.Errorf("round %d, %s of %s: %s served other bytes", i, way.name, key, path)
			}
		}
		// What to do is a command that does it.
		words := strings.Fields(f.Remedy)
		if out, code := s.run(t.TempDir(), words[1:]...); code != 0 {
			t.Fatalf("%s: %d\n%s", f.Remedy, code, out)
		}
		s.quietRuns(nearApp)
		wantServed(t, s, nearApp+"--"+string(uid), "/", pageOf(nearApp, i+1))
		wantServed(t, s, nearApp+"--"+string(uid), "/app.js", scriptOf(nearApp, i+1))
		s.wantWhole()
		if t.Failed() {
			t.Fatalf("round %d: %s of %s", i, way.name, key)
		}
	}
}

// keyOf returns the key of a file that a release stored.
func keyOf(keys []string, uid landfall.UID, name string) string {
	for _, key := range keys {
		ours := strings.Contains(key, "/static/root/") || strings.HasSuffix(key, ".zip")
		if ours && strings.Contains(key, "/"+string(uid)+"/") && strings.HasSuffix(key, name) {
			return key
		}
	}
	return ""
}

// quietRuns waits until every run of an app is over.
func (s *site) quietRuns(app string) {
	s.t.Helper()
	s.eventually("every run is over", func() bool {
		return !slices.ContainsFunc(list[client.Run](s, "/runs?limit=1000&app="+app), func(r client.Run) bool { return !r.State.Final() })
	})
}

// A push after a damage does not fail for it, and does not count on what is damaged: a manifest that cannot be read is not shared.
func TestPushAfterDamage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app(nearApp))
	r.round(nearApp, 1)
	first := s.released(r.push("main"), nearApp)
	stored := s.stored(nearApp)
	s.stop()
	s.replaceObject(keyOf(stored, first, ".manifest.json"), func(data []byte) []byte { return data[:len(data)/2] })
	s.start()
	r.round(nearApp, 2)
	uid := s.released(r.push("main"), nearApp)
	wantServed(t, s, nearApp, "/", pageOf(nearApp, 2))
	wantServed(t, s, nearApp+"--"+string(uid), "/app.js", scriptOf(nearApp, 2))
	wantServed(t, s, nearApp+"--"+string(uid), "/fixed/logo.svg", "<svg/>")
}

// What a build made and is kept may be damaged: the next run that needs it notices, and builds it again.
func TestDamagedBuild(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/app.yaml", appSpec("shop", "build: {command: mkdir site && cp page site/index.html, inputs: [page], outputs: [site]}"), "page", "built")
	s.pushed(r, "shop", "one")
	kept, err := filepath.Glob(filepath.Join(s.data, "cache", "builds", "*", "*", "site", "index.html"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("got the kept files %q, %v, want one", kept, err)
	}
	if err := os.WriteFile(kept[0], []byte("BUILT"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.wantNamed("build", "shop", "index.html")
	// A unit at another path makes the file travel again.
	r.write("specs/app.yaml", strings.Replace(appSpec("shop", "build: {command: mkdir site && cp page site/index.html, inputs: [page], outputs: [site]}"),
		"{src: site, path: /}", "{src: site, path: /again}", 1))
	uid := s.pushed(r, "shop", "two")
	wantServed(t, s, "shop--"+string(uid), "/again/", "built")
	s.wantWhole()
}

// A package whose build is kept is never archived with other bytes than the build made.
func TestDamagedPackageBuild(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app(nearApp))
	r.round(nearApp, 1)
	r.push("main")
	kept, err := filepath.Glob(filepath.Join(s.data, "cache", "builds", "*", "*", "deploy", "main.py"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("got the kept files %q, %v, want one", kept, err)
	}
	whole, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept[0], bytes.ToUpper(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	// Another package of the same files, built by the same command.
	_, functions, _ := strings.Cut(twinSpec, "---\n")
	r.write("specs/other.yaml", strings.ReplaceAll(functions, "APP", "other"))
	s.pushed(r, nearApp, "another package")
	var archives [][]byte
	objects, err := s.openObjects()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	for _, key := range s.stored(nearApp) {
		if strings.HasSuffix(key, "/deploy.zip") {
			object, err := objects.Open(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			archives = append(archives, must(io.ReadAll(object))(t))
			_ = object.Close()
		}
	}
	if len(archives) != 2 || !bytes.Equal(archives[0], archives[1]) {
		t.Errorf("got %d archives, want two with the same bytes", len(archives))
	}
}

// A reference of a built-in repository that cannot be read is not taken for a deleted branch when the server starts.
func TestDamagedReference(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	app := s.app(nearApp)
	r := s.repository(app)
	r.round(nearApp, 1)
	r.push("main")
	r.push("main:preview")
	before := s.tagged(nearApp)
	repositories, err := filepath.Glob(filepath.Join(s.data, "git", "*.git"))
	if err != nil || len(repositories) != 1 {
		t.Fatalf("got the repositories %q, %v, want one", repositories, err)
	}
	reference := filepath.Join(repositories[0], "refs", "heads", "preview")
	for _, content := range []string{"", "garbage\n"} {
		s.stop()
		if err := os.WriteFile(reference, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		wantEqual(t, "the tag of the branch whose reference is damaged", s.tagged(nearApp)["branch-preview"], before["branch-preview"])
		f := s.wantNamed("repository", nearApp, filepath.Base(repositories[0]))
		wantEqual(t, "what to do", f.Remedy, "write "+string(r.head())+" into "+reference)
	}
	if err := os.WriteFile(reference, []byte(r.head()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.wantWhole()
	r.round(nearApp, 2)
	r.push("main")
	wantServed(t, s, nearApp, "/", pageOf(nearApp, 2))
}

// A pack of a built-in repository of which bytes were lost is named, and no release is made of it.
func TestDamagedPack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app(nearApp))
	r.round(nearApp, 1)
	r.push("main")
	s.stop()
	repositories, err := filepath.Glob(filepath.Join(s.data, "git", "*.git"))
	if err != nil || len(repositories) != 1 {
		t.Fatalf("got the repositories %q, %v, want one", repositories, err)
	}
	bare := &repository{t, repositories[0]}
	bare.git("repack", "-adq")
	random := rand.New(rand.NewPCG(1, 2))
	packs, err := filepath.Glob(filepath.Join(repositories[0], "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("got the packs %q, %v, want one", packs, err)
	}
	whole, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(packs[0], 0o600); err != nil {
		t.Fatal(err)
	}
	ways := damages(random)
	for i := range dose(t, 3, 3) {
		way := ways[i%len(ways)]
		if err := os.WriteFile(packs[0], way.do(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		s.wantNamed("repository", nearApp, filepath.Base(repositories[0]), "--offline")
		if t.Failed() {
			t.Fatalf("round %d: %s", i, way.name)
		}
	}
	s.start()
	wantServed(t, s, nearApp, "/", pageOf(nearApp, 1)) // releases do not need it
	if err := os.WriteFile(packs[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s.wantWhole()
}

// wantNothingElse fails the test when the server serves anything but the first round of an app. Its error says that the server
// does not answer.
func (s *site) wantNothingElse(uid landfall.UID, why string) error {
	s.t.Helper()
	for path, want := range map[string]string{"/": pageOf(nearApp, 1), "/app.js": scriptOf(nearApp, 1)} {
		for _, host := range []string{nearApp, nearApp + "--" + string(uid)} {
			p, err := tryGet(s.at(host, path))
			if err != nil {
				return err
			}
			if p.status == http.StatusOK && p.body != want {
				s.t.Errorf("%s: %s%s served %.200q", why, host, path, p.body)
			}
		}
	}
	return nil
}

// A database file of which bytes were lost never makes the server serve what is not a release's own: it does not start, or answers
// with an error, or with the right bytes. When the file is cut off fsck says so.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, engine{}) // PostgreSQL's files are PostgreSQL's
	r := s.repository(s.app(nearApp))
	r.round(nearApp, 1)
	uid := s.released(r.push("main"), nearApp)
	s.stop()
	s.wantWhole("--offline")
	file := filepath.Join(s.data, "landfall.db")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	ways := damages(random)
	for i := range dose(t, 6, 6) {
		way := ways[i%len(ways)]
		if err := os.WriteFile(file, way.do(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		unanswered := s.wantNothingElse(uid, way.name)
		if unanswered == nil {
			_ = s.cmd.Process.Kill()
		}
		select {
		case <-s.done:
		case <-time.After(patience):
			t.Fatalf("round %d, %s: the server neither answers nor ends: %v", i, way.name, unanswered)
		}
		if unanswered != nil {
			wantText(t, s.log, "landfall: ") // it says what is wrong
		}
	}
	for _, rest := range []string{"-wal", "-shm"} {
		_ = os.Remove(file + rest)
	}
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "fsck", "--offline")
	cmd.Env = append(append(os.Environ(), "LANDFALL_DATA="+s.data), s.env...)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() == 0 || !strings.Contains(string(out), "database") {
		t.Errorf("fsck of half a database: got %d %s, want it named", cmd.ProcessState.ExitCode(), out)
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	wantServed(t, s, nearApp, "/", pageOf(nearApp, 1))
}
