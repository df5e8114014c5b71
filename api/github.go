package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/connect"
	"landfall.dev/landfall/github"
)

func (a *api) registerGitHub(h huma.API) {
	register(h, administering("show-github", http.MethodGet, "/github",
		"The GitHub App that is connected, where it is installed, and what hinders it"), a.showGitHub)
	register(h, administering("list-github-repositories", http.MethodGet, "/github/repositories",
		"The repositories that the installations of the GitHub App see"), a.listGitHubRepositories)
	register(h, administering("begin-github-connection", http.MethodPost, "/github/connections",
		"Begin to connect a GitHub App: a person opens the page in the answer").answering(http.StatusCreated).
		making("{id}"), a.beginGitHub)
	register(h, administering("show-github-connection", http.MethodGet, "/github/connections/{id}",
		"What became of a connection"), a.showGitHubConnection)
	register(h, administering("connect-github-app", http.MethodPut, "/github/app",
		"Take the GitHub App that a person has made, by what GitHub sent back"), a.connectGitHub)
	register(h, administering("disconnect-github-app", http.MethodDelete, "/github/app",
		"Forget the GitHub App with its key and its secrets; it goes on to exist at GitHub"), a.disconnectGitHub)
}

func (a *api) showGitHub(ctx context.Context, _ *struct{}) (*body[client.GitHub], error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	shown := client.GitHub{Token: a.GitHub.Plain != "", Installations: []client.GitHubInstallation{},
		Problems: []client.GitHubProblem{}}
	app, err := a.DB.GitHubApp(ctx)
	if err != nil {
		return answer(shown, landfall.Ignore(err, landfall.NotFound))
	}
	shown.App = gitHubAppOf(app)
	problems, err := a.DB.GitHubProblems(ctx)
	if err != nil {
		return nil, err
	}
	installations, err := a.GitHub.Installations(ctx)
	switch {
	case landfall.Is(err, landfall.Forbidden, landfall.Unavailable, landfall.Conflict):
		shown.Problems = append(shown.Problems, client.GitHubProblem{Problem: landfall.MessageOf(err)})
	case err != nil:
		return nil, err
	}
	for _, p := range problems {
		shown.Problems = append(shown.Problems, client.GitHubProblem(p))
	}
	for _, i := range installations {
		one := client.GitHubInstallation{ID: i.ID, Account: i.Account, Repositories: i.Repositories, URL: i.URL,
			Suspended: i.Suspended, Missing: []string{}}
		for _, p := range i.Missing {
			one.Missing = append(one.Missing, lacking(p))
		}
		shown.Installations = append(shown.Installations, one)
	}
	return answer(shown, nil)
}

// lacking says what does not work without a permission.
func lacking(p github.Permission) string {
	without := p.Without
	if without == "" {
		without = "nothing works"
	}
	return fmt.Sprintf("Without the permission %s:%s, %s.", p.Name, p.Level, without)
}

func gitHubAppOf(app landfall.GitHubApp) *client.GitHubApp {
	return &client.GitHubApp{ID: app.ID, Slug: app.Slug, Name: app.Name, Owner: app.Owner, URL: app.URL,
		Install: app.URL + "/installations/new", Created: app.Created}
}

func (a *api) beginGitHub(ctx context.Context, in *body[client.NewGitHubConnection]) (*body[client.GitHubConnection],
	error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	begun, there, err := made(ctx, func(ctx context.Context, id string) (landfall.GitHubConnection, error) {
		return a.DB.GitHubConnection(ctx, id, "")
	})
	if err == nil && !there {
		begun, err = a.GitHub.Begin(ctx, newID(ctx), in.Body.Organization, in.Body.Name)
	}
	if err != nil {
		return nil, err
	}
	return answer(a.gitHubConnectionOf(begun))
}

// gitHubConnectionOf is a connection as administrators see it.
func (a *api) gitHubConnectionOf(c landfall.GitHubConnection) (client.GitHubConnection, error) {
	shown := client.GitHubConnection{ID: c.ID, State: "waiting", Problem: c.Problem,
		URL: a.URL.JoinPath(connect.BeginPath, c.ID).String(), Asks: []string{}}
	for _, p := range github.Permissions() {
		shown.Asks = append(shown.Asks, p.Name+":"+p.Level)
	}
	switch {
	case c.App != 0:
		shown.State = "connected"
	case c.Problem != "":
		shown.State = "failed"
	case a.GitHub.Over(c):
		shown.State = "expired"
	default:
		form, err := a.GitHub.FormOf(c)
		if err != nil {
			return shown, err
		}
		shown.Action, shown.Manifest, shown.Note = form.Action, form.Manifest, a.GitHub.Unreachable()
	}
	return shown, nil
}

func (a *api) showGitHubConnection(ctx context.Context, in *struct {
	ID string `path:"id"`
}) (*body[client.GitHubConnection], error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	c, err := a.DB.GitHubConnection(ctx, in.ID, "")
	if err != nil {
		return nil, err
	}
	return answer(a.gitHubConnectionOf(c))
}

func (a *api) connectGitHub(ctx context.Context, in *body[client.MadeGitHubApp]) (*body[client.GitHubApp], error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	app, err := a.GitHub.Finish(ctx, in.Body.State, in.Body.Code)
	if err != nil {
		return nil, err
	}
	return answer(*gitHubAppOf(app), nil)
}

func (a *api) disconnectGitHub(ctx context.Context, _ *struct{}) (*body[client.GitHubApp], error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	app, err := a.GitHub.Disconnect(ctx)
	if err != nil {
		return nil, err
	}
	return answer(*gitHubAppOf(app), nil)
}

// appAtGitHub is an app whose repository is reached as the GitHub App.
func (a *api) appAtGitHub(ctx context.Context, app landfall.App) (client.App, error) {
	c := a.appOf(app)
	err := a.showCredentials(ctx, app, &c)
	return c, err
}

// gitHubProblem says what hinders the GitHub App in an app's repository; empty when nothing is known.
func (a *api) gitHubProblem(ctx context.Context, app landfall.App) (string, error) {
	named := app.GitHub.Owner + "/" + app.GitHub.Name
	if app.GitHub.Name == "" {
		_, path, _ := strings.Cut(app.Repository, ":") // of an address for ssh
		if u, err := url.Parse(app.Repository); err == nil {
			path = u.Path
		}
		named = strings.Trim(strings.TrimSuffix(path, ".git"), "/")
	}
	p, err := a.DB.GitHubProblem(ctx, named)
	return p.Problem, landfall.Ignore(err, landfall.NotFound)
}
