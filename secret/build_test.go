package secret_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
)

// A secret of builds has a name that no build has already, and a value that can be found again.
func TestCheckBuild(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"NPM_TOKEN", "PIP_INDEX_URL", "NETRC", "NPM_RC", "GOAUTH", "npm-token", "PATHS"} {
		if err := secret.CheckBuild(name, "long-enough"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"PATH", "path", "Home", "TMPDIR", "LD_PRELOAD", "ld.preload", "HTTPS_PROXY",
		"http_proxy", "no-proxy", "BASH_ENV", "SRC_PKG", "DEPLOY_PKG"} {
		if err := secret.CheckBuild(name, "long-enough"); landfall.KindOf(err) != landfall.Invalid ||
			!strings.Contains(landfall.MessageOf(err), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := secret.CheckBuild("NPM_TOKEN", "short-1"); landfall.KindOf(err) != landfall.Invalid ||
		strings.Contains(fmt.Sprint(err), "short-1") {
		t.Errorf("a short value: %v", err)
	}
	for _, value := range []secret.Text{"open-sesame", `{"auths": {}}`, `{"auths": {"a": {"auth": "open-sesame"}}}`,
		`{"auths": {"a": {"auth": "b3Blbi1zZXNhbWU="}}}`} {
		err := secret.CheckBuild(secret.DockerConfig, value)
		if text := fmt.Sprint(err, landfall.MessageOf(err)); landfall.KindOf(err) != landfall.Invalid ||
			strings.Contains(text, "sesame") || strings.Contains(text, "b3Bl") {
			t.Errorf("%s: %s", value.Reveal(), text)
		}
	}
}

// The passwords of a config.json are found by the hosts of its registries, however those are written.
func TestLogins(t *testing.T) {
	t.Parallel()
	auth := base64.StdEncoding.EncodeToString([]byte("ci:pass:word"))
	logins, err := secret.Logins(secret.Text(`{"auths": {"https://index.docker.io/v1/": {"auth": "` + auth +
		`"}, "Registry.example.com:5000": {"username": "me", "password": "pw"},
		"docker.io": {"identitytoken": "token"}, "ghcr.io/team": {"auth": "` + auth + `"}}, "credsStore": "desktop"}`))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"ghcr.io": "ci pass:word ", "registry.example.com:5000": "me pw ",
		"nobody.example.com": "  "} {
		l := logins[host]
		if got := l.User + " " + l.Password.Reveal() + " " + l.Token.Reveal(); got != want {
			t.Errorf("%s: got %q, want %q", host, got, want)
		}
	}
	if l, ok := logins["index.docker.io"]; !ok || l.Token == "" && l.Password == "" {
		t.Errorf("Docker Hub: got %v", l)
	}
}

// What stands in a file or an address for a tool is found alone, too: a tool may show it without the rest.
func TestPasswords(t *testing.T) {
	t.Parallel()
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	values := map[string]secret.Text{
		"PIP_INDEX_URL":        "https://ci:p%40ssw0rd-one@pypi.example.com/simple",
		"GOPROXY":              "https://ci:passw0rd-two@go.example.com,https://proxy.golang.org",
		"NETRC:3":              "machine go.example.com\n  login ci\n  password passw0rd-three\n",
		"NPM_RC:1":             "registry=https://registry.npmjs.org/\n//npm.example.com/:_authToken=passw0rd-four\n//b.example.com/:_auth=" + secret.Text(encoded("ci:passw0rd-five")) + "\n//c.example.com/:_password=\"" + secret.Text(encoded("passw0rd-six")) + "\"\n",
		"DOCKER_AUTH_CONFIG:2": secret.Text(`{"auths": {"a.example.com": {"auth": "` + encoded("ci:passw0rd-seven") + `"}}}`),
		"NPM_TOKEN":            "passw0rd-eight",
	}
	find := secret.NewRedactor(secret.Passwords(values))
	for _, shown := range []string{
		"p%40ssw0rd-one", "p@ssw0rd-one", "passw0rd-two", "passw0rd-three", "passw0rd-four", "passw0rd-five", "passw0rd-six",
		"passw0rd-seven", "passw0rd-eight", encoded("ci:passw0rd-two"), encoded("ci:passw0rd-five"),
		encoded("x:passw0rd-seven"),
	} {
		if got := find.String("it is " + shown + " here"); strings.Contains(got, "ssw0rd") ||
			!strings.Contains(got, "[secret ") {
			t.Errorf("%s: got %q", shown, got)
		}
	}
	for _, other := range []string{"registry=https://registry.npmjs.org/", "machine go.example.com",
		"//npm.example.com/:_authToken=${NPM_TOKEN}"} {
		if got := find.String(other); got != other {
			t.Errorf("%q is taken for a secret: %q", other, got)
		}
	}
}

// A value is found wherever it stands in a file, also where two pieces of it are read one after the other.
func TestRead(t *testing.T) {
	t.Parallel()
	value := secret.Text("a value of some length")
	find := secret.NewRedactor(map[string]secret.Text{"KEY": value})
	for _, before := range []int{0, 1, 100, 64<<10 - 25, 64<<10 - 10, 64<<10 - 1, 64 << 10, 200_000} {
		text := append(bytes.Repeat([]byte{'a'}, before), value.Reveal()...)
		for _, after := range []string{"", "and more", strings.Repeat(" ", 70_000)} {
			in := bytes.NewReader(append(text, after...))
			if mark, err := find.Read(in); mark != "[secret KEY]" || err != nil {
				t.Errorf("behind %d bytes: got %q, %v", before, mark, err)
			}
		}
		if mark, err := find.Read(iotest.OneByteReader(bytes.NewReader(text[:len(text)-1]))); mark != "" || err != nil {
			t.Errorf("less than the value, behind %d bytes: got %q, %v", before, mark, err)
		}
	}
	if _, err := find.Read(iotest.ErrReader(fmt.Errorf("the disk is gone"))); err == nil {
		t.Error("a file that cannot be read has no secret")
	}
	if mark, err := secret.NewRedactor(nil).Read(strings.NewReader("x")); mark != "" || err != nil {
		t.Errorf("without values: %q, %v", mark, err)
	}
}

func BenchmarkRead(b *testing.B) {
	find := secret.NewRedactor(map[string]secret.Text{"NPM_TOKEN": "npm_0123456789abcdefghijklmnopqrstuvwxyz",
		"PIP_INDEX_URL": "https://ci:passw0rd-two@pypi.example.com/simple"})
	text := bytes.Repeat([]byte("export const greeting = (name) => `Hello, ${name}`; // a line of a program\n"), 14_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if mark, err := find.Read(bytes.NewReader(text)); mark != "" || err != nil {
			b.Fatal(mark, err)
		}
	}
}
