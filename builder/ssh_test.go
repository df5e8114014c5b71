package builder_test

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/builder/sshtest"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/test/testkit"
)

// deployed is a repository that is given by ssh to one deploy key.
type deployed struct {
	*repository

	host   *sshtest.Server
	remote builder.Remote
	public string
}

func newDeployed(t *testing.T) deployed {
	t.Helper()
	r := newRepository(t)
	host := sshtest.New(t, filepath.Dir(r.dir))
	key := testkit.Must(builder.NewKey("landfall"))(t)
	public := testkit.Must(builder.PublicKeyOf(key, "landfall"))(t).Line
	host.Allow(t, public, "shop")
	return deployed{r, host, builder.Remote{Namespace: "default", URL: host.URL("shop"), Credential: builder.Credential{
		Key: key, HostKeys: pinned(t, host)}}, public}
}

func pinned(t *testing.T, host *sshtest.Server) string {
	t.Helper()
	return strings.Join(testkit.Must(builder.CheckHostKeys([]string{host.HostKey()}))(t), "\n")
}

func (d deployed) mirrors(t *testing.T) *builder.Mirrors {
	t.Helper()
	return &builder.Mirrors{Root: t.TempDir(), Dialer: &builder.Dialer{AllowedHosts: []string{d.host.Address}}}
}

// A repository is fetched by ssh with a deploy key, and only what is new of it.
func TestFetchBySSH(t *testing.T) {
	t.Parallel()
	d := newDeployed(t)
	m := d.mirrors(t)
	heads, head, err := m.Heads(t.Context(), d.remote)
	if err != nil || len(heads) != 0 || head != "" {
		t.Errorf("an empty repository: got %v, %s, %v", heads, head, err)
	}
	first := d.commit(map[string]string{"a": "1"})
	d.set(mainRef, first)
	fetch(t, m, d.remote, mainRef, first)
	second := d.commit(map[string]string{"a": "2"}, first)
	d.set(mainRef, second)
	mirror := fetch(t, m, d.remote, mainRef, second)
	files := testkit.Must(mirror.Files(t.Context(), second, ""))(t)
	testkit.Equal(t, "content", read(t, mirror, files[0]), "2")
	d.git("config", "uploadpack.allowAnySHA1InWant", "true")
	third := d.commit(map[string]string{"a": "3"}, second) // no reference names it: it is asked for by a second call
	fetch(t, m, d.remote, mainRef, third)
	rewritten := d.commit(map[string]string{"b": "1"})
	d.set(mainRef, rewritten)
	fetch(t, m, d.remote, mainRef, rewritten)
	heads, head, err = m.Heads(t.Context(), d.remote)
	if err != nil || heads[mainRef] != rewritten || head != mainRef {
		t.Errorf("got %v, %s, %v, want main at %s", heads, head, err, rewritten)
	}
	for _, command := range d.host.Asked() {
		// S10: the path stands in quotes, and is no option
		testkit.Equal(t, "command", command, "git-upload-pack '/shop.git'")
	}
}

// What goes wrong by ssh says what to do, and a host that cannot prove who it is gets nothing.
func TestSSHThatFails(t *testing.T) {
	t.Parallel()
	d := newDeployed(t)
	c := d.commit(map[string]string{"a": "1"})
	d.set(mainRef, c)
	m := d.mirrors(t)
	fails := func(change func(*builder.Remote), kind landfall.Kind, parts ...string) {
		t.Helper()
		remote := d.remote
		change(&remote)
		_, err := m.Fetch(t.Context(), remote, mainRef, c)
		wantError(t, err, kind, parts...)
		if text := err.Error(); strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("the error shows the key: %s", text)
		}
	}
	other := testkit.Must(builder.NewKey("another"))(t)
	// N-006: missing and refused credentials say how to give them
	fails(func(r *builder.Remote) { r.Key = "" }, landfall.Unauthorized, "deploy key", "landfall app key")
	fails(func(r *builder.Remote) { r.Key = other }, landfall.Unauthorized, "does not take the deploy key", "public key")
	fails(func(r *builder.Remote) { r.URL = d.host.URL("zoo") }, landfall.NotFound, "no repository at", "deploy key")
	fails(func(r *builder.Remote) { r.HostKeys = "" }, landfall.Invalid, "host key of 127.0.0.1 is not known", "ssh-keyscan",
		"--host-key-file")
	closed := d.mirrors(t)
	closed.Dialer.AllowedHosts = nil
	_, err := closed.Fetch(t.Context(), d.remote, mainRef, c)
	// S13: ssh leads into the own network as little as https does
	wantError(t, err, landfall.Forbidden, "own network")
	inside := &builder.Dialer{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}}
	closed.Dialer = inside
	remote := d.remote
	remote.URL = "git@inside.example:shop.git"
	_, err = closed.Fetch(t.Context(), remote, mainRef, c)
	// S13: by the address that a name has, too
	wantError(t, err, landfall.Forbidden, "own network")
	before := len(d.host.Asked())
	d.host.ChangeHostKey(t)
	// S12: another host in its place is refused before it gets anything
	fails(func(*builder.Remote) {}, landfall.Forbidden, "another host key", "SHA256:", "--host-key-file")
	testkit.Equal(t, "commands that it got", len(d.host.Asked()), before)
	m.Limits.ReceivedBytes = 50
	d.remote.HostKeys = pinned(t, d.host)
	// S9: what a host sends is bounded
	fails(func(*builder.Remote) {}, landfall.Invalid, "sent more than 50 bytes", "LANDFALL_MAX_RECEIVED_BYTES")
	fails(func(r *builder.Remote) { r.HostKeys = "ssh-rsa x" }, landfall.Internal)
}

// An address for ssh is one in either form, and nothing that a shell would take for more than a path.
func TestCheckRepository(t *testing.T) {
	t.Parallel()
	d := &builder.Dialer{AllowedHosts: []string{"127.0.0.1:3000"}}
	for _, good := range []string{"ssh://git@github.com/acme/shop.git", "git@github.com:acme/shop.git",
		"github.com:acme/shop", "ssh://git.example:2222/~me/shop.git", "ssh://127.0.0.1:3000/shop.git",
		"https://github.com/acme/shop.git", "git@git:acme/shop"} {
		if err := d.CheckRepository(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"ssh://git:pw@github.com/acme/shop":           "password",
		"ssh://-oProxyCommand=x/shop":                 "no host",
		"ssh://git@github.com":                        "path",
		"ssh://git@github.com/":                       "path",
		"ssh:///acme/shop":                            "no host",
		"git@github.com:":                             "path",
		"git@github.com:-x/y":                         "path",
		"git@github.com:a'b":                          "path",
		"git@github.com:a b":                          "path",
		"git@github.com:$(touch x)":                   "path",
		"git@github.com:a`x`":                         "path",
		"git@github.com:a;b":                          "path",
		"git@github.com:a\nb":                         "path",
		"-x@github.com:a":                             `"-"`,
		"ssh://-x@github.com/a":                       "user",
		"ssh://github.com/a?b":                        "read",
		"ssh://github.com/a#b":                        "read",
		"ssh://127.0.0.1/a":                           "own network",
		"git@10.0.0.1:a":                              "own network",
		"ssh://git@[::ffff:10.0.0.1]/a":               "own network",
		"ext::sh -c x":                                "space",
		"file:///etc":                                 "https://",
		"https:github.com":                            "read",
		"git@github.com:" + strings.Repeat("a", 3000): "longer",
	} {
		// S10: it is refused before anything is started
		if err := d.CheckRepository(bad); err == nil || !strings.Contains(landfall.MessageOf(err), want) {
			t.Errorf("%.60q: got %v, want %q", bad, err, want)
		}
	}
	for address, want := range map[string]bool{"git@github.com:a/b": true, "ssh://git@ssh.github.com:443/a/b": true,
		"ssh://git@git.example/a": false, "https://github.com/a/b": false, "git@github.com.example:a/b": false} {
		testkit.Equal(t, "the host of "+address+" is known", builder.HasKnownHost(address), want)
	}
}

// Keys are read as ssh-keygen and ssh-keyscan write them; GitHub's are those that it publishes.
func TestKeys(t *testing.T) {
	t.Parallel()
	key := testkit.Must(builder.NewKey("landfall of shop"))(t)
	public := testkit.Must(builder.PublicKeyOf(key, "landfall of shop"))(t)
	if !strings.HasPrefix(public.Line, "ssh-ed25519 AAAA") || !strings.HasSuffix(public.Line, " landfall of shop") ||
		!strings.HasPrefix(public.Fingerprint, "SHA256:") {
		t.Errorf("got %+v", public)
	}
	for _, bad := range []secret.Text{"", "ssh-ed25519 AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"} {
		_, err := builder.PublicKeyOf(bad, "")
		wantError(t, err, landfall.Invalid, "BEGIN OPENSSH PRIVATE KEY")
	}
	block := testkit.Must(ssh.MarshalPrivateKeyWithPassphrase(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), "",
		[]byte("a passphrase")))(t)
	_, err := builder.PublicKeyOf(secret.Text(pem.EncodeToMemory(block)), "")
	wantError(t, err, landfall.Invalid, "passphrase")

	line, _, _ := strings.Cut(public.Line, " landfall")
	keys := testkit.Must(builder.CheckHostKeys([]string{line + " a comment", "git.example " + line + "\n# a comment\n\n" +
		"[git.example]:22 " + line}))(t)
	testkit.EqualList(t, "keys", keys, []string{line, line, line})
	for _, bad := range []string{"SHA256:abc", "@revoked git.example " + line, "git.example", "a b c"} {
		_, err := builder.CheckHostKeys([]string{bad})
		wantError(t, err, landfall.Invalid, "ssh-keyscan")
	}
	_, err = builder.CheckHostKeys([]string{strings.Repeat(line+"\n", 17)})
	wantError(t, err, landfall.Invalid, "16")
}
