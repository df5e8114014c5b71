package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// secretly is a function that answers with a secret, which is its own affair, and with the app's configuration.
const secretly = "import os\n\n\ndef main(event):\n    return os.environ.get('STRIPE_KEY', 'none') + ' ' + os.environ.get('currency', 'none')\n"

// naming returns the specs of functions that name secrets.
func naming(specs string, secrets ...string) string {
	list := ""
	for _, s := range secrets {
		list += "  - {name: " + s + ", namespace: default}\n"
	}
	return strings.ReplaceAll(specs, "  environment: {name: env}\n  package", "  secrets:\n"+list+"  environment: {name: env}\n  package")
}

// setSecret sets a secret as a person does, and returns what was printed.
func (s *site) setSecret(app, name, value string, flags ...string) told {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "value")
	if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	out, code := s.run(s.t.TempDir(), append([]string{"secret", "set", app, name, "--from-file", file}, flags...)...)
	if code != 0 {
		s.t.Fatalf("secret set ended with %d: %s", code, out)
	}
	return told{out}
}

// newSecretShop is a site with a shop whose function names a secret, which is set.
func newSecretShop(t *testing.T, env ...string) (*site, *repository) {
	t.Helper()
	s := newSite(t, env...)
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", naming(functionsSpec("python-env", "pay pay.main"), "STRIPE_KEY"), "specs/app.yaml",
		appSpec("shop", "config: {currency: EUR}"), "site/index.html", "page", "pay/pay.py", secretly)
	s.setSecret("shop", "STRIPE_KEY", "first-value")
	s.pushed(r, "shop", "Take money")
	return s, r
}

// wantPaid fails the test unless the function behind a host answers with a secret.
func wantPaid(t *testing.T, s *site, host, want string) {
	t.Helper()
	wantServed(t, s, host, "/api/pay", want+" EUR")
}

// A secret is set, released, rolled back, and revoked.
func TestSecret(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", naming(functionsSpec("python-env", "pay pay.main"), "STRIPE_KEY"), "specs/app.yaml",
		appSpec("shop", "config: {currency: EUR}"), "site/index.html", "page", "pay/pay.py", secretly)
	r.commit("Take money")
	// N-032: a push whose function names a secret that is not there fails, with its place and its name
	wantFailed(t, s, "shop", r, r.push("HEAD"), "specs/functions.yaml:11: Function pay names the secret STRIPE_KEY", "landfall secret set shop STRIPE_KEY")
	wantList(t, "what was made", s.accessible("shop"), nil)
	if units := list[client.Unit](s, "/functions"); len(units) != 0 {
		t.Errorf("functions were made: %v", units)
	}

	s.setSecret("shop", "STRIPE_KEY", "first-value")
	first := s.pushed(r, "shop", "Take money again")
	// E-040: what the function is given has the app's configuration and its secrets
	wantPaid(t, s, "shop", "first-value")
	// D-009, D-012: a secret is a part of the app version
	wantEqual(t, "the secret of the release", s.unitsOf("shop", "live")["secret STRIPE_KEY"].Number, 1)

	set := s.setSecret("shop", "STRIPE_KEY", "second-value")
	wantText(t, set, "STRIPE_KEY", "2", "true", "http://shop--")
	second := s.showApp("shop").Live
	wantPaid(t, s, "shop", "second-value")
	wantPaid(t, s, "shop--"+string(first), "first-value")
	wantPaid(t, s, "shop--"+string(second), "second-value")
	wantEqual(t, "the function's version", s.unitsOf("shop", "live")["function pay"].Number, 1)
	out, _ := s.run(t.TempDir(), "function", "invoke", "pay")
	wantEqual(t, "what a call by name answers", strings.TrimSpace(out), "second-value EUR")
	wantText(t, s.setSecret("shop", "STRIPE_KEY", "second-value"), "it had that value already")
	wantEqual(t, "live when nothing changed", s.showApp("shop").Live, second)

	out, _ = s.run(t.TempDir(), "release", "rollback", "shop")
	wantText(t, told{out}, string(first))
	wantPaid(t, s, "shop", "first-value")
	wantRefused(t, s.refused(http.MethodPost, "/apps/shop/secrets/STRIPE_KEY/revoke", map[string]string{"version": "1"}), landfall.Conflict,
		"the live release "+string(first), "secret STRIPE_KEY (no. 1)")
	s.run(t.TempDir(), "release", "live", "shop", string(second))

	out, code := s.run(t.TempDir(), "secret", "revoke", "shop", "STRIPE_KEY:1")
	wantEqual(t, "exit code of a revocation", code, 0)
	wantText(t, told{out}, "revoked STRIPE_KEY (no. 1)")
	// N-032: a release whose secret was revoked does not become live, and the secret is named
	wantRefused(t, s.refused(http.MethodPost, "/apps/shop/rollback", map[string]string{}), landfall.Conflict, "secret STRIPE_KEY (no. 1)", "revoked by admin")
	// N-032: nor by its name
	wantRefused(t, s.refused(http.MethodPost, "/apps/shop/live", map[string]string{"release": string(first)}), landfall.Conflict, "STRIPE_KEY", "revoked by admin")
	wantEqual(t, "live after a refusal", s.showApp("shop").Live, second)
	wantPaid(t, s, "shop", "second-value")
	wantEqual(t, "the status of what has the revoked value", s.get(s.at("shop--"+string(first), "/api/pay")).status, http.StatusBadGateway)
	s.eventually("the log says why", func() bool {
		return strings.Contains(s.log.String(), "the function pay cannot be run: it needs the secret STRIPE_KEY, whose value in its release (no. 1) was revoked")
	})

	wantRefused(t, s.refused(http.MethodDelete, "/apps/shop/secrets/STRIPE_KEY", nil), landfall.Conflict, "2 releases", string(first), string(second))
	out, _ = s.run(t.TempDir(), "secret", "list", "shop")
	wantText(t, told{out}, "revoked by admin", "live", "production", "pay")
	out, _ = s.run(t.TempDir(), "app", "history", "shop")
	wantText(t, told{out}, "Set the secret STRIPE_KEY")
	out, _ = s.run(t.TempDir(), "release", "diff", "shop", string(first), string(second))
	wantText(t, told{out}, "secret  STRIPE_KEY  changed", "6 units unchanged")
	out, code = s.run(t.TempDir(), "fsck")
	wantEqual(t, "exit code of fsck: "+out, code, 0)
}

// Branches have a value of their own; what is merged gets production's.
func TestSecretOfPreviews(t *testing.T) {
	t.Parallel()
	s, r := newSecretShop(t)
	s.setSecret("shop", "STRIPE_KEY", "preview-value", "--preview")
	wantPaid(t, s, "shop", "first-value")
	r.git("checkout", "--quiet", "-b", "feature")
	r.write("site/index.html", "another page")
	preview := s.pushed(r, "shop", "A page")
	wantPaid(t, s, "shop--"+string(preview), "preview-value")
	merged := s.released(r.push("HEAD:main"), "shop")
	if merged == preview {
		t.Errorf("production has the release of the branch, with its secrets")
	}
	wantPaid(t, s, "shop", "first-value")
	wantPaid(t, s, "shop--branch-feature", "preview-value")
	wantServed(t, s, "shop", "/", "another page")
}

// A secret that is set without a release is in the next one, also when that is of the same commit.
func TestSecretWithoutRelease(t *testing.T) {
	t.Parallel()
	s, r := newSecretShop(t)
	before := s.showApp("shop").Live
	s.setSecret("shop", "STRIPE_KEY", "second-value", "--no-release")
	wantEqual(t, "live", s.showApp("shop").Live, before)
	r.git("tag", "v1")
	tagged := s.released(r.push("v1"), "shop")
	wantPaid(t, s, "shop--"+string(tagged), "second-value")
	wantPaid(t, s, "shop", "first-value")
	s.setSecret("shop", "OTHER", "of-nobody")
	wantEqual(t, "live after a secret that nobody names", s.showApp("shop").Live, before)
	s.setSecret("shop", "STRIPE_KEY", "third-value")
	wantPaid(t, s, "shop", "third-value")

	r.write("specs/functions.yaml", functionsSpec("python-env", "pay pay.main"))
	s.pushed(r, "shop", "No secret any more")
	wantServed(t, s, "shop", "/api/pay", "none EUR")
	wantRefused(t, s.refused(http.MethodDelete, "/apps/shop/secrets/NONE", nil), landfall.NotFound, `shop has no secret "NONE"`)
	out, code := s.run(t.TempDir(), "secret", "delete", "shop", "OTHER")
	wantEqual(t, "exit code of a deletion", code, 0)
	wantText(t, told{out}, "deleted the secret OTHER")
	s.setSecret("shop", "OTHER", "again-one")
	all := list[client.Secret](s, "/apps/shop/secrets")
	// what no spec names any more is not retired: it stands in none
	wantEqual(t, "secrets", len(all), 2)
	for _, other := range all {
		if other.Name == "OTHER" {
			// V3: the numbers of what was deleted go on
			wantEqual(t, "number after a deletion", other.Versions[0].Number, 2)
		}
	}
}

// What cannot be a secret is refused, and not shown.
func TestSecretRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.app("shop")
	const canary = "canary-7c1e55d0"
	out, code := s.run(t.TempDir(), "secret", "set", "shop", "KEY", canary)
	wantEqual(t, "exit code for a value as an argument", code, 2)
	wantText(t, told{out}, "a value is no argument")
	answers := out
	for _, c := range []struct {
		name string
		body any
		want string
	}{
		{"KEY", map[string]any{"value": canary + strings.Repeat("x", 64<<10)}, "65551 bytes"},
		{"KEY", map[string]any{"value": canary + "\x00"}, "zero byte"},
		{"KEY", map[string]any{"value": ""}, "empty"},
		{"a b", map[string]any{"value": canary}, "cannot be the name"},
		{"LANDFALL_KEY", map[string]any{"value": canary}, "cannot be the name"},
		{"KEY", map[string]any{"value": []string{canary}}, ""},
		{"KEY", map[string]any{"value": "x", "more": canary}, ""},
		{"KEY", []string{canary}, ""},
	} {
		err := s.refused(http.MethodPut, "/apps/shop/secrets/"+strings.ReplaceAll(c.name, " ", "%20"), c.body)
		wantRefused(t, err, landfall.Invalid, c.want)
		answers += err.Message
	}
	if all := answers + s.log.String(); strings.Contains(all, canary) {
		t.Errorf("the value is in %q", all)
	}
	if secrets := list[client.Secret](s, "/apps/shop/secrets"); len(secrets) != 0 {
		t.Errorf("secrets were made: %v", secrets)
	}
}
