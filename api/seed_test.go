package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/jobs"
	"landfall.dev/landfall/parcel"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
	"landfall.dev/landfall/webhook"
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
	deadID      = "0f1e2d3c-3a0f-4a43-9f39-0b1f6f5b8c11"
	queuedRun   = "queued-run"
	waitingRun  = "waiting-run"
	jobID       = "0b1f6f5b-3a0f-4a43-9f39-7d0c6c1e8c11" // of a job and of a webhook
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
	s.words = w.wordsOf(w.export(s))
	s.dump, s.form = w.dump()
	s.state = w.state()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// What tokens are bound to that are good for the apps of a namespace: the one that has all apps, and one without any.
const ownNamespace, otherNamespace = "ns:" + landfall.DefaultNamespace, "ns:lone"

// pushOfAnother is a push to a repository that no app has.
const pushOfAnother = `{"ref":"refs/heads/main","before":"0000000000000000000000000000000000000000",
	"after":"1111111111111111111111111111111111111111",
	"repository":{"id":7,"name":"else","owner":{"login":"harbor"},"clone_url":"https://git.example/harbor/else.git"}}`

// makeApps makes the apps, and a token of each scope for all apps, for two of them, and for two
// namespaces.
func (w *world) makeApps() {
	w.t.Helper()
	w.update(func(ctx context.Context, tx *store.Tx) error {
		err := errors.Join(tx.EnsureNamespace(ctx, landfall.DefaultNamespace, 0), tx.EnsureNamespace(ctx, "bare", 0),
			tx.EnsureNamespace(ctx, "lone", 0))
		for id, repository := range map[string]string{shopID: "", bakeryID: "https://git.example/bakery.git",
			youngID: "git@git.example:young.git"} {
			app := landfall.App{
				ID: id, Namespace: landfall.DefaultNamespace, Name: strings.TrimSuffix(id, "-id"), Branch: "main",
				Repository: repository, UIDSpace: uuid.New(), Created: time.Now(),
			}
			if id == youngID {
				app.GitHub, app.MovedTo = landfall.GitHubRepository{ID: 7, Owner: "harbor", Name: "young"}, "tide/young"
			}
			err = errors.Join(err, tx.CreateApp(ctx, app))
		}
		err = errors.Join(err, tx.CreateHook(ctx, landfall.Hook{ID: "bakery-hook", App: bakeryID, Secret: "hook secret"}, 0),
			tx.CreateDelivery(ctx, landfall.Delivery{ID: "delivery-1", Event: "ping", Decision: "It was a ping",
				Received: time.UnixMicro(1)}),
			tx.CreateDelivery(ctx, landfall.Delivery{ID: "delivery-2", Event: "ping", Received: time.UnixMicro(1)}))
		for _, scope := range scopes() {
			for _, bound := range []string{"", shopID, bakeryID, youngID, ownNamespace, otherNamespace} {
				token := landfall.Token{Hash: landfall.DigestOf([]byte(tokenOf(scope, bound))), Name: string(scope) + bound,
					Scope: scope, App: bound}
				if namespace, is := strings.CutPrefix(bound, "ns:"); is {
					token.App, token.Namespace = "", namespace
				}
				err = errors.Join(err, tx.PutToken(ctx, token))
			}
		}
		return err
	})
	event := testkit.Must(webhook.EventOf(landfall.Delivery{Hook: "bakery-hook", ID: "delivery-3", Event: "push",
		Received: time.UnixMicro(1)}, []byte(pushOfAnother)))(w.t)
	event.Secret = "hook secret"
	_, _, err := accept.WebhookReceiver{Acceptor: w.acceptor}.Accept(w.t.Context(), event)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, scope := range scopes() { // that it is used is noted the first time
		for _, bound := range []string{"", shopID, bakeryID, youngID, ownNamespace, otherNamespace} {
			testkit.Must(w.db.Token(w.t.Context(), tokenOf(scope, bound), time.Now()))(w.t)
		}
	}
	testkit.Eventually(w.t, "it is noted", func() bool {
		return !slices.ContainsFunc(testkit.Must(w.db.Tokens(w.t.Context()))(w.t), func(t landfall.Token) bool {
			return t.Used.IsZero()
		})
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
	s := deploy.NewSecret{Name: name, Value: secret.Text(value), Actor: "ada"}
	if _, err := w.editor.SetSecret(w.t.Context(), shop, s); err != nil {
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
kind: HTTPTrigger
metadata: {name: often}
spec:
  {prefix: /api/often, keepPrefix: true, retries: 3, functionTimeout: 7, config: {colour: red}, access: token,
    functionref: {name: hello}}
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

// release makes four releases: of two pushes, and of two secrets that were set. The last is live, the one before it is
// what a rollback goes to, the second has the tag spare, and the first has expired.
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
		trial := landfall.ReleaseCanary{Release: second, Weight: 10, Step: 20, Interval: time.Hour}
		err = errors.Join(deploy.StartCanary(ctx, tx, shop, trial, by), deploy.MoveLive(ctx, tx, &shop, shop.Live, by))
		trial.ID, trial.App, trial.State = "bakery-canary", bakeryID, landfall.ReleaseCanaryRunning
		return errors.Join(err, tx.PutReleaseCanary(ctx, trial), deploy.SetTag(ctx, tx, tag, by),
			deploy.Expire(ctx, tx, shop, first, by.At))
	})
}

// gitOf runs git in the shop's repository.
func (w *world) gitOf(args ...string) string {
	w.t.Helper()
	args = append([]string{"--git-dir", w.repos.Path(shopID), "-c", "user.name=Ada", "-c", "user.email=ada@example.com"},
		args...)
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
		"specs/app.yaml": appSpec, "specs/functions.yaml": functionSpec, "site/index.html": page,
		"hello/hello.py": "def main(event):\n    return 'hello'\n",
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
	runs := testkit.Must(accept.GitReceiver{Acceptor: w.acceptor}.Accept(
		w.t.Context(), remote.Repository{App: shopID, Name: "shop", Actor: "ada"}, []remote.Update{update}))(w.t)
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.jobs.Run(ctx, jobs.Duties{Work: true}) }()
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

// makeRecords makes what else there is to show: an alias, a job and a webhook, an execution with a log, a run that waits, and versions that
// nothing needs.
func (w *world) makeRecords() {
	w.t.Helper()
	w.update(func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.UnitInNamespace(ctx, landfall.DefaultNamespace,
			landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"})
		if err != nil {
			return err
		}
		to := []versioning.Weight{{Selector: "1", Percent: 100}}
		_, err = versioning.SetAlias(ctx, tx, row,
			versioning.NewAlias{Name: "stable", Create: true, To: to, Actor: "ada", At: time.Now()})
		err = errors.Join(err, tx.CreateAliasMove(ctx, row.ID, store.AliasMove{Alias: "stable", From: "1", To: "1", Actor: "bo"}))
		_, _, errTag := versioning.SetFunctionTag(ctx, tx, versioning.NewFunctionTag{
			Namespace: landfall.DefaultNamespace, Name: "morning", Functions: []landfall.Reference{{Name: "hello"}},
			Create: true, Actor: "ada", At: time.Now(),
		})
		err = errors.Join(err, errTag)
		done := store.ExecutionRecord{Log: []string{"a line of the log\n"}, Execution: landfall.Execution{
			ID: executionID, AppID: shopID, Namespace: landfall.DefaultNamespace, Function: "hello", Number: 1,
			State: landfall.ExecutionSucceeded, Created: time.Now(), Started: time.Now(), Finished: time.Now(),
		}}
		dead := store.ExecutionRecord{Execution: done.Execution}
		dead.ID, dead.State, dead.Async, dead.Dead = deadID, landfall.ExecutionFailed, true, true
		waits := landfall.Run{
			ID: queuedRun, App: shopID, Commit: landfall.CommitSHA(strings.Repeat("e", 40)), Branch: "draft",
			State: landfall.RunQueued, UID: "eeeeeeee", Created: time.Now(),
		}
		err = errors.Join(err, fork(ctx, tx))
		for _, id := range []landfall.UnitID{{Kind: landfall.FunctionUnit, Name: "unneeded"},
			{Kind: landfall.PackageUnit, Name: "unneeded-pkg"}, {Kind: landfall.EnvironmentUnit, Name: "unneeded-env"}} {
			err = errors.Join(err, idle(ctx, tx, shopID, id))
		}
		use := landfall.FunctionUse{ID: jobID, Unit: row.ID, Number: 1, Created: time.Now(), Updated: time.Now()}
		job := landfall.Job{FunctionUse: use, Pattern: "0 3 * * *", Next: time.Now().Add(time.Hour),
			State: landfall.JobRunning}
		hook := landfall.FunctionHook{FunctionUse: use, Key: "hookhookhookhookhookhookho"}
		err = errors.Join(err, tx.PutJob(ctx, job), tx.PutFunctionHook(ctx, hook))
		err = errors.Join(err, paced(ctx, tx))
		return errors.Join(err, tx.RecordExecutions(ctx, time.Now(), []store.ExecutionRecord{done, dead}), tx.CreateRun(ctx, waits))
	})
}

// fork makes a run of the shop that waits for approval.
func fork(ctx context.Context, tx *store.Tx) error {
	commit := landfall.CommitSHA(strings.Repeat("f", 40))
	push, err := tx.CreatePush(ctx, landfall.Push{App: shopID, Ref: landfall.PullRef(7), After: commit,
		PullRequest: &landfall.PullRequest{Number: 7, Base: "main", Fork: true}})
	return errors.Join(err, tx.SetHead(ctx, push), tx.CreateRun(ctx, landfall.Run{ID: waitingRun, App: shopID,
		Commit: commit, Branch: landfall.ForkBranch(7), State: landfall.RunWaiting, UID: "ffffffff", Created: time.Now(), Fork: 7,
	}), tx.AddRunRef(ctx, waitingRun, push))
}

// paced makes a function of the shop with two aliases, of which a canary moves one to the second version.
func paced(ctx context.Context, tx *store.Tx) error {
	id := landfall.UnitID{Kind: landfall.FunctionUnit, Name: "paced"}
	if err := idle(ctx, tx, shopID, id); err != nil {
		return err
	}
	row, err := tx.UnitInNamespace(ctx, landfall.DefaultNamespace, id)
	if err != nil {
		return err
	}
	row.LastNumber = 2
	second := landfall.Version{Unit: id, Number: 2, UID: "eeeeeee2", Digest: landfall.DigestOf([]byte("second")),
		Spec: json.RawMessage("{}"), Created: time.Now(), Production: true}
	if err := errors.Join(tx.CreateVersion(ctx, row.ID, second), tx.UpdateUnit(ctx, row)); err != nil {
		return err
	}
	for _, name := range []string{"prod", "qa"} {
		_, err := versioning.SetAlias(ctx, tx, row, versioning.NewAlias{Name: name, Create: true, Actor: "ada",
			To: []versioning.Weight{{Selector: "1", Percent: 100}}, At: time.Now()})
		if err != nil {
			return err
		}
	}
	app, err := tx.App(ctx, shopID)
	if err != nil {
		return err
	}
	_, err = canary.Create(ctx, tx, app, canary.New{Name: "careful", Function: "paced", Alias: "prod", Version: "2",
		Actor: "ada", At: time.Now(), CanaryRule: landfall.CanaryRule{Step: 20, Interval: time.Hour, Threshold: 10,
			MinRequests: 1}})
	return err
}

// idle makes a unit of an app with a version that nothing needs.
func idle(ctx context.Context, tx *store.Tx, of string, id landfall.UnitID) error {
	app, err := tx.App(ctx, of)
	if err != nil {
		return err
	}
	row, err := tx.CreateUnit(ctx, app, id)
	if err != nil {
		return err
	}
	row.LastNumber = 1
	v := landfall.Version{
		Unit: id, Number: 1, UID: "dddddddd", Digest: landfall.DigestOf([]byte(id.Name)), Spec: json.RawMessage("{}"),
		Created: time.Now(), Production: true,
	}
	return errors.Join(tx.CreateVersion(ctx, row.ID, v), tx.UpdateUnit(ctx, row))
}

// export returns the archive of what is live.
func (w *world) export(s *seed) string {
	w.t.Helper()
	app := testkit.Must(w.db.App(w.t.Context(), shopID))(w.t)
	x := parcel.Exporter{DB: w.db, Objects: s.objects, Manifests: &assets.Manifests{Store: s.objects}}
	export := testkit.Must(x.Prepare(w.t.Context(), app, app.Live))(w.t)
	var b bytes.Buffer
	if err := export.Write(w.t.Context(), &b); err != nil {
		w.t.Fatal(err)
	}
	testkit.Equal(w.t, "bytes of an archive", int64(b.Len()), export.Size())
	return b.String()
}

// wordsOf returns what the words in capitals of requests stand for.
func (w *world) wordsOf(archive string) *strings.Replacer {
	w.t.Helper()
	ctx := w.t.Context()
	releases := testkit.Must(w.db.Releases(ctx, shopID))(w.t) // the newest first
	runs := testkit.Must(w.db.Runs(ctx, shopID, landfall.Run{}, 10))(w.t)
	heads := testkit.Must(w.repos.Heads(ctx, shopID))(w.t)
	if len(releases) != 4 || releases[3].Expired.IsZero() || len(runs) != 4 {
		w.t.Fatalf("got the releases %+v and the runs %+v, want four, of which the oldest has expired, and four",
			releases, runs)
	}
	connection, state := w.connectApp()
	return strings.NewReplacer("CONNECTION", connection, "STATE", state, "ARCHIVE", archive, "PREVIOUS", string(releases[1].ID), "OLD", string(releases[3].ID), "RUN", runs[2].ID,
		"DRAFT", string(heads["refs/landfall/apply/abcdefgh"]))
}
