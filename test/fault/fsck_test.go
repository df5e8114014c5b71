package fault_test

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
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/machine"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A check that was broken off is no report that all is well: it has what was found, and does not say that it is all.
func TestFsckBrokenOff(t *testing.T) {
	t.Parallel()
	path, err := site.Binary()
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
			if err == nil || cmd.ProcessState.ExitCode() != site.ExitUnavailable ||
				!strings.HasPrefix(stderr.String(), "landfall: ") {
				t.Errorf("broken off %s: got %d and %q", what, cmd.ProcessState.ExitCode(), &stderr)
			}
			if said := string(out); strings.Contains(said, "checked") ||
				strings.Contains(said, "it is gone") != (answered != "") ||
				(answered == "" && said != "") {
				t.Errorf("broken off %s: got %q, want what was found and no more", what, said)
			}
		}
	}
}

// wantNamed fails the test unless a damage of this kind is found that names the app and the key.
func wantNamed(s *site.Site, what, app, key string, args ...string) landfall.Finding {
	s.T.Helper()
	result, code := s.Fsck(args...)
	if code != 1 {
		s.T.Errorf("fsck: got the exit code %d, want 1", code)
	}
	for _, f := range result.Findings {
		if f.What == what && f.App == app && strings.Contains(f.Key, key) && f.Problem != "" && f.Remedy != "" {
			return f
		}
	}
	s.T.Errorf("fsck: got %+v, want a damaged %s of %q named %q", result.Findings, what, app, key)
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
func replaceObject(s *site.Site, key string, change func([]byte) []byte) {
	s.T.Helper()
	objects, err := s.OpenObjects()
	if err != nil {
		s.T.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	ctx := context.Background()
	object, err := objects.Open(ctx, key)
	if err != nil {
		s.T.Fatal(err)
	}
	data, err := io.ReadAll(object)
	if err != nil {
		s.T.Fatal(err)
	}
	_ = object.Close()
	data = change(data)
	if err := objects.Delete(ctx, key); err != nil {
		s.T.Fatal(err)
	}
	if _, err := objects.Create(ctx, key, bytes.NewReader(data), int64(len(data))); err != nil {
		s.T.Fatal(err)
	}
}

// Objects, manifests and archives of which bytes were lost are never served, are named by fsck, and are stored again by
// a run that rebuilds.
func TestDamagedObjects(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App(forge.NearApp))
	random := rand.New(rand.NewPCG(12, 24))
	ways := damages(random)
	keys := []string{"/index.html", "/app.js", ".manifest.json", "deploy.zip", "source.zip"}
	for i := range machine.Dose(t, 7, 21) {
		forge.Round(r, forge.NearApp, i+1)
		uid := s.Released(r.Push("main"), forge.NearApp)
		s.WantWhole()
		way, name := ways[i%len(ways)], keys[i%len(keys)]
		key := keyOf(s.Stored(forge.NearApp), uid, name)
		s.Stop() // what it has in its memory is no test
		if err := os.RemoveAll(filepath.Join(s.Data, "cache", "gateway")); err != nil {
			t.Fatal(err)
		}
		replaceObject(s, key, way.do)
		s.Start()
		what := map[bool]string{true: "archive", false: "object"}[strings.HasSuffix(name, ".zip")]
		if name == ".manifest.json" {
			what = "manifest"
		}
		f := wantNamed(s, what, forge.NearApp, key)
		if t.Failed() {
			t.Fatalf("round %d: %s of %s", i, way.name, key)
		}
		for path, want := range map[string]string{"/": forge.PageOf(forge.NearApp, i+1),
			"/app.js": forge.ScriptOf(forge.NearApp, i+1)} {
			p := s.Get(s.At(forge.NearApp+"--"+string(uid), path))
			hit := what == "manifest" || (what == "object" && (path == "/") == (name == "/index.html"))
			if hit && p.Status != http.StatusBadGateway || !hit && (p.Status != http.StatusOK || p.Body != want) {
				t.Errorf("round %d, %s of %s: %s got %d %.100q", i, way.name, key, path, p.Status, p.Body)
			}
			if p.Status == http.StatusOK && p.Body != want {
				t.Errorf("round %d, %s of %s: %s served other bytes", i, way.name, key, path)
			}
		}
		// What to do is a command that does it.
		words := strings.Fields(f.Remedy)
		if out, code := s.Run(t.TempDir(), words[1:]...); code != 0 {
			t.Fatalf("%s: %d\n%s", f.Remedy, code, out)
		}
		quietRuns(s, forge.NearApp)
		site.WantServed(t, s, forge.NearApp+"--"+string(uid), "/", forge.PageOf(forge.NearApp, i+1))
		site.WantServed(t, s, forge.NearApp+"--"+string(uid), "/app.js", forge.ScriptOf(forge.NearApp, i+1))
		s.WantWhole()
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
func quietRuns(s *site.Site, app string) {
	s.T.Helper()
	s.Eventually("every run is over", func() bool {
		return !slices.ContainsFunc(site.List[client.Run](s, "/runs?limit=1000&app="+app), func(r client.Run) bool {
			return !r.State.Final()
		})
	})
}

// A push after a damage does not fail for it, and does not count on what is damaged: a manifest that cannot be read is
// not shared.
func TestPushAfterDamage(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App(forge.NearApp))
	forge.Round(r, forge.NearApp, 1)
	first := s.Released(r.Push("main"), forge.NearApp)
	stored := s.Stored(forge.NearApp)
	s.Stop()
	replaceObject(s, keyOf(stored, first, ".manifest.json"), func(data []byte) []byte { return data[:len(data)/2] })
	s.Start()
	forge.Round(r, forge.NearApp, 2)
	uid := s.Released(r.Push("main"), forge.NearApp)
	site.WantServed(t, s, forge.NearApp, "/", forge.PageOf(forge.NearApp, 2))
	site.WantServed(t, s, forge.NearApp+"--"+string(uid), "/app.js", forge.ScriptOf(forge.NearApp, 2))
	site.WantServed(t, s, forge.NearApp+"--"+string(uid), "/fixed/logo.svg", "<svg/>")
}

// What a build made and is kept may be damaged: the next run that needs it notices, and builds it again.
func TestDamagedBuild(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/app.yaml", site.AppSpec("shop",
		"build: {command: mkdir site && cp page site/index.html, inputs: [page], outputs: [site]}"), "page", "built")
	s.Pushed(r, "shop", "one")
	kept, err := filepath.Glob(filepath.Join(s.Data, "cache", "builds", "*", "*", "site", "index.html"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("got the kept files %q, %v, want one", kept, err)
	}
	if err := os.WriteFile(kept[0], []byte("BUILT"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantNamed(s, "build", "shop", "index.html")
	// A unit at another path makes the file travel again.
	r.Write("specs/app.yaml", strings.Replace(site.AppSpec("shop",
		"build: {command: mkdir site && cp page site/index.html, inputs: [page], outputs: [site]}"),
		"{src: site, path: /}", "{src: site, path: /again}", 1))
	uid := s.Pushed(r, "shop", "two")
	site.WantServed(t, s, "shop--"+string(uid), "/again/", "built")
	s.WantWhole()
}

// A package whose build is kept is never archived with other bytes than the build made.
func TestDamagedPackageBuild(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App(forge.NearApp))
	forge.Round(r, forge.NearApp, 1)
	r.Push("main")
	kept, err := filepath.Glob(filepath.Join(s.Data, "cache", "builds", "*", "*", "deploy", "main.py"))
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
	_, functions, _ := strings.Cut(forge.TwinSpec, "---\n")
	r.Write("specs/other.yaml", strings.ReplaceAll(functions, "APP", "other"))
	s.Pushed(r, forge.NearApp, "another package")
	var archives [][]byte
	objects, err := s.OpenObjects()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	for _, key := range s.Stored(forge.NearApp) {
		if strings.HasSuffix(key, "/deploy.zip") {
			object, err := objects.Open(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			archives = append(archives, testkit.Must(io.ReadAll(object))(t))
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
	s := site.New(t)
	app := s.App(forge.NearApp)
	r := s.Repository(app)
	forge.Round(r, forge.NearApp, 1)
	r.Push("main")
	r.Push("main:preview")
	before := s.Tagged(forge.NearApp)
	repositories, err := filepath.Glob(filepath.Join(s.Data, "git", "*.git"))
	if err != nil || len(repositories) != 1 {
		t.Fatalf("got the repositories %q, %v, want one", repositories, err)
	}
	reference := filepath.Join(repositories[0], "refs", "heads", "preview")
	for _, content := range []string{"", "garbage\n"} {
		s.Stop()
		if err := os.WriteFile(reference, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Start()
		testkit.Equal(t, "the tag of the branch whose reference is damaged", s.Tagged(forge.NearApp)["branch-preview"],
			before["branch-preview"])
		f := wantNamed(s, "repository", forge.NearApp, filepath.Base(repositories[0]))
		testkit.Equal(t, "what to do", f.Remedy, "write "+string(r.Head())+" into "+reference)
	}
	if err := os.WriteFile(reference, []byte(r.Head()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.WantWhole()
	forge.Round(r, forge.NearApp, 2)
	r.Push("main")
	site.WantServed(t, s, forge.NearApp, "/", forge.PageOf(forge.NearApp, 2))
}

// A pack of a built-in repository of which bytes were lost is named, and no release is made of it.
func TestDamagedPack(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App(forge.NearApp))
	forge.Round(r, forge.NearApp, 1)
	r.Push("main")
	s.Stop()
	repositories, err := filepath.Glob(filepath.Join(s.Data, "git", "*.git"))
	if err != nil || len(repositories) != 1 {
		t.Fatalf("got the repositories %q, %v, want one", repositories, err)
	}
	bare := &site.Repository{T: t, Dir: repositories[0]}
	bare.Git("repack", "-adq")
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
	for i := range machine.Dose(t, 3, 3) {
		way := ways[i%len(ways)]
		if err := os.WriteFile(packs[0], way.do(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		wantNamed(s, "repository", forge.NearApp, filepath.Base(repositories[0]), "--offline")
		if t.Failed() {
			t.Fatalf("round %d: %s", i, way.name)
		}
	}
	s.Start()
	site.WantServed(t, s, forge.NearApp, "/", forge.PageOf(forge.NearApp, 1)) // releases do not need it
	if err := os.WriteFile(packs[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s.WantWhole()
}

// wantNothingElse fails the test when the server serves anything but the first round of an app. Its error says that the
// server does not answer.
func wantNothingElse(s *site.Site, uid landfall.UID, why string) error {
	s.T.Helper()
	for path, want := range map[string]string{"/": forge.PageOf(forge.NearApp, 1),
		"/app.js": forge.ScriptOf(forge.NearApp, 1)} {
		for _, host := range []string{forge.NearApp, forge.NearApp + "--" + string(uid)} {
			p, err := site.TryGet(s.At(host, path))
			if err != nil {
				return err
			}
			if p.Status == http.StatusOK && p.Body != want {
				s.T.Errorf("%s: %s%s served %.200q", why, host, path, p.Body)
			}
		}
	}
	return nil
}

// A database file of which bytes were lost never makes the server serve what is not a release's own: it does not start,
// or answers with an error, or with the right bytes. When the file is cut off fsck says so.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	s := site.NewOn(t, site.Engine{}) // PostgreSQL's files are PostgreSQL's
	r := s.Repository(s.App(forge.NearApp))
	forge.Round(r, forge.NearApp, 1)
	uid := s.Released(r.Push("main"), forge.NearApp)
	s.Stop()
	s.WantWhole("--offline")
	file := filepath.Join(s.Data, "landfall.db")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	ways := damages(random)
	for i := range machine.Dose(t, 6, 6) {
		way := ways[i%len(ways)]
		if err := os.WriteFile(file, way.do(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Start()
		unanswered := wantNothingElse(s, uid, way.name)
		if unanswered == nil {
			_ = s.Cmd.Process.Kill()
		}
		select {
		case <-s.Done:
		case <-time.After(testkit.Patience):
			t.Fatalf("round %d, %s: the server neither answers nor ends: %v", i, way.name, unanswered)
		}
		if unanswered != nil {
			testkit.Contains(t, s.Log, "landfall: ") // it says what is wrong
		}
	}
	for _, rest := range []string{"-wal", "-shm"} {
		_ = os.Remove(file + rest)
	}
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := site.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "fsck", "--offline")
	cmd.Env = append(append(os.Environ(), "LANDFALL_DATA="+s.Data), s.Env...)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() == 0 || !strings.Contains(string(out), "database") {
		t.Errorf("fsck of half a database: got %d %s, want it named", cmd.ProcessState.ExitCode(), out)
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	site.WantServed(t, s, forge.NearApp, "/", forge.PageOf(forge.NearApp, 1))
}
