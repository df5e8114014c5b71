package function_test

import (
	"encoding/pem"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/outbound/proxytest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// company is a world whose servers only a proxy with a password reaches.
type company struct {
	*forge.World
	network *proxytest.Network
	ca      string // of its servers
	images  string // an address by which the test itself reaches the registry of images
}

func newCompany(t *testing.T, env ...string) *company {
	t.Helper()
	d, err := forge.Description()
	if err != nil {
		t.Fatal(err)
	}
	c := &company{network: proxytest.New(t)}
	f, api := forge.New(t), githubtest.New(t, d, forge.APIToken)
	f.Address = "https://git.example.com"
	images := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	inside := httptest.NewServer(images)
	t.Cleanup(inside.Close)
	c.images = strings.TrimPrefix(inside.URL, "http://")
	server := c.network.Serve(t, "git.example.com:443", f)
	c.network.Serve(t, "api.example.com:443", api)
	c.network.Serve(t, "images.example.com:443", images)
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s of %s, %q", r.URL.Path, r.Host, r.Header["Proxy-Authorization"])
	})
	c.network.Serve(t, "files.example.com:443", files)
	c.network.Serve(t, "files.example.com:80", files)
	c.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(trusted, []byte(c.ca), 0o600); err != nil {
		t.Fatal(err)
	}
	c.World = &forge.World{Forge: f, API: api, Site: site.New(t, append([]string{
		"LANDFALL_GITHUB_WEBHOOK_SECRET=" + forge.WebhookSecret, "LANDFALL_GITHUB_TOKEN=" + forge.APIToken,
		"LANDFALL_GITHUB_API=https://api.example.com/", "SSL_CERT_FILE=" + trusted, "HTTPS_PROXY=" + c.network.URL(),
		"http_proxy=" + c.network.URL(),
	}, env...)...)}
	return c
}

// Behind a company's proxy a repository is fetched, an image pulled, an app built and a status sent, all through it:
// its servers let nobody else in. Its password is nowhere.
func TestThroughACompanysProxy(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	tag, err := name.ParseReference(c.images + "/team/greeter:stable")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, imageOf(t, "/bin/true", "Hello")); err != nil {
		t.Fatal(err)
	}
	h, _ := c.Follow("shop")
	fetch := fetchers()[0]
	asks := strings.Replace(site.FunctionsSpec("python-env", "fetch main.main"), "spec:\n",
		"spec:\n  allowAccessToExternalNetwork: true\n", 1)
	image := strings.NewReplacer("fission/container-env", "images.example.com/team/greeter:stable", "{name: env}",
		"{name: container-greeter}", `, deployment: {url: "archive://greet"}`, "").
		Replace(strings.Split(site.FunctionsSpec("container-env", "greet"), "---\nkind: ArchiveUploadSpec")[0])
	h.Write("ca.pem", c.ca, "fetch/"+fetch.file, fetch.text, "site/index.html", "page", "specs/functions.yaml",
		asks+"---\n"+image, "specs/app.yaml", site.AppSpec("shop", "build:", "  outputs: [site]", "  command: |",
			"    curl -sS --cacert ca.pem https://files.example.com/secure > site/secure.txt",
			"    curl -sS http://files.example.com/plain > site/plain.txt",
			"    curl -sS http://169.254.169.254/latest/meta-data/ > site/metadata.txt",
			"    env > site/env.txt"))
	commit := h.Commit("Everything")
	c.Hears(h.Send("main"))
	run := c.Ends("shop", commit, landfall.RunSucceeded)
	forge.WantTold(t, c.World, commit, landfall.StatusSuccess, c.At("shop--"+string(run.Release), "/"))
	// K-013: git, GitHub, images and builds go through the proxy, with its password; each of the servers refuses
	// whoever comes another way
	asked := c.network.Asked()
	for _, want := range []string{
		"CONNECT git.example.com:443", "CONNECT api.example.com:443", "CONNECT images.example.com:443",
		"CONNECT files.example.com:443", "GET files.example.com:80",
	} {
		if !slices.Contains(asked, want) {
			t.Errorf("the proxy was not asked for %s, but for %v", want, asked)
		}
	}
	site.WantServed(t, c.Site, "shop", "/secure.txt", `/secure of files.example.com, []`)
	site.WantServed(t, c.Site, "shop", "/plain.txt", `/plain of files.example.com, []`)
	// K-013: what our rules refuse, the proxy does not hear of
	if text := c.Get(c.At("shop", "/metadata.txt")).Body; !strings.Contains(text,
		"169.254.169.254 is a private address") || strings.Contains(strings.Join(asked, " "), "169.254") {
		t.Errorf("the metadata service says %q; the proxy was asked for %v", text, asked)
	}
	site.WantRefused(t, c.Refused(http.MethodPost, "/apps",
		client.NewApp{Name: "inner", Repository: "https://10.0.0.1/a/b.git"}), landfall.Forbidden, "LANDFALL_ALLOWED_HOSTS")

	// Functions and pull requests of forks do not use it.
	before := len(c.network.Asked())
	if answer := c.Post(c.At("shop", "/api/fetch"), "text/plain",
		"http://files.example.com/function"); strings.Contains(answer.Body, "of files.example.com") {
		t.Errorf("a function went by the company's proxy: %s", answer.Body)
	}
	c.Hears(h.Pull("opened_fork", 13, "main"))
	c.Quiet("shop")
	testkit.Equal(t, "what the proxy was asked for by functions and forks", len(c.network.Asked())-before, 0)

	var status client.Status
	c.Call(http.MethodGet, "/status", nil, &status)
	testkit.Equal(t, "password in the status: "+status.Proxy, strings.Contains(status.Proxy, proxytest.Password), false)
	testkit.Contains(t, site.Told{c.Landfall("status")}, "proxy", "http://127.0.0.1:")
	// K-013: the proxy's password is in no sandbox, no log, no status and no file
	for what, text := range map[string]string{
		"the build's environment": c.Get(c.At("shop", "/env.txt")).Body, "the log": c.Log.String(),
		"the run's log":           c.Landfall("run", "logs", run.ID),
		"what the forge was told": fmt.Sprint(c.API.Statuses("")),
	} {
		if strings.Contains(text, proxytest.Password) || text == "" {
			t.Errorf("%s: it is empty, or has the password:\n%s", what, text)
		}
	}
	c.Stop()
	wantNowhere(t, c.Data, proxytest.Password)
}

// wantNowhere fails the test when a file below a folder has a text in it.
func wantNowhere(t *testing.T, folder, text string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A host that the network of a build or a function does not reach stands in the log of the run or the execution, with
// what allows it.
func TestRefusedHostsAreNamed(t *testing.T) {
	t.Parallel()
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "served")
	}))
	t.Cleanup(inside.Close)
	at := inside.Listener.Addr().String()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	fetch := fetchers()[0]
	r.Write("specs/functions.yaml", strings.Replace(site.FunctionsSpec("python-env", "fetch main.main"), "spec:\n",
		"spec:\n  allowAccessToExternalNetwork: true\n", 1), "specs/app.yaml",
		site.AppSpec("shop", "build: {outputs: [site], command: 'curl -sS http://localhost/ >/dev/null; curl -sSf http://"+at+
			"/ > site/stock.txt'}"),
		"fetch/"+fetch.file, fetch.text, "site/index.html", "page")
	r.Commit("A build that asks inside")
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "the build command of the app failed")
	log := s.Landfall("run", "logs", s.Finished("shop", r.Head()).ID)
	// K-012: a host that a build was refused is in the run's log, with the setting that allows it
	testkit.Contains(t, site.Told{log}, "localhost was not reached: localhost is a private address; the sandbox "+
		"reaches it only if LANDFALL_ALLOWED_HOSTS lists localhost",
		"127.0.0.1 was not reached: ", "LANDFALL_ALLOWED_HOSTS lists "+at)

	r.Write("specs/app.yaml", site.AppSpec("shop"))
	s.Pushed(r, "shop", "A function that asks inside")
	ask := func() string { return s.Post(s.At("shop", "/api/fetch"), "text/plain", inside.URL).Body }
	if answer := ask(); !strings.HasPrefix(answer, "failed: ") {
		t.Errorf("the answer is %q, want a failure", answer)
	}
	ask()
	var executions []landfall.Execution
	s.Eventually("both calls are recorded", func() bool {
		executions = site.List[landfall.Execution](s, "/executions?function=fetch")
		return len(executions) == 2
	})
	for _, e := range executions {
		// K-012: and one that a function was refused is in the execution's log
		text := s.Landfall("execution", "logs", e.ID)
		testkit.Contains(t, site.Told{text}, "127.0.0.1 was not reached: ", "LANDFALL_ALLOWED_HOSTS lists "+at)
		testkit.Equal(t, "lines about it", strings.Count(text, "was not reached"), 1)
	}
	s.Stop()
	s.Start("LANDFALL_ALLOWED_HOSTS=" + at)
	testkit.Equal(t, "the answer with what the log says", ask(), "served")
}
