package github

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// Credentials are what requests can be sent with.
type Credentials struct {
	App   func(ctx context.Context) (App, error) // the App that is connected; NotFound when none is
	Plain Token                                  // while no App is connected; empty: nothing can be asked then
	Now   func() time.Time

	// Noted is told what hinders the App in a repository (owner/name); nothing hinders it when problem is empty. May be
	// nil.
	Noted func(ctx context.Context, repository, problem string)
}

// Tokens gives requests their credentials: while a GitHub App is connected, an installation token for the one
// repository and with the one permission that the request needs, and no other token in its place; without an App, the
// plain token. It keeps installation tokens until shortly before they expire. It is safe for concurrent use.
type Tokens struct {
	Credentials

	Pace *Pace // for all requests with these tokens

	client *gogithub.Client // its requests have credentials of these tokens

	mu            sync.Mutex
	kept          map[string]kept
	installations map[string]int64 // by the repository, as repositoryOf has it, in lower case
}

// kept is an installation token.
type kept struct {
	token           Token
	issued, expires time.Time
}

const (
	// spare is how long before it expires a token is not used any more.
	spare = 5 * time.Minute

	// contentsAge is how old a token may be with which content is fetched: whether the App still may is asked for anew
	// with each job.
	contentsAge = time.Minute
)

// NewTokens returns tokens for the API at baseURL, which is asked through client. Invalid when that is no address of an
// API.
func NewTokens(baseURL string, from Credentials, client *http.Client) (*Tokens, error) {
	t, own := &Tokens{Credentials: from, Pace: newPace()}, *client
	c, err := newClient(baseURL, &own, func(api *url.URL) http.RoundTripper {
		return &tokenTransport{next: client.Transport, api: api, tokens: t}
	})
	t.client = c
	return t, err
}

// API returns the base address of the API.
func (t *Tokens) API() string { return t.client.BaseURL.String() }

// Client returns a client of the API whose requests get the credentials that they need.
func (t *Tokens) Client() *gogithub.Client { return t.client }

// Contents returns a token with which git fetches a repository. NotFound when no App is connected. Forbidden, with a
// sentence, when the App may not; Unavailable when GitHub does not say.
func (t *Tokens) Contents(ctx context.Context, r landfall.GitHubRepository) (Token, error) {
	app, err := t.App(ctx)
	if err != nil {
		return "", err
	}
	token, _, err := t.installation(ctx, app, nameOf(r), need{"", "contents", "read"}, contentsAge)
	return token, unavailable(err)
}

// unavailable gives an error of a request a kind and a sentence, unless it has one.
func unavailable(err error) error {
	if _, ours := errors.AsType[*landfall.Error](err); err == nil || ours {
		return err
	}
	return landfall.Wrapf("github.Tokens", landfall.Unavailable, err, "GitHub gives the App no token: try again later")
}

// forRequest returns the token for a request, and whether it was issued for an earlier one. anew asks for one that was
// not.
func (t *Tokens) forRequest(ctx context.Context, method, path string, anew bool) (token Token, old bool, err error) {
	app, err := t.App(ctx)
	switch {
	case landfall.Is(err, landfall.NotFound) && t.Plain == "":
		return "", false, landfall.Wrapf("github.Tokens", landfall.Forbidden, err,
			"No GitHub App is connected any more, and the server has no token: landfall github connect.")
	case landfall.Is(err, landfall.NotFound):
		return t.Plain, false, nil
	case err != nil:
		return "", false, err
	case path == "/app" || strings.HasPrefix(path, "/app/") || isInstallationPath(path):
		token, err = app.sign(t.Now())
		return token, false, err
	}
	repository, needed, known := needOf(method, path)
	if !known {
		return "", false, landfall.Errorf("github.Tokens", landfall.Internal,
			"no permission of a GitHub App is known for the request %s %s", method, path)
	}
	age := time.Hour
	if anew {
		age = 0
	}
	return t.installation(ctx, app, repository, needed, age)
}

func isInstallationPath(path string) bool {
	_, rest, ok := repositoryOf(path)
	return ok && rest == "installation"
}

// installation returns a token for a repository that is not older than an age, and whether it was issued before.
func (t *Tokens) installation(ctx context.Context, app App, repository string, needed need,
	age time.Duration) (token Token, old bool, err error) {
	key := strings.ToLower(repository) + " " + needed.permission + ":" + needed.level
	t.mu.Lock()
	k, now := t.kept[key], t.Now()
	t.mu.Unlock()
	if k.token != "" && now.Before(k.expires.Add(-spare)) && now.Sub(k.issued) < age && k.issued.After(app.Changed) {
		return k.token, true, nil
	}
	k, err = t.issue(ctx, app, repository, needed)
	problem, hinders := "", landfall.KindOf(err) == landfall.Forbidden
	if hinders {
		problem = landfall.MessageOf(err)
	}
	if t.Noted != nil && (err == nil || hinders) {
		t.Noted(ctx, repository, problem)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = map[string]kept{}
	}
	for other, old := range t.kept { // nobody asks for most of them again
		if !now.Before(old.expires) {
			delete(t.kept, other)
		}
	}
	delete(t.kept, key)
	if err == nil {
		t.kept[key] = k
	}
	return k.token, false, err
}

// issue asks GitHub for a token. An installation that is known from before may be gone, and another one there.
func (t *Tokens) issue(ctx context.Context, app App, repository string, needed need) (kept, error) {
	id, named, old, err := t.installationOf(ctx, app, repository)
	if err != nil {
		return kept{}, err
	}
	k, response, err := t.issueAt(ctx, id, named, needed)
	if err != nil {
		t.mu.Lock()
		delete(t.installations, strings.ToLower(repository))
		t.mu.Unlock()
	}
	if old && response != nil && response.StatusCode == http.StatusNotFound {
		return t.issue(ctx, app, repository, needed)
	}
	if err != nil {
		return kept{}, refusalOf(app, repository, needed, response, err)
	}
	return k, nil
}

// issueAt asks an installation for a token; without a repository, for all that the installation sees.
func (t *Tokens) issueAt(ctx context.Context, id int64, repository string, needed need) (kept, *gogithub.Response,
	error) {
	_, name, _ := strings.Cut(repository, "/")
	plain, err := url.PathUnescape(name)
	if err != nil {
		return kept{}, nil, err
	}
	now := t.Now()
	var got struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires_at"`
	}
	asked := map[string]any{"permissions": map[string]string{needed.permission: needed.level}}
	switch {
	case isID(repository):
		asked["repository_ids"] = []json.Number{json.Number(repository)}
	case repository != "":
		asked["repositories"] = []string{plain}
	}
	response, err := t.do(ctx, http.MethodPost, "app/installations/"+strconv.FormatInt(id, 10)+"/access_tokens", asked,
		&got)
	return kept{Token(got.Token), now, got.Expires}, response, err
}

// installationOf returns the installation of the App that has a repository, what a token names that by, and whether the
// installation is known from before. A token does not know a repository by an old name: it is named by its ID then.
func (t *Tokens) installationOf(ctx context.Context, app App, repository string) (id int64, named string, old bool,
	err error) {
	key := strings.ToLower(repository)
	t.mu.Lock()
	id = t.installations[key]
	t.mu.Unlock()
	if id != 0 {
		return id, repository, true, nil
	}
	var got struct {
		ID int64 `json:"id"`
	}
	response, err := t.do(ctx, http.MethodGet, pathTo(repository)+"/installation", nil, &got)
	if err != nil {
		return 0, "", false, refusalOf(app, repository, need{}, response, err)
	}
	if led, _, ok := repositoryOf(t.pathOf(response.Request.URL)); ok && isID(led) {
		return got.ID, led, false, nil // until another repository has the name
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.installations == nil {
		t.installations = map[string]int64{}
	}
	t.installations[key] = got.ID
	return got.ID, repository, false, nil
}

// pathOf returns the path of an address of the API, from the API's base address on.
func (t *Tokens) pathOf(u *url.URL) string {
	return "/" + strings.TrimPrefix(strings.TrimPrefix(u.EscapedPath(), t.client.BaseURL.EscapedPath()), "/")
}

func (t *Tokens) do(ctx context.Context, method, path string, body, into any) (*gogithub.Response, error) {
	r, err := t.client.NewRequest(method, path, body)
	if err != nil {
		return nil, err
	}
	return t.client.Do(ctx, r, into)
}

// notIssuedError is the answer of GitHub that a token is to be asked for later: it stands for the answer to the request
// that needed the token.
type notIssuedError struct{ answer *http.Response }

// Error implements error.
func (e *notIssuedError) Error() string {
	return "GitHub gives the App no token: it answered " + e.answer.Status
}

// lacksError says that the App lacks a permission, which may be one that it can do without.
type lacksError struct{ error }

// Unwrap returns the sentence about it.
func (e lacksError) Unwrap() error { return e.error }

// refusalOf returns what it means that GitHub gave no token: Forbidden, with a sentence for people, when the App may
// not act in the repository; else another error, after which it is tried again.
func refusalOf(app App, repository string, needed need, response *gogithub.Response, err error) error {
	if response == nil {
		return err
	}
	if _, limited := limit(response, err, time.Now()); limited || response.StatusCode >= http.StatusInternalServerError {
		return &notIssuedError{response.Response}
	}
	no := func(format string, args ...any) error {
		return landfall.Wrapf("github.Tokens", landfall.Forbidden, err, format, args...)
	}
	message := ""
	if answer, ok := errors.AsType[*gogithub.ErrorResponse](err); ok {
		message = answer.Message
	}
	if isID(repository) {
		repository = "the repository " + repository
	}
	switch {
	case response.StatusCode == http.StatusUnauthorized && strings.Contains(message, "claim"):
		return no("The clock of this server differs from GitHub's, so GitHub refuses the GitHub App %s: set the clock.",
			app.Slug)
	case response.StatusCode == http.StatusUnauthorized:
		return no("GitHub does not accept the key of the GitHub App %s: connect it again (landfall github connect).",
			app.Slug)
	case response.StatusCode == http.StatusNotFound && message == "Integration not found":
		return no("The GitHub App %s was deleted at GitHub: connect another one (landfall github connect).", app.Slug)
	case response.StatusCode == http.StatusForbidden:
		return no("The installation of the GitHub App %s that has %s is suspended: unsuspend it at GitHub.", app.Slug,
			repository)
	case response.StatusCode == http.StatusUnprocessableEntity && strings.Contains(message, "ermission"):
		level := needed.level // what is asked for now may be less than what the App is to have
		for _, p := range Permissions() {
			if p.Name == needed.permission {
				level = p.Level
			}
		}
		return lacksError{no("The GitHub App %s may not do this in %s: give it the permission %s:%s, and accept it at "+
			"GitHub.", app.Slug, repository, needed.permission, level)}
	}
	return no("The GitHub App %s is not installed on %s: install it there, or add the repository to its installation.",
		app.Slug, repository)
}

// tokenTransport gives requests to the API the tokens that they need.
type tokenTransport struct {
	next   http.RoundTripper // nil: http.DefaultTransport
	api    *url.URL
	tokens *Tokens
}

// RoundTrip implements http.RoundTripper. A request that has its token goes as it is. An answer to an older token that
// it may not do this is not believed: the request is sent again, once, with a new one.
func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	if !sameHost(r.URL, t.api) || r.Header.Get("Authorization") != "" {
		return next.RoundTrip(r)
	}
	answer, old, err := t.send(next, r, false)
	if err != nil || !old || !doubted(answer) || (r.Body != nil && r.GetBody == nil) {
		return answer, err
	}
	answer.Body.Close()
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	answer, _, err = t.send(next, again, true)
	return answer, err
}

// send sends a request with its token, and reports whether that was issued for an earlier request.
func (t *tokenTransport) send(next http.RoundTripper, r *http.Request, anew bool) (*http.Response, bool, error) {
	token, old, err := t.tokens.forRequest(r.Context(), r.Method, t.tokens.pathOf(r.URL), anew)
	if err != nil && r.Body != nil {
		r.Body.Close()
	}
	if later, ok := errors.AsType[*notIssuedError](err); ok {
		answer := *later.answer
		answer.Request = r
		return &answer, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	r = r.Clone(r.Context())
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+string(token))
	}
	answer, err := next.RoundTrip(r)
	return answer, old, err
}

// doubted reports whether an answer may come from a token that is not what it was: the installation was changed since.
func doubted(answer *http.Response) bool {
	limited := answer.Header.Get("Retry-After") != "" || answer.Header.Get("X-Ratelimit-Remaining") == "0"
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusNotFound:
		return true
	case http.StatusForbidden:
		return !limited
	}
	return false
}
