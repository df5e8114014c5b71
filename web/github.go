package web

import (
	"net/http"
	"net/url"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/connect"
)

// gitHubPage is what is connected of GitHub.
type gitHubPage struct {
	client.GitHub

	Made *client.GitHubApp // the App that was connected just now
}

// gitHub shows what is connected of GitHub, to administrators.
func gitHub(r *request) (*view, error) {
	var p gitHubPage
	if err := r.get("/github", &p.GitHub); err != nil {
		return nil, err
	}
	return &view{page: "github", title: "GitHub", crumbs: gitHubCrumbs(), data: p}, nil
}

func gitHubCrumbs() []crumb { return []crumb{{"GitHub", connect.Path}} }

// beginGitHub begins to connect a GitHub App, and leads to the page from which GitHub makes it.
func beginGitHub(r *request) (to string, err error) {
	var begun client.GitHubConnection
	err = r.api.Do(r.Context(), http.MethodPost, "/github/connections",
		client.NewGitHubConnection{Organization: r.PostFormValue("organization")}, &begun)
	return connect.BeginPath + url.PathEscape(begun.ID), err
}

// connectGitHub shows what a GitHub App may do, and the form that lets GitHub make it.
func connectGitHub(r *request) (*view, error) {
	var c client.GitHubConnection
	if err := r.get("/github/connections/"+url.PathEscape(r.PathValue("id")), &c); err != nil {
		return nil, err
	}
	v := &view{page: "connect", title: "Connect GitHub", crumbs: append(gitHubCrumbs(), crumb{"Connect", ""}), data: c}
	if c.State != "waiting" {
		v.status = http.StatusConflict
		return v, nil
	}
	to, err := url.Parse(c.Action)
	v.formTo = to.Scheme + "://" + to.Host
	return v, err
}

// connectedGitHub takes the App that GitHub made, which sends its maker here.
func connectedGitHub(r *request) (*view, error) {
	query := r.URL.Query()
	var made client.GitHubApp
	if query.Get("code") == "" || query.Get("state") == "" {
		return nil, landfall.Errorf("web", landfall.Invalid,
			"GitHub sends a code and a state, and one is missing. Begin again.")
	}
	err := r.api.Do(r.Context(), http.MethodPut, "/github/app",
		client.MadeGitHubApp{State: query.Get("state"), Code: query.Get("code")}, &made)
	if err != nil {
		return nil, err
	}
	v, err := gitHub(r)
	if err != nil {
		return nil, err
	}
	page, _ := v.data.(gitHubPage)
	page.Made = &made
	v.data = page
	return v, nil
}
