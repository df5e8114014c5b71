package forge

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/site"
)

// NewGitHubWorld starts a server with a token for a forge that has repositories and API at one host, as an Enterprise
// server of GitHub has: so the server makes the webhooks of repositories. The forge delivers what happens there by
// API.Deliver.
func NewGitHubWorld(t testing.TB, env ...string) *World {
	t.Helper()
	d, err := Description()
	if err != nil {
		t.Fatal(err)
	}
	f, api := New(t), githubtest.New(t, d, APIToken)
	const path = "/api/v3"
	host := http.NewServeMux()
	host.Handle(path+"/", http.StripPrefix(path, api))
	host.Handle("/organizations/", api) // where an App is made
	host.Handle("/", f)
	server := httptest.NewServer(host)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	f.Address, api.URL = server.URL, server.URL+path+"/"
	api.Pages(f.Address)
	return &World{Forge: f, API: api, Site: site.New(t, append([]string{
		"LANDFALL_GITHUB_TOKEN=" + APIToken, "LANDFALL_GITHUB_API=" + api.URL,
		"LANDFALL_ALLOWED_HOSTS=" + strings.TrimPrefix(server.URL, "http://") + "," + f.SSH.Address}, env...)...)}
}
