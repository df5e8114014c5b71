package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/secret"
)

// newSecretKey returns a new key, and the setting that names a file with it and with those before it.
func newSecretKey(t *testing.T, before ...string) (key, setting string) {
	t.Helper()
	made := must(secret.NewKey())(t)
	file := filepath.Join(t.TempDir(), "key")
	text := strings.Join(append([]string{"# the new one", made.Reveal()}, before...), "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return made.Reveal(), "LANDFALL_SECRET_KEY_FILE=" + file
}

// wantDead fails the test unless the server ended with a sentence that has the parts.
func wantDead(t *testing.T, s *site, parts ...string) {
	t.Helper()
	select {
	case <-s.done:
		wantText(t, s.log, parts...)
	default:
		t.Error("the server serves")
	}
}

// A server does not start on secrets without their key; a new key goes before the old one, until the old one is not needed.
func TestSecretKey(t *testing.T) {
	t.Parallel()
	s, _ := newSecretShop(t)
	first := s.showApp("shop").Live
	s.stop()
	file := filepath.Join(s.data, "secret-key")
	old := strings.TrimSpace(string(must(os.ReadFile(file))(t)))
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	s.start()
	wantDead(t, s, "LANDFALL_SECRET_KEY is not set", "secret-key", "age-keygen")
	if _, err := os.Stat(file); err == nil {
		t.Error("a new key was made, although there are secrets")
	}

	next, rotated := newSecretKey(t, old)
	s.start(rotated)
	wantPaid(t, s, "shop", "first-value")
	s.setSecret("shop", "STRIPE_KEY", "second-value")
	wantPaid(t, s, "shop", "second-value")
	out, code := s.run(t.TempDir(), "fsck")
	wantEqual(t, "exit code of fsck after a rotation: "+out, code, 0)
	s.stop()

	alone := filepath.Join(t.TempDir(), "alone")
	if err := os.WriteFile(alone, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start("LANDFALL_SECRET_KEY_FILE=" + alone)
	wantPaid(t, s, "shop", "second-value")
	wantEqual(t, "what was sealed under the old key", s.get(s.at("shop--"+string(first), "/api/pay")).status, http.StatusBadGateway)
	out, code = s.run(t.TempDir(), "fsck")
	wantEqual(t, "exit code of fsck without the old key", code, 1)
	wantText(t, textOf(out), "secret STRIPE_KEY", "another key")
	s.stop()

	_, lost := newSecretKey(t)
	s.start(lost)
	s.eventually("the log says that the key is another one", func() bool { return strings.Contains(s.log.String(), "the key of the secrets is another one") })
	wantEqual(t, "status without the key", s.get(s.at("shop", "/api/pay")).status, http.StatusBadGateway)
	s.setSecret("shop", "STRIPE_KEY", "third-value")
	wantPaid(t, s, "shop", "third-value")
	for _, text := range []string{old, next} {
		if strings.Contains(s.log.String(), text) {
			t.Error("a key is in the log")
		}
	}
}

// Processes with different roles share the key. Without one nothing is kept, and with secrets they do not start.
func TestSecretsOfRoles(t *testing.T) {
	t.Parallel()
	_, setting := newSecretKey(t)
	f := newFleet(t, 1, 1, setting)
	r := f.repository(f.app("shop"))
	r.write("specs/functions.yaml", naming(functionsSpec("python-env", "pay pay.main"), "STRIPE_KEY"), "specs/app.yaml",
		appSpec("shop", "config: {currency: EUR}"), "site/index.html", "page", "pay/pay.py", secretly)
	f.setSecret("shop", "STRIPE_KEY", "first-value")
	f.pushed(r, "shop", "Take money")
	f.wantServed("shop", "/api/pay", "first-value EUR")
	f.setSecret("shop", "STRIPE_KEY", "second-value")
	f.wantServed("shop", "/api/pay", "second-value EUR")
	g := f.gateways[0]
	g.stop()
	g.start("LANDFALL_SECRET_KEY_FILE=")
	wantDead(t, g.site, "LANDFALL_SECRET_KEY is not set")

	without := newFleet(t, 1, 0)
	without.app("shop")
	err := without.refused(http.MethodPut, "/apps/shop/secrets/KEY", client.NewSecret{Value: "first-value"})
	wantRefused(t, err, landfall.Unavailable, "LANDFALL_SECRET_KEY")
}
