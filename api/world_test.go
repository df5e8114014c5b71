package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// The apps of the seed: one with releases, one whose repository is elsewhere, and one to which nothing was pushed.
const (
	shopID   = "shop-id"
	bakeryID = "bakery-id"
	youngID  = "young-id"
)

// The records of the seed whose names the test chooses.
const (
	executionID = "7d0c6c1e-3a0f-4a43-9f39-0b1f6f5b8c11"
	queuedRun   = "queued-run"
)

// seed is what every world begins with. It is made once, and copied.
type seed struct {
	dir     string // with a database and repositories that nobody has open
	dump    []byte // of the database, for other engines
	form    int64  // of the dump
	state   string // of a copy
	objects *disk.Store
	key     secret.Text
	words   *strings.Replacer // of requests: which uid OLD is, and so on
}

// world is an API over a database of its own.
type world struct {
	t        *testing.T
	db       *store.DB
	pipeline *pipeline.Pipeline
	repos    *remote.Repositories
	git      string // folder of the repositories
	shown    gateways
	queue    queue
	server   *httptest.Server
}

// newWorld opens a world whose database is open already.
func newWorld(t *testing.T, s *seed, db *store.DB, git string) *world {
	t.Helper()
	program := testkit.Must(remote.FindGit())(t)
	dir := t.TempDir()
	w := &world{
		t: t, db: db, git: git, repos: testkit.Must(remote.OpenRepositories(git, program))(t), shown: make(gateways, 1), queue: queue{mu: new(sync.Mutex), of: map[string][]landfall.Message{}},
	}
	logger := slog.New(slog.DiscardHandler)
	releaseURL := func(app string, selector landfall.UID) string {
		return "http://" + app + "--" + string(selector) + ".localhost/"
	}
	w.pipeline = &pipeline.Pipeline{
		DB: db, Objects: s.objects, Manifests: &assets.Manifests{Store: s.objects}, Secrets: testkit.Must(secret.ParseKey(s.key))(t),
		Remote: w.repos, Mirrors: &builder.Mirrors{Root: filepath.Join(dir, "mirrors"), Dialer: &builder.Dialer{}}, Gateways: w.shown,
		Scratch: filepath.Join(dir, "scratch"), Builds: &pipeline.Builds{Folder: filepath.Join(dir, "builds")}, Worker: "worker",
		RunURL: func(run string) string { return run }, ReleaseURL: releaseURL, Now: time.Now, Logger: logger,
	}
	w.server = httptest.NewServer(api.New(api.Config{
		DB: db, Pipeline: w.pipeline, Repositories: w.repos, URL: testkit.Must(url.Parse("http://localhost:8080"))(t), Domain: "localhost",
		ReleaseURL: releaseURL, CheckURL: func(string) error { return nil }, Keeper: keeper{}, Queues: w.queue, Executions: executions{db},
		Triggers: func(context.Context, landfall.App) ([]client.Trigger, error) {
			return []client.Trigger{{Name: "hello", Kind: landfall.HTTPTrigger}}, nil
		},
		Now: time.Now, Logger: logger,
	}))
	t.Cleanup(w.server.Close)
	return w
}

// copy returns a world that is as the seed, with its database in a file.
func (s *seed) copy(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	return newWorld(t, s, storetest.Open(t, filepath.Join(dir, "landfall.db")), filepath.Join(dir, "git"))
}

// copyInto returns a world that is as the seed, with its database at an address where there is an empty one.
func (s *seed) copyInto(t *testing.T, address string) *world {
	t.Helper()
	if _, err := store.Fill(t.Context(), address, s.form, bytes.NewReader(s.dump)); err != nil {
		t.Fatal(err)
	}
	git := t.TempDir()
	if err := os.CopyFS(git, os.DirFS(filepath.Join(s.dir, "git"))); err != nil {
		t.Fatal(err)
	}
	return newWorld(t, s, storetest.Open(t, address), git)
}

// dump writes all that the database holds.
func (w *world) dump() (data []byte, form int64) {
	w.t.Helper()
	var b bytes.Buffer
	err := w.db.Snapshot(w.t.Context(), func(s *store.Snapshot) (err error) {
		if form, err = s.Schema(w.t.Context()); err == nil {
			_, err = s.Dump(w.t.Context(), &b)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Bytes(), form
}

// state is all that a request may change: the database, the repositories and the queues.
func (w *world) state() string {
	w.t.Helper()
	dump, _ := w.dump()
	all := bytes.NewBuffer(dump)
	err := fs.WalkDir(os.DirFS(w.git), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, err := os.ReadFile(filepath.Join(w.git, path))
			fmt.Fprintln(all, path, landfall.DigestOf(data))
			return err
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all.String() + w.queue.String()
}

// answer is what the API answered.
type answer struct {
	what   string // the request
	status int
	header http.Header
	body   string
}

// String makes an answer readable, and its body searchable.
func (a answer) String() string {
	return fmt.Sprintf("%s: %d %s %s", a.what, a.status, a.header.Get("Content-Type"), a.body)
}

// ask sends a request with a token; without one when that is empty. Its path begins with /api/v1.
func (w *world) ask(token, method, path, body string) answer {
	w.t.Helper()
	r := testkit.Must(http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body)))(w.t)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp := testkit.Must(w.server.Client().Do(r))(w.t)
	defer func() { _ = resp.Body.Close() }()
	data := testkit.Must(io.ReadAll(resp.Body))(w.t)
	return answer{method + " " + path + " " + body + " with the token " + token, resp.StatusCode, resp.Header, string(data)}
}

// tokenOf is the token of a scope, for all apps or for the one with an id.
func tokenOf(scope store.Scope, app string) string { return "token-" + string(scope) + "-" + app }

// scopes are all that there are.
func scopes() []store.Scope {
	return []store.Scope{store.ScopeRead, store.ScopeInvoke, store.ScopeDeploy, store.ScopeAdmin}
}

// update changes the database.
func (w *world) update(f func(ctx context.Context, tx *store.Tx) error) {
	w.t.Helper()
	if err := w.db.Update(w.t.Context(), func(tx *store.Tx) error { return f(w.t.Context(), tx) }); err != nil {
		w.t.Fatal(err)
	}
}

// gateways show every change at once, and ring when they are told of one.
type gateways chan struct{}

// RefreshApp implements pipeline.Gateways.
func (g gateways) RefreshApp(context.Context, string) error {
	select {
	case g <- struct{}{}:
	default: // it rings already
	}
	return nil
}

// Shown implements pipeline.Gateways.
func (gateways) Shown(context.Context, string) (int64, error) { return math.MaxInt64, nil }

// keeper keeps nothing.
type keeper struct{}

// Backup implements api.Keeper.
func (keeper) Backup(_ context.Context, w io.Writer, _ bool) error {
	_, err := io.WriteString(w, "an archive")
	return err
}

// Check implements api.Keeper.
func (keeper) Check(context.Context, func(landfall.Finding) error) (landfall.Checked, error) {
	return landfall.Checked{Apps: 3}, nil
}

// queue keeps messages in memory.
type queue struct {
	mu *sync.Mutex
	of map[string][]landfall.Message // by app
}

// Publish implements api.Queues.
func (q queue) Publish(_ context.Context, app landfall.App, m landfall.Message) (landfall.Message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m.Sequence = uint64(len(q.of[app.ID]) + 1)
	q.of[app.ID] = append(q.of[app.ID], m)
	return m, nil
}

// Read implements api.Queues.
func (q queue) Read(_ context.Context, app landfall.App, _ string, _ uint64, _ int) ([]landfall.Message, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of[app.ID], false, nil
}

// String tells how many messages there are.
func (q queue) String() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return fmt.Sprintf("%d messages", len(q.of[shopID]))
}

// executions accepts executions that nobody runs.
type executions struct{ db *store.DB }

// Accept implements api.Executions.
func (e executions) Accept(ctx context.Context, ref landfall.Reference, input json.RawMessage) (landfall.Execution, error) {
	v, err := versioning.Find(ctx, e.db, ref.Namespace, landfall.FunctionUnit, ref)
	if err != nil {
		return landfall.Execution{}, err
	}
	x := landfall.Execution{
		ID: uuid.NewString(), AppID: v.App, Namespace: v.Namespace, Function: v.Unit.Name, Version: v.UID, Number: v.Number,
		State: landfall.ExecutionQueued, Async: true, Created: time.Now(), Input: int64(len(input)),
	}
	return x, e.db.Update(ctx, func(tx *store.Tx) error {
		return tx.AcceptExecution(ctx, x, input, store.Waiting{Count: 10, Bytes: 1 << 20})
	})
}

// Flush implements api.Executions.
func (executions) Flush(context.Context) error { return nil }

// newSeed makes the apps, and releases them with the real pipeline.
func newSeed(t *testing.T) *seed {
	t.Helper()
	s := &seed{dir: t.TempDir(), key: testkit.Must(secret.NewKey())(t), objects: testkit.Must(disk.Open(t.TempDir()))(t)}
	t.Cleanup(func() {
		if err := s.objects.Close(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(s.dir, "landfall.db")
	if err := os.Rename(storetest.SQLite(t), path); err != nil {
		t.Fatal(err)
	}
	db := testkit.Must(store.Open(t.Context(), path))(t)
	w := newWorld(t, s, db, filepath.Join(s.dir, "git"))
	w.makeApps()
	w.release()
	w.makeRecords()
	s.words = w.wordsOf()
	s.dump, s.form = w.dump()
	s.state = w.state()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// makeApps makes the apps, and a token of each scope for all apps, and for each of them.
func (w *world) makeApps() {
	w.t.Helper()
	w.update(func(ctx context.Context, tx *store.Tx) error {
		err := errors.Join(tx.EnsureNamespace(ctx, landfall.DefaultNamespace, 0), tx.EnsureNamespace(ctx, "bare", 0))
		for id, repository := range map[string]string{shopID: "", bakeryID: "https://git.example/bakery.git", youngID: ""} {
			app := landfall.App{
				ID: id, Namespace: landfall.DefaultNamespace, Name: strings.TrimSuffix(id, "-id"), Branch: "main", Repository: repository,
				UIDSpace: uuid.New(), Created: time.Now(),
			}
			err = errors.Join(err, tx.CreateApp(ctx, app))
		}
		err = errors.Join(err, tx.CreateHook(ctx, landfall.Hook{ID: "bakery-hook", App: bakeryID, Secret: "hook secret"}, 0),
			tx.CreateDelivery(ctx, landfall.Delivery{ID: "delivery-1", Event: "ping", Decision: "It was a ping", Received: time.Now()}))
		for _, scope := range scopes() {
			for _, app := range []string{"", shopID, bakeryID} {
				text := tokenOf(scope, app)
				token := store.Token{Hash: landfall.DigestOf([]byte(text)), Name: string(scope) + app, Scope: scope, App: app, Created: time.Now()}
				err = errors.Join(err, tx.PutToken(ctx, token))
			}
		}
		return err
	})
	for _, id := range []string{shopID, youngID} {
		if err := w.repos.Create(w.t.Context(), id, "main"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// setSecret gives a secret of the shop a value.
func (w *world) setSecret(name, value string) {
	w.t.Helper()
	shop := testkit.Must(w.db.App(w.t.Context(), shopID))(w.t)
	s := pipeline.NewSecret{Name: name, Value: secret.Text(value), Actor: "ada"}
	if _, err := w.pipeline.SetSecret(w.t.Context(), shop, s); err != nil {
		w.t.Fatal(err)
	}
}

// The spec files of the shop.
const (
	appSpec = `apiVersion: landfall.dev/v1
kind: App
metadata: {name: shop}
spec:
  static:
    - {src: site, path: /}
  config: {currency: EUR}
`
	functionSpec = `apiVersion: fission.io/v1
kind: Environment
metadata: {name: env}
spec: {version: 2, runtime: {image: fission/python-env}}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: hello-pkg}
spec: {environment: {name: env}, deployment: {url: "archive://hello"}}
---
kind: ArchiveUploadSpec
name: hello
include: ["hello/*"]
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: hello}
spec:
  secrets: [{name: STRIPE_KEY, namespace: default}]
  environment: {name: env}
  package: {packageref: {name: hello-pkg}, functionName: hello.main}
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: idle}
spec:
  environment: {name: env}
  package: {packageref: {name: hello-pkg}, functionName: hello.main}
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: hello}
spec: {functionref: {type: name, name: hello}, methods: [GET], relativeurl: /api/hello}
`
)

// release makes four releases: of two pushes, and of two secrets that were set. The last is live, the one before it is what a rollback goes
// to, the second has the tag spare, and the first has expired.
func (w *world) release() {
	w.t.Helper()
	w.setSecret("STRIPE_KEY", "first-value")
	w.setSecret("UNUSED_KEY", "unused-value")
	w.push("main", "first page")
	first := testkit.Must(w.db.App(w.t.Context(), shopID))(w.t).Live
	w.push("main", "second page")
	second := testkit.Must(w.db.App(w.t.Context(), shopID))(w.t).Live
	w.setSecret("STRIPE_KEY", "second-value")
	w.setSecret("STRIPE_KEY", "third-value")
	w.commit("refs/landfall/apply/abcdefgh", "third page")
	w.update(func(ctx context.Context, tx *store.Tx) error {
		shop, err := tx.App(ctx, shopID)
		if err != nil {
			return err
		}
		by := deploy.Mover{Actor: "ada", Reason: "tagged", At: time.Now()}
		tag := landfall.Tag{App: shopID, Name: "spare", Kind: landfall.HandTag, Release: second}
		return errors.Join(deploy.SetTag(ctx, tx, tag, by), deploy.Expire(ctx, tx, shop, first, by.At))
	})
}

// gitOf runs git in the shop's repository.
func (w *world) gitOf(args ...string) string {
	w.t.Helper()
	args = append([]string{"--git-dir", w.repos.Path(shopID), "-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)
	out, err := exec.CommandContext(w.t.Context(), "git", args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit makes a commit with a page, and lets a reference name it.
func (w *world) commit(ref landfall.RefName, page string) remote.Update {
	w.t.Helper()
	tree := w.t.TempDir()
	for name, text := range map[string]string{
		"specs/app.yaml": appSpec, "specs/functions.yaml": functionSpec, "hello/hello.py": "def main(event):\n    return 'hello'\n", "site/index.html": page,
	} {
		path := filepath.Join(tree, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.gitOf("--work-tree", tree, "add", "--all")
	sha := landfall.CommitSHA(w.gitOf("commit-tree", w.gitOf("write-tree"), "-m", page))
	before := testkit.Must(w.repos.Heads(w.t.Context(), shopID))(w.t)[ref]
	w.gitOf("update-ref", string(ref), string(sha))
	return remote.Update{Ref: ref, Before: before, After: sha, Forced: before != "", Message: page}
}

// push pushes a page to a branch, and works until it is released.
func (w *world) push(branch, page string) {
	w.t.Helper()
	update := w.commit(landfall.RefName(landfall.BranchPrefix+branch), page)
	runs := testkit.Must(pipeline.Doors{Pipeline: w.pipeline}.Accept(
		w.t.Context(), remote.Repository{App: shopID, Name: "shop", Actor: "ada"}, []remote.Update{update}))(w.t)
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.pipeline.Run(ctx, pipeline.Duties{Work: true}) }()
	late := time.After(testkit.Patience)
	run := testkit.Must(w.db.Run(w.t.Context(), runs[0]))(w.t)
	for !run.State.Final() {
		select {
		case <-w.shown:
		case <-late:
			w.t.Fatalf("the run is still %s", run.State)
		}
		run = testkit.Must(w.db.Run(w.t.Context(), runs[0]))(w.t)
	}
	stop()
	if err := <-ended; err != nil {
		w.t.Fatal(err)
	}
	if run.State != landfall.RunSucceeded {
		w.t.Fatalf("the push of %q is %s: %s", page, run.State, run.Reason)
	}
}

// makeRecords makes what else there is to show: an alias, an execution with a log, and a run that waits.
func (w *world) makeRecords() {
	w.t.Helper()
	w.update(func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.UnitInNamespace(ctx, landfall.DefaultNamespace, landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"})
		if err != nil {
			return err
		}
		to := []versioning.Weight{{Selector: "1", Percent: 100}}
		_, err = versioning.SetAlias(ctx, tx, row, versioning.Pointing{Name: "stable", Create: true, To: to, Actor: "ada", At: time.Now()})
		done := store.ExecutionRecord{Log: []string{"a line of the log\n"}, Execution: landfall.Execution{
			ID: executionID, AppID: shopID, Namespace: landfall.DefaultNamespace, Function: "hello", Number: 1, State: landfall.ExecutionSucceeded,
			Created: time.Now(), Started: time.Now(), Finished: time.Now(),
		}}
		waits := landfall.Run{
			ID: queuedRun, App: shopID, Commit: landfall.CommitSHA(strings.Repeat("e", 40)), Branch: "draft", State: landfall.RunQueued,
			UID: "eeeeeeee", Created: time.Now(),
		}
		return errors.Join(err, tx.RecordExecutions(ctx, time.Now(), []store.ExecutionRecord{done}), tx.CreateRun(ctx, waits))
	})
}

// wordsOf returns what the words in capitals of requests stand for.
func (w *world) wordsOf() *strings.Replacer {
	w.t.Helper()
	ctx := w.t.Context()
	releases := testkit.Must(w.db.Releases(ctx, shopID))(w.t) // the newest first
	runs := testkit.Must(w.db.Runs(ctx, shopID, time.Time{}, 10))(w.t)
	heads := testkit.Must(w.repos.Heads(ctx, shopID))(w.t)
	if len(releases) != 4 || releases[3].Expired.IsZero() || len(runs) != 3 {
		w.t.Fatalf("got the releases %+v and the runs %+v, want four, of which the oldest has expired, and three", releases, runs)
	}
	return strings.NewReplacer("PREVIOUS", string(releases[1].ID), "OLD", string(releases[3].ID), "RUN", runs[1].ID,
		"DRAFT", string(heads["refs/landfall/apply/abcdefgh"]))
}
