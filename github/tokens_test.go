package github_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/github/githubtest"
)

// connected is GitHub with an App that is installed on harbor/shop, and what speaks to it.
type connected struct {
	t            *testing.T
	api          *githubtest.Server
	app          github.App
	ahead        time.Duration
	tokens       *github.Tokens
	client       *gogithub.Client
	installation int64
	noted        map[string]string // problems by repository
}

func connect(t *testing.T) *connected {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	c := &connected{t: t, api: githubtest.New(t, d, token), noted: map[string]string{}}
	asked := map[string]string{}
	for _, p := range github.Permissions() {
		asked[p.Name] = p.Level
	}
	if err := c.api.MakeApp(githubtest.Manifest{Name: "Landfall", Permissions: asked}, "harbor"); err != nil {
		t.Fatal(err)
	}
	c.installation = c.api.Install("harbor", map[string]int64{"harbor/shop": 1, "harbor/mono": 2})
	c.app = github.App{ID: c.api.App().ID, Slug: githubtest.Slug, Key: c.api.App().Key}
	c.tokens, err = github.NewTokens(c.api.URL, github.Credentials{
		App:   func(context.Context) (github.App, error) { return c.app, nil },
		Plain: token,
		Now:   func() time.Time { return time.Now().Add(c.ahead) },
		Noted: func(_ context.Context, repository, problem string) { c.noted[repository] = problem },
	}, &http.Client{})
	if err != nil {
		t.Fatal(err)
	}
	c.client = c.tokens.Client()
	return c
}

// status sets a status of a commit, and returns the answer's status and the error.
func (c *connected) status(name string) (int, error) {
	c.t.Helper()
	_, response, err := c.client.Repositories.CreateStatus(c.t.Context(), "harbor", name, commitA,
		&gogithub.RepoStatus{State: new("success"), Context: new("landfall/shop")})
	if response == nil {
		return 0, err
	}
	return response.StatusCode, err
}

// wantRefused fails the test unless a status is not sent, with a sentence that has the text, and nothing else is used
// in place of the App.
func (c *connected) wantRefused(text string) {
	c.t.Helper()
	before := len(c.api.Statuses(""))
	_, err := c.status("shop")
	if landfall.KindOf(err) != landfall.Forbidden || !strings.Contains(landfall.MessageOf(err), text) {
		c.t.Errorf("got %v, want a sentence with %q", err, text)
	}
	if noted := c.noted["harbor/shop"]; !strings.Contains(noted, text) {
		c.t.Errorf("noted is %q, want %q", noted, text)
	}
	if _, err := c.tokens.Contents(c.t.Context(), landfall.GitHubRepository{Owner: "harbor", Name: "shop"}); err == nil {
		c.t.Error("the content is given all the same")
	}
	if got := len(c.api.Statuses("")); got != before {
		c.t.Errorf("%d statuses were written all the same", got-before)
	}
}

// A request gets a token for its one repository and its one permission, and the next ones get the same until it is
// about to expire.
func TestInstallationTokens(t *testing.T) {
	t.Parallel()
	c := connect(t)
	for range 3 {
		if _, err := c.status("shop"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.client.Issues.CreateComment(t.Context(), "harbor", "shop", 12,
		&gogithub.IssueComment{Body: new("one")}); err != nil {
		t.Fatal(err)
	}
	content, err := c.tokens.Contents(t.Context(), landfall.GitHubRepository{Owner: "harbor", Name: "mono"})
	if err != nil || !c.api.Admits("harbor/mono", string(content)) || c.api.Admits("harbor/shop", string(content)) {
		t.Errorf("the content of another repository is given, or not of this one (%v)", err)
	}
	c.ahead = 56 * time.Minute
	c.api.Advance(c.ahead)
	if _, err := c.status("shop"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, issued := range c.api.Tokens() {
		for permission, level := range issued.Permissions {
			got = append(got, strings.Join(issued.Repositories, ",")+" "+permission+":"+level)
		}
	}
	// S33: each token is for one repository and one permission, and no more are issued than are needed
	if want := []string{"harbor/shop statuses:write", "harbor/shop pull_requests:write", "harbor/mono contents:read",
		"harbor/shop statuses:write"}; !slices.Equal(got, want) {
		t.Errorf("got the tokens %q, want %q", got, want)
	}
	if used := c.api.Tokens()[0].Used; len(used) != 3 {
		t.Errorf("the first token did %q, want the three statuses", used)
	}
}

// Content is fetched with a token that is not older than a minute, so that it is asked for anew whether the App may.
func TestContentsAreAskedForAnew(t *testing.T) {
	t.Parallel()
	c := connect(t)
	repository := landfall.GitHubRepository{Owner: "harbor", Name: "shop"}
	for _, ahead := range []time.Duration{0, 50 * time.Second, 2 * time.Minute} {
		c.api.Advance(ahead - c.ahead)
		c.ahead = ahead
		if _, err := c.tokens.Contents(t.Context(), repository); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(c.api.Tokens()); got != 2 {
		t.Errorf("got %d tokens, want two", got)
	}
	c.app.Changed = c.tokens.Now() // GitHub has told that something changed
	if _, err := c.tokens.Contents(t.Context(), repository); err != nil || len(c.api.Tokens()) != 3 {
		t.Errorf("got %v and %d tokens, want a third one", err, len(c.api.Tokens()))
	}
}

// When the App may not act, that is said in a sentence, and no other token is used in its place. A token that was issued
// before is given up.
func TestAppMayNot(t *testing.T) {
	t.Parallel()
	t.Run("a wrong key", func(t *testing.T) {
		t.Parallel()
		c := connect(t)
		if err := c.api.ChangeKey(); err != nil {
			t.Fatal(err)
		}
		// N-044: a wrong App key
		c.wantRefused("does not accept the key of the GitHub App " + githubtest.Slug)
	})
	t.Run("suspended", func(t *testing.T) {
		t.Parallel()
		c := connect(t)
		if _, err := c.status("shop"); err != nil {
			t.Fatal(err)
		}
		c.api.Change(c.installation, func(i *githubtest.Installation) { i.Suspended = true })
		// N-044: a suspended installation
		c.wantRefused("is suspended")
		c.api.Change(c.installation, func(i *githubtest.Installation) { i.Suspended = false })
		if _, err := c.status("shop"); err != nil || c.noted["harbor/shop"] != "" {
			t.Errorf("got %v and %q after it was unsuspended, want a status", err, c.noted)
		}
	})
	t.Run("removed, and installed again", func(t *testing.T) {
		t.Parallel()
		c := connect(t)
		if _, err := c.status("shop"); err != nil {
			t.Fatal(err)
		}
		c.api.Uninstall(c.installation)
		// N-044: a removed installation
		c.wantRefused("is not installed on harbor/shop")
		c.api.Install("harbor", map[string]int64{"harbor/shop": 1})
		if _, err := c.status("shop"); err != nil {
			t.Errorf("got %v after it was installed again, want a status", err)
		}
	})
	t.Run("installed anew meanwhile", func(t *testing.T) {
		t.Parallel()
		c := connect(t)
		if _, err := c.status("shop"); err != nil {
			t.Fatal(err)
		}
		c.api.Uninstall(c.installation)
		c.api.Install("harbor", map[string]int64{"harbor/shop": 1})
		if _, err := c.status("shop"); err != nil {
			t.Errorf("got %v at another installation, want a status", err)
		}
	})
	t.Run("without the repository", func(t *testing.T) {
		t.Parallel()
		c := connect(t)
		if _, err := c.status("shop"); err != nil {
			t.Fatal(err)
		}
		c.api.Change(c.installation, func(i *githubtest.Installation) { i.Repositories = map[string]int64{"harbor/mono": 2} })
		// S35: what the App had before is given up
		c.wantRefused("add the repository to its installation")
	})
	t.Run("without the permission", func(t *testing.T) {
		t.Parallel()
		c := connect(t)
		c.api.Change(c.installation, func(i *githubtest.Installation) {
			i.Permissions = map[string]string{"metadata": "read", "contents": "read"}
		})
		if _, err := c.status("shop"); !strings.Contains(landfall.MessageOf(err), "permission statuses:write") {
			t.Errorf("got %v, want the permission", err)
		}
	})
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		c := connect(t)
		c.api.RemoveApp()
		c.wantRefused("was deleted at GitHub")
	})
	t.Run("a clock that is wrong", func(t *testing.T) {
		t.Parallel()
		c := connect(t)
		c.ahead = time.Hour
		c.wantRefused("The clock of this server differs")
	})
}

// While GitHub gives no tokens for now, the request gets that answer, with the pause that it asks for.
func TestTokensAreLimited(t *testing.T) {
	t.Parallel()
	c := connect(t)
	for _, fault := range []githubtest.Fault{
		{Status: http.StatusForbidden, Header: map[string]string{"Retry-After": "60"}}, {Status: http.StatusBadGateway},
	} {
		c.api.Fail(1, fault)
		if status, err := c.status("shop"); status != fault.Status || err == nil {
			t.Errorf("got %d %v, want %d", status, err, fault.Status)
		}
	}
	if len(c.noted) != 0 {
		t.Errorf("%q is noted of the repository, want nothing", c.noted)
	}
}

// Without an App, requests have the plain token.
func TestPlainToken(t *testing.T) {
	t.Parallel()
	c := connect(t)
	c.tokens.App = func(context.Context) (github.App, error) {
		return github.App{}, landfall.Errorf("test", landfall.NotFound, "no App is connected")
	}
	if _, err := c.status("shop"); err != nil || len(c.api.Tokens()) != 0 {
		t.Errorf("got %v, want a status by the plain token", err)
	}
}

// A report that the App may not send waits with the reason, and comes when the App may.
func TestReportsOfTheApp(t *testing.T) {
	t.Parallel()
	c := connect(t)
	c.api.Change(c.installation, func(i *githubtest.Installation) { i.Suspended = true })
	box := &outbox{reports: []landfall.Report{{ID: 1, Repository: landfall.GitHubRepository{ID: 1, Owner: "harbor",
		Name: "shop"}, Commit: commitA, Context: "landfall/shop", State: landfall.StatusSuccess}}}
	sender := &github.Sender{Client: c.client, Outbox: box, Now: c.tokens.Now}
	run(t, sender)
	if r := box.reports[0]; !r.Sent.IsZero() || r.Dropped || !strings.Contains(r.Problem, "is suspended") {
		t.Errorf("got %+v, want that it waits for the installation", r)
	}
	c.api.Change(c.installation, func(i *githubtest.Installation) { i.Suspended = false })
	c.ahead = 11 * time.Minute
	c.api.Advance(c.ahead)
	run(t, sender)
	if r := box.reports[0]; r.Sent.IsZero() {
		t.Errorf("got %+v, want that it was sent", r)
	}
}

func run(t *testing.T, sender *github.Sender) {
	t.Helper()
	if sender.Logger == nil {
		sender.Logger = slog.New(slog.DiscardHandler)
	}
	if err := sender.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The App knows its own comment by the name of its user, whom it cannot ask for.
func TestCommentOfTheApp(t *testing.T) {
	t.Parallel()
	c := connect(t)
	box := &comments{all: []landfall.Comment{{Repository: landfall.GitHubRepository{ID: 1, Owner: "harbor", Name: "shop"},
		Number: 12, Owed: landfall.Owed{Wanted: 1}}}}
	sender := &github.Sender{Client: c.client, Outbox: &outbox{}, Comments: box, Now: c.tokens.Now, URL: "http://landfall.test",
		AppLogin: func(context.Context) (string, error) { return c.app.Login(), nil }}
	run(t, sender)
	box.change(12, func(comment *landfall.Comment) { // as after a crash before it was recorded
		comment.ID, comment.Body, comment.Wanted = 0, "", comment.Wanted+1
	})
	run(t, sender)
	if got := c.api.Comments("harbor/shop", 12); len(got) != 1 || got[0].Author != githubtest.Bot {
		t.Errorf("got %+v, want one comment of the App", got)
	}
}

// A key is read in both forms in which keys are written; of a wrong one nothing is shown.
func TestParseKey(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	form8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range []*pem.Block{
		{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}, {Type: "PRIVATE KEY", Bytes: form8},
	} {
		if got, err := github.ParseKey(string(pem.EncodeToMemory(block))); err != nil || !got.Equal(key) {
			t.Errorf("%s: got %v, want the key", block.Type, err)
		}
	}
	for _, wrong := range []string{"", "secret-part", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: []byte("secret-part")}))} {
		if _, err := github.ParseKey(wrong); landfall.KindOf(err) != landfall.Invalid ||
			strings.Contains(err.Error(), "secret-part") {
			t.Errorf("%q: got %v, want Invalid that shows nothing", wrong, err)
		}
	}
}

// Where the App lacks the permission for deployments, they are turned off with the reason, and statuses go on.
func TestAppLacksDeployments(t *testing.T) {
	t.Parallel()
	b, d := deploying(t)
	granted := map[string]string{"metadata": "read", "contents": "read", "statuses": "write"}
	if err := b.server.MakeApp(githubtest.Manifest{Name: "Landfall", Permissions: granted}, "harbor"); err != nil {
		t.Fatal(err)
	}
	b.server.Install("harbor", map[string]int64{"harbor/shop": 710200300})
	app := github.App{ID: b.server.App().ID, Slug: githubtest.Slug, Key: b.server.App().Key}
	tokens, err := github.NewTokens(b.server.URL, github.Credentials{Now: time.Now,
		App: func(context.Context) (github.App, error) { return app, nil }}, &http.Client{})
	if err != nil {
		t.Fatal(err)
	}
	b.Client = tokens.Client()
	d.want("live", live)
	b.outbox.owe(commitA, landfall.StatusSuccess, "Release owf2k7qa is live.")
	b.flush(t)
	if refused := d.refused[710200300].Problem; !strings.Contains(refused, "the permission deployments:write,") {
		t.Errorf("deployments are refused because of %q, want the permission that is missing", refused)
	}
	if got := b.server.Statuses(commitA); len(got) != 1 {
		t.Errorf("got the statuses %+v, want the one that is owed", got)
	}
}

// A repository that was given another name of which we never heard is reached all the same: GitHub leads from the old
// name to its ID.
func TestRenamedRepository(t *testing.T) {
	t.Parallel()
	c := connect(t)
	c.api.Rename("harbor/shop", "harbor/market")
	for range 2 {
		// L-019: a rename is followed by id
		if _, err := c.status("shop"); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.api.Statuses(commitA); len(got) != 2 || got[0].Repository != "harbor/market" {
		t.Errorf("got the statuses %+v, want two of harbor/market", got)
	}
	if _, _, err := c.client.Repositories.Get(t.Context(), "harbor", "shop"); err != nil {
		t.Error(err)
	}
	content, err := c.tokens.Contents(t.Context(), landfall.GitHubRepository{Owner: "harbor", Name: "shop"})
	if err != nil || !c.api.Admits("harbor/market", string(content)) || c.api.Admits("harbor/mono", string(content)) {
		t.Errorf("the token for the content (%v) is not for this one repository", err)
	}
	for _, token := range c.api.Tokens() {
		// S33: a token is for the one repository, by its ID, too
		if len(token.Repositories) != 1 || token.Repositories[0] != "harbor/market" {
			t.Errorf("got a token for %q", token.Repositories)
		}
	}
	c.api.Change(c.installation, func(i *githubtest.Installation) { i.Repositories = map[string]int64{"harbor/shop": 3} })
	c.app.Changed = time.Now()
	if _, err := c.status("shop"); err != nil {
		t.Fatal(err)
	}
	got := c.api.Statuses(commitA)
	if last := got[len(got)-1]; last.Repository != "harbor/shop" {
		t.Errorf("a status is of %s, want of the other repository that has the name now", last.Repository)
	}
}
