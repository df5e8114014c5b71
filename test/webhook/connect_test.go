package webhook_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// An administrator connects GitHub with one click. Then an app of a private repository needs its name alone, and each
// request of the server has a token for one repository and what it does there.
func TestConnectGitHub(t *testing.T) {
	t.Parallel()
	w := forge.NewUnconnectedWorld(t)
	out, code := w.Run(t.TempDir(), "app", "create", "early", "--repo", "harbor/early")
	if code != 3 || !strings.Contains(out, "landfall github connect") {
		t.Errorf("an app by OWNER/NAME got %d %s, want that GitHub is to be connected first", code, out)
	}
	page, printed := w.Connect()
	testkit.Contains(t, site.Told{page.Body}, githubtest.Slug+" is connected", "/installations/new")
	testkit.Contains(t, site.Told{printed}, githubtest.Slug, "harbor", "/installations/new")
	app := w.API.App()
	for name, level := range map[string]string{"contents": "read", "metadata": "read", "statuses": "write",
		"administration": "", "issues": "read"} {
		// S33: the App asks for the least
		if got := app.Manifest.Permissions[name]; got != level {
			t.Errorf("the App asks for %s:%s, want %q", name, got, level)
		}
	}
	testkit.Contains(t, site.Told{w.Landfall("github", "show")}, githubtest.Slug, "nowhere")

	shop, mono := w.Private("harbor/shop"), w.Private("harbor/mono")
	out, code = w.Run(t.TempDir(), "app", "create", "shop", "--repo", "harbor/shop")
	if code != 5 || !strings.Contains(out, "is not installed on harbor/shop") {
		t.Errorf("an app whose repository the App does not see got %d %s, want where it is not installed", code, out)
	}
	id := w.API.Install("harbor", map[string]int64{shop.Name: shop.ID, mono.Name: mono.ID})
	out, code = w.Run(t.TempDir(), "app", "create", "shop", "--repo", "harbor/shop", "--branch", "main")
	if code != 0 || strings.Contains(out, "webhook") {
		t.Fatalf("an app by OWNER/NAME got %d %s, want an app that needs no webhook", code, out)
	}
	one, push := shop.Release("one")
	w.Tells(push)
	run := forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded)
	forge.WantTold(t, w, one, landfall.StatusSuccess, w.At("shop--"+string(run.Release), "/"))
	for _, token := range w.API.Tokens() {
		permissions := ""
		for name, level := range token.Permissions {
			permissions += name + ":" + level
		}
		// S33: a token is for one repository, and for one permission
		if len(token.Repositories) != 1 || len(token.Permissions) != 1 || !slices.Contains([]string{"contents:read",
			"statuses:write", "deployments:read", "deployments:write", "checks:read", "checks:write"}, permissions) {
			t.Errorf("the server got a token for %q and %s, want one repository, to read it or to say what became of it",
				token.Repositories, permissions)
		}
	}

	t.Run("repositories", func(t *testing.T) { tellRepositories(t, w.In(t), id, mono) })

	t.Run("the App's secret alone", func(t *testing.T) {
		w := w.In(t)
		_, push := shop.Release("two")
		got := w.Deliver(forge.Hook{URL: w.AppHook().URL, Secret: "another"}, push)
		testkit.Equal(t, "the answer to a wrong signature", got.Status, http.StatusUnauthorized)
		w.Tells(push)
	})

	t.Run("suspended", func(t *testing.T) {
		w := w.In(t)
		w.API.Change(id, func(i *githubtest.Installation) { i.Suspended = true })
		told := w.Tells(forge.Installed(t, "suspend", "harbor"))
		testkit.Contains(t, site.Told{told.Decision}, "was suspended on harbor")
		three, push := shop.Release("three")
		w.Tells(push)
		// S35: what was given up makes nothing new, and says why
		forge.WantEnds(t, w, "shop", three, landfall.RunError, "is suspended")
		var app client.App
		w.Call(http.MethodGet, "/apps/shop", nil, &app)
		testkit.Contains(t, site.Told(app.Problems), "is suspended")
		testkit.Contains(t, site.Told{w.Landfall("github", "show")}, "harbor/shop: ", "is suspended")
		if got := w.API.Statuses(string(three)); len(got) != 0 {
			t.Errorf("got the statuses %+v by another way, want none", got)
		}
		w.API.Change(id, func(i *githubtest.Installation) { i.Suspended = false })
		w.Tells(forge.Installed(t, "unsuspend", "harbor"))
		four, push := shop.Release("four")
		w.Tells(push)
		forge.WantEnds(t, w, "shop", four, landfall.RunSucceeded)
		w.Call(http.MethodGet, "/apps/shop", nil, &app)
	})

	t.Run("without the repository", func(t *testing.T) {
		w := w.In(t)
		w.API.Change(id, func(i *githubtest.Installation) { i.Repositories = map[string]int64{mono.Name: mono.ID} })
		w.Tells(forge.Delivery{ID: "removed", Event: "installation_repositories", Body: testkit.Encode(t, map[string]any{
			"action": "removed", "installation": map[string]any{"account": map[string]any{"login": "harbor"}},
			"repositories_removed": []any{map[string]any{"full_name": "harbor/shop"}}})})
		five, push := shop.Release("five")
		w.Tells(push)
		// S35: a repository that was taken out of the installation
		forge.WantEnds(t, w, "shop", five, landfall.RunError, "is not installed on harbor/shop")
		w.API.Change(id, func(i *githubtest.Installation) { i.Repositories[shop.Name] = shop.ID })
		w.Tells(forge.Installed(t, "new_permissions_accepted", "harbor"))
	})

	t.Run("another key", func(t *testing.T) {
		w := w.In(t)
		if err := w.API.ChangeKey(); err != nil {
			t.Fatal(err)
		}
		w.Tells(forge.Installed(t, "created", "elsewhere"))
		six, push := shop.Release("six")
		w.Tells(push)
		// N-044: a wrong App key
		forge.WantEnds(t, w, "shop", six, landfall.RunError, "does not accept the key")
		testkit.Contains(t, site.Told{w.Landfall("github", "show")}, "does not accept the key")
		testkit.Contains(t, site.Told{w.ReadAs(w.URL + "/github/repositories").Body}, "does not accept the key", "Filter")
	})

	// S12: neither a token nor the App's secrets are in the log
	for _, secret := range []string{"ghs_", "PRIVATE KEY", w.AppHook().Secret} {
		if strings.Contains(w.Log.String(), secret) {
			t.Errorf("the server's log has %q", secret)
		}
	}

	t.Run("disconnected", func(t *testing.T) {
		w := w.In(t)
		hook := w.AppHook()
		out := w.Landfall("github", "disconnect")
		testkit.Contains(t, site.Told{out}, "still exists at GitHub")
		testkit.Contains(t, site.Told{w.ReadAs(w.URL + "/github/repositories").Body}, "no GitHub App is connected")
		_, push := shop.Release("seven")
		got := w.Deliver(hook, push)
		// S35: the App's deliveries do not count any more
		testkit.Equal(t, "the answer to a delivery", got.Status, http.StatusUnauthorized)
	})
}
