package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// bench is an app whose runs are taken through the steps one by one, with values that can be looked at.
type bench struct {
	t        *testing.T
	pipeline *Pipeline
	app      landfall.App
	git      string // the bare repository
	objects  string // the folder of the stored objects
}

// local is the built-in remote with one repository.
type local struct {
	accept.References

	path string
}

func (l local) Path(string) string { return l.path }

func (local) SetHead(context.Context, string, string) error { return nil }

// carpenter is a sandbox that makes one file, whatever the command.
type carpenter struct{}

func (carpenter) Build(_ context.Context, c BuildCommand) (BuildResult, error) {
	made := filepath.Join(c.Dir, "site", "index.html")
	if err := os.MkdirAll(filepath.Dir(made), 0o700); err != nil {
		return BuildResult{}, err
	}
	return BuildResult{Dir: c.Dir}, os.WriteFile(made, []byte("<p>built"), 0o600)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOf(t, landfall.App{UIDSpace: uuid.New()})
}

// newBenchOf is newBench for an app with a folder and a name space.
func newBenchOf(t *testing.T, app landfall.App) *bench {
	t.Helper()
	b := &bench{t: t, git: filepath.Join(t.TempDir(), "git"), objects: filepath.Join(t.TempDir(), "objects")}
	b.command("init", "--quiet", "--bare", b.git)
	objects, err := disk.Open(b.objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := objects.Close(); err != nil {
			t.Error(err)
		}
	})
	db, logger := storetest.Open(t, storetest.SQLite(t)), slog.New(slog.DiscardHandler)
	b.app = landfall.App{
		ID: "shop-id", Namespace: landfall.DefaultNamespace, Name: "shop", Branch: "main", UIDSpace: app.UIDSpace,
		Folder: app.Folder, Objects: "apps/default/shop/",
	}
	b.update(db, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.EnsureNamespace(ctx, landfall.DefaultNamespace, 0); err != nil {
			return err
		}
		return tx.CreateApp(ctx, b.app)
	})
	ledger := &runs.Runs{
		DB: db, Now: time.Now, Logger: logger,
		RunURL: func(run string) string { return run }, ReleaseURL: func(string, landfall.UID) string { return "" },
	}
	mirrors := &builder.Mirrors{Root: t.TempDir(), Dialer: &builder.Dialer{}}
	b.pipeline = &Pipeline{
		DB: db, Mirrors: mirrors, Objects: objects, Manifests: &assets.Manifests{Store: objects}, Runs: ledger,
		Rollout: &deploy.Rollout{DB: db, Logger: logger},
		Acceptor: &accept.Acceptor{DB: db, Runs: ledger, Mirrors: mirrors, Remote: local{path: b.git}, Now: time.Now,
			Logger: logger},
		Sandbox: carpenter{}, Scratch: t.TempDir(), Builds: &Builds{Folder: t.TempDir()}, Worker: "worker", Now: time.Now,
		Logger: logger,
	}
	return b
}

func (b *bench) update(db *store.DB, f func(ctx context.Context, tx *store.Tx) error) {
	b.t.Helper()
	if err := db.Update(b.t.Context(), func(tx *store.Tx) error { return f(b.t.Context(), tx) }); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) command(args ...string) string {
	b.t.Helper()
	git := exec.Command("git", args...)
	git.Env = append(os.Environ(), "GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
	out, err := git.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commits makes a commit of files, by their paths.
func (b *bench) commits(message string, files map[string]string) landfall.CommitSHA {
	b.t.Helper()
	folder := b.t.TempDir()
	for name, text := range files {
		at := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			b.t.Fatal(err)
		}
		err := os.WriteFile(at, []byte(text), 0o600)
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = errors.Join(os.Remove(at), os.Symlink(target, at))
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		return b.command(append([]string{"--git-dir", b.git, "-c", "core.bare=false", "-c", "user.name=Ada", "-c",
			"user.email=ada@example.com"}, args...)...)
	}
	if err := os.RemoveAll(filepath.Join(b.git, "index")); err != nil {
		b.t.Fatal(err)
	}
	git("--work-tree", folder, "add", "--all")
	sha := git("commit-tree", git("write-tree"), "-m", message)
	git("update-ref", "refs/heads/main", sha)
	return landfall.CommitSHA(sha)
}

// attempts pushes a commit to production, and begins an attempt at its run.
func (b *bench) attempts(commit landfall.CommitSHA, rebuild bool) *attempt {
	b.t.Helper()
	p := b.pipeline
	w := &attempt{Pipeline: p, app: b.app, logger: p.Logger, hide: secret.NewRedactor(nil),
		outputs: map[landfall.Digest]string{}}
	b.update(p.DB, func(ctx context.Context, tx *store.Tx) error {
		push, err := tx.CreatePush(ctx, landfall.Push{
			App: b.app.ID, Source: landfall.FromRemote, Ref: "refs/heads/main", After: commit, Actor: "ada", Accepted: p.Now()})
		if err != nil {
			return err
		}
		run, err := runs.New(ctx, tx, b.app, push)
		if err != nil {
			return err
		}
		run.Rebuild = rebuild
		if err := p.Runs.Queue(ctx, tx, b.app, run, "Queued", push); err != nil {
			return err
		}
		w.run, err = tx.Lease(ctx, run.ID, p.Worker, p.Now(), p.Now().Add(time.Hour), appShare)
		return err
	})
	return w
}

// planned takes an attempt as far as its plan.
func (b *bench) planned(w *attempt) plan {
	b.t.Helper()
	c, err := w.fetch(b.t.Context())
	b.t.Cleanup(c.close)
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := c.read(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := s.plan(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// stored takes a plan as far as all its content is stored.
func (b *bench) stored(p plan) storedPlan {
	b.t.Helper()
	made, err := p.build(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	k, err := made.upload(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return k
}

// releases takes a commit through all steps.
func (b *bench) releases(commit landfall.CommitSHA) landfall.UID {
	b.t.Helper()
	uid, err := b.stored(b.planned(b.attempts(commit, false))).commit(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return uid
}

// wantChanges fails the test unless a plan changes one unit in this way.
func (b *bench) wantChanges(p plan, want landfall.ChangeKind) {
	b.t.Helper()
	if len(p.changes) != 1 || p.changes[0].Change != want {
		b.t.Errorf("got the changes %+v, want one: %s", p.changes, want)
	}
}

func page(text string) map[string]string {
	return map[string]string{"index.html": text, "site.css": "p {}"}
}

// A commit is read and planned without anything of it being stored; the second time nothing has changed.
func TestPlanOfASmallRepository(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.planned(b.attempts(b.commits("first", page("<p>one")), false))
	if first.info.Message != "first" || len(first.files) != 2 || len(first.spec.App.Static) != 1 {
		t.Errorf("got the commit %+v with %d files, and the spec %+v", first.info, len(first.files), first.spec)
	}
	b.wantChanges(first, landfall.Added)
	if len(first.current) != 0 || len(first.base) != 0 {
		t.Errorf("got the versions %+v beside %+v, want none", first.current, first.base)
	}
	if last := first.log[len(first.log)-1]; last != "1 of 1 unit changed" {
		t.Errorf("the log ends with %q", last)
	}
	for key, err := range b.pipeline.Objects.List(t.Context(), "") {
		t.Errorf("the plan stored %s, %v", key, err)
	}

	released := b.releases(first.run.Commit)
	second := b.planned(b.attempts(b.commits("second", page("<p>one")), false))
	b.wantChanges(second, landfall.Unchanged)
	if second.baseGroup != released {
		t.Errorf("it is compared with %s, want %s", second.baseGroup, released)
	}
	if k := b.stored(second); len(k.stored) != 0 || k.stats.FilesUploaded != 0 {
		t.Errorf("got %+v stored, %d files of it anew, want nothing", k.stored, k.stats.FilesUploaded)
	}
	b.wantChanges(b.planned(b.attempts(b.commits("third", page("<p>two")), false)), landfall.Changed)
}

// The files that a build makes are a new plan's; the one before the build stays as it was.
func TestBuildMakesANewPlan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.planned(b.attempts(b.commits("built",
		map[string]string{"in.txt": "x", "specs/app.yaml": "apiVersion: landfall.dev/v1\nkind: App\n" +
			"metadata: {name: shop}\nspec:\n  static:\n    - {src: site, path: /}\n  build: {command: make, inputs: " +
			"[in.txt], outputs: [site]}\n"}), false))
	if p.units != nil || p.changes != nil {
		t.Errorf("got the units %+v before the build", p.units)
	}
	made, err := p.build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.wantChanges(made.plan, landfall.Added)
	files := made.filesOfUnit(made.units[0].Unit)
	if len(files) != 1 || files[0].Path != "site/index.html" || files[0].Digest != landfall.DigestOf([]byte("<p>built")) {
		t.Errorf("got the files %+v, want the one that the build made", files)
	}
	if p.units != nil || p.changes != nil || p.statics != nil {
		t.Errorf("the build wrote into the plan: %+v", p.units)
	}
}

// What is stored of a version and is damaged is stored again by a run that rebuilds; the plan keeps what was found.
func TestUploadStoresAgainWhatIsDamaged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	commit := b.commits("first", page("<p>one"))
	b.releases(commit)
	if k := b.stored(b.planned(b.attempts(commit, true))); len(k.stored) != 0 {
		t.Errorf("got %+v stored again, want nothing: all of it is intact", k.stored)
	}
	for key, err := range b.pipeline.Objects.List(t.Context(), "") {
		if err == nil && strings.HasSuffix(key, "index.html") {
			err = b.pipeline.Objects.Delete(t.Context(), key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p := b.planned(b.attempts(commit, true))
	id := p.units[0].Unit
	if v := p.current[id]; !v.storeAgain || v.Content == nil || v.content() != nil {
		t.Errorf("got the version %+v, want it known and to be stored again", v)
	}
	if !slices.ContainsFunc(p.log, func(line string) bool {
		return strings.HasSuffix(line, "what is stored of it is damaged, and is stored again")
	}) {
		t.Errorf("the log does not say so: %q", p.log)
	}
	k := b.stored(p)
	if _, ok := k.stored[id]; !ok || k.stats.FilesUploaded != 2 {
		t.Errorf("got %+v stored, %d files of it anew, want both", k.stored, k.stats.FilesUploaded)
	}
}

// What is being collected while a run wants it is stored again, and the plan is not written for that.
func TestUploadStoresAgainWhatIsCollected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.releases(b.commits("first", map[string]string{"index.html": "<p>one"}))
	b.releases(b.commits("second", map[string]string{"index.html": "<p>two"}))
	p := b.planned(b.attempts(b.commits("third", map[string]string{"index.html": "<p>one"}), false))
	id := p.units[0].Unit
	if v := p.current[id]; v.content() == nil || len(v.prefixes) == 0 {
		t.Fatalf("got the version %+v, want the first one", v)
	}
	b.update(b.pipeline.DB, func(ctx context.Context, tx *store.Tx) error {
		release, err := tx.Release(ctx, b.app.ID, first)
		if err != nil {
			return err
		}
		release.Expired = time.Now()
		if err := tx.PutRelease(ctx, release); err != nil {
			return err
		}
		deleting, err := tx.MarkDeleting(ctx, b.app.ID)
		if !slices.Equal(deleting, p.current[id].prefixes) {
			t.Errorf("%q are being deleted, want %q", deleting, p.current[id].prefixes)
		}
		return err
	})
	k := b.stored(p)
	if _, ok := k.stored[id]; !ok || !k.current[id].storeAgain {
		t.Errorf("got %+v stored, want the unit", k.stored)
	}
	if p.current[id].storeAgain {
		t.Error("the upload wrote into the plan")
	}
}
