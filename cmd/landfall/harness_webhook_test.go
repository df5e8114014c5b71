package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
)

// hook is where deliveries go, and how they are signed.
type hook struct {
	url    string
	secret string
}

// response is the answer to a delivery.
type response struct {
	status   int
	Delivery string   `json:"delivery"`
	Runs     []string `json:"runs"`
	Decision string   `json:"decision"`
	Detail   string   `json:"detail"`
}

// signature returns the headers that sign a body.
func signature(secret string, body []byte) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	old := hmac.New(sha1.New, []byte(secret))
	old.Write(body)
	return http.Header{
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
		"X-Hub-Signature":     {"sha1=" + hex.EncodeToString(old.Sum(nil))},
	}
}

// post sends a delivery with the given signature, and returns the answer.
func post(tb testing.TB, url string, d delivery, header http.Header) response {
	tb.Helper()
	got, err := tryPost(url, d, header)
	if err != nil {
		tb.Fatal(err)
	}
	return got
}

// tryPost is post for a server that may die meanwhile.
func tryPost(url string, d delivery, header http.Header) (response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(d.body))
	if err != nil {
		return response{}, err
	}
	r.Header = header.Clone()
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-Github-Delivery", d.id)
	r.Header.Set("X-Github-Event", d.event)
	r.Header.Set("User-Agent", "GitHub-Hookshot/044aadd")
	c := http.Client{Transport: client.LocalTransport()}
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	got := response{status: resp.StatusCode}
	err = json.NewDecoder(resp.Body).Decode(&got)
	return got, err
}

// world is a server, the forge whose repositories it releases, and the forge's API when the server has credentials.
type world struct {
	*site
	*forge
	api *githubtest.Server
}

const webhookSecret = "a secret that the forge and the installation share"

// newWorld starts a server without credentials for the forge's API. env are more NAME=VALUE settings.
func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	f := newForge(t)
	return &world{forge: f, site: newSite(t, append([]string{
		"LANDFALL_GITHUB_WEBHOOK_SECRET=" + webhookSecret, "LANDFALL_ALLOWED_HOSTS=" + strings.TrimPrefix(f.url, "http://")}, env...)...)}
}

var description = sync.OnceValues(githubtest.Load)

const apiToken = "ghp_of_the_test"

// newReportingWorld starts a server that reports to the forge's API.
func newReportingWorld(t *testing.T, env ...string) *world {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	f, api := newForge(t), githubtest.New(t, d, apiToken)
	hosts := strings.TrimPrefix(f.url, "http://") + "," + strings.TrimSuffix(strings.TrimPrefix(api.URL, "http://"), "/")
	return &world{forge: f, api: api, site: newSite(t, append([]string{
		"LANDFALL_GITHUB_WEBHOOK_SECRET=" + webhookSecret, "LANDFALL_GITHUB_TOKEN=" + apiToken, "LANDFALL_GITHUB_API=" + api.URL,
		"LANDFALL_ALLOWED_HOSTS=" + hosts}, env...)...)}
}

// in returns the world for a subtest.
func (w *world) in(t *testing.T) *world {
	t.Helper()
	return &world{site: w.site.in(t), forge: w.forge, api: w.api}
}

// follow makes an app of a repository at the forge: both have the same name.
func (w *world) follow(name string) (*hosted, client.App) {
	w.t.Helper()
	h := w.host(w.t, "harbor/"+name)
	var app client.App
	w.call(http.MethodPost, "/apps", client.NewApp{Name: name, Repository: h.clone(), Branch: "main"}, &app)
	return h, app
}

// installation is the hook that belongs to no single repository.
func (w *world) installation() hook {
	return hook{url: w.URL + "/webhooks/github", secret: webhookSecret}
}

// deliver sends a signed delivery, and returns the answer.
func (w *world) deliver(to hook, d delivery) response {
	w.t.Helper()
	return post(w.t, to.url, d, signature(to.secret, d.body))
}

// hears sends deliveries that must be accepted, and returns the last answer.
func (w *world) hears(all ...delivery) response {
	w.t.Helper()
	var last response
	for _, d := range all {
		last = w.deliver(w.installation(), d)
		if last.status != http.StatusAccepted {
			w.t.Fatalf("a delivery of %s got %d %s, want 202", d.event, last.status, last.Detail)
		}
	}
	return last
}

// wantEnds waits until the commit's newest run is over, and fails the test unless it ended like this and its release can be
// reached at once, or is expired.
func wantEnds(t *testing.T, w *world, app string, commit landfall.CommitSHA, state landfall.RunState, parts ...string) client.Run {
	t.Helper()
	run := w.in(t).finished(app, commit)
	if run.State != state {
		t.Errorf("the run of %s ended as %s (%s), want %s", commit.Short(), run.State, run.Reason, state)
	}
	if run.Release != "" {
		p := w.in(t).get(w.at(landfall.JoinedLabel(app, string(run.Release)), "/"))
		if p.status != http.StatusGone && p.header.Get("Landfall-Release") != string(run.Release) {
			t.Errorf("the run of %s is over, and its release %s answers %d %.100q", commit.Short(), run.Release, p.status, p.body)
		}
	}
	for _, part := range parts {
		if !strings.Contains(run.Reason, part) {
			t.Errorf("the run of %s says %q, which has no %q", commit.Short(), run.Reason, part)
		}
	}
	return run
}

// ends is wantEnds for the world's own test.
func (w *world) ends(app string, commit landfall.CommitSHA, state landfall.RunState, parts ...string) client.Run {
	w.t.Helper()
	return wantEnds(w.t, w, app, commit, state, parts...)
}

// recorded returns a stored delivery as the API lists it.
func (w *world) recorded(id string) (client.Delivery, bool) {
	w.t.Helper()
	all := list[client.Delivery](w.site, "/deliveries?limit=1000")
	i := slices.IndexFunc(all, func(d client.Delivery) bool { return d.ID == id })
	if i < 0 {
		return client.Delivery{}, false
	}
	return all[i], true
}

// wasLive returns the releases that were ever live, oldest first.
func (w *world) wasLive(app string) []landfall.UID {
	w.t.Helper()
	var all []landfall.UID
	for _, m := range slices.Backward(list[client.Move](w.site, "/apps/"+app+"/moves?limit=1000&pointer=live")) {
		all = append(all, m.To)
	}
	return all
}

// runs returns the runs of an app, oldest first.
func (w *world) runs(app string) []client.Run {
	w.t.Helper()
	all := list[client.Run](w.site, "/runs?limit=1000&app="+app)
	slices.Reverse(all)
	return all
}

// told waits until the forge has heard a final status of a commit, and returns all statuses of the commit.
func (w *world) told(commit landfall.CommitSHA) []githubtest.Status {
	w.t.Helper()
	var all []githubtest.Status
	w.eventually("the forge knows what became of "+commit.Short(), func() bool {
		all = w.api.Statuses(string(commit))
		return len(all) > 0 && all[len(all)-1].State != string(landfall.StatusPending)
	})
	return all
}

// wantTold fails the test unless the forge heard of a commit that it is pending, and then exactly this.
func wantTold(t *testing.T, w *world, commit landfall.CommitSHA, state landfall.StatusState, target string, parts ...string) {
	t.Helper()
	all := w.in(t).told(commit)
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

// wantPairs fails the test unless every commit and context that was pending got exactly one final status for it. What
// needed no run has a final status alone.
func wantPairs(t *testing.T, all []githubtest.Status) {
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

// quiet waits until no report is owed any more.
func (w *world) quiet(apps ...string) {
	w.t.Helper()
	w.eventually("every report is sent", func() bool {
		for _, app := range apps {
			for _, run := range w.runs(app) {
				var whole client.Run
				w.call(http.MethodGet, "/runs/"+run.ID, nil, &whole)
				if slices.ContainsFunc(whole.Statuses, func(s client.CommitStatus) bool { return s.Sent.IsZero() }) {
					return false
				}
			}
		}
		return true
	})
}

// runPage is where a status of a run leads.
func (w *world) runPage(id string) string { return fmt.Sprintf("%s/runs/%s", w.URL, id) }

// readAs gets an address with the administrator's token.
func (s *site) readAs(address string) page {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Token)
	c := http.Client{Transport: client.LocalTransport(), Timeout: patience}
	resp, err := c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return page{resp.StatusCode, string(body), resp.Header}
}
