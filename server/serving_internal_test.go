package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

type inner interface{ context.Context }

// stopper is a context that ends when it is asked for the n-th time whether it has, or when the log says that the
// server serves.
type stopper struct {
	inner
	stop context.CancelFunc
	left atomic.Int64
	log  logtest.Buffer
}

func stopAfter(ctx context.Context, n int64) *stopper {
	s := &stopper{}
	s.inner, s.stop = context.WithCancel(ctx)
	s.left.Store(n)
	return s
}

func (s *stopper) count() {
	if s.left.Add(-1) <= 0 {
		s.stop()
	}
}

func (s *stopper) Done() <-chan struct{} {
	s.count()
	return s.inner.Done()
}

func (s *stopper) Err() error {
	s.count()
	return s.inner.Err()
}

// Write takes a line of the log.
func (s *stopper) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("msg=serving")) {
		s.stop()
	}
	return s.log.Write(line)
}

// A server that is stopped while it starts was stopped, and has no fault to report.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	const moments = 60
	for n := range int64(moments) {
		data := t.TempDir()
		if n%2 == 1 { // also a start that finds a data folder
			if err := os.WriteFile(filepath.Join(data, cli.TokenFile), []byte(strings.Repeat("a", 32)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		config, err := loadConfig(os.DevNull, func(string) string {
			return ""
		}, map[string]string{"DATA": data, "LISTEN": "127.0.0.1:0", "SANDBOX": "off"})
		if err != nil {
			t.Fatal(err)
		}
		ctx := stopAfter(t.Context(), n)
		err = serve(ctx, config, slog.New(slog.NewTextHandler(ctx, nil)))
		if log := ctx.log.String(); err != nil || strings.Contains(log, "ERROR") || strings.Contains(log, "WARN") {
			t.Errorf("stopped at moment %d: got the error %v and the log\n%s", n, err, log)
		}
		testkit.Equal(t, fmt.Sprintf("exit code of moment %d", n), cli.ExitCode(err), 0)
	}
}

// A start that fails is told once, in one sentence with the cause, by the exit code of its kind.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := site.Binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience) // one that starts after all would serve for ever
	defer cancel()
	for _, test := range []struct {
		env  string
		code int
		text string
	}{
		{"LANDFALL_DATABASE=postgres://u:open-sesame@127.0.0.1:1/x", 6, "LANDFALL_DATABASE"},
		{"LANDFALL_LISTEN=203.0.113.1:1", 2, "LANDFALL_LISTEN"},
		{"LANDFALL_DATABASE=" + file + "/below.db", 1, "not a directory"},
		{"LANDFALL_S3_BUKET=x", 2, "LANDFALL_S3_BUCKET"},
	} {
		cmd := exec.CommandContext(ctx, path, "serve")
		cmd.Env = append(os.Environ(), "LANDFALL_DATA="+t.TempDir(), "LANDFALL_LISTEN=127.0.0.1:0", test.env)
		out, err := cmd.CombinedOutput()
		said := string(out)
		if err == nil || cmd.ProcessState.ExitCode() != test.code || strings.Count(said, "\n") != 1 ||
			!strings.HasPrefix(said, "landfall: ") ||
			strings.Count(said, test.text) != 1 || strings.Contains(said, "sesame") {
			t.Errorf("%s: got exit code %d and %q, want %d and one sentence with %q", test.env, cmd.ProcessState.ExitCode(),
				said, test.code, test.text)
		}
	}
}

// The log says what serves, and why it stopped.
func TestLifeInTheLog(t *testing.T) {
	t.Parallel()
	s := site.NewOn(t, site.Engine{})
	s.Stop()
	lines := map[any]site.Entry{}
	for _, line := range s.Logged() {
		lines[line["msg"]] = line
	}
	said, _ := s.Run(t.TempDir(), "version")
	for name, want := range map[string]any{
		"version": strings.TrimSpace(strings.TrimPrefix(said, "landfall ")), "url": s.URL, "listen": "127.0.0.1:" + s.Port,
		"state": "sqlite", "objects": "folder", "data": s.Data,
	} {
		testkit.Equal(t, name+" of the line that it serves", lines["serving"][name], want)
	}
	// E-035: one main has all parts in one process; there is nothing to route
	testkit.Equal(t, "roles of the line that it serves", fmt.Sprint(lines["serving"]["roles"]),
		fmt.Sprint(slices.DeleteFunc(roles(), func(r role) bool {
			return r == roleRouter
		})))
	testkit.Equal(t, "why it stopped", lines["stopping"]["reason"], any("terminated signal received"))
	if lines["stopped"] == nil {
		t.Errorf("it does not say that it has stopped:\n%s", s.Log)
	}
}

// Who asks whether the server is ready hears what is not, and no secret; without its database it goes on serving
// releases.
func TestReadiness(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	config, err := loadConfig(os.DevNull, func(string) string {
		return ""
	}, map[string]string{"DATA": data, "LISTEN": "127.0.0.1:0", "SANDBOX": "off"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(t.Context(), config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	objects := &moody{objectStore: s.objects}
	s.objects = objects
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, http.NoBody))
		return w.Code, w.Body.String()
	}
	wantAnswer := func(what, path string, status int, body string) {
		t.Helper()
		if gotStatus, got := ask(path); gotStatus != status || !strings.HasPrefix(got, body) {
			t.Errorf("%s, %s answers %d %q, want %d and %q", what, path, gotStatus, got, status, body)
		}
	}
	wantAnswer("while it starts", "/readyz", http.StatusServiceUnavailable, "starting: ")
	wantAnswer("while it starts", "/healthz", http.StatusOK, "ok\n")
	s.phase.Store(isServing)
	wantAnswer("when it serves", "/readyz", http.StatusOK, "ready\n")
	wantWrong := func(what string, lines ...string) {
		t.Helper()
		s.control.health = s.newHealth() // what it said just now is not asked again
		if _, got := ask("/readyz"); got != strings.Join(append([]string{"ready"}, lines...), "\n")+"\n" {
			t.Errorf("%s: got %q, want %q", what, got, lines)
		}
	}
	app := landfall.App{ID: "1", Namespace: landfall.DefaultNamespace, Name: "shop", Created: time.Now()}
	err = s.db.Update(t.Context(), func(tx *store.Tx) error {
		err := errors.Join(tx.EnsureNamespace(t.Context(), landfall.DefaultNamespace, 1), tx.CreateApp(t.Context(), app))
		if err != nil {
			return err
		}
		return tx.SetHead(t.Context(), landfall.Push{ID: 1, App: app.ID, Ref: "refs/heads/main"})
	})
	if err != nil {
		t.Fatal(err)
	}
	// K-018: whoever asks hears that repositories, or objects, are gone
	wantWrong("without a repository",
		"repositories: those of 1 app are not here; they can be neither fetched nor pushed to, and releases are served; "+
			"bring the process that has them back, or its folder git; only if they are lost, start once with landfall serve "+
			"--new, and push them again")
	for reads, want := range map[bool]string{true: "repositories: not here are those of shop",
		false: "repositories: those of 1 app"} {
		// Who has a token hears whose repositories they are, as far as the token reads these apps.
		lines := s.control.problems(t.Context(), func(app string) bool { return reads && app == "1" })
		if got := strings.Join(lines, "\n"); !strings.Contains(got, want) || strings.Contains(got, "shop") != reads {
			t.Errorf("who reads the app (%v) is told %q, want %q", reads, got, want)
		}
	}
	if err := s.repos.Create(t.Context(), app.ID, ""); err != nil {
		t.Fatal(err)
	}
	wantWrong("when it is back")
	objects.silent.Store(true)
	wantWrong("when the object store hangs", "objects: their store does not answer in time")
	objects.silent.Store(false)
	if err := os.Rename(filepath.Join(data, "objects"), filepath.Join(data, "away")); err != nil {
		t.Fatal(err)
	}
	wantWrong("without objects",
		"objects: they are gone; releases that are not in the cache are not served, and runs wait")
	if err := os.Rename(filepath.Join(data, "away"), filepath.Join(data, "objects")); err != nil {
		t.Fatal(err)
	}
	wantWrong("when they are back")
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	s.control.health = s.newHealth()
	wantAnswer("without its database", "/readyz", http.StatusOK, "ready\ndatabase: it does not answer")
	wantAnswer("without its database", "/healthz", http.StatusOK, "ok\n")
	if _, text := ask("/readyz"); strings.Contains(text, data) || strings.Contains(text, s.config.Token) {
		t.Errorf("strangers are told %q", text)
	}
	s.phase.Store(isStopping)
	wantAnswer("while it stops", "/readyz", http.StatusServiceUnavailable, "stopping: ")
}

// moody is objects that do not always answer.
type moody struct {
	objectStore

	silent atomic.Bool
}

func (m *moody) Mark(ctx context.Context) (string, error) {
	if m.silent.Load() {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return m.objectStore.Mark(ctx)
}

// serverAt is a server with a database.
func serverAt(t *testing.T, address string, settings map[string]string) *server {
	t.Helper()
	settings["DATA"], settings["DATABASE"], settings["LISTEN"], settings["SANDBOX"] = t.TempDir(), address,
		"127.0.0.1:0", "off"
	config, err := loadConfig(os.DevNull, func(string) string { return "" }, settings)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(t.Context(), config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runsServer lets a server run until stop.
func runsServer(t *testing.T, s *server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A gateway that still reads its first table is waited for: what changes meanwhile may not be in it.
func TestGatewayCountsFromTheStart(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	s := serverAt(t, address, map[string]string{})
	err := s.db.Update(t.Context(), func(tx *store.Tx) error {
		return tx.EnsureNamespace(t.Context(), landfall.DefaultNamespace, 1)
	})
	if err != nil {
		t.Fatal(err) // a first start would look for apps of that name
	}
	waiting, release := storetest.Hold(t, address, "counters")
	stop := runsServer(t, s)
	untilWaiting(waiting)
	seen, err := s.db.AcknowledgedByAll(t.Context(), "another")
	if err != nil || seen != 0 {
		t.Errorf("another process hears that all gateways show change %d (%v), want 0", seen, err)
	}
	release()
	stop()
}

func untilWaiting(waiting func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !waiting() {
		<-tick.C
	}
}

// Who stops a server that waits for its database while it starts hears of no error.
func TestStopWhileTheDatabaseWaits(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	s := serverAt(t, address, map[string]string{})
	waiting, _ := storetest.Hold(t, address, "apps")
	stop := runsServer(t, s)
	untilWaiting(waiting)
	stop()
}

// A visitor who waits for an answer when the server stops gets it.
func TestVisitorsOutliveTheStop(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	s := serverAt(t, address, map[string]string{})
	err := s.db.Update(t.Context(), func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(t.Context(), landfall.DefaultNamespace, 1); err != nil {
			return err
		}
		return tx.CreateApp(t.Context(), landfall.App{ID: "1", Namespace: landfall.DefaultNamespace, Name: "shop"})
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	until := func(reached func() bool) {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !reached() {
			<-tick.C
		}
	}
	until(func() bool { return s.phase.Load() == isServing })
	waiting, release := storetest.Hold(t, address, "releases")
	answered := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.listener.Addr().String(), http.NoBody)
		if err != nil {
			answered <- err
			return
		}
		r.Host = "shop--aaaaaaa2.localhost"
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode == http.StatusOK {
				err = errors.New("it says 200")
			}
		}
		answered <- err
	}()
	until(waiting)
	stop()
	until(func() bool { return s.phase.Load() == isStopping })
	release()
	if err := <-answered; err != nil {
		t.Errorf("the visitor got %v, want an answer", err)
	}
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Error(err)
	}
}

// Whoever sends or reads so slowly that the server cannot wait any longer is cut off, and the stop is as good as any
// other.
func TestStopBesideASlowRequest(t *testing.T) {
	t.Parallel()
	s := serverAt(t, storetest.SQLite(t), map[string]string{"GITHUB_WEBHOOK_SECRET": forge.WebhookSecret})
	s.patience = time.Millisecond
	stop := runsServer(t, s)
	slow, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	_, err = fmt.Fprintf(slow,
		"POST /webhooks/github HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"+
			"Expect: 100-continue\r\nX-Hub-Signature-256: %s\r\n\r\n",
		forge.Signature(forge.WebhookSecret, []byte("{}")).Get("X-Hub-Signature-256"))
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(slow)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("got %q (%v), want to be asked for the body", line, err)
	}
	stop()
}

// A process that may not have the database leaves the tokens of the one that has it as they are; a role secret that is
// no longer set opens nothing.
func TestTokensAreTheOwners(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	wantAnswer := func(what string, s *server, token string, want landfall.Kind) {
		t.Helper()
		c := &client.Client{URL: s.config.URL.String(), Token: token}
		err := c.Do(t.Context(), http.MethodGet, "/apps", nil, nil)
		if (err == nil) != (want == 0) || (err != nil && landfall.KindOf(err) != want) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	secret := strings.Repeat("role", 10)
	owner := serverAt(t, address, map[string]string{"ROLE_SECRET": secret})
	stop := runsServer(t, owner)
	wantAnswer("the owner's token", owner, owner.config.Token, 0)
	wantAnswer("the role secret", owner, secret, 0)
	other := serverAt(t, address, map[string]string{})
	wantAnswer("the owner's token beside another process", owner, owner.config.Token, 0)
	stop()
	stop = runsServer(t, other)
	defer stop()
	wantAnswer("the next owner's token", other, other.config.Token, 0)
	wantAnswer("the token of the owner before", other, owner.config.Token, landfall.Unauthorized)
	wantAnswer("a role secret that is set no more", other, secret, landfall.Unauthorized)
}

// Whatever a process does, it knows its own hosts: the API and the pages are at the control host, and at no other one.
func TestEveryRoleKnowsItsHosts(t *testing.T) {
	t.Parallel()
	for _, roles := range [][]role{
		roles(), {roleAPI}, {roleAPI, roleWebhook}, {roleWebhook}, {rolePipeline}, {roleWebhook, rolePipeline}, {roleGateway},
		{roleAPI, roleGateway},
	} {
		t.Run(fmt.Sprint(roles), func(t *testing.T) {
			t.Parallel()
			config, err := loadConfig(os.DevNull, func(string) string { return "" }, map[string]string{
				"DATA": t.TempDir(), "LISTEN": "127.0.0.1:0", "SANDBOX": "off", "URL": "https://landfall.example.com",
				"DOMAIN": "releases.example.com"})
			if err != nil {
				t.Fatal(err)
			}
			config.Roles = roles
			s, err := newServer(t.Context(), config, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			if s.serving.registry != nil {
				if err := s.serving.registry.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			ask := func(host, path string) int {
				r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, http.NoBody)
				r.Host = host
				w := httptest.NewRecorder()
				s.handler.ServeHTTP(w, r)
				return w.Code
			}
			for _, path := range []string{"/", "/sign-in", "/api/v1/apps", "/webhooks/github", "/git/shop.git/info/refs",
				"/healthz", "/readyz", "/metrics"} {
				for _, host := range []string{"evil.example.com", "shop.releases.example.com", "shop--abc.releases.example.com",
					"localhost", ""} {
					testkit.Equal(t, "status of "+host+path, ask(host, path), http.StatusNotFound)
				}
			}
			if about := fmt.Sprint(s.about()); strings.Contains(about,
				"url https://landfall.example.com") != slices.Contains(roles, roleAPI) {
				t.Errorf("the log says %s, want the public URL as that of the role api's process only", about)
			}
			signIn := http.StatusNotFound
			if slices.Contains(roles, roleAPI) {
				signIn = http.StatusOK
			}
			for _, host := range []string{"landfall.example.com", "releases.example.com", "10.0.0.1:8080"} {
				testkit.Equal(t, "status of the health at "+host, ask(host, "/healthz"), http.StatusOK)
				testkit.Equal(t, "status of the page to sign in at "+host, ask(host, "/sign-in"), signIn)
			}
		})
	}
}
