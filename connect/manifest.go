package connect

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// The paths of the control host that belong to connecting.
const (
	Path          = "/github"
	BeginPath     = Path + "/connect/"  // with a connection's ID: the page with the form
	FinishPath    = Path + "/connected" // where GitHub sends the person back
	maxName       = 34                  // characters of an App's name
	connectWithin = time.Hour           // GitHub's code is valid for as long
)

var (
	accountName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,38})$`)
	codeForm    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)
)

// Begin begins a connection with an id: somebody opens its page then, and lets GitHub make the App. Without a name the
// App is named after the control host. An App that is connected stays so until the new one is.
func (c *Connection) Begin(ctx context.Context, id, organization, name string) (landfall.GitHubConnection, error) {
	const op landfall.Op = "connect.Begin"
	host := c.URL.Hostname()
	if name == "" {
		name = "Landfall " + host
		name = name[:min(len(name), maxName)]
	}
	made := landfall.GitHubConnection{ID: id, State: rand.Text(), Organization: organization, Name: name,
		Created: c.Now()}
	switch {
	case c.Secrets == nil:
		return made, noKey()
	case organization != "" && !accountName.MatchString(organization):
		return made, landfall.Errorf(op, landfall.Invalid,
			"%q is no name of an organization; right would be letters, digits and hyphens", organization)
	case len(name) > maxName:
		return made, landfall.Errorf(op, landfall.Invalid, "the name %q is too long: GitHub takes %d characters", name,
			maxName)
	}
	return made, c.DB.Update(ctx, func(tx *store.Tx) error {
		return tx.PutGitHubConnection(ctx, made, c.Now().Add(-2*connectWithin))
	})
}

// Unreachable returns why GitHub cannot deliver webhooks to this installation; empty when nothing is known against it.
func (c *Connection) Unreachable() string {
	ip := net.ParseIP(c.URL.Hostname())
	if host := c.URL.Hostname(); host != "localhost" && !strings.HasSuffix(host, ".localhost") &&
		(ip == nil || !ip.IsLoopback() && !ip.IsPrivate()) {
		return ""
	}
	return "GitHub cannot reach " + c.URL.String() + ", so it refuses the App or delivers nothing: set LANDFALL_URL to " +
		"an address that it reaches"
}

// Form is what a person's browser sends to GitHub.
type Form struct {
	Action   string // where to
	Manifest string // the field manifest
}

// Over reports whether nothing can come of a connection any more.
func (c *Connection) Over(connection landfall.GitHubConnection) bool {
	return c.checkOpen(connection) != nil
}

// FormOf returns the form of a connection. Conflict when it is over.
func (c *Connection) FormOf(connection landfall.GitHubConnection) (Form, error) {
	if err := c.checkOpen(connection); err != nil {
		return Form{}, err
	}
	permissions := map[string]string{}
	for _, p := range github.Permissions() {
		permissions[p.Name] = p.Level
	}
	manifest, err := json.Marshal(map[string]any{
		"name": connection.Name, "url": c.URL.String(), "public": false,
		"hook_attributes":     map[string]any{"url": c.URL.JoinPath(webhook.Path).String(), "active": true},
		"redirect_url":        c.URL.JoinPath(FinishPath).String(),
		"setup_url":           c.URL.JoinPath(Path).String(),
		"default_permissions": permissions, "default_events": github.Events(),
		"description": "Makes a release of every push, and says in the pull request where it answers.",
	})
	if err != nil {
		return Form{}, err
	}
	at, err := pagesOf(c.API)
	if err != nil {
		return Form{}, err
	}
	if connection.Organization == "" {
		at = at.JoinPath("settings", "apps", "new")
	} else {
		at = at.JoinPath("organizations", connection.Organization, "settings", "apps", "new")
	}
	at.RawQuery = url.Values{"state": {connection.State}}.Encode()
	return Form{at.String(), string(manifest)}, nil
}

// checkOpen fails with Conflict when nothing can come of a connection any more.
func (c *Connection) checkOpen(connection landfall.GitHubConnection) error {
	switch {
	case connection.App != 0:
		return landfall.Errorf("connect", landfall.Conflict, "this connection was made already")
	case connection.Problem != "" || c.Now().Sub(connection.Created) > connectWithin:
		return landfall.Errorf("connect", landfall.Conflict,
			"this connection is over: begin again (landfall github connect)")
	}
	return nil
}

// pagesOf returns where GitHub's pages are, by the address of its API: github.com, a company's ghe.com, or a server of
// its own.
func pagesOf(api string) (*url.URL, error) {
	u, err := url.Parse(api)
	if err != nil {
		return nil, err
	}
	host := u.Host
	if host == "api.github.com" || strings.HasPrefix(host, "api.") && strings.HasSuffix(host, ".ghe.com") {
		host = strings.TrimPrefix(host, "api.")
	}
	return &url.URL{Scheme: u.Scheme, Host: host}, nil
}

// Finish takes the App that GitHub made. NotFound when nobody began a connection with the state.
func (c *Connection) Finish(ctx context.Context, state, code string) (landfall.GitHubApp, error) {
	const op landfall.Op = "connect.Finish"
	if state == "" || !codeForm.MatchString(code) {
		return landfall.GitHubApp{}, landfall.Errorf(op, landfall.Invalid, "GitHub sends a code and a state; one is missing")
	}
	connection, err := c.DB.GitHubConnection(ctx, "", state)
	if err != nil {
		return landfall.GitHubApp{}, err
	}
	if err := c.checkOpen(connection); err != nil {
		return landfall.GitHubApp{}, err
	}
	app, err := c.convert(ctx, code)
	if err == nil {
		connection.App = app.ID
		err = c.DB.Update(ctx, func(tx *store.Tx) error {
			now, err := tx.GitHubConnection(ctx, connection.ID, "")
			if err == nil {
				err = c.checkOpen(now)
			}
			if err != nil {
				return err
			}
			if err := tx.PutGitHubApp(ctx, app); err != nil {
				return err
			}
			return tx.PutGitHubConnection(ctx, connection, time.Time{})
		})
	}
	if landfall.Is(err, landfall.Conflict) { // another request was faster
		return landfall.GitHubApp{}, err
	}
	if err == nil {
		c.Logger.InfoContext(ctx, "a GitHub App is connected", "app", app.Slug, "owner", app.Owner)
		return app, nil
	}
	connection.App, connection.Problem = 0, landfall.MessageOf(err)
	if noting := c.DB.Update(ctx, func(tx *store.Tx) error {
		return tx.PutGitHubConnection(ctx, connection, time.Time{})
	}); noting != nil {
		c.Logger.WarnContext(ctx, "the end of a connection could not be recorded", "error", noting)
	}
	return landfall.GitHubApp{}, err
}

// convert gets an App and its secrets for GitHub's code.
func (c *Connection) convert(ctx context.Context, code string) (landfall.GitHubApp, error) {
	made, err := github.Convert(ctx, c.API, c.Client, code)
	if err != nil {
		return landfall.GitHubApp{}, err
	}
	if _, err := github.ParseKey(made.Key); err != nil {
		return landfall.GitHubApp{}, err
	}
	text, err := json.Marshal(secrets{Key: made.Key, WebhookSecret: made.WebhookSecret, ClientID: made.ClientID,
		ClientSecret: made.ClientSecret})
	if err != nil {
		return landfall.GitHubApp{}, err
	}
	sealed, err := c.Secrets.Seal(owner(), secret.Text(text))
	return landfall.GitHubApp{ID: made.ID, Slug: made.Slug, Name: made.Name, Owner: made.Owner, URL: made.URL, API: c.API,
		Sealed: sealed, Created: c.Now()}, err
}

// Disconnect forgets the App and its secrets. It goes on to exist at GitHub. NotFound when none is connected.
func (c *Connection) Disconnect(ctx context.Context) (landfall.GitHubApp, error) {
	app, err := c.DB.GitHubApp(ctx)
	if err != nil {
		return app, err
	}
	return app, c.DB.Update(ctx, func(tx *store.Tx) error { return tx.DeleteGitHubApp(ctx) })
}
