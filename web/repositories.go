package web

import (
	"net/http"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/connect"
)

// These are where the repositories of the GitHub App are, and where an app is made of one.
const (
	repositoriesPath = connect.Path + "/repositories"
	newAppPath       = connect.Path + "/new-app"
)

// repositoriesPage is what the installations of the GitHub App see.
type repositoriesPage struct {
	client.GitHubRepositories

	Filter  string
	Problem string // why nothing is listed
}

// repositories lists what the GitHub App sees, as far as a filter admits it, to administrators.
func repositories(r *request) (*view, error) {
	p := repositoriesPage{Filter: r.URL.Query().Get("filter")}
	v := &view{page: "repositories", title: "Repositories at GitHub", crumbs: repositoriesCrumbs()}
	err := r.get("/github/repositories?"+query("filter", p.Filter), &p.GitHubRepositories)
	if r.token.Allows(landfall.ScopeAdmin, "") &&
		landfall.Is(err, landfall.Unavailable, landfall.NotFound, landfall.Conflict, landfall.Forbidden) {
		p.Problem, v.status, err = landfall.MessageOf(err), landfall.KindOf(err).HTTPStatus(), nil
	}
	v.data = p
	return v, err
}

func repositoriesCrumbs() []crumb {
	return append(gitHubCrumbs(), crumb{"Repositories", repositoriesPath})
}

// newAppPage asks how an app of a repository is to be.
type newAppPage struct{ Repository, Name string }

// askNewApp asks for the name of an app of a repository.
func askNewApp(r *request) (*view, error) {
	if !r.token.Allows(landfall.ScopeAdmin, "") {
		return nil, landfall.Errorf("web", landfall.Forbidden,
			"Your token may not make apps of repositories at GitHub: that is for administrators of the whole server.")
	}
	p := newAppPage{Repository: r.URL.Query().Get("repository")}
	_, name, _ := strings.Cut(strings.ToLower(p.Repository), "/")
	if landfall.CheckAppName(name) == nil {
		p.Name = name
	}
	return &view{page: "newapp", title: "Make an app", data: p,
		crumbs: append(repositoriesCrumbs(), crumb{"Make an app", r.URL.RequestURI()})}, nil
}

// makeApp makes an app of a repository, as landfall app create --repo OWNER/NAME does.
func makeApp(r *request) (to string, err error) {
	asked := client.NewApp{Name: r.PostFormValue("name"), Repository: r.PostFormValue("repository"),
		Branch: r.PostFormValue("branch"), Folder: r.PostFormValue("folder")}
	if !connect.IsName(asked.Repository) {
		return "", landfall.Errorf("web", landfall.Invalid,
			"%q is no repository at GitHub: write it as OWNER/NAME.", asked.Repository)
	}
	var made client.App
	err = r.api.Do(r.Context(), http.MethodPost, "/apps", asked, &made)
	return appURL(made.Name) + "?done=made", err
}
