package function_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// newSecretKey returns a new key, and the setting that names a file with it and with those before it.
func newSecretKey(t *testing.T, before ...string) (key, setting string) {
	t.Helper()
	made := testkit.Must(secret.NewKey())(t)
	file := filepath.Join(t.TempDir(), "key")
	text := strings.Join(append([]string{"# the new one", made.Reveal()}, before...), "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return made.Reveal(), "LANDFALL_SECRET_KEY_FILE=" + file
}

// wantDead fails the test unless the server ended with a sentence that has the parts.
func wantDead(t *testing.T, s *site.Site, parts ...string) {
	t.Helper()
	select {
	case <-s.Done:
		testkit.Contains(t, s.Log, parts...)
	default:
		t.Error("the server serves")
	}
}

// A server does not start on secrets without their key; a new key goes before the old one, until the old one is not
// needed.
func TestSecretKey(t *testing.T) {
	t.Parallel()
	s, _ := newSecretShop(t)
	first := s.ShowApp("shop").Live
	s.Stop()
	file := filepath.Join(s.Data, "secret-key")
	old := strings.TrimSpace(string(testkit.Must(os.ReadFile(file))(t)))
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	s.Start()
	wantDead(t, s, "LANDFALL_SECRET_KEY is not set", "secret-key", "age-keygen")
	if _, err := os.Stat(file); err == nil {
		t.Error("a new key was made, although there are secrets")
	}

	next, rotated := newSecretKey(t, old)
	s.Start(rotated)
	wantPaid(t, s, "shop", "first-value")
	s.SetSecret("shop", "STRIPE_KEY", "second-value")
	wantPaid(t, s, "shop", "second-value")
	out, code := s.Run(t.TempDir(), "fsck")
	testkit.Equal(t, "exit code of fsck after a rotation: "+out, code, 0)
	s.Stop()

	alone := filepath.Join(t.TempDir(), "alone")
	if err := os.WriteFile(alone, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start("LANDFALL_SECRET_KEY_FILE=" + alone)
	wantPaid(t, s, "shop", "second-value")
	testkit.Equal(t, "what was sealed under the old key", s.Get(s.At("shop--"+string(first), "/api/pay")).Status,
		http.StatusBadGateway)
	out, code = s.Run(t.TempDir(), "fsck")
	testkit.Equal(t, "exit code of fsck without the old key", code, 1)
	testkit.Contains(t, textOf(out), "secret STRIPE_KEY", "another key")
	s.Stop()

	_, lost := newSecretKey(t)
	s.Start(lost)
	s.Eventually("the log says that the key is another one", func() bool {
		return strings.Contains(s.Log.String(), "the key of the secrets is another one")
	})
	testkit.Equal(t, "status without the key", s.Get(s.At("shop", "/api/pay")).Status, http.StatusBadGateway)
	s.SetSecret("shop", "STRIPE_KEY", "third-value")
	wantPaid(t, s, "shop", "third-value")
	for _, text := range []string{old, next} {
		if strings.Contains(s.Log.String(), text) {
			t.Error("a key is in the log")
		}
	}
}

// Processes with different roles share the key. Without one nothing is kept, and with secrets they do not start.
func TestSecretsOfRoles(t *testing.T) {
	t.Parallel()
	_, setting := newSecretKey(t)
	f := forge.NewFleet(t, 1, 1, setting)
	r := f.Repository(f.App("shop"))
	r.Write("specs/functions.yaml", site.Naming(site.FunctionsSpec("python-env", "pay pay.main"), "STRIPE_KEY"),
		"specs/app.yaml", site.AppSpec("shop", "config: {currency: EUR}"), "site/index.html", "page", "pay/pay.py", secretly)
	f.SetSecret("shop", "STRIPE_KEY", "first-value")
	f.Pushed(r, "shop", "Take money")
	f.WantServed("shop", "/api/pay", "first-value EUR")
	f.SetSecret("shop", "STRIPE_KEY", "second-value")
	f.WantServed("shop", "/api/pay", "second-value EUR")
	g := f.Gateways[0]
	g.Stop()
	g.Start("LANDFALL_SECRET_KEY_FILE=")
	wantDead(t, g.Site, "LANDFALL_SECRET_KEY is not set")

	without := forge.NewFleet(t, 1, 0)
	without.App("shop")
	err := without.Refused(http.MethodPut, "/apps/shop/secrets/KEY", client.NewSecret{Value: "first-value"})
	site.WantRefused(t, err, landfall.Unavailable, "LANDFALL_SECRET_KEY")
}
