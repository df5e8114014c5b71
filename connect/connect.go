// Package connect keeps the GitHub App by which this installation speaks to GitHub: it has it made by GitHub's manifest
// flow, seals its key and its secrets, and gives others what they may do with it.
package connect

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// Config is what a Connection stands on.
type Config struct {
	DB      *store.DB
	Secrets *secret.Keeper // nil: this process has no key of the secrets
	URL     *url.URL       // of the control host, as GitHub reaches it
	API     string         // base address of GitHub's API
	Plain   github.Token   // for requests while no App is connected; may be empty
	Client  *http.Client   // for requests to GitHub
	Now     func() time.Time
	Logger  *slog.Logger
}

// Connection is what this installation has of GitHub. It is safe for concurrent use.
type Connection struct {
	Config

	tokens *github.Tokens

	mu     sync.Mutex
	sealed string // what opened was sealed as
	opened secrets
}

// secrets are those of an App.
type secrets struct {
	Key           string `json:"key"` // PEM
	WebhookSecret string `json:"webhook_secret"`
	ClientID      string `json:"client_id"`
	ClientSecret  string `json:"client_secret"`
}

// New returns a connection. Invalid when the address of the API is none.
func New(c Config) (*Connection, error) {
	own := &Connection{Config: c}
	tokens, err := github.NewTokens(c.API, github.Credentials{App: own.app, Plain: c.Plain, Now: c.Now, Noted: own.noted},
		c.Client)
	if err != nil {
		return nil, err
	}
	own.tokens, own.API = tokens, tokens.API()
	return own, nil
}

// Tokens gives requests to GitHub their credentials.
func (c *Connection) Tokens() *github.Tokens { return c.tokens }

// owner is to whom the sealed secrets belong: the installation, and none of its apps.
func owner() secret.Owner { return secret.Owner{Name: "github-app"} }

// open returns the secrets of an App.
func (c *Connection) open(app landfall.GitHubApp) (secrets, error) {
	if c.Secrets == nil {
		return secrets{}, noKey()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed == string(app.Sealed) {
		return c.opened, nil
	}
	text, err := c.Secrets.Open(owner(), app.Sealed)
	var opened secrets
	if err == nil {
		err = json.Unmarshal([]byte(text.Reveal()), &opened)
	}
	if err != nil {
		return secrets{}, landfall.Wrapf("connect.open", landfall.Conflict, err, "the key of the GitHub App %s cannot be "+
			"opened: this server has another key of its secrets than it was sealed under (LANDFALL_SECRET_KEY)", app.Slug)
	}
	c.sealed, c.opened = string(app.Sealed), opened
	return opened, nil
}

func noKey() error {
	return landfall.Errorf("connect", landfall.Unavailable,
		"this server has no key to seal a GitHub App's secrets with: set LANDFALL_SECRET_KEY")
}

// app returns the App for requests. NotFound when none is connected.
func (c *Connection) app(ctx context.Context) (github.App, error) {
	row, err := c.DB.GitHubApp(ctx)
	if err != nil {
		return github.App{}, err
	}
	if row.API != c.API {
		return github.App{}, landfall.Errorf("connect", landfall.Forbidden, "The GitHub App %s was made at %s, and "+
			"LANDFALL_GITHUB_API is %s: set it back, or connect another App (landfall github connect).", row.Slug, row.API,
			c.API)
	}
	opened, err := c.open(row)
	if err != nil {
		return github.App{}, err
	}
	key, err := github.ParseKey(opened.Key)
	return github.App{ID: row.ID, Slug: row.Slug, Key: key, Changed: row.Changed}, err
}

// Login returns the user in whose name the App writes; empty when none is connected.
func (c *Connection) Login(ctx context.Context) (string, error) {
	row, err := c.DB.GitHubApp(ctx)
	if err != nil {
		return "", landfall.Ignore(err, landfall.NotFound)
	}
	return github.App{Slug: row.Slug}.Login(), nil
}

// WebhookSecret returns the secret with which GitHub signs what it delivers to an App.
func (c *Connection) WebhookSecret(app landfall.GitHubApp) (secret.Text, error) {
	opened, err := c.open(app)
	return secret.Text(opened.WebhookSecret), err
}

// Contents returns the password with which git fetches the repository of an app, as the App. Forbidden, with a
// sentence, when the App may not, or the repository is not at its GitHub; no other server ever gets the password.
func (c *Connection) Contents(ctx context.Context, app landfall.App) (secret.Text, error) {
	row, err := c.DB.GitHubApp(ctx)
	if err != nil {
		return "", landfall.Wrapf("connect.Contents", landfall.Forbidden, err, "The repository of %s is reached as a GitHub "+
			"App, and none is connected: landfall github connect.", app.Name)
	}
	repository, ok := repositoryAt(row, app.Repository)
	if !ok {
		return "", landfall.Errorf("connect.Contents", landfall.Forbidden,
			"The repository of %s is not on the server of the GitHub App %s.", app.Name, row.Slug)
	}
	if app.GitHubConfirmed && app.GitHub.Name != "" {
		repository = app.GitHub // it may have been renamed
	}
	token, err := c.tokens.Contents(ctx, repository)
	return secret.Text(token), err
}

// repositoryAt returns the repository that an address names on the server of an App; false when it names none there.
func repositoryAt(app landfall.GitHubApp, address string) (landfall.GitHubRepository, bool) {
	u, err := url.Parse(address)
	page, wrong := url.Parse(app.URL)
	if err != nil || wrong != nil || u.Scheme != page.Scheme || !strings.EqualFold(u.Host, page.Host) || u.User != nil {
		return landfall.GitHubRepository{}, false
	}
	owner, name, ok := strings.Cut(strings.Trim(strings.TrimSuffix(u.Path, ".git"), "/"), "/")
	return landfall.GitHubRepository{Owner: owner, Name: name}, ok && !strings.Contains(name, "/")
}

// Address returns the clone address of a repository (owner/name) on the server of the App, once the App may fetch it.
// NotFound when no App is connected; Forbidden, with a sentence, when it may not.
func (c *Connection) Address(ctx context.Context, repository string) (string, error) {
	row, err := c.DB.GitHubApp(ctx)
	if err != nil {
		return "", landfall.Wrapf("connect.Address", landfall.NotFound, err, "%s is a repository at GitHub, and no "+
			"GitHub App is connected: landfall github connect, or give the clone address", repository)
	}
	page, err := url.Parse(row.URL)
	if err != nil {
		return "", err
	}
	owner, name, _ := strings.Cut(repository, "/")
	asked := context.WithValue(ctx, askedKey{}, true)
	if _, err := c.tokens.Contents(asked, landfall.GitHubRepository{Owner: owner, Name: name}); err != nil {
		return "", err
	}
	return (&url.URL{Scheme: page.Scheme, Host: page.Host, Path: "/" + repository + ".git"}).String(), nil
}

// Reaches reports whether an address is one that the App that is connected may reach: on its server.
func (c *Connection) Reaches(ctx context.Context, address string) (bool, error) {
	row, err := c.DB.GitHubApp(ctx)
	if err != nil {
		return false, landfall.Ignore(err, landfall.NotFound)
	}
	_, ok := repositoryAt(row, address)
	return ok, nil
}

// askedKey is the key of contexts in which a person asks for a repository, and reads what hinders. No app may have it.
type askedKey struct{}

// noted records what hinders the App in a repository, once.
func (c *Connection) noted(ctx context.Context, repository, problem string) {
	if problem != "" && ctx.Value(askedKey{}) != nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	known, err := c.DB.GitHubProblem(ctx, repository)
	if err = landfall.Ignore(err, landfall.NotFound); err == nil && known.Problem != problem {
		err = c.DB.Update(ctx, func(tx *store.Tx) error {
			return tx.NoteGitHubProblem(ctx, landfall.GitHubProblem{Repository: repository, Problem: problem, Since: c.Now()})
		})
	}
	if err != nil {
		c.Logger.WarnContext(ctx, "what hinders the GitHub App could not be recorded", "repository", repository,
			"problem", problem, "error", err)
	}
}
