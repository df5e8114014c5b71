package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// everywhere are gateways that show everything at once.
type everywhere struct{}

func (everywhere) RefreshApp(context.Context, string) error { return nil }

func (everywhere) Shown(context.Context, string) (int64, error) { return math.MaxInt64, nil }

// twin is an app in a folder of its repository, whose runs are worked on alone, or are looked at together with others.
type twin struct {
	*bench

	together bool
	editor   deploy.Editor
	files    map[string]string // of the next commit
	message  string            // of the next commit
	ref      landfall.RefName  // that is pushed to
	heads    []landfall.CommitSHA
}

func newTwin(t *testing.T, key *secret.Keeper, together bool) *twin {
	t.Helper()
	b := newBenchOf(t, landfall.App{Folder: "shop", UIDSpace: uuid.NameSpaceURL})
	p := b.pipeline
	p.Secrets, p.Rollout.Gateways, p.Builds.Bytes = key, everywhere{}, 1<<20
	p.Runs.ReleaseURL = func(_ string, selector landfall.UID) string { return string(selector) }
	w := &twin{bench: b, together: together, ref: "refs/heads/main", files: map[string]string{}}
	w.editor = deploy.Editor{DB: p.DB, Secrets: key, Rollout: p.Rollout, Now: time.Now,
		ReleaseURL: func(string, landfall.UID) string { return "" }}
	return w
}

// changesApp changes what is stored of the app.
func (w *twin) changesApp(change func(*landfall.App)) {
	w.t.Helper()
	w.update(w.pipeline.DB, func(ctx context.Context, tx *store.Tx) (err error) {
		if w.app, err = tx.App(ctx, w.app.ID); err != nil {
			return err
		}
		change(&w.app)
		return tx.UpdateApp(ctx, w.app)
	})
}

// sets gives the app's builds or functions a secret.
func (w *twin) sets(s deploy.NewSecret) {
	w.t.Helper()
	s.Actor = "ada"
	if _, err := w.editor.SetSecret(w.t.Context(), w.app, s); err != nil {
		w.t.Fatal(err)
	}
}

// queues brings a commit to the branch, and returns its run.
func (w *twin) queues(commit landfall.CommitSHA) candidate {
	w.t.Helper()
	p := w.pipeline
	w.changesApp(func(*landfall.App) {})
	c := candidate{app: w.app}
	w.update(p.DB, func(ctx context.Context, tx *store.Tx) error {
		push, err := tx.CreatePush(ctx, landfall.Push{App: w.app.ID, Source: landfall.FromWebhook, Ref: w.ref, After: commit,
			Actor: "ada", Accepted: p.Now()})
		if err != nil {
			return err
		}
		if c.run, err = runs.New(ctx, tx, w.app, push); err != nil {
			return err
		}
		c.pushes = []landfall.Push{push}
		return p.Runs.Queue(ctx, tx, w.app, c.run, "Queued", push)
	})
	return c
}

// pushes brings a commit to the branch, and returns whether its run was ended together with others.
func (w *twin) pushes(commit landfall.CommitSHA) (ended bool, run landfall.Run) {
	w.t.Helper()
	p, c := w.pipeline, w.queues(commit)
	if w.together {
		remote, err := p.Acceptor.Origin(w.t.Context(), w.app, c.pushes)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := p.endUnchanged(w.t.Context(), remote, []candidate{c}); err != nil {
			w.t.Fatal(err)
		}
	}
	run, err := p.DB.Run(w.t.Context(), c.run.ID)
	if err == nil && !run.State.Final() {
		if err = p.Work(w.t.Context(), run.ID); err == nil {
			run, err = p.DB.Run(w.t.Context(), run.ID)
		}
	} else {
		ended = true
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return ended, run
}

// describe says all that people can see of a run and of the app after it, but for times and for what is random.
func (w *twin) describe(run landfall.Run) string {
	w.t.Helper()
	ctx, db := w.t.Context(), w.pipeline.DB
	var s strings.Builder
	line := func(values ...any) { fmt.Fprintln(&s, values...) }
	check := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	line(run.State, run.Step, run.Reason, "uid", run.UID, "release", run.Release, "attempt", run.Attempt)
	line(fmt.Sprintf("%+v", run.Stats))
	changes, err := db.RunChanges(ctx, run.ID)
	check(err)
	encoded := func(v any) string {
		data, err := json.Marshal(v)
		check(err)
		return string(data)
	}
	line(encoded(changes))
	steps, err := db.Steps(ctx, run.ID)
	check(err)
	for _, step := range steps {
		line("step", step.Step, step.Attempt, !step.Finished.IsZero(), step.Message)
	}
	log, err := db.Log(ctx, run.ID, 0, 100)
	check(err)
	for _, l := range log {
		line("log", l.Step, l.Text)
	}
	releases, err := db.AccessibleReleases(ctx, w.app.ID)
	check(err)
	for _, r := range releases {
		line("release", r.ID, r.Line, r.Digest, r.Commit, r.Branch, r.WasLive)
		g, err := db.Group(ctx, w.app.ID, r.ID)
		check(err)
		g.Created, g.Units = time.Time{}, nil
		units, err := db.GroupUnits(ctx, w.app.ID, r.ID)
		check(err)
		for i := range units {
			units[i].UnitID = ""
		}
		line(encoded(g), encoded(units))
	}
	tags, err := db.Tags(ctx, w.app.ID)
	check(err)
	for _, t := range tags {
		line("tag", t.Name, t.Release, t.Ref, t.Kind)
	}
	app, err := db.App(ctx, w.app.ID)
	check(err)
	line("live", app.Live, app.Held, fmt.Sprintf("%+v", app.Policy), app.Branch)
	moves, err := db.Moves(ctx, w.app.ID, landfall.LivePointer, 100)
	check(err)
	for _, m := range moves {
		line("move", m.From, m.To, m.Actor, m.Reason)
	}
	return s.String()
}

// build is a spec file of an app with a build.
func build(environment, more string) string {
	return "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop}\nspec:\n  static:\n    - {src: site, path: /}\n" +
		"  build: {command: make, inputs: [in.txt], outputs: [site], env: {" + environment + "}}\n" + more
}

// What is ended together with others is what would have been made of it alone, and it is ended together only when
// nothing of what it is made of has changed.
func TestUnchangedIsTheSame(t *testing.T) {
	t.Parallel()
	text, err := secret.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := secret.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, changes := range map[string][]turn{
		"pages": {
			{what: "the first push", change: func(w *twin) { w.files["shop/index.html"] = "<p>one" }},
			{what: "nothing", same: true},
			{what: "a file outside", same: true, change: func(w *twin) { w.files["README.md"] = "new" }},
			{what: "a page", change: func(w *twin) { w.files["shop/index.html"] = "<p>two" }},
			{what: "nothing again", same: true},
			{what: "a new file", change: func(w *twin) { w.files["shop/b.html"] = "<p>b" }},
			{what: "a file is gone", change: func(w *twin) { delete(w.files, "shop/b.html") }},
			{what: "back by force to an older commit", again: 1},
			{what: "and once more", again: 1, same: true},
			{what: "another branch", same: true, change: func(w *twin) {
				w.ref, w.files["shop/index.html"] = "refs/heads/topic", "<p>one"
			}},
			{what: "nothing on it", same: true},
			{what: "a page on it", change: func(w *twin) { w.files["shop/index.html"] = "<p>topic" }},
			{what: "production again", change: func(w *twin) { w.ref = "refs/heads/main" }},
			{what: "a tag of git", same: true, change: func(w *twin) { w.ref = "refs/tags/v1" }},
			{what: "live is held", same: true, change: func(w *twin) {
				w.ref = "refs/heads/main"
				w.changesApp(func(app *landfall.App) { app.Held = true })
			}},
			{what: "nothing while it is held", same: true},
			{what: "another production branch", change: func(w *twin) {
				w.changesApp(func(app *landfall.App) { app.Branch = "trunk" })
				w.ref = "refs/heads/trunk"
				w.files["shop/index.html"] = "<p>trunk"
			}},
			{what: "who does not want it", change: func(w *twin) { w.message = "so [skip landfall]" }},
			{what: "a spec that says no more", same: false, change: func(w *twin) {
				w.files["shop/specs/app.yaml"] = "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: shop}\nspec:\n" +
					"  config: {a: b}\n  static:\n    - {src: ., path: /}\n"
			}},
			{what: "nothing with it", same: true},
			{what: "its configuration", change: func(w *twin) {
				w.files["shop/specs/app.yaml"] = strings.ReplaceAll(w.files["shop/specs/app.yaml"], "a: b", "a: c")
			}},
			{what: "a spec that is wrong", change: func(w *twin) { w.files["shop/specs/app.yaml"] = "nonsense" }},
			{what: "it is still wrong"},
		},
		"links": {
			{what: "a link that leads out", change: func(w *twin) {
				w.files["shop/index.html"], w.files["all.css"] = "<p>one", "p {}"
				w.files["shop/all.css"] = "-> ../all.css"
			}},
			{what: "nothing", same: true},
			{what: "what it leads to", change: func(w *twin) { w.files["all.css"] = "b {}" }},
		},
		"builds": {
			{what: "the first push", change: func(w *twin) {
				w.files["shop/in.txt"], w.files["shop/specs/app.yaml"] = "x", build("A: b", "")
			}},
			{what: "nothing", same: true},
			{what: "what no build reads", change: func(w *twin) { w.files["shop/notes.txt"] = "x" }},
			{what: "nothing again", same: true},
			{what: "what the build reads", change: func(w *twin) { w.files["shop/in.txt"] = "y" }},
			{what: "its environment", change: func(w *twin) { w.files["shop/specs/app.yaml"] = build("A: c", "") }},
			{what: "a secret of builds", change: func(w *twin) {
				w.sets(deploy.NewSecret{Name: "npm", Value: "0123456789abcdef", Build: true})
			}},
			{what: "nothing with it", same: true},
			{what: "another value", change: func(w *twin) {
				w.sets(deploy.NewSecret{Name: "npm", Value: "fedcba9876543210", Build: true})
			}},
			{what: "its output is gone, and its digests are enough", same: true, change: func(w *twin) {
				if err := os.RemoveAll(w.pipeline.Builds.Folder); err != nil {
					w.t.Fatal(err)
				}
			}},
			{what: "nothing after that", same: true},
			{what: "paths that do not count", change: func(w *twin) {
				w.files["shop/specs/app.yaml"] = build("A: c", "  release: {skip_paths: [notes.txt]}\n")
			}},
			{what: "one of them", change: func(w *twin) { w.files["shop/notes.txt"] = "y" }},
			{what: "the address of the release", change: func(w *twin) {
				w.files["shop/specs/app.yaml"] = build("LANDFALL_RELEASE_URL: ''", "")
			}},
			{what: "another address"},
			{what: "live by hand", change: func(w *twin) {
				w.files["shop/specs/app.yaml"] = build("A: c", "  release: {live: manual}\n")
			}},
			{what: "nothing while it is by hand", same: true},
		},
		"what was collected": {
			{what: "the first push", change: func(w *twin) { w.files["shop/index.html"] = "<p>one" }},
			{what: "its release expired, and its content is collected", change: func(w *twin) { w.collects() }},
			{what: "nothing", same: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alone, together := newTwin(t, key, false), newTwin(t, key, true)
			for _, s := range changes {
				_, run := s.do(alone)
				ended, other := s.do(together)
				// L-027: an app in which a commit changes nothing is as it would be if it had been worked on alone
				if want, got := alone.describe(run), together.describe(other); got != want {
					t.Fatalf("%s: alone:\n%s\ntogether:\n%s", s.what, want, got)
				}
				// L-027: and it waits for no step, unless something has changed
				if ended != s.same {
					t.Errorf("%s: ended together: %t, want %t; %s", s.what, ended, s.same, other.Reason)
				}
			}
		})
	}
}

// turn is one change, and the push after it.
type turn struct {
	what   string
	change func(w *twin) // nil: a commit with another message
	again  int           // push an earlier commit, counted from 1; 0: a new one
	same   bool          // whether the run has nothing to make
}

func (s turn) do(w *twin) (bool, landfall.Run) {
	w.t.Helper()
	w.message = s.what
	if s.change != nil {
		s.change(w)
	}
	if s.again > 0 {
		return w.pushes(w.heads[s.again-1])
	}
	commit := w.commits(w.message, maps.Clone(w.files))
	w.heads = append(w.heads, commit)
	return w.pushes(commit)
}

// collects expires the releases of the app, and takes their content away.
func (w *twin) collects() {
	w.t.Helper()
	w.update(w.pipeline.DB, func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.AccessibleReleases(ctx, w.app.ID)
		if err != nil {
			return err
		}
		for _, r := range all {
			r.Expired = time.Now()
			if err := tx.PutRelease(ctx, r); err != nil {
				return err
			}
		}
		deleting, err := tx.MarkDeleting(ctx, w.app.ID)
		if len(deleting) == 0 {
			w.t.Error("nothing was collected")
		}
		return err
	})
}

// What is collected between the plan and its commit is not relied on, a run that another worker has is left alone, and
// neither disturbs the others.
func TestUnchangedDecidesAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(w *twin, c candidate)
		woken     bool
		ended     bool
	}{
		"nothing":      {meanwhile: func(*twin, candidate) {}, ended: true},
		"a collection": {meanwhile: func(w *twin, _ candidate) { w.collects() }, woken: true},
		"another worker": {meanwhile: func(w *twin, c candidate) {
			w.update(w.pipeline.DB, func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Lease(ctx, c.run.ID, "another", time.Now(), time.Now().Add(time.Hour), appShare)
				return err
			})
		}},
		"an attempt that failed": {woken: true, meanwhile: func(w *twin, c candidate) {
			w.update(w.pipeline.DB, func(ctx context.Context, tx *store.Tx) error {
				run, err := tx.Lease(ctx, c.run.ID, "another", time.Now(), time.Now().Add(time.Hour), appShare)
				if err != nil {
					return err
				}
				return tx.GiveBack(ctx, run.ID, run.Attempt, time.Now().Add(-time.Second), true, "")
			})
		}},
		"a person": {meanwhile: func(w *twin, c candidate) {
			if _, err := w.pipeline.Runs.Cancel(w.t.Context(), c.run.ID, "ada"); err != nil {
				w.t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTwin(t, nil, false)
			w.files["shop/index.html"] = "<p>one"
			turn{what: "first"}.do(w)
			commit := w.commits("second", maps.Clone(w.files))
			one := w.queues(commit)
			remote, err := w.pipeline.Acceptor.Origin(t.Context(), w.app, one.pushes)
			if err != nil {
				t.Fatal(err)
			}
			mirror, err := w.pipeline.Mirrors.FetchSince(t.Context(), remote, w.ref, commit, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = mirror.Close() })
			j := w.pipeline.judge(t.Context(), mirror, landfall.StepRecord{Step: landfall.StepFetch, Attempt: 1}, one)
			if j == nil {
				t.Fatal("the run was judged to change something")
			}
			c.meanwhile(w, one)
			others, err := w.pipeline.endJudged(t.Context(), mirror, []*judgement{j})
			if err != nil || len(others) > 0 != c.woken {
				t.Errorf("got the others %+v, %v; want some: %t", others, err, c.woken)
			}
			run, err := w.pipeline.DB.Run(t.Context(), one.run.ID)
			if err != nil {
				t.Fatal(err)
			}
			// L-027: what is no longer there when a run ends is not relied on
			if ended := run.State == landfall.RunSucceeded; ended != c.ended {
				t.Errorf("the run is %s: %s", run.State, run.Reason)
			}
		})
	}
}

// What panics while it is looked at is left to its own run, and ends nothing else.
func TestAPanicChangesNothing(t *testing.T) {
	t.Parallel()
	w := newTwin(t, nil, true)
	w.pipeline.Tracer, w.pipeline.DB = new(trace.Tracer), nil // whose first use panics
	c := candidate{run: landfall.Run{ID: "run", App: w.app.ID}, app: w.app}
	if made := w.pipeline.judge(t.Context(), nil, landfall.StepRecord{}, c); made != nil {
		t.Errorf("got %+v, want that the run is worked on alone", made)
	}
}

// Of the runs of a commit, those of apps in which it changes nothing are over when it was looked at together. The others
// are told of at once, and worked on.
func TestWorkCommit(t *testing.T) {
	t.Parallel()
	w := newTwin(t, nil, false)
	p := w.pipeline
	p.Runs.Reporting = true
	w.files["shop/index.html"], w.files["inn/index.html"] = "<p>shop", "<p>inn"
	w.changesApp(func(app *landfall.App) {
		app.GitHub = landfall.GitHubRepository{ID: 1, Owner: "harbor", Name: "many"}
	})
	inn := w.app
	inn.ID, inn.Name, inn.Folder, inn.Objects = "inn-id", "inn", "inn", "apps/default/inn/"
	w.update(p.DB, func(ctx context.Context, tx *store.Tx) error { return tx.CreateApp(ctx, inn) })
	push := func(message string) map[string]landfall.Run {
		commit := w.commits(message, w.files)
		all := map[string]landfall.Run{}
		w.update(p.DB, func(ctx context.Context, tx *store.Tx) error {
			for _, id := range []string{w.app.ID, inn.ID} {
				app, err := tx.App(ctx, id)
				if err != nil {
					return err
				}
				push, err := tx.CreatePush(ctx, landfall.Push{App: id, Source: landfall.FromWebhook, Ref: "refs/heads/main",
					After: commit, Actor: "ada", Accepted: p.Now()})
				if err != nil {
					return err
				}
				run, err := runs.New(ctx, tx, app, push)
				if err != nil {
					return err
				}
				all[app.Name] = run
				app.Repository = "https://forge.example/harbor/many.git" // which both have a copy of here
				if err := p.Runs.Queue(ctx, tx, app, run, "Queued", push); err != nil {
					return err
				}
			}
			return nil
		})
		return all
	}
	state := func(run landfall.Run) landfall.RunState {
		now, err := p.DB.Run(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now.State
	}
	told := func(run landfall.Run) (said []landfall.StatusState) {
		due, err := store.Outbox{DB: p.DB}.Due(t.Context(), p.Now(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range due {
			if r.Run == run.ID {
				said = append(said, r.State)
			}
		}
		return said
	}
	for _, run := range push("first") {
		if err := p.Work(t.Context(), run.ID); err != nil || state(run) != landfall.RunSucceeded {
			t.Fatal(err, state(run))
		}
	}
	for _, changed := range []string{"shop", "inn"} {
		w.files[changed+"/index.html"] = "<p>new"
		all := push(changed + " changes")
		if first := told(all["shop"]); len(first) != 1 {
			t.Errorf("of the first app, %q is told", first)
		}
		if second := told(all["inn"]); len(second) != 0 {
			t.Errorf("of the second app, %q is told before it is known whether it changes", second)
		}
		if err := p.WorkCommit(t.Context(), all["shop"].Commit); err != nil {
			t.Fatal(err)
		}
		for name, run := range all {
			want, says := landfall.RunSucceeded, landfall.StatusSuccess
			if name == changed || name == "shop" {
				says = landfall.StatusPending // which the forge has to be told first
			}
			if name == changed {
				want = landfall.RunQueued
			}
			// L-027: a push to a repository of several apps is worked on in those that it changes
			if got, said := state(run), told(run); got != want || len(said) != 1 || said[0] != says {
				t.Errorf("%s when %s changes: the run is %s, and %q is told; want %s, %s", name, changed, got, said, want, says)
			}
		}
		if err := p.WorkCommit(t.Context(), all["shop"].Commit); err != nil {
			t.Fatal(err)
		}
		if got := state(all[changed]); got != landfall.RunSucceeded {
			t.Errorf("the run of %s, which is left alone, is %s", changed, got)
		}
	}
}
