package function_test

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// secretly is a function that answers with a secret, which is its own affair, and with the app's configuration.
const secretly = "import os\n\n\ndef main(event):\n    return os.environ.get('STRIPE_KEY', 'none') + ' ' + " +
	"os.environ.get('currency', 'none')\n"

// newSecretShop is a site with a shop whose function names a secret, which is set.
func newSecretShop(t *testing.T, env ...string) (*site.Site, *site.Repository) {
	t.Helper()
	s := site.New(t, env...)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.Naming(site.FunctionsSpec("python-env", "pay pay.main"), "STRIPE_KEY"),
		"specs/app.yaml", site.AppSpec("shop", "config: {currency: EUR}"), "site/index.html", "page", "pay/pay.py", secretly)
	s.SetSecret("shop", "STRIPE_KEY", "first-value")
	s.Pushed(r, "shop", "Take money")
	return s, r
}

// wantPaid fails the test unless the function behind a host answers with a secret.
func wantPaid(t *testing.T, s *site.Site, host, want string) {
	t.Helper()
	site.WantServed(t, s, host, "/api/pay", want+" EUR")
}

// A secret is set, released, rolled back, and revoked.
func TestSecret(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.Naming(site.FunctionsSpec("python-env", "pay pay.main"), "STRIPE_KEY"),
		"specs/app.yaml", site.AppSpec("shop", "config: {currency: EUR}"), "site/index.html", "page", "pay/pay.py", secretly)
	r.Commit("Take money")
	// N-032: a push whose function names a secret that is not there fails, with its place and its name
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "specs/functions.yaml:11: Function pay names the secret STRIPE_KEY",
		"landfall secret set shop STRIPE_KEY")
	testkit.EqualList(t, "what was made", s.Accessible("shop"), nil)
	if units := site.List[client.Unit](s, "/functions"); len(units) != 0 {
		t.Errorf("functions were made: %v", units)
	}

	s.SetSecret("shop", "STRIPE_KEY", "first-value")
	first := s.Pushed(r, "shop", "Take money again")
	// E-040: what the function is given has the app's configuration and its secrets
	wantPaid(t, s, "shop", "first-value")
	// D-009, D-012: a secret is a part of the app version
	testkit.Equal(t, "the secret of the release", s.UnitsOf("shop", "live")["secret STRIPE_KEY"].Number, 1)

	set := s.SetSecret("shop", "STRIPE_KEY", "second-value")
	testkit.Contains(t, set, "STRIPE_KEY", "2", "true", "http://shop--")
	second := s.ShowApp("shop").Live
	wantPaid(t, s, "shop", "second-value")
	wantPaid(t, s, "shop--"+string(first), "first-value")
	wantPaid(t, s, "shop--"+string(second), "second-value")
	testkit.Equal(t, "the function's version", s.UnitsOf("shop", "live")["function pay"].Number, 1)
	out, _ := s.Run(t.TempDir(), "function", "invoke", "pay")
	testkit.Equal(t, "what a call by name answers", strings.TrimSpace(out), "second-value EUR")
	testkit.Contains(t, s.SetSecret("shop", "STRIPE_KEY", "second-value"), "it had that value already")
	testkit.Equal(t, "live when nothing changed", s.ShowApp("shop").Live, second)

	out, _ = s.Run(t.TempDir(), "release", "rollback", "shop")
	testkit.Contains(t, site.Told{out}, string(first))
	wantPaid(t, s, "shop", "first-value")
	site.WantRefused(t, s.Refused(http.MethodPost, "/apps/shop/secrets/STRIPE_KEY/revoke",
		map[string]string{"version": "1"}), landfall.Conflict,
		"the live release "+string(first), "secret STRIPE_KEY (no. 1)")
	s.Run(t.TempDir(), "release", "live", "shop", string(second))

	out, code := s.Run(t.TempDir(), "secret", "revoke", "shop", "STRIPE_KEY:1")
	testkit.Equal(t, "exit code of a revocation", code, 0)
	testkit.Contains(t, site.Told{out}, "revoked STRIPE_KEY (no. 1)")
	// N-032: a release whose secret was revoked does not become live, and the secret is named
	site.WantRefused(t, s.Refused(http.MethodPost, "/apps/shop/rollback", map[string]string{}), landfall.Conflict,
		"secret STRIPE_KEY (no. 1)", "revoked by admin")
	// N-032: nor by its name
	site.WantRefused(t, s.Refused(http.MethodPost, "/apps/shop/live", map[string]string{"release": string(first)}),
		landfall.Conflict, "STRIPE_KEY", "revoked by admin")
	testkit.Equal(t, "live after a refusal", s.ShowApp("shop").Live, second)
	wantPaid(t, s, "shop", "second-value")
	testkit.Equal(t, "the status of what has the revoked value", s.Get(s.At("shop--"+string(first), "/api/pay")).Status,
		http.StatusBadGateway)
	s.Eventually("the log says why", func() bool {
		return strings.Contains(s.Log.String(),
			"the function pay cannot be run: it needs the secret STRIPE_KEY, whose value in its release (no. 1) was revoked")
	})

	site.WantRefused(t, s.Refused(http.MethodDelete, "/apps/shop/secrets/STRIPE_KEY", nil), landfall.Conflict,
		"2 releases", string(first), string(second))
	out, _ = s.Run(t.TempDir(), "secret", "list", "shop")
	testkit.Contains(t, site.Told{out}, "revoked by admin", "live", "production", "pay")
	out, _ = s.Run(t.TempDir(), "app", "history", "shop")
	testkit.Contains(t, site.Told{out}, "Set the secret STRIPE_KEY")
	out, _ = s.Run(t.TempDir(), "release", "diff", "shop", string(first), string(second))
	testkit.Contains(t, site.Told{out}, "secret  STRIPE_KEY  changed", "6 units unchanged")
	out, code = s.Run(t.TempDir(), "fsck")
	testkit.Equal(t, "exit code of fsck: "+out, code, 0)
}

// Branches have a value of their own; what is merged gets production's.
func TestSecretOfPreviews(t *testing.T) {
	t.Parallel()
	s, r := newSecretShop(t)
	s.SetSecret("shop", "STRIPE_KEY", "preview-value", "--preview")
	wantPaid(t, s, "shop", "first-value")
	r.Git("checkout", "--quiet", "-b", "feature")
	r.Write("site/index.html", "another page")
	preview := s.Pushed(r, "shop", "A page")
	wantPaid(t, s, "shop--"+string(preview), "preview-value")
	merged := s.Released(r.Push("HEAD:main"), "shop")
	if merged == preview {
		t.Errorf("production has the release of the branch, with its secrets")
	}
	wantPaid(t, s, "shop", "first-value")
	wantPaid(t, s, "shop--branch-feature", "preview-value")
	site.WantServed(t, s, "shop", "/", "another page")
}

// A secret that is set without a release is in the next one, also when that is of the same commit.
func TestSecretWithoutRelease(t *testing.T) {
	t.Parallel()
	s, r := newSecretShop(t)
	before := s.ShowApp("shop").Live
	s.SetSecret("shop", "STRIPE_KEY", "second-value", "--no-release")
	testkit.Equal(t, "live", s.ShowApp("shop").Live, before)
	r.Git("tag", "v1")
	tagged := s.Released(r.Push("v1"), "shop")
	wantPaid(t, s, "shop--"+string(tagged), "second-value")
	wantPaid(t, s, "shop", "first-value")
	s.SetSecret("shop", "OTHER", "of-nobody")
	testkit.Equal(t, "live after a secret that nobody names", s.ShowApp("shop").Live, before)
	s.SetSecret("shop", "STRIPE_KEY", "third-value")
	wantPaid(t, s, "shop", "third-value")

	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "pay pay.main"))
	s.Pushed(r, "shop", "No secret any more")
	site.WantServed(t, s, "shop", "/api/pay", "none EUR")
	site.WantRefused(t, s.Refused(http.MethodDelete, "/apps/shop/secrets/NONE", nil), landfall.NotFound,
		`shop has no secret "NONE"`)
	out, code := s.Run(t.TempDir(), "secret", "delete", "shop", "OTHER")
	testkit.Equal(t, "exit code of a deletion", code, 0)
	testkit.Contains(t, site.Told{out}, "deleted the secret OTHER")
	s.SetSecret("shop", "OTHER", "again-one")
	all := site.List[client.Secret](s, "/apps/shop/secrets")
	// what no spec names any more is not retired: it stands in none
	testkit.Equal(t, "secrets", len(all), 2)
	for _, other := range all {
		if other.Name == "OTHER" {
			// V3: the numbers of what was deleted go on
			testkit.Equal(t, "number after a deletion", other.Versions[0].Number, 2)
		}
	}
}

// A value that is set again is another version: a release that has the revoked one is not what a push gets.
func TestSecretSetAgain(t *testing.T) {
	t.Parallel()
	s, r := newSecretShop(t)
	s.SetSecret("shop", "STRIPE_KEY", "second-value")
	if out, code := s.Run(t.TempDir(), "secret", "revoke", "shop", "STRIPE_KEY:1"); code != 0 {
		t.Fatal(out)
	}
	s.SetSecret("shop", "STRIPE_KEY", "first-value", "--no-release")
	r.Git("tag", "v1")
	wantPaid(t, s, "shop--"+string(s.Released(r.Push("v1"), "shop")), "first-value")
}

// What cannot be a secret is refused, and not shown.
func TestSecretRefused(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	s.App("shop")
	const canary = "canary-7c1e55d0"
	out, code := s.Run(t.TempDir(), "secret", "set", "shop", "KEY", canary)
	testkit.Equal(t, "exit code for a value as an argument", code, 2)
	testkit.Contains(t, site.Told{out}, "a value is no argument")
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
		err := s.Refused(http.MethodPut, "/apps/shop/secrets/"+strings.ReplaceAll(c.name, " ", "%20"), c.body)
		site.WantRefused(t, err, landfall.Invalid, c.want)
		answers += err.Message
	}
	if all := answers + s.Log.String(); strings.Contains(all, canary) {
		t.Errorf("the value is in %q", all)
	}
	if secrets := site.List[client.Secret](s, "/apps/shop/secrets"); len(secrets) != 0 {
		t.Errorf("secrets were made: %v", secrets)
	}
}
