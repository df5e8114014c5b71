package connect_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/connect"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

var description = sync.OnceValues(githubtest.Load)

// world is an installation without an App, and GitHub.
type world struct {
	*connect.Connection

	t     *testing.T
	api   *githubtest.Server
	ahead time.Duration
	log   *logtest.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, api: githubtest.New(t, testkit.Must(description())(t), "the plain token"), log: &logtest.Buffer{}}
	key := testkit.Must(secret.NewKey())(t)
	w.Connection = testkit.Must(connect.New(connect.Config{
		DB: storetest.Open(t, storetest.SQLite(t)), Secrets: testkit.Must(secret.ParseKey(key))(t), API: w.api.URL,
		URL: testkit.Must(url.Parse("https://landfall.test"))(t), Plain: "the plain token", Client: &http.Client{},
		Now:    func() time.Time { return time.Now().Add(w.ahead) },
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}))(t)
	return w
}

// made sends the form of a connection, as a browser does, and returns the code that GitHub gives.
func (w *world) made(c landfall.GitHubConnection) string {
	w.t.Helper()
	form := testkit.Must(w.FormOf(c))(w.t)
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer := testkit.Must(browser.PostForm(form.Action, url.Values{"manifest": {form.Manifest}}))(w.t)
	answer.Body.Close()
	back := testkit.Must(url.Parse(answer.Header.Get("Location")))(w.t)
	if !strings.HasPrefix(back.String(), "https://landfall.test/github/connected?") || back.Query().Get("state") != c.State {
		w.t.Fatalf("GitHub sends the person to %q, want back with the state", back)
	}
	return back.Query().Get("code")
}

// wantError fails the test unless an error has the kind and a sentence with the text.
func (w *world) wantError(err error, kind landfall.Kind, text string) {
	w.t.Helper()
	if !landfall.Is(err, kind) || !strings.Contains(landfall.MessageOf(err), text) {
		w.t.Errorf("got %v, want %v with %q", err, kind, text)
	}
}

// An App is taken once, by who knows the state, within an hour; its secrets are sealed.
func TestConnect(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	begun := testkit.Must(w.Begin(ctx, "one", "harbor", ""))(t)
	testkit.Equal(t, "the name of the App", begun.Name, "Landfall landfall.test")
	code := w.made(begun)
	_, err := w.Finish(ctx, "another state", code)
	w.wantError(err, landfall.NotFound, "there is no connection")
	_, err = w.Finish(ctx, begun.State, "../../user")
	w.wantError(err, landfall.Invalid, "a code and a state")
	app := testkit.Must(w.Finish(ctx, begun.State, code))(t)
	if app.ID != w.api.App().ID || app.Slug != githubtest.Slug || app.Owner != "harbor" {
		t.Errorf("got the App %+v, want the one that GitHub made", app)
	}
	_, err = w.Finish(ctx, begun.State, code)
	w.wantError(err, landfall.Conflict, "made already")
	stored := testkit.Must(w.DB.GitHubApp(ctx))(t)
	webhookSecret := testkit.Must(w.WebhookSecret(stored))(t)
	testkit.Equal(t, "the secret of the webhook", webhookSecret.Reveal(), w.api.App().WebhookSecret)
	// S33: the key and the secrets of the App are sealed, and in no log
	if sealed := string(stored.Sealed); strings.Contains(sealed, "PRIVATE KEY") ||
		strings.Contains(sealed, webhookSecret.Reveal()) || strings.Contains(w.log.String(), webhookSecret.Reveal()) {
		t.Error("the secrets of the App can be read")
	}
	w.Secrets = testkit.Must(secret.ParseKey(testkit.Must(secret.NewKey())(t)))(t)
	other := testkit.Must(connect.New(w.Config))(t)
	_, err = other.WebhookSecret(stored)
	w.wantError(err, landfall.Conflict, "LANDFALL_SECRET_KEY")

	if _, err := w.Disconnect(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = w.Disconnect(ctx)
	w.wantError(err, landfall.NotFound, "landfall github connect")
	testkit.Equal(t, "the user while nothing is connected", testkit.Must(w.Login(ctx))(t), "")
}

// A connection that nobody made within an hour is over, and so is one whose code GitHub does not know.
func TestConnectionIsOver(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	late := testkit.Must(w.Begin(ctx, "late", "", ""))(t)
	code := w.made(late)
	w.ahead = 61 * time.Minute
	_, err := w.Finish(ctx, late.State, code)
	w.wantError(err, landfall.Conflict, "is over")
	_, err = w.FormOf(late)
	w.wantError(err, landfall.Conflict, "is over")
	lost := testkit.Must(w.Begin(ctx, "lost", "", ""))(t)
	_, err = w.Finish(ctx, lost.State, "nosuch")
	w.wantError(err, landfall.NotFound, "does not know the code")
	lost = testkit.Must(w.DB.GitHubConnection(ctx, "lost", ""))(t)
	if !w.Over(lost) || !strings.Contains(lost.Problem, "does not know the code") {
		t.Errorf("got %+v, want that it failed, and why", lost)
	}
	for name, organization := range map[string]string{"": "../x", strings.Repeat("x", 35): "harbor"} {
		_, err := w.Begin(ctx, "wrong", organization, name)
		w.wantError(err, landfall.Invalid, "")
	}
}

// The form leads to the pages of the GitHub whose API was configured.
func TestFormLeadsToItsGitHub(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun := testkit.Must(w.Begin(t.Context(), "one", "harbor", ""))(t)
	for api, want := range map[string]string{
		"https://api.github.com/":         "https://github.com/organizations/harbor/settings/apps/new",
		"https://api.harbor.ghe.com/":     "https://harbor.ghe.com/organizations/harbor/settings/apps/new",
		"https://git.harbor.test/api/v3/": "https://git.harbor.test/organizations/harbor/settings/apps/new",
	} {
		config := w.Config
		config.API = api
		form := testkit.Must(testkit.Must(connect.New(config))(t).FormOf(begun))(t)
		action, _, _ := strings.Cut(form.Action, "?")
		testkit.Equal(t, "where the form of "+api+" leads", action, want)
		var manifest githubtest.Manifest
		if err := json.Unmarshal([]byte(form.Manifest), &manifest); err != nil || manifest.Public {
			t.Errorf("got %v %+v, want an App that only its owner can install", err, manifest)
		}
	}
}

// A repository of another server is never fetched as the App, whatever its address looks like.
func TestContentsOfOtherServers(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	w.api.Pages("https://github.test")
	begun := testkit.Must(w.Begin(ctx, "one", "", ""))(t)
	testkit.Must(w.Finish(ctx, begun.State, w.made(begun)))(t)
	w.api.Install("harbor", map[string]int64{"harbor/shop": 1})
	address := testkit.Must(w.Address(ctx, "harbor/shop"))(t)
	testkit.Equal(t, "the clone address", address, "https://github.test/harbor/shop.git")
	if password := testkit.Must(w.Contents(ctx, landfall.App{Repository: address}))(t); password == "" {
		t.Error("the App's own repository got no password")
	}
	for _, other := range []string{
		"http://github.test/harbor/shop.git", "https://github.test.evil.test/harbor/shop.git",
		"https://github.test:8443/harbor/shop.git", "https://evil.test/harbor/shop.git", "https://x@github.test/harbor/shop",
		"https://github.test/harbor/shop/more.git", "https://github.test/harbor",
	} {
		_, err := w.Contents(ctx, landfall.App{Name: "shop", Repository: other})
		// S12: the token of the App goes to its server alone
		w.wantError(err, landfall.Forbidden, "is not on the server of the GitHub App")
	}
}

// What hinders the App in a repository is recorded, until nothing does.
func TestProblems(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	begun := testkit.Must(w.Begin(ctx, "one", "", ""))(t)
	testkit.Must(w.Finish(ctx, begun.State, w.made(begun)))(t)
	_, err := w.Address(ctx, "harbor/shoop")
	w.wantError(err, landfall.Forbidden, "is not installed on harbor/shoop")
	testkit.Equal(t, "problems of what was only asked for", len(testkit.Must(w.DB.GitHubProblems(ctx))(t)), 0)
	_, err = w.Contents(ctx, landfall.App{Name: "shop", Repository: w.api.URL + "Harbor/shop.git"})
	w.wantError(err, landfall.Forbidden, "is not installed on Harbor/shop")
	if all := testkit.Must(w.DB.GitHubProblems(ctx))(t); len(all) != 1 || all[0].Repository != "harbor/shop" {
		t.Errorf("got the problems %+v, want that of harbor/shop", all)
	}
	id := w.api.Install("harbor", map[string]int64{"harbor/shop": 1})
	testkit.Must(w.Address(ctx, "harbor/shop"))(t)
	testkit.Equal(t, "problems", len(testkit.Must(w.DB.GitHubProblems(ctx))(t)), 0)
	w.api.Change(id, func(i *githubtest.Installation) {
		i.Permissions = map[string]string{"metadata": "read", "contents": "read", "statuses": "write", "checks": "write"}
		i.Suspended = true
	})
	all := testkit.Must(w.Installations(ctx))(t)
	if len(all) != 1 || all[0].Suspended.IsZero() || len(all[0].Missing) != 4 || all[0].Missing[0].Name != "pull_requests" {
		t.Errorf("got the installations %+v, want one that is suspended and lacks four permissions", all)
	}
	err = w.DB.Update(ctx, func(tx *store.Tx) error { return tx.NoteGitHubChange(ctx, time.Now()) })
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Contents(ctx, landfall.App{Repository: w.api.URL + "harbor/shop.git"})
	w.wantError(err, landfall.Forbidden, "is suspended")
}
