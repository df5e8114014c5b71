package forge

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// World is a server, the forge whose repositories it releases, and the forge's API when the server has credentials.
type World struct {
	*site.Site
	*Forge
	API *githubtest.Server
}

// Says waits until a pull request has our comment, which says every part, and returns it. There is never more than one.
func (w *World) Says(h *Hosted, number int, parts ...string) githubtest.Comment {
	w.T.Helper()
	var all []githubtest.Comment
	w.Eventually("the comment says "+strings.Join(parts, ", "), func() bool {
		all = slices.DeleteFunc(w.API.Comments(h.Name, number), func(c githubtest.Comment) bool {
			return c.Author != githubtest.Self
		})
		return len(all) > 0 && !slices.ContainsFunc(parts, func(part string) bool {
			return !strings.Contains(all[0].Body, part)
		})
	})
	// L-026: one comment for each pull request
	if len(all) != 1 || !strings.HasPrefix(all[0].Body, "<!-- landfall "+w.URL+" -->\n") {
		w.T.Errorf("pull request %d of %s has the comments %+v, want one of ours", number, h.Name, all)
	}
	return all[0]
}

// Label is an address as a comment shows it.
func (w *World) Label(host string) string { return strings.TrimSuffix(w.At(host, "/"), "/") }

// Hook is where deliveries go, and how they are signed.
type Hook struct {
	URL    string
	Secret string
}

// Response is the answer to a delivery.
type Response struct {
	Status   int
	Delivery string   `json:"delivery"`
	Runs     []string `json:"runs"`
	Decision string   `json:"decision"`
	Detail   string   `json:"detail"`
}

// Signature returns the headers that sign a body.
func Signature(secret string, body []byte) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	old := hmac.New(sha1.New, []byte(secret))
	old.Write(body)
	return http.Header{
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
		"X-Hub-Signature":     {"sha1=" + hex.EncodeToString(old.Sum(nil))},
	}
}

// Post sends a delivery with the given signature, and returns the answer.
func Post(tb testing.TB, url string, d Delivery, header http.Header) Response {
	tb.Helper()
	got, err := TryPost(url, d, header)
	if err != nil {
		tb.Fatal(err)
	}
	return got
}

// TryPost is post for a server that may die meanwhile.
func TryPost(url string, d Delivery, header http.Header) (Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(d.Body))
	if err != nil {
		return Response{}, err
	}
	r.Header = header.Clone()
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-Github-Delivery", d.ID)
	r.Header.Set("X-Github-Event", d.Event)
	r.Header.Set("User-Agent", "GitHub-Hookshot/044aadd")
	c := http.Client{Transport: client.LocalTransport()}
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	got := Response{Status: resp.StatusCode}
	err = json.NewDecoder(resp.Body).Decode(&got)
	return got, err
}

// WebhookSecret is the secret of the webhook that several repositories share.
const WebhookSecret = "a secret that the forge and the installation share"

// NewWorld starts a server without credentials for the forge's API. env are more NAME=VALUE settings.
func NewWorld(t testing.TB, env ...string) *World {
	t.Helper()
	f := New(t)
	return &World{Forge: f, Site: site.New(t, append([]string{
		"LANDFALL_GITHUB_WEBHOOK_SECRET=" + WebhookSecret,
		"LANDFALL_ALLOWED_HOSTS=" + f.hosts()}, env...)...)}
}

// Description is GitHub's own description of its API.
var Description = sync.OnceValues(githubtest.Load)

// APIToken is the token that the stand-in of GitHub's API takes.
const APIToken = "ghp_of_the_test"

// NewReportingWorld starts a server that reports to the forge's API.
func NewReportingWorld(t testing.TB, env ...string) *World {
	t.Helper()
	d, err := Description()
	if err != nil {
		t.Fatal(err)
	}
	f, api := New(t), githubtest.New(t, d, APIToken)
	hosts := f.hosts() + "," +
		strings.TrimSuffix(strings.TrimPrefix(api.URL, "http://"), "/")
	return &World{Forge: f, API: api, Site: site.New(t, append([]string{
		"LANDFALL_GITHUB_WEBHOOK_SECRET=" + WebhookSecret, "LANDFALL_GITHUB_TOKEN=" + APIToken,
		"LANDFALL_GITHUB_API=" + api.URL, "LANDFALL_ALLOWED_HOSTS=" + hosts,
		"LANDFALL_GITHUB_DEPLOYMENTS=false"}, env...)...)}
}

// In returns the world for a subtest.
func (w *World) In(t testing.TB) *World {
	t.Helper()
	return &World{Site: w.Site.In(t), Forge: w.Forge, API: w.API}
}

// Follow makes an app of a repository at the forge: both have the same name. The server has looked at the repository
// then.
func (w *World) Follow(name string) (*Hosted, client.App) {
	w.T.Helper()
	h := w.Host(w.T, "harbor/"+name)
	var app client.App
	w.Call(http.MethodPost, "/apps", client.NewApp{Name: name, Repository: h.Clone(), Branch: "main"}, &app)
	w.looks(h)
	return h, app
}

// looks waits until the server has looked at a repository, and forgets that.
func (w *World) looks(h *Hosted) {
	w.T.Helper()
	w.Eventually("the server looks at the repository", func() bool { return w.forget(h.Name) > 0 })
}

// Restart starts the server again, with more settings, and waits until it has looked at a repository.
func (w *World) Restart(h *Hosted, env ...string) {
	w.T.Helper()
	w.Stop()
	w.forget(h.Name)
	w.Start(env...)
	w.looks(h)
}

// Installation is the hook that belongs to no single repository.
func (w *World) Installation() Hook {
	return Hook{URL: w.URL + "/webhooks/github", Secret: WebhookSecret}
}

// Deliver sends a signed delivery, and returns the answer.
func (w *World) Deliver(to Hook, d Delivery) Response {
	w.T.Helper()
	return Post(w.T, to.URL, d, Signature(to.Secret, d.Body))
}

// Hears sends deliveries that must be accepted, and returns the last answer.
func (w *World) Hears(all ...Delivery) Response {
	w.T.Helper()
	var last Response
	for _, d := range all {
		last = w.Deliver(w.Installation(), d)
		if last.Status != http.StatusAccepted {
			w.T.Fatalf("a delivery of %s got %d %s, want 202", d.Event, last.Status, last.Detail)
		}
	}
	return last
}

// WantEnds waits until the commit's newest run is over, and fails the test unless it ended like this and its release
// can be reached at once, or is expired.
func WantEnds(t testing.TB, w *World, app string, commit landfall.CommitSHA, state landfall.RunState,
	parts ...string) client.Run {
	t.Helper()
	run := w.In(t).Finished(app, commit)
	if run.State != state {
		t.Errorf("the run of %s ended as %s (%s), want %s", commit.Short(), run.State, run.Reason, state)
	}
	if run.Release != "" {
		p := w.In(t).Get(w.At(landfall.JoinedLabel(app, string(run.Release)), "/"))
		if p.Status != http.StatusGone && p.Header.Get("Landfall-Release") != string(run.Release) {
			t.Errorf("the run of %s is over, and its release %s answers %d %.100q", commit.Short(), run.Release,
				p.Status, p.Body)
		}
	}
	for _, part := range parts {
		if !strings.Contains(run.Reason, part) {
			t.Errorf("the run of %s says %q, which has no %q", commit.Short(), run.Reason, part)
		}
	}
	return run
}

// Ends is WantEnds for the world's own test.
func (w *World) Ends(app string, commit landfall.CommitSHA, state landfall.RunState, parts ...string) client.Run {
	w.T.Helper()
	return WantEnds(w.T, w, app, commit, state, parts...)
}

// Recorded returns a stored delivery as the API lists it.
func (w *World) Recorded(id string) (client.Delivery, bool) {
	w.T.Helper()
	all := site.List[client.Delivery](w.Site, "/deliveries?limit=1000")
	i := slices.IndexFunc(all, func(d client.Delivery) bool { return d.ID == id })
	if i < 0 {
		return client.Delivery{}, false
	}
	return all[i], true
}

// WasLive returns the releases that were ever live, oldest first.
func (w *World) WasLive(app string) []landfall.UID {
	w.T.Helper()
	var all []landfall.UID
	for _, m := range slices.Backward(site.List[client.Move](w.Site, "/apps/"+app+"/moves?limit=1000&pointer=live")) {
		all = append(all, m.To)
	}
	return all
}

// Runs returns the runs of an app, oldest first.
func (w *World) Runs(app string) []client.Run {
	w.T.Helper()
	all := site.List[client.Run](w.Site, "/runs?limit=1000&app="+app)
	slices.Reverse(all)
	return all
}

// Told waits until the forge has heard a final status of a commit, and returns all statuses of the commit.
func (w *World) Told(commit landfall.CommitSHA) []githubtest.Status {
	w.T.Helper()
	var all []githubtest.Status
	w.Eventually("the forge knows what became of "+commit.Short(), func() bool {
		all = w.API.Statuses(string(commit))
		return len(all) > 0 && all[len(all)-1].State != string(landfall.StatusPending)
	})
	return all
}

// WantTold fails the test unless the forge heard of a commit that it is pending, and then exactly this.
func WantTold(t testing.TB, w *World, commit landfall.CommitSHA, state landfall.StatusState, target string,
	parts ...string) {
	t.Helper()
	all := w.In(t).Told(commit)
	if len(all) != 2 || all[0].State != string(landfall.StatusPending) || all[1].State != string(state) {
		t.Errorf("the forge heard of %s: %+v, want pending and %s", commit.Short(), all, state)
	}
	last := all[len(all)-1]
	if last.Target != target {
		t.Errorf("the status of %s leads to %s, want %s", commit.Short(), last.Target, target)
	}
	for _, part := range parts {
		if !strings.Contains(last.Description, part) {
			t.Errorf("the status of %s says %q, which has no %q", commit.Short(), last.Description, part)
		}
	}
}

// WantPairs fails the test unless every commit and context that was pending got exactly one final status for it. What
// needed no run has a final status alone.
func WantPairs(t testing.TB, all []githubtest.Status) {
	t.Helper()
	last := map[string]string{}
	for _, s := range all {
		key := s.SHA + " " + s.Context
		pending := string(landfall.StatusPending)
		if before, ok := last[key]; ok && (before == pending) == (s.State == pending) {
			t.Errorf("%s: %s (%s) came after %s", key, s.State, s.Description, before)
		}
		last[key] = s.State
	}
	for key, state := range last {
		if state == string(landfall.StatusPending) {
			t.Errorf("%s is pending for ever", key)
		}
	}
}

// Quiet waits until no report is owed any more.
func (w *World) Quiet(apps ...string) {
	w.T.Helper()
	w.Eventually("every report is sent", func() bool {
		for _, app := range apps {
			for _, run := range w.Runs(app) {
				var whole client.Run
				w.Call(http.MethodGet, "/runs/"+run.ID, nil, &whole)
				if slices.ContainsFunc(whole.Statuses, func(s client.CommitStatus) bool { return s.Sent.IsZero() }) {
					return false
				}
			}
		}
		return true
	})
}

// RunPage is where a status of a run leads.
func (w *World) RunPage(id string) string { return fmt.Sprintf("%s/runs/%s", w.URL, id) }
