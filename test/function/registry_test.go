package function_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// These are what the private registries ask for.
const (
	npmToken    = "npm_Zm9yIHRoZSB0ZXN0"
	npmNext     = "npm_YW5vdGhlciBvbmUu"
	npmPreview  = "npm_b2YgYnJhbmNoZXMu"
	pyPassword  = "pypi-Passw0rd-xyz"
	goPassword  = "g0-Passw0rd-abcd"
	ociPassword = "0ci-Passw0rd-efgh"
)

// privates are registries of npm, Python and Go with one library each, whose text says where it is from.
type privates struct {
	files map[string][]byte

	mu    sync.Mutex
	asked []string // the tokens of npm, in order
}

func newPrivates(t *testing.T) *privates {
	t.Helper()
	var tarball bytes.Buffer
	z := gzip.NewWriter(&tarball)
	w := tar.NewWriter(z)
	for _, f := range [][2]string{{"package/package.json",
		`{"name": "@corp/lib", "version": "1.0.0", "main": "index.js"}`}, {"package/index.js", "from npm"}} {
		if err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const mod = "module corp.example/lib\n\ngo 1.21\n"
	return &privates{files: map[string][]byte{
		"/npm/lib.tgz": tarball.Bytes(),
		"/simple/corp-lib/": []byte(
			`<a href="/simple/files/corp_lib-1.0.0-py3-none-any.whl">corp_lib-1.0.0-py3-none-any.whl</a>`),
		"/simple/files/corp_lib-1.0.0-py3-none-any.whl": archived(t,
			"corp_lib/__init__.py", "# from pip", "corp_lib-1.0.0.dist-info/METADATA",
			"Metadata-Version: 2.1\nName: corp-lib\nVersion: 1.0.0\n", "corp_lib-1.0.0.dist-info/WHEEL",
			"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "corp_lib-1.0.0.dist-info/RECORD",
			"corp_lib/__init__.py,,\ncorp_lib-1.0.0.dist-info/METADATA,,\ncorp_lib-1.0.0.dist-info/WHEEL,,\ncorp_lib-1.0.0.dist-info/RECORD,,\n"),
		"/go/corp.example/lib/@v/v1.0.0.info": []byte(`{"Version": "v1.0.0"}`),
		"/go/corp.example/lib/@v/v1.0.0.mod":  []byte(mod),
		"/go/corp.example/lib/@v/v1.0.0.zip": archived(t, "corp.example/lib@v1.0.0/go.mod", mod,
			"corp.example/lib@v1.0.0/lib.go", "package lib // from go\n"),
	}}
}

func archived(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i+1 < len(pairs); i += 2 {
		f, err := w.Create(pairs[i])
		if err == nil {
			_, err = f.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// ServeHTTP implements http.Handler.
func (p *privates) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	known := false
	switch kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); kind {
	case "npm":
		known = token == npmToken || token == npmNext || token == npmPreview
	case "simple":
		known = user == "ci" && password == pyPassword
	case "go":
		known = user == "ci" && password == goPassword
	}
	if !known {
		w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/npm/@corp") {
		p.mu.Lock()
		p.asked = append(p.asked, token)
		p.mu.Unlock()
		sum := sha512.Sum512(p.files["/npm/lib.tgz"])
		fmt.Fprintf(w,
			`{"name": "@corp/lib", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "@corp/lib", "version": "1.0.0",
			"dist": {"tarball": "http://%s/npm/lib.tgz", "integrity": "sha512-%s"}}}}`, r.Host,
			base64.StdEncoding.EncodeToString(sum[:]))
		return
	}
	file, ok := p.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/") {
		w.Header().Set("Content-Type", "text/html")
	}
	_, _ = w.Write(file)
}

// tokens returns the tokens with which npm asked since the last call.
func (p *privates) tokens() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := strings.Join(p.asked, " ")
	p.asked = nil
	return all
}

// A build installs from private registries of npm, Python and Go with secrets that builds alone get; nobody else ever
// sees them.
func TestPrivateRegistries(t *testing.T) {
	t.Parallel()
	private := newPrivates(t)
	inside := httptest.NewServer(private) // on a private address, which the administrator allows
	t.Cleanup(inside.Close)
	at := inside.Listener.Addr().String()
	c := newCompany(t, "LANDFALL_ALLOWED_HOSTS="+at)
	c.network.Serve(t, "registry.example.com:443", private) // behind the company's proxy
	h, _ := c.Follow("shop")
	build := func(more ...string) string {
		return site.AppSpec("shop",
			append([]string{"build:", "  outputs: [site]", "  inputs: ['js/**', ca.pem, 'site/**']", "  command: |",
				"    set -e; export NPM_CONFIG_FETCH_RETRIES=0 SSL_CERT_FILE=$PWD/ca.pem",
				"    (cd js && npm install --no-audit --no-fund --no-update-notifier && cp node_modules/@corp/lib/index.js " +
					"../site/npm.txt)",
				"    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --no-warn-script-location --target py " +
					"corp-lib && cp py/corp_lib/__init__.py site/pip.txt",
				"    GOPROXY=https://registry.example.com/go GONOSUMDB=corp.example GOMODCACHE=$PWD/mod go mod download " +
					"-modcacherw corp.example/lib@v1.0.0",
				"    cp mod/corp.example/lib@v1.0.0/lib.go site/go.txt",
				"    printf %s \"$NPM_TOKEN\" | sha256sum > site/which.txt",
				"    echo \"the token is $NPM_TOKEN\"; cat ~/.netrc; env"}, more...)...)
	}
	h.Write("ca.pem", c.ca, "site/index.html", "page", "js/package.json", `{"dependencies": {"@corp/lib": "1.0.0"}}`,
		"js/.npmrc", "@corp:registry=http://"+at+"/npm/\n//"+at+"/npm/:_authToken=${NPM_TOKEN}\n", "specs/app.yaml", build())
	release := func(message string, state landfall.RunState, says ...string) string {
		t.Helper()
		commit := h.Commit(message)
		c.Hears(h.Send("main"))
		return c.Ends("shop", commit, state, says...).ID
	}
	release("Without secrets", landfall.RunFailed)
	testkit.Equal(t, "tokens of npm", private.tokens(), "")

	set := func(name, value string, flags ...string) site.Told {
		return c.SetSecret("shop", name, value, append(flags, "--build")...)
	}
	testkit.Contains(t, set("NPM_TOKEN", npmToken), "the next build gets it")
	set("PIP_INDEX_URL", "http://ci:"+pyPassword+"@"+at+"/simple/")
	set("NETRC", "machine registry.example.com login ci password "+goPassword)
	run := release("With secrets", landfall.RunSucceeded)
	// K-014: npm, pip and go install from registries that ask for a password, on a private address and behind a proxy
	for path, want := range map[string]string{"/npm.txt": "from npm", "/pip.txt": "# from pip",
		"/go.txt": "package lib // from go\n"} {
		site.WantServed(t, c.Site, "shop", path, want)
	}
	which := func(host string) string { return strings.Fields(c.Get(c.At(host, "/which.txt")).Body)[0] }
	testkit.Equal(t, "the token of production", which("shop"), digest(npmToken))

	values := []string{npmToken, pyPassword, goPassword, npmNext, npmPreview}
	// K-014: what a build prints has no secret in the run's log
	log := c.Landfall("run", "logs", run)
	testkit.Contains(t, site.Told{log}, "the token is [secret NPM_TOKEN:1]",
		"machine registry.example.com login ci password [secret NETRC:1, password 1]")
	for _, value := range values {
		testkit.Equal(t, value+" is in the run's log", strings.Contains(log, value), false)
	}

	// K-014: an output that shows one is refused by its name, whatever wrote it
	for file, command := range map[string]string{
		"site/.npmrc":       `echo "//registry.example.com/:_authToken=$NPM_TOKEN" > site/.npmrc`,
		"site/home/.netrc":  `mkdir site/home; cp ~/.netrc site/home`,
		"site/main.js.map":  `printf '{"a":"%s"}' "$(printf 'ci:%s' "$NPM_TOKEN" | base64 -w0)" > site/main.js.map`,
		"site/requirements": `(head -c 100000 /dev/zero; echo "$PIP_INDEX_URL") > site/requirements`,
	} {
		h.Write("specs/app.yaml", site.AppSpec("shop", "build:", "  outputs: [site]", "  command: |", "    "+command))
		release("A leak in "+file, landfall.RunFailed, "the build of the app made "+file+", which shows [secret ")
	}
	h.Write("specs/app.yaml", build(), "other.txt", "is no input")

	// The same input with the same secrets is not built again; with another value it is.
	private.tokens()
	release("Nothing new", landfall.RunSucceeded)
	testkit.Equal(t, "tokens of npm for what was built before", private.tokens(), "")
	set("NPM_TOKEN", npmNext)
	release("Another token", landfall.RunSucceeded)
	testkit.Equal(t, "the token of production", which("shop"), digest(npmNext))

	// Branches have a value of their own; pull requests of forks have no build before they are approved.
	set("NPM_TOKEN", npmPreview, "--preview")
	h.Git("checkout", "--quiet", "-b", "feature")
	h.Write("site/index.html", "another page")
	commit := h.Commit("A branch")
	c.Hears(h.Send("feature"))
	c.Ends("shop", commit, landfall.RunSucceeded)
	testkit.Equal(t, "the token of a branch", which("shop--branch-feature"), digest(npmPreview))
	runs := len(c.Runs("shop"))
	private.tokens()
	c.Hears(h.Pull("opened_fork", 13, "feature"))
	c.Quiet("shop")
	// K-014: no fork gets them
	testkit.Equal(t, "runs of a fork, which wait, and tokens of npm",
		fmt.Sprint(len(c.Runs("shop"))-runs, private.tokens()), "1")

	// K-014: no function gets one, whatever its spec names
	h.Git("checkout", "--quiet", "main")
	h.Write("specs/functions.yaml", site.Naming(site.FunctionsSpec("python-env", "pay pay.main"), "NPM_TOKEN"),
		"pay/pay.py", secretly)
	release("A function that wants it", landfall.RunFailed,
		"specs/functions.yaml:11: Function pay names the secret NPM_TOKEN, which builds alone get")
	out := c.Landfall("secret", "list", "shop")
	testkit.Contains(t, site.Told{out}, "builds of previews", "NETRC")
	out, code := c.Run(t.TempDir(), "secret", "set", "shop", "PATH", "--build", "--from-file", "/etc/hostname")
	testkit.Equal(t, "exit code for a name that a build has", code, 2)
	testkit.Contains(t, site.Told{out}, "PATH cannot be the name of a secret of builds")

	testkit.Contains(t, site.Told{c.Landfall("secret", "revoke", "shop", "NPM_TOKEN:2")}, "revoked NPM_TOKEN")
	h.Git("rm", "--quiet", "-r", "specs/functions.yaml", "pay")
	h.Write("site/index.html", "a third page")
	run = release("Revoked", landfall.RunFailed)
	testkit.Contains(t, site.Told{c.Landfall("run", "logs", run)},
		"the secret NPM_TOKEN (no. 2) was revoked: builds do not get it")

	server := c.Log.String()
	c.Stop()
	for _, value := range values {
		// K-014: they are in no log, no file and no cache of the server
		testkit.Equal(t, value+" is in the server's log", strings.Contains(server, value), false)
		wantNowhere(t, c.Data, value)
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// An image of a registry that asks for a password is pulled with a secret of the app.
func TestPrivateImages(t *testing.T) {
	t.Parallel()
	images := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	open := httptest.NewServer(images)
	t.Cleanup(open.Close)
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ci" || password != ociPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(closed.Close)
	at := closed.Listener.Addr().String()
	tag, err := name.ParseReference(open.Listener.Addr().String() + "/team/greeter:stable")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, imageOf(t, "/bin/true", "Hello")); err != nil {
		t.Fatal(err)
	}
	s := site.New(t, "LANDFALL_ALLOWED_HOSTS="+at)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", strings.NewReplacer("fission/container-env", at+"/team/greeter:stable", "{name: env}",
		"{name: container-greeter}", `, deployment: {url: "archive://greet"}`,
		"").Replace(strings.Split(site.FunctionsSpec("container-env", "greet"), "---\nkind: ArchiveUploadSpec")[0]),
		"specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
	r.Commit("A private image")
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"),
		"asks for a password: landfall secret set APP DOCKER_AUTH_CONFIG --build")
	auth := base64.StdEncoding.EncodeToString([]byte("ci:" + ociPassword))
	s.SetSecret("shop", "DOCKER_AUTH_CONFIG", `{"auths": {"https://`+at+`/v2/": {"auth": "`+auth+`"}}}`, "--build")
	// K-014: an image of a registry that asks for a password is pulled
	release := s.Pushed(r, "shop", "With a password")
	testkit.Equal(t, "the version of the package", s.UnitsOf("shop", string(release))["package greet-pkg"].Number, 1)
	// Fission's field names a secret of the app; another one than that is not looked at.
	r.Replace("specs/functions.yaml", "version: 2", "version: 2, imagepullsecret: regcred")
	r.Commit("A secret of its own")
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"),
		"Environment container-greeter: its imagepullsecret regcred is no secret of builds of this app",
		"landfall secret set APP regcred --build")
	s.SetSecret("shop", "regcred", `{"auths": {"https://`+at+`/v2/": {"auth": "`+auth+`"}}}`, "--build")
	s.Call(http.MethodDelete, "/apps/shop/secrets/DOCKER_AUTH_CONFIG", nil, nil)
	if err := remote.Write(tag, imageOf(t, "/bin/true", "Hello again")); err != nil {
		t.Fatal(err)
	}
	release = s.Pushed(r, "shop", "With a secret of its own")
	testkit.Equal(t, "the version of the package", s.UnitsOf("shop", string(release))["package greet-pkg"].Number, 2)
	out, code := s.Run(t.TempDir(), "fsck")
	testkit.Equal(t, "exit code of fsck: "+out, code, 0)
	s.Stop()
	for _, text := range []string{ociPassword, auth} {
		testkit.Equal(t, "the log has the password", strings.Contains(s.Log.String(), text), false)
		wantNowhere(t, s.Data, text)
	}
}
