package githubtest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bot is the user in whose name the App writes, and Slug the App's name in addresses.
const (
	Bot  int64 = 41898282
	Slug       = "landfall-of-the-test"
)

// tokenAge is how long an installation token is valid.
const tokenAge = time.Hour

// App is the GitHub App of a server.
type App struct {
	ID            int64
	Manifest      Manifest
	WebhookSecret string
	Key           *rsa.PrivateKey

	owner string
}

// Manifest is what the maker of an App asks for.
type Manifest struct {
	Name           string            `json:"name"`
	URL            string            `json:"url"`
	RedirectURL    string            `json:"redirect_url"`
	SetupURL       string            `json:"setup_url"`
	Public         bool              `json:"public"`
	Permissions    map[string]string `json:"default_permissions"`
	Events         []string          `json:"default_events"`
	HookAttributes struct {
		URL    string `json:"url"`
		Active bool   `json:"active"`
	} `json:"hook_attributes"`
}

// Installation is an App on an account.
type Installation struct {
	ID           int64
	Account      string
	All          bool             // it has every repository of the account
	Repositories map[string]int64 // owner/name, and the repository's ID
	Permissions  map[string]string
	Suspended    bool
}

// InstallationToken is one that an App got.
type InstallationToken struct {
	Installation int64
	Repositories []string // owner/name of those that it was narrowed to; empty: all of the installation
	Permissions  map[string]string
	Expires      time.Time
	Used         []string // for what, as METHOD PATH

	text string
}

// apps is what a server knows of Apps.
type apps struct {
	app           *App
	server        string // where GitHub's pages and repositories are
	codes         map[string]bool
	installations []*Installation
	installed     int64 // how many installations there ever were
	issued        []*InstallationToken
	ahead         time.Duration
}

func appResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/app-manifests/{code}/conversions":    (*Server).convert,
		"/app":                                 (*Server).showApp,
		"/app/installations":                   (*Server).listInstallations,
		"/app/installations/{installation_id}": (*Server).oneInstallation,
		"/app/installations/{installation_id}/access_tokens": (*Server).issueToken,
		"/repos/{owner}/{repo}/installation":                 (*Server).repositoryInstallation,
		"/installation/repositories":                         (*Server).listRepositories,
	}
}

// Pages sets where GitHub's pages and repositories are, when they are not where its API is.
func (s *Server) Pages(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps.server = strings.TrimSuffix(server, "/")
}

// Advance moves the server's clock.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps.ahead += d
}

func (s *Server) now() time.Time { return time.Now().Add(s.apps.ahead) }

// App returns the App that was registered; nil when there is none.
func (s *Server) App() *App {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apps.app
}

// RemoveApp deletes the App, as its owner does.
func (s *Server) RemoveApp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps = apps{server: s.apps.server, ahead: s.apps.ahead}
	s.removeAppHook()
}

// ChangeKey gives the App another private key; signatures with the old one are refused.
func (s *Server) ChangeKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps.app.Key = key
	return err
}

// Install installs the App on an account, with these repositories (owner/name and their IDs) and with all the
// permissions that it asks for.
func (s *Server) Install(account string, repositories map[string]int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps.installed++
	id := 51_000_000 + s.apps.installed
	s.apps.installations = append(s.apps.installations, &Installation{ID: id, Account: account,
		Repositories: repositories, Permissions: s.apps.app.Manifest.Permissions})
	return id
}

// Change changes an installation.
func (s *Server) Change(id int64, change func(*Installation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.installation(id); i != nil {
		change(i)
	}
}

// Uninstall removes an installation. Its tokens are not valid any more.
func (s *Server) Uninstall(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps.installations = slices.DeleteFunc(s.apps.installations, func(i *Installation) bool { return i.ID == id })
}

// Tokens returns the installation tokens that were issued, oldest first.
func (s *Server) Tokens() []InstallationToken {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]InstallationToken, len(s.apps.issued))
	for i, token := range s.apps.issued {
		all[i] = *token
		all[i].Used = slices.Clone(token.Used)
	}
	return all
}

// Admits reports whether git gives a repository's content to who has a token.
func (s *Server) Admits(repository, token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.valid(token)
	if t == nil || s.installation(t.Installation).Suspended || !s.covers(t, repository) || !allows(t, "contents:read") {
		return token == s.token
	}
	t.Used = append(t.Used, "git "+repository)
	return true
}

func (s *Server) installation(id int64) *Installation {
	for _, i := range s.apps.installations {
		if i.ID == id {
			return i
		}
	}
	return nil
}

// valid returns a token that has not expired, and whose installation is there; nil when there is none.
func (s *Server) valid(text string) *InstallationToken {
	for _, t := range s.apps.issued {
		if t.text == text && s.now().Before(t.Expires) && s.installation(t.Installation) != nil {
			return t
		}
	}
	return nil
}

// covers reports whether a token is for a repository.
func (s *Server) covers(t *InstallationToken, repository string) bool {
	i := s.installation(t.Installation)
	return i.has(repository) && (len(t.Repositories) == 0 || containsFold(t.Repositories, repository))
}

func (i *Installation) has(repository string) bool {
	account, _, _ := strings.Cut(repository, "/")
	for name := range i.Repositories {
		if strings.EqualFold(name, repository) {
			return true
		}
	}
	return i.All && strings.EqualFold(account, i.Account)
}

func containsFold(all []string, one string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.EqualFold(s, one) })
}

// allows reports whether a token has one of the permissions, which are separated by blanks.
func allows(t *InstallationToken, permissions string) bool {
	return slices.ContainsFunc(strings.Fields(permissions), func(permission string) bool {
		name, level, _ := strings.Cut(permission, ":")
		granted := t.Permissions[name]
		if name == "metadata" {
			granted = "read"
		}
		return granted == level || granted == "write" && level == "read"
	})
}

// permissions are what an installation token needs for a request: one of those that GitHub's documentation names.
func permissions() map[string]string {
	const conversation = "issues:write pull_requests:write"
	return map[string]string{
		"POST /repos/{owner}/{repo}/statuses/{sha}":                         "statuses:write",
		"GET /repos/{owner}/{repo}/commits/{ref}/statuses":                  "statuses:read",
		"GET /repos/{owner}/{repo}/commits/{ref}/status":                    "statuses:read",
		"GET /repos/{owner}/{repo}/issues/{issue_number}/comments":          "issues:read pull_requests:read",
		"POST /repos/{owner}/{repo}/issues/{issue_number}/comments":         conversation,
		"GET /repos/{owner}/{repo}/issues/comments/{comment_id}":            "issues:read pull_requests:read",
		"PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}":          conversation,
		"DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}":         conversation,
		"POST /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions": conversation,
		"GET /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions":  "issues:read pull_requests:read",
		"DELETE /repos/{owner}/{repo}/issues/{issue_number}/labels/{name}":  conversation,
		"GET /repos/{owner}/{repo}":                                         "metadata:read",
		"GET /repositories/{repository_id}":                                 "metadata:read",
		"GET /repos/{owner}/{repo}/collaborators/{username}/permission":     "metadata:read",
		"GET /repos/{owner}/{repo}/commits/{commit_sha}/pulls":              "pull_requests:read contents:read",
		"GET /repos/{owner}/{repo}/pulls":                                   "pull_requests:read",
		"GET /repos/{owner}/{repo}/pulls/{pull_number}":                     "pull_requests:read contents:read",
		"GET /repos/{owner}/{repo}/branches":                                "contents:read",
		"GET /repos/{owner}/{repo}/git/matching-refs/{ref}":                 "contents:read",
		"POST /repos/{owner}/{repo}/check-runs":                             "checks:write",
		"PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}":             "checks:write",
		"GET /repos/{owner}/{repo}/check-runs/{check_run_id}":               "checks:read",
		"GET /repos/{owner}/{repo}/commits/{ref}/check-runs":                "checks:read",
		"POST /repos/{owner}/{repo}/deployments":                            "deployments:write",
		"GET /repos/{owner}/{repo}/deployments":                             "deployments:read",
		"DELETE /repos/{owner}/{repo}/deployments/{deployment_id}":          "deployments:write",
		"POST /repos/{owner}/{repo}/deployments/{deployment_id}/statuses":   "deployments:write",
		"GET /repos/{owner}/{repo}/deployments/{deployment_id}/statuses":    "deployments:read",
		"GET /repos/{owner}/{repo}/hooks":                                   "repository_hooks:read",
		"POST /repos/{owner}/{repo}/hooks":                                  "repository_hooks:write",
		"GET /repos/{owner}/{repo}/hooks/{hook_id}":                         "repository_hooks:read",
		"PATCH /repos/{owner}/{repo}/hooks/{hook_id}":                       "repository_hooks:write",
		"DELETE /repos/{owner}/{repo}/hooks/{hook_id}":                      "repository_hooks:write",
		"GET /installation/repositories":                                    "metadata:read",
		"GET /repos/{owner}/{repo}/attestations/{subject_digest}":           "attestations:read",
		"POST /repos/{owner}/{repo}/attestations":                           "attestations:write",
	}
}

// admit refuses a request whose credentials are wrong, or may not do this; nil when they may.
func (s *Server) admit(c call) *reply {
	no := func(status int, text string) *reply {
		answer := refuse(status, text)
		return &answer
	}
	bearer, _ := strings.CutPrefix(c.Request.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	defer s.mu.Unlock()
	operation := c.Route.Method + " " + c.Route.Path
	switch {
	case c.Route.Path == "/app-manifests/{code}/conversions": // the code is the credential
		if bearer != "" {
			s.problems = append(s.problems, operation+" was sent with credentials, and needs none")
		}
		return nil
	case asApp(c.Route.Path) && (s.apps.app != nil || bearer != s.token): // which stands for an App while there is none
		return s.admitApp(bearer, no)
	case bearer == s.token:
		return nil
	}
	t := s.valid(bearer)
	if t == nil {
		return no(http.StatusUnauthorized, "Bad credentials")
	}
	needed, known := permissions()[operation]
	switch {
	case s.installation(t.Installation).Suspended:
		return no(http.StatusForbidden, "This installation has been suspended")
	case !known:
		return no(http.StatusForbidden, "Resource not accessible by integration")
	case c.repository != "/" && !s.covers(t, c.repository):
		return no(http.StatusNotFound, "Not Found")
	case !allows(t, needed):
		return no(http.StatusForbidden, "Resource not accessible by integration")
	}
	t.Used = append(t.Used, c.Route.Method+" "+c.Request.URL.Path)
	return nil
}

// asApp reports whether a path is asked as the App itself.
func asApp(path string) bool {
	return path == "/app" || strings.HasPrefix(path, "/app/") || strings.HasSuffix(path, "{repo}/installation")
}

// author returns the user in whose name a call writes.
func (s *Server) author(c call) int64 {
	if c.Request.Header.Get("Authorization") == "Bearer "+s.token {
		return Self
	}
	return Bot
}

// admitApp checks the JSON web token of an App, as
// https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app describes it.
func (s *Server) admitApp(bearer string, no func(int, string) *reply) *reply {
	parts := strings.Split(bearer, ".")
	var header struct {
		Algorithm string `json:"alg"`
	}
	var claims struct {
		Issued  *float64        `json:"iat"`
		Expires *float64        `json:"exp"`
		Issuer  json.RawMessage `json:"iss"`
	}
	if len(parts) != 3 || !decodePart(parts[0], &header) || !decodePart(parts[1], &claims) || header.Algorithm != "RS256" {
		return no(http.StatusUnauthorized, "A JSON web token could not be decoded")
	}
	now := float64(s.now().Unix())
	switch {
	case claims.Expires == nil || *claims.Expires <= now:
		return no(http.StatusUnauthorized, "'Expiration time' claim ('exp') must be a numeric value representing the "+
			"future time at which the assertion expires")
	case *claims.Expires > now+600:
		return no(http.StatusUnauthorized, "'Expiration time' claim ('exp') is too far in the future")
	case claims.Issued == nil || *claims.Issued > now:
		return no(http.StatusUnauthorized, "'Issued at' claim ('iat') must be an Integer representing the time that the "+
			"assertion was issued")
	case s.apps.app == nil || strings.Trim(string(claims.Issuer), `"`) != strconv.FormatInt(s.apps.app.ID, 10):
		return no(http.StatusNotFound, "Integration not found")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(&s.apps.app.Key.PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return no(http.StatusUnauthorized, "A JSON web token could not be decoded")
	}
	return nil
}

func decodePart(part string, into any) bool {
	data, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(data, into) == nil
}

// MakeApp makes the App of the server, which belongs to an account.
func (s *Server) MakeApp(m Manifest, owner string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	m.Events = append([]string{}, m.Events...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps.app = &App{ID: 3307, Manifest: m, WebhookSecret: rand.Text(), Key: key, owner: owner}
	s.addAppHook()
	return err
}

// register answers the form with a manifest, which a person sends from a browser; false for any other request. The
// person agrees to everything.
func (s *Server) register(w http.ResponseWriter, r *http.Request) bool {
	organisation, ok := strings.CutPrefix(r.URL.Path, "/organizations/")
	if ok {
		organisation, ok = strings.CutSuffix(organisation, "/settings/apps/new")
	} else {
		organisation, ok = "octocat", r.URL.Path == "/settings/apps/new"
	}
	if !ok {
		return false
	}
	var m Manifest
	wrong := ""
	switch err := json.Unmarshal([]byte(r.PostFormValue("manifest")), &m); {
	case r.Method != http.MethodPost || err != nil:
		wrong = "the form has no manifest"
	case m.Name == "" || len(m.Name) > 34:
		wrong = "the name of an App has 1 to 34 characters"
	case m.URL == "" || m.HookAttributes.URL == "" || m.RedirectURL == "":
		wrong = "the manifest lacks an address"
	}
	for _, event := range m.Events {
		needed, known := eventPermissions()[event]
		if _, granted := m.Permissions[needed]; wrong == "" && (!known || !granted && needed != "metadata") {
			wrong = fmt.Sprintf("Default events are not supported by permissions: %s", event)
		}
	}
	if wrong == "" {
		if err := s.MakeApp(m, organisation); err != nil {
			wrong = err.Error()
		}
	}
	if wrong != "" {
		http.Error(w, wrong, http.StatusUnprocessableEntity)
		return true
	}
	code := rand.Text()
	s.mu.Lock()
	s.apps.codes = map[string]bool{code: true}
	s.mu.Unlock()
	http.Redirect(w, r, m.RedirectURL+"?"+url.Values{"code": {code}, "state": {r.URL.Query().Get("state")}}.Encode(),
		http.StatusFound)
	return true
}

// eventPermissions are the permissions without which an App cannot ask for an event. Every App gets the events of its
// installations, and cannot ask for them.
func eventPermissions() map[string]string {
	return map[string]string{
		"push": "contents", "create": "contents", "delete": "contents", "repository": "metadata",
		"pull_request": "pull_requests", "check_run": "checks", "check_suite": "checks", "merge_group": "merge_queues",
		"issue_comment": "issues", "deployment": "deployments", "deployment_status": "deployments", "status": "statuses",
		"label": "metadata", "public": "metadata",
	}
}

// convert gives the App's credentials for a code, once.
func (s *Server) convert(c call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := c.PathParams["code"]
	if !s.apps.codes[code] {
		return refuse(http.StatusNotFound, "Not Found")
	}
	delete(s.apps.codes, code)
	object := s.appObject(c)
	object["client_secret"], object["webhook_secret"] = rand.Text(), s.apps.app.WebhookSecret
	object["client_id"] = "Iv1.8a61f9b3a7aba766"
	object["pem"] = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(s.apps.app.Key)}))
	return say(http.StatusCreated, object)
}

// example returns a copy of what GitHub's documentation has as a successful answer to a call.
func example(c call, status int) map[string]any {
	content := c.Route.Operation.Responses.Status(status).Value.Content["application/json"]
	named := content.Examples["default"]
	if named == nil {
		named = content.Examples["default-response"]
	}
	value := named.Value.Value
	if list, ok := value.([]any); ok {
		value = list[0]
	}
	object, _ := value.(map[string]any)
	return copied(object)
}

// copied returns a copy of a documented object, and of the objects directly within it.
func copied(object map[string]any) map[string]any {
	object = maps.Clone(object)
	for field, value := range object {
		if inner, ok := value.(map[string]any); ok {
			object[field] = maps.Clone(inner)
		}
	}
	return object
}

// appObject returns the App as GitHub shows it.
func (s *Server) appObject(c call) map[string]any {
	status := http.StatusOK
	if c.Route.Method == http.MethodPost {
		status = http.StatusCreated
	}
	object, app := example(c, status), s.apps.app
	object["id"], object["slug"], object["name"] = app.ID, Slug, app.Manifest.Name
	object["external_url"], object["html_url"] = app.Manifest.URL, s.pages()+"/apps/"+Slug
	object["permissions"], object["events"] = app.Manifest.Permissions, app.Manifest.Events
	account(object, "owner", app.owner)
	return object
}

// account sets the login of an account within an object.
func account(object map[string]any, field, login string) {
	if inner, ok := object[field].(map[string]any); ok {
		inner["login"] = login
	}
}

// pages is where GitHub's pages are.
func (s *Server) pages() string {
	if s.apps.server == "" {
		return strings.TrimSuffix(s.URL, "/")
	}
	return s.apps.server
}

func (s *Server) showApp(c call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return say(http.StatusOK, s.appObject(c))
}
