package forge

import (
	"bufio"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// NewUnconnectedWorld starts a server that knows where the forge's API is, and has no credentials for it. env are more
// NAME=VALUE settings.
func NewUnconnectedWorld(t testing.TB, env ...string) *World {
	t.Helper()
	d, err := Description()
	if err != nil {
		t.Fatal(err)
	}
	f, api := New(t), githubtest.New(t, d, APIToken)
	api.Pages(f.Address)
	hosts := strings.TrimPrefix(f.Address, "http://") + "," +
		strings.TrimSuffix(strings.TrimPrefix(api.URL, "http://"), "/")
	return &World{Forge: f, API: api, Site: site.New(t, append([]string{
		"LANDFALL_GITHUB_API=" + api.URL, "LANDFALL_ALLOWED_HOSTS=" + hosts}, env...)...)}
}

// Private makes an empty repository that the forge gives only to who has a token for it.
func (w *World) Private(name string) *Hosted {
	w.T.Helper()
	h := w.Host(w.T, name)
	w.Rule(name, Rule{Admits: w.API.Admits})
	return h
}

// AppHook is where GitHub delivers to the App, and how it signs.
func (w *World) AppHook() Hook {
	return Hook{URL: w.API.App().Manifest.HookAttributes.URL, Secret: w.API.App().WebhookSecret}
}

// Tells sends deliveries to the App, which must be accepted, and returns the last answer.
func (w *World) Tells(all ...Delivery) (last Response) {
	w.T.Helper()
	for _, d := range all {
		last = w.Deliver(w.AppHook(), d)
		if last.Status != http.StatusAccepted {
			w.T.Fatalf("a delivery of %s to the App got %d %s, want 202", d.Event, last.Status, last.Detail)
		}
	}
	return last
}

var (
	formAction    = regexp.MustCompile(`<form method="post" action="([^"]+)">`)
	manifestField = regexp.MustCompile(`name="manifest" value="([^"]+)"`)
)

// Connect connects a GitHub App, as an administrator does with the command line and a browser. It returns the last page,
// and what the command printed.
func (w *World) Connect() (last site.Page, printed string) {
	w.T.Helper()
	cmd := exec.Command(testkit.Must(site.Binary())(w.T), "github", "connect", "--organization", "harbor")
	cmd.Env = site.Environ("LANDFALL_SERVER="+w.URL, "LANDFALL_TOKEN="+w.Token)
	var out strings.Builder
	cmd.Stdout = &out
	says := bufio.NewReader(testkit.Must(cmd.StderrPipe())(w.T))
	if err := cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	defer func() {
		if err := cmd.Wait(); err != nil {
			w.T.Errorf("github connect: %v", err)
		}
		printed = out.String()
	}()
	begun := ""
	for begun == "" {
		line, err := says.ReadString('\n')
		if err != nil {
			w.T.Fatalf("github connect says no address to open (%v)", err)
		}
		if found := opened.FindStringSubmatch(line); found != nil {
			begun = found[1]
		}
	}
	return w.click(begun), ""
}

var opened = regexp.MustCompile(`^Open (\S+) and let GitHub make the App`)

// click opens the page of a connection, and lets GitHub make the App. It returns the page to which GitHub leads back.
func (w *World) click(begun string) site.Page {
	w.T.Helper()
	page := w.ReadAs(begun)
	forms := formAction.FindAllStringSubmatch(page.Body, -1)
	manifest := manifestField.FindStringSubmatch(page.Body)
	if page.Status != http.StatusOK || len(forms) == 0 || manifest == nil {
		w.T.Fatalf("the page answers %d without the form:\n%s", page.Status, page.Body)
	}
	action := html.UnescapeString(forms[len(forms)-1][1])
	to, err := url.Parse(action)
	if err != nil {
		w.T.Fatal(err)
	}
	if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' "+
		to.Scheme+"://"+to.Host) {
		w.T.Errorf("the policy of the page is %q, and a browser would not send its form to %s", policy, to.Host)
	}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := browser.PostForm(action, url.Values{"manifest": {html.UnescapeString(manifest[1])}})
	if err != nil {
		w.T.Fatal(err)
	}
	answer.Body.Close()
	back := answer.Header.Get("Location")
	if answer.StatusCode != http.StatusFound {
		w.T.Fatalf("GitHub answered %d to the manifest, want that it sends the person back", answer.StatusCode)
	}
	return w.ReadAs(back)
}

// Installed returns what GitHub delivers when an installation of the App changed.
func Installed(t testing.TB, action, account string) Delivery {
	t.Helper()
	return Delivery{ID: fmt.Sprintf("installation-%s-%s", action, account), Event: "installation",
		Body: testkit.Encode(t, map[string]any{"action": action,
			"installation": map[string]any{"id": 1, "account": map[string]any{"login": account}}})}
}
