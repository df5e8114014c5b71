package githubtest_test

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
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/github/githubtest"
)

// register makes an App from a manifest as a person's browser does, and returns its private key.
func register(t *testing.T, s *githubtest.Server, path string, permissions map[string]string,
	events ...string) *rsa.PrivateKey {
	t.Helper()
	manifest, err := json.Marshal(map[string]any{
		"name": "Landfall", "url": "http://landfall.test", "redirect_url": "http://landfall.test/github/connected",
		"hook_attributes":     map[string]any{"url": "http://landfall.test/webhooks/github"},
		"default_permissions": permissions, "default_events": events,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.PostForm(s.URL+path+"?state=of-the-test", url.Values{"manifest": {string(manifest)}})
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	back, err := response.Location()
	if err != nil || back.Path != "/github/connected" || back.Query().Get("state") != "of-the-test" {
		t.Fatalf("the browser is sent to %v (%v), want the redirect_url with the state", back, err)
	}
	conversion := "app-manifests/" + back.Query().Get("code") + "/conversions"
	status, made := send(t, s, "", http.MethodPost, conversion, "")
	if status != http.StatusCreated || made["webhook_secret"] == "" {
		t.Fatalf("the conversion got %d %v, want the credentials", status, made)
	}
	if status, _ := send(t, s, "", http.MethodPost, conversion, ""); status != http.StatusNotFound {
		t.Errorf("the second conversion got %d, want 404: a code counts once", status)
	}
	block, _ := pem.Decode([]byte(fmt.Sprint(made["pem"])))
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// jwt returns a JSON web token for an App.
func jwt(t *testing.T, key *rsa.PrivateKey, issuer string, issued, expires time.Duration) string {
	t.Helper()
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	now := time.Now()
	unsigned := part(`{"alg":"RS256","typ":"JWT"}`) + "." +
		part(fmt.Sprintf(`{"iat":%d,"exp":%d,"iss":%q}`, now.Add(issued).Unix(), now.Add(expires).Unix(), issuer))
	sum := sha256.Sum256([]byte(unsigned))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return unsigned + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// send sends a request with credentials, and returns the answer's status and object.
func send(t *testing.T, s *githubtest.Server, credentials, method, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if credentials != "" {
		r.Header.Set("Authorization", "Bearer "+credentials)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var value any
	if err := json.NewDecoder(response.Body).Decode(&value); err != nil {
		t.Fatal(err)
	}
	if list, ok := value.([]any); ok {
		value = map[string]any{"list": list}
	}
	object, _ := value.(map[string]any)
	return response.StatusCode, object
}

// An App proves itself by a short-lived signature, and everything else is refused as GitHub refuses it.
func TestAppSignature(t *testing.T) {
	t.Parallel()
	s := start(t)
	key := register(t, s, "organizations/harbor/settings/apps/new", map[string]string{"contents": "read"}, "push")
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		credentials string
		status      int
		message     string
	}{
		"right":          {jwt(t, key, "3307", -time.Minute, 5*time.Minute), 200, ""},
		"another key":    {jwt(t, other, "3307", -time.Minute, 5*time.Minute), 401, "could not be decoded"},
		"another App":    {jwt(t, key, "3308", -time.Minute, 5*time.Minute), 404, "Integration not found"},
		"expired":        {jwt(t, key, "3307", -time.Hour, -time.Minute), 401, "('exp') must be"},
		"valid for long": {jwt(t, key, "3307", -time.Minute, time.Hour), 401, "too far in the future"},
		"of tomorrow":    {jwt(t, key, "3307", time.Minute, 5*time.Minute), 401, "('iat')"},
		"the token":      {token, 401, "could not be decoded"},
	} {
		status, object := send(t, s, c.credentials, http.MethodGet, "app", "")
		if message, _ := object["message"].(string); status != c.status || !strings.Contains(message, c.message) {
			t.Errorf("%s: got %d %q, want %d %q", name, status, message, c.status, c.message)
		}
	}
	if app := s.App(); app.Manifest.Permissions["contents"] != "read" {
		t.Errorf("the App is %+v, want what the manifest says", app)
	}
}

// An App can ask for an event only with the permission that belongs to it.
func TestManifestEvents(t *testing.T) {
	t.Parallel()
	s := start(t)
	response, err := http.PostForm(s.URL+"settings/apps/new", url.Values{"manifest": {
		`{"name": "x", "url": "http://x", "redirect_url": "http://x", "hook_attributes": {"url": "http://x"},
		"default_permissions": {"contents": "read"}, "default_events": ["push", "merge_group"]}`}})
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnprocessableEntity || s.App() != nil {
		t.Errorf("got %d, want 422 and no App", response.StatusCode)
	}
}

// A token is for an hour, for the repositories and permissions that were asked for, and ends with its installation.
func TestInstallationTokens(t *testing.T) {
	t.Parallel()
	s := start(t)
	key := register(t, s, "settings/apps/new",
		map[string]string{"contents": "read", "metadata": "read", "statuses": "write", "pull_requests": "write"}, "push")
	id := s.Install("harbor", map[string]int64{"harbor/shop": 1, "harbor/mono": 2})
	app := func() string { return jwt(t, key, "3307", -time.Minute, 5*time.Minute) }
	issue := func(body string) (int, string) {
		status, object := send(t, s, app(), http.MethodPost, fmt.Sprintf("app/installations/%d/access_tokens", id), body)
		text, _ := object["token"].(string)
		return status, text
	}
	for body, want := range map[string]int{
		`{"repositories":["lost"]}`:                    422,
		`{"repository_ids":[3]}`:                       422,
		`{"permissions":{"checks":"write"}}`:           422,
		`{"permissions":{"contents":"write"}}`:         422,
		`{"repository_ids":[2]}`:                       201,
		`{"permissions":{"pull_requests":"read"}}`:     201,
		`{"permissions":{"metadata":"read"}}`:          201,
		`{"repositories":["shop"],"permissions":null}`: 400,
	} {
		if status, _ := issue(body); status != want {
			t.Errorf("%s: got %d, want %d", body, status, want)
		}
	}
	_ = s.Problems() // null is not what the description has
	_, narrow := issue(`{"repositories":["shop"],"permissions":{"statuses":"write"}}`)
	const set, comment = "/statuses/" + commit, "/issues/12/comments"
	post := func(credentials, path, body string) int {
		status, _ := send(t, s, credentials, http.MethodPost, "repos/"+path, body)
		return status
	}
	state, text := `{"state":"success"}`, `{"body":"one"}`
	for name, c := range map[string]struct{ got, want int }{
		"its repository":     {post(narrow, "harbor/shop"+set, state), 201},
		"another one":        {post(narrow, "harbor/mono"+set, state), 404},
		"another permission": {post(narrow, "harbor/shop"+comment, text), 403},
		"the plain token":    {post(token, "harbor/mono"+comment, text), 201},
		"no token":           {post("ghs_nothing", "harbor/shop"+set, state), 401},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", name, c.got, c.want)
		}
	}
	if s.Admits("harbor/shop", narrow) || !s.Admits("harbor/shop", token) {
		t.Error("git gives the content to a token without contents:read, or not to the plain one")
	}
	_, all := issue("")
	if status := post(all, "harbor/shop"+comment, text); status != http.StatusCreated || !s.Admits("harbor/mono", all) {
		t.Errorf("a token with everything got %d, want 201, and the content", status)
	}
	if got := s.Comments("harbor/shop", 12); len(got) != 1 || got[0].Author != githubtest.Bot {
		t.Errorf("got %+v, want a comment of the App", got)
	}
	status, list := send(t, s, all, http.MethodGet, "installation/repositories?per_page=1", "")
	if page, _ := list["repositories"].([]any); status != http.StatusOK || len(page) != 1 || list["total_count"] != 2.0 {
		t.Errorf("got %d %v, want the first of two repositories", status, list)
	}
	if status, _ := send(t, s, all, http.MethodGet, "user", ""); status != http.StatusForbidden {
		t.Errorf("an App asked who it is and got %d, want 403: it is no user", status)
	}

	if status, list := send(t, s, app(), http.MethodGet, "app/installations", ""); status != http.StatusOK ||
		!strings.Contains(fmt.Sprint(list), "login:harbor") {
		t.Errorf("got %d %v, want the installation", status, list)
	}

	s.Advance(61 * time.Minute)
	if status := post(all, "harbor/shop"+comment, text); status != http.StatusUnauthorized {
		t.Errorf("after an hour: got %d, want 401", status)
	}
	s.Advance(-61 * time.Minute)
	s.Change(id, func(i *githubtest.Installation) { i.Suspended = true })
	if status := post(all, "harbor/shop"+comment, text); status != http.StatusForbidden {
		t.Errorf("while it is suspended: got %d, want 403", status)
	}
	if status, _ := issue(""); status != http.StatusForbidden {
		t.Errorf("a token while it is suspended: got %d, want 403", status)
	}
	s.Uninstall(id)
	if status := post(all, "harbor/shop"+comment, text); status != http.StatusUnauthorized {
		t.Errorf("after it was removed: got %d, want 401", status)
	}
	for _, path := range []string{fmt.Sprintf("app/installations/%d", id), "repos/harbor/shop/installation"} {
		if status, _ := send(t, s, app(), http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, status)
		}
	}
	if used := s.Tokens()[len(s.Tokens())-2]; len(used.Used) != 1 || used.Repositories[0] != "harbor/shop" {
		t.Errorf("got %+v, want what the token was for and did", used)
	}
}
