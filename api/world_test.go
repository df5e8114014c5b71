package api_test

import (
	"bytes"
	"cmp"
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
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/api"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/connect"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/handmade"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/jobs"
	"landfall.dev/landfall/mux"
	"landfall.dev/landfall/parcel"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/upkeep"
	"landfall.dev/landfall/versioning"
)

// world is an API over a database of its own.
type world struct {
	t        *testing.T
	db       *store.DB
	jobs     *jobs.Worker
	editor   *deploy.Editor
	acceptor *accept.Acceptor
	repos    *remote.Repositories
	git      string // folder of the repositories
	uploads  string // folder
	shown    gateways
	queue    queue
	github   *connect.Connection
	server   *httptest.Server
}

// newWorld opens a world whose database is open already.
func newWorld(t *testing.T, s *seed, db *store.DB, git string) *world {
	t.Helper()
	program := testkit.Must(remote.FindGit())(t)
	dir := t.TempDir()
	w := &world{
		t: t, db: db, git: git, repos: testkit.Must(remote.OpenRepositories(git, program))(t), shown: make(gateways, 1),
		queue: queue{mu: new(sync.Mutex), of: map[string][]landfall.Message{}},
	}
	logger := slog.New(slog.DiscardHandler)
	releaseURL := func(app string, selector landfall.UID) string {
		return "http://" + app + "--" + string(selector) + ".localhost/"
	}
	rollout := &deploy.Rollout{DB: db, Gateways: w.shown, Logger: logger}
	secrets := testkit.Must(secret.ParseKey(s.key))(t)
	w.editor = &deploy.Editor{DB: db, Secrets: secrets, ReleaseURL: releaseURL, Rollout: rollout, Now: time.Now}
	contents := &inspect.Contents{DB: db, Objects: s.objects, Manifests: &assets.Manifests{Store: s.objects}}
	ledger := &runs.Runs{
		DB: db, Rollout: rollout, Contents: contents, RunURL: func(run string) string {
			return run
		}, ReleaseURL: releaseURL, Now: time.Now, Logger: logger,
	}
	mirrors := &builder.Mirrors{Root: filepath.Join(dir, "mirrors"), Dialer: &builder.Dialer{}}
	w.acceptor = &accept.Acceptor{DB: db, Runs: ledger, Rollout: rollout, Mirrors: mirrors, Remote: w.repos, Secrets: secrets,
		Now: time.Now, Logger: logger}
	p := &pipeline.Pipeline{
		DB: db, Objects: s.objects, Manifests: contents.Manifests, Runs: ledger, Rollout: rollout,
		Secrets: secrets, Scratch: filepath.Join(dir, "scratch"), Worker: "worker",
		Mirrors: mirrors, Acceptor: w.acceptor,
		Builds: &pipeline.Builds{Folder: filepath.Join(dir, "builds")},
		Now:    time.Now, Logger: logger,
	}
	u := &upkeep.Upkeep{
		DB: db, Runs: ledger, Rollout: rollout, Objects: shared{s.objects}, Mirrors: mirrors, Repositories: w.repos, Builds: p.Builds,
		Now: time.Now, Logger: logger,
	}
	w.jobs = &jobs.Worker{DB: db, Process: p.Worker, Scratch: p.Scratch, Acceptor: w.acceptor, Pipeline: p, Upkeep: u,
		Logger: logger}
	w.uploads = filepath.Join(dir, "uploads")
	about := testkit.Must(json.Marshal(handmade.Upload{ID: uploadID,
		Owner: landfall.DigestOf([]byte(tokenOf(landfall.ScopeDeploy, ""))), Size: 3}))(t)
	if err := errors.Join(os.Mkdir(w.uploads, 0o700),
		os.WriteFile(filepath.Join(w.uploads, uploadID+".json"), about, 0o600),
		os.WriteFile(filepath.Join(w.uploads, uploadID), []byte("a"), 0o600)); err != nil {
		t.Fatal(err)
	}
	maker := &handmade.Maker{
		DB: db, Editor: w.editor, Acceptor: w.acceptor, Repositories: w.repos, Dialer: mirrors.Dialer, Now: time.Now,
		Objects: s.objects,
		Uploads: &handmade.Uploads{Folder: w.uploads, MaxBytes: 1 << 20, Now: time.Now},
	}
	w.github = newConnection(t, db, secrets)
	exporter := &parcel.Exporter{DB: db, Objects: s.objects, Manifests: contents.Manifests}
	importer := &parcel.Importer{DB: db, Objects: s.objects, Rollout: rollout, ReleaseURL: releaseURL,
		Folder: filepath.Join(dir, "imports"), MaxBytes: 1 << 20, Now: time.Now, WithoutCollection: u.WithoutCollection}
	routes := mux.New(logger)
	api.Serve(routes, api.Config{
		Maker: maker, Exporter: exporter, Importer: importer, DB: db, Editor: w.editor, Rollout: rollout, Contents: contents, Runs: ledger, Acceptor: w.acceptor,
		Upkeep: u, DryRun: p.DryRun, Repositories: w.repos, Keeper: keeper{}, Queues: w.queue, Executions: executions{db},
		URL: testkit.Must(url.Parse("http://localhost:8080"))(t), Domain: "localhost",
		ReleaseURL: releaseURL, CheckURL: func(string) error { return nil },
		Now: time.Now, Logger: logger, GitHub: w.github,
	})
	w.server = httptest.NewServer(routes)
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

// sent returns what was sent in parts.
func (w *world) sent() string {
	w.t.Helper()
	var all strings.Builder
	for _, entry := range testkit.Must(os.ReadDir(w.uploads))(w.t) {
		info := testkit.Must(entry.Info())(w.t)
		fmt.Fprintln(&all, entry.Name(), info.Size())
	}
	return all.String()
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
	return w.askWith(http.Header{}, token, method, path, body)
}

// askWith is ask with headers.
func (w *world) askWith(headers http.Header, token, method, path, body string) answer {
	w.t.Helper()
	r := testkit.Must(http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body)))(w.t)
	r.Header = headers
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp := testkit.Must(w.server.Client().Do(r))(w.t)
	defer func() { _ = resp.Body.Close() }()
	data := testkit.Must(io.ReadAll(resp.Body))(w.t)
	return answer{method + " " + path + " " + body + " with the token " + token, resp.StatusCode, resp.Header,
		string(data)}
}

// tokenOf is the token of a scope, for all apps or for the one with an id.
func tokenOf(scope landfall.Scope, app string) string { return "token-" + string(scope) + "-" + app }

// scopes are all that there are.
func scopes() []landfall.Scope {
	return []landfall.Scope{landfall.ScopeRead, landfall.ScopeInvoke, landfall.ScopeDeploy, landfall.ScopeAdmin}
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

// RefreshApp implements deploy.Gateways.
func (g gateways) RefreshApp(context.Context, string) error {
	select {
	case g <- struct{}{}:
	default: // it rings already
	}
	return nil
}

// Shown implements deploy.Gateways.
func (gateways) Shown(context.Context, string) (int64, error) { return math.MaxInt64, nil }

// shared are the objects of all worlds: none goes.
type shared struct{ assets.Store }

// Delete implements assets.Store.
func (shared) Delete(context.Context, string) error { return nil }

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
func (e executions) Accept(ctx context.Context, id string, ref landfall.Reference,
	input json.RawMessage) (landfall.Execution, error) {
	if x, err := e.db.Execution(ctx, id); err == nil {
		return x, nil
	}
	v, err := versioning.Find(ctx, e.db, ref.Namespace, landfall.FunctionUnit, ref)
	if err != nil {
		return landfall.Execution{}, err
	}
	x := landfall.Execution{
		ID: cmp.Or(id, uuid.NewString()), AppID: v.App, Namespace: v.Namespace, Function: v.Unit.Name, Version: v.UID, Number: v.Number,
		State: landfall.ExecutionQueued, Async: true, Created: time.Now(),
		Input: int64(len(input)),
	}
	err = e.db.Update(ctx, func(tx *store.Tx) error {
		return tx.AcceptExecution(ctx, x, input, store.WaitingLimit{Count: 10, Bytes: 1 << 20})
	})
	if err != nil {
		return x, err
	}
	return e.db.Execution(ctx, x.ID)
}

// Resend implements api.Executions.
func (e executions) Resend(ctx context.Context, id string) (landfall.Execution, error) {
	err := e.db.Update(ctx, func(tx *store.Tx) error {
		return tx.ResendExecution(ctx, id, time.Now(), store.WaitingLimit{Count: 10, Bytes: 1 << 20})
	})
	if err != nil {
		return landfall.Execution{}, err
	}
	return e.db.Execution(ctx, id)
}

// Flush implements api.Executions.
func (executions) Flush(context.Context) error { return nil }
