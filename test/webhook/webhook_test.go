package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A push at the forge becomes a release with its own address, and the app shows it.
func TestWebhookPush(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)

	t.Run("a push becomes a release", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("shop")
		h.Write("specs/app.yaml", site.AppSpec("shop", "  - {src: css, path: /css}"), "site/index.html", "<h1>one</h1>",
			"site/about.html", "about", "css/a.css", "a{}")
		open := h.Hold()
		one := h.Commit("Open the shop")
		push := h.Send("main")
		got := w.Deliver(w.Installation(), push)
		// P-001: a signed delivery is accepted
		testkit.Equal(t, "status", got.Status, http.StatusAccepted)
		// L-020: it is answered before anything was fetched, with the addresses of what was stored
		if len(got.Runs) != 1 || !strings.HasPrefix(got.Runs[0], w.URL+"/runs/") ||
			got.Decision != "Branch main is now at "+one.Short()+"." {
			t.Errorf("got %+v, want the address of one run, and what the push did", got)
		}
		p := w.ReadAs(got.Delivery)
		if p.Status != http.StatusOK || testkit.Decode[client.Delivery](t, []byte(p.Body)).ID != push.ID {
			t.Errorf("the delivery's address answers %d %s, want the delivery", p.Status, p.Body)
		}
		known, ok := w.RunOf("shop", one)
		// L-036: the release's address is known before the commit is even here
		if want := w.At("shop--"+string(known.UID), "/"); !ok || known.State.Final() || known.URL != want || known.UID == "" {
			t.Errorf("got the run %+v, want one on its way with the address %s", known, want)
		}
		site.WantStatus(t, w.Site, "shop--"+string(known.UID), http.StatusNotFound)
		open()
		run := forge.WantEnds(t, w, "shop", one, landfall.RunSucceeded, "Released")
		testkit.Equal(t, "release", run.Release, known.UID)

		// P-003: what is served is the tree of the pushed commit
		site.WantServed(t, w.Site, "shop--"+string(run.Release), "/", "<h1>one</h1>")
		// P-014: it is live: one process was started by one command, and nothing else
		site.WantServed(t, w.Site, "shop", "/", "<h1>one</h1>")
		// L-014: every answer names the release that it comes from
		testkit.Equal(t, "Landfall-Release", w.Get(w.At("shop", "/")).Header.Get("Landfall-Release"), string(run.Release))
		var group client.GroupTracker
		w.Call(http.MethodGet, "/apps/shop/groups/"+string(run.Release), nil, &group)
		// P-005: the group version names commit, branch, and that nothing else was in it
		testkit.Equal(t, "git", group.Spec.Git, client.Git{Commit: one, Branch: "main", Clean: "yes"})

		before := w.Stored("shop")
		h.Write("site/index.html", "<h1>two</h1>")
		two := h.Commit("Say two")
		w.Hears(h.Send("main"))
		second := forge.WantEnds(t, w, "shop", two, landfall.RunSucceeded)
		var changed []string
		for _, c := range second.Changes {
			if c.Change != landfall.Unchanged {
				changed = append(changed, c.Unit.String())
			}
		}
		// P-004: the diff against what was applied before names one unit
		testkit.EqualList(t, "changed units", changed, []string{"static /"})
		prefix := w.ObjectsOf("shop") + "static/"
		fresh := site.Added(before, w.Stored("shop"))
		// P-006: of a changed unit the changed file and one manifest are stored, below the version's prefix; of the other
		// nothing
		if len(fresh) != 2 || second.Stats.FilesUploaded != 1 || slices.ContainsFunc(fresh, func(key string) bool {
			return !strings.HasPrefix(key, prefix) || !strings.Contains(key, "/"+string(second.Release)+"/")
		}) {
			t.Errorf("%d files were uploaded, and stored were %q, want one file and a manifest below %s…/%s",
				second.Stats.FilesUploaded, fresh, prefix, second.Release)
		}
		site.WantServed(t, w.Site, "shop", "/", "<h1>two</h1>")
		site.WantServed(t, w.Site, "shop--"+string(run.Release), "/", "<h1>one</h1>")
	})

	t.Run("one delivery is one run, however often it comes", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("copies")
		open := h.Hold()
		one, push := h.Release("one")
		answers := make([]forge.Response, 8)
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() { answers[i] = w.Deliver(w.Installation(), push) })
		}
		group.Wait()
		count := map[int]int{}
		for _, got := range answers {
			count[got.Status]++
			// P-002: every copy is told of the same run
			testkit.EqualList(t, "runs", got.Runs, answers[0].Runs)
		}
		if count[http.StatusAccepted] != 1 || count[http.StatusOK] != len(answers)-1 {
			t.Errorf("got the answers %v, want one 202, and 200 for the others", count)
		}
		open()
		run := forge.WantEnds(t, w, "copies", one, landfall.RunSucceeded)
		again := w.Deliver(w.Installation(), push)
		// N-003: a repeat is 200 with the first one's run, also when that is over
		testkit.Equal(t, "repeat", fmt.Sprint(again.Status, again.Runs),
			fmt.Sprint(http.StatusOK, []string{w.RunPage(run.ID)}))
		sameCommit := push.With(t, func(map[string]any) {})
		got := w.Hears(sameCommit)
		// L-020: another delivery of the same commit for the same branch joins the run
		testkit.EqualList(t, "runs", got.Runs, again.Runs)
		// P-002: there is one run
		testkit.Equal(t, "number of runs", len(w.Runs("copies")), 1)
		testkit.EqualList(t, "moves of live", w.WasLive("copies"), []landfall.UID{run.Release})
	})

	t.Run("a commit that failed is not tried again by another delivery", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("again")
		h.Write("README", "no page")
		bad := h.Commit("Nothing to serve")
		h.Git("switch", "--quiet", "-c", "feature")
		w.Hears(h.Send("feature"))
		forge.WantEnds(t, w, "again", bad, landfall.RunFailed)
		w.Hears(h.Pull("opened", 4, "feature"))
		w.Hears(h.Pull("synchronize", 4, "feature"))
		// L-020: the branch is where it was: nothing new is to be done
		testkit.Equal(t, "number of runs", len(w.Runs("again")), 1)
	})

	t.Run("the command line makes an app with a hook of its own", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h := w.Host(t, "harbor/cellar")
		out, code := w.Run(t.TempDir(), "app", "create", "cellar", "--repo", h.Clone(), "-o", "json")
		if code != 0 {
			t.Fatalf("got the exit code %d:\n%s", code, out)
		}
		made := testkit.Decode[client.App](t, []byte(out))
		if made.Hook == nil || !strings.HasPrefix(made.Hook.URL, w.URL+"/webhooks/github/") || len(made.Hook.Secret) < 32 {
			t.Fatalf("got %s, want the hook's address and a secret of 32 characters or more", out)
		}
		own := forge.Hook{URL: made.Hook.URL, Secret: made.Hook.Secret}
		one, push := h.Release("one")
		got := w.Deliver(own, push)
		testkit.Equal(t, "status", got.Status, http.StatusAccepted)
		run := forge.WantEnds(t, w, "cellar", one, landfall.RunSucceeded)
		site.WantServed(t, w.Site, "cellar", "/", "one")
		p := w.ReadAs(got.Delivery)
		if p.Status != http.StatusOK || testkit.Decode[client.Delivery](t, []byte(p.Body)).ID != push.ID {
			t.Errorf("the delivery's address %s answers %d %s, want the delivery", got.Delivery, p.Status, p.Body)
		}
		_, next := h.Release("two")
		for name, wrong := range map[string]forge.Hook{
			"the installation's secret at the app's hook": {URL: own.URL, Secret: forge.WebhookSecret},
			"the app's secret at the installation's hook": {URL: w.Installation().URL, Secret: own.Secret},
			"a hook that is not there": {URL: w.Installation().URL + "/0123456789abcdef0123456789abcdef",
				Secret: own.Secret},
		} {
			if got := w.Deliver(wrong, next); got.Status != http.StatusUnauthorized {
				t.Errorf("%s: got %d, want 401", name, got.Status)
			}
		}
		testkit.EqualList(t, "moves of live", w.WasLive("cellar"), []landfall.UID{run.Release})
		next.Body = []byte("payload=" + url.QueryEscape(string(next.Body)))
		header := forge.Signature(forge.WebhookSecret, next.Body)
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		testkit.Equal(t, "a form under the installation's secret", forge.Post(t, w.Installation().URL, next, header).Status,
			http.StatusAccepted)
		forge.WantEnds(t, w, "cellar", h.Head(), landfall.RunSucceeded)
		site.WantServed(t, w.Site, "cellar", "/", "two")
	})

	t.Run("a secret that was lost is replaced", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, app := w.Follow("attic")
		old := forge.Hook{URL: app.Hook.URL, Secret: app.Hook.Secret}
		command := func(args ...string) string {
			t.Helper()
			out, code := w.Run(t.TempDir(), args...)
			if code != 0 {
				t.Fatalf("landfall %s ended with %d:\n%s", strings.Join(args, " "), code, out)
			}
			return out
		}
		for _, shown := range []string{command("app", "show", "attic"), command("app", "hook", "attic"),
			command("app", "show", "attic", "-o", "json")} {
			if !strings.Contains(shown, old.URL) || strings.Contains(shown, "secret") || strings.Contains(shown, old.Secret) {
				t.Errorf("got %s, want the hook's address and no secret", shown)
			}
		}
		commit, push := h.Release("zero")
		testkit.Equal(t, "before", w.Deliver(old, push).Status, http.StatusAccepted)
		forge.WantEnds(t, w, "attic", commit, landfall.RunSucceeded)
		fresh := testkit.Decode[client.Hook](t, []byte(command("app", "hook", "attic", "--rotate", "-o", "json")))
		if fresh.URL != old.URL || fresh.Secret == old.Secret || len(fresh.Secret) < 32 {
			t.Errorf("got %+v, want the same address and a new secret", fresh)
		}
		commit, push = h.Release("one")
		testkit.Equal(t, "signed with the old secret", w.Deliver(old, push).Status, http.StatusUnauthorized)
		testkit.Equal(t, "signed with the new secret",
			w.Deliver(forge.Hook{URL: fresh.URL, Secret: fresh.Secret}, push).Status, http.StatusAccepted)
		forge.WantEnds(t, w, "attic", commit, landfall.RunSucceeded)
		if out := command("app", "hook", "attic"); strings.Contains(out, fresh.Secret) {
			t.Errorf("the new secret is shown again: %s", out)
		}
		// Whether the hook works is seen without the forge: other hooks' deliveries are not among its own.
		deliveries := testkit.Decode[[]client.Delivery](t, []byte(command("app", "deliveries", "attic", "-o", "json")))
		if len(deliveries) != 2 || deliveries[0].ID != push.ID {
			t.Errorf("got the deliveries %+v, want two and %s first", deliveries, push.ID)
		}
		if out := command("app", "deliveries", "attic"); !strings.Contains(out, "Branch main is now at "+commit.Short()) {
			t.Errorf("got %s, want what became of the delivery", out)
		}
		w.App("cottage")
		for _, args := range [][]string{{"app", "hook", "cottage"}, {"app", "hook", "cottage", "--rotate"},
			{"app", "deliveries", "cottage"}} {
			if out, code := w.Run(t.TempDir(), args...); code != 3 || !strings.Contains(out, "cottage has no webhook") {
				t.Errorf("landfall %s: got %d %s, want 3, and that the built-in remote needs none",
					strings.Join(args, " "), code, out)
			}
		}
	})

	t.Run("several apps of one repository", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("front")
		var back client.App
		w.Call(http.MethodPost, "/apps", client.NewApp{Name: "back", Repository: strings.TrimSuffix(h.Clone(), ".git"),
			Branch: "main", Folder: "back"}, &back)
		h.Write("index.html", "front", "back/index.html", "back")
		one := h.Commit("Both")
		got := w.Hears(h.Send("main"))
		testkit.Equal(t, "number of runs", len(got.Runs), 2)
		forge.WantEnds(t, w, "front", one, landfall.RunSucceeded)
		forge.WantEnds(t, w, "back", one, landfall.RunSucceeded)
		site.WantServed(t, w.Site, "front", "/", "front")
		site.WantServed(t, w.Site, "back", "/", "back")
		testkit.Equal(t, "runs of one app's hook",
			len(w.Deliver(forge.Hook{URL: back.Hook.URL, Secret: back.Hook.Secret}, h.Send("main")).Runs), 1)
	})
}

// What is not signed by the hook's secret, is too large, or is no event leaves nothing behind.
func TestWebhookRefuses(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h, _ := w.Follow("shop")
	_, push := h.Release("one")
	good := forge.Signature(forge.WebhookSecret, push.Body)
	sha1Only := good.Clone()
	sha1Only.Del("X-Hub-Signature-256")
	html := good.Clone()
	html.Set("Content-Type", "text/html")
	large := forge.Delivery{ID: push.ID, Event: "push", Body: make([]byte, 25<<20+1)}
	broken := forge.Delivery{ID: push.ID, Event: "push", Body: push.Body[:len(push.Body)-2]}
	nameless := forge.Delivery{Event: "push", Body: push.Body}
	empty := forge.Delivery{ID: push.ID, Event: "push", Body: []byte("{}")}
	type request struct {
		forge.Delivery
		header http.Header
		status int
	}
	wantRefusals := func(t *testing.T, requests map[string]request) {
		t.Helper()
		for name, r := range requests {
			if got := forge.Post(t, w.Installation().URL, r.Delivery, r.header); got.Status != r.status || got.Detail == "" {
				t.Errorf("%s: got %d %q, want %d and why", name, got.Status, got.Detail, r.status)
			}
		}
	}
	// N-001: a signature that is wrong, missing, empty or by SHA-1 only is 401
	wantRefusals(t, map[string]request{
		"a wrong secret":               {push, forge.Signature("another secret of the same kind", push.Body), 401},
		"an empty secret":              {push, forge.Signature("", push.Body), 401},
		"another body's signature":     {broken, good, 401},
		"no signature":                 {push, http.Header{}, 401},
		"only a signature by SHA-1":    {push, sha1Only, 401},
		"a signature that is no digit": {push, http.Header{"X-Hub-Signature-256": {"sha256=zz"}}, 401},
	})
	// N-004: what is too large, no JSON, or no such event is told so
	wantRefusals(t, map[string]request{
		"a body over the limit":      {large, forge.Signature(forge.WebhookSecret, large.Body), 413},
		"a body that is a page":      {push, html, 415},
		"a body that is cut":         {broken, forge.Signature(forge.WebhookSecret, broken.Body), 400},
		"a delivery without a name":  {nameless, good, 400},
		"an event without a payload": {empty, forge.Signature(forge.WebhookSecret, empty.Body), 400},
	})
	// N-001: no row was left
	testkit.Equal(t, "number of deliveries", len(site.List[client.Delivery](w.Site, "/deliveries")), 0)
	testkit.Equal(t, "number of runs", len(w.Runs("shop")), 0)
	testkit.Equal(t, "requests for the repository", w.Requests(h.Name), 0)
	w.Stop()
	refusals := 0
	for line := range strings.Lines(w.Log.String()) {
		entry := map[string]any{}
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == "webhook refused" &&
			entry["status"] == float64(401) && entry["delivery"] == push.ID {
			refusals++
		}
	}
	// P-001: each bad signature is in the log
	testkit.Equal(t, "refusals in the log", refusals, 6)
}

// Without a secret nothing is accepted, whatever it is signed with.
func TestWebhookWithoutSecret(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t, "LANDFALL_GITHUB_WEBHOOK_SECRET=")
	h, _ := w.Follow("shop")
	_, push := h.Release("one")
	for _, secret := range []string{"", forge.WebhookSecret} {
		// N-001: an empty secret is no secret
		testkit.Equal(t, "status", w.Deliver(forge.Hook{URL: w.Installation().URL, Secret: secret}, push).Status,
			http.StatusUnauthorized)
	}
	// N-001: no row was left
	testkit.Equal(t, "number of deliveries", len(site.List[client.Delivery](w.Site, "/deliveries")), 0)
}

// A delivery that is none of an app's business is recorded, and does nothing.
func TestWebhookDoesNothing(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	shop, shopApp := w.Follow("shop")
	cellar, cellarApp := w.Follow("cellar")
	stranger := w.Host(t, "harbor/stranger")
	_, push := shop.Release("one")
	_, other := cellar.Release("cellar")
	_, strange := stranger.Release("stranger")
	own := forge.Hook{URL: shopApp.Hook.URL, Secret: shopApp.Hook.Secret}

	check := func(t *testing.T, what string, to forge.Hook, d forge.Delivery, decision string) {
		t.Helper()
		got := w.Deliver(to, d)
		stored, ok := w.Recorded(d.ID)
		if got.Status != http.StatusAccepted || len(got.Runs) != 0 || !ok || stored.Decision != got.Decision ||
			!strings.Contains(stored.Decision, decision) {
			t.Errorf("%s: got %+v and the record %+v, want 202, no run, and a decision that says %q", what, got,
				stored, decision)
		}
	}
	// N-002: events that are not acted on, and repositories that no app has
	check(t, "a label", w.Installation(), shop.Delivery("pull_request", "pull_request_labeled", func(map[string]any) {}),
		"label ready")
	check(t, "a star", w.Installation(), shop.Delivery("star", "star_created", func(map[string]any) {}), "star")
	check(t, "an issue", w.Installation(), shop.Delivery("issues", "issues_opened", func(map[string]any) {}), "issues")
	check(t, "a ping", w.Installation(), shop.Delivery("ping", "ping_repository", func(map[string]any) {}), "")
	check(t, "an organisation's ping", w.Installation(),
		forge.Delivery{ID: "ping-2", Event: "ping", Body: forge.Fixture(t, "ping_organization")}, "")
	check(t, "an unknown repository", w.Installation(), strange, "harbor/stranger")
	// N-005: the hook of one app does nothing for another one's repository
	check(t, "another app's repository", own, other,
		fmt.Sprintf(`The hook belongs to the app "shop", whose repository is harbor/shop (id %d), not harbor/cellar (id %d).`,
			shop.ID, cellar.ID))
	check(t, "another repository, before the app's own was heard of",
		forge.Hook{URL: cellarApp.Hook.URL, Secret: cellarApp.Hook.Secret}, push.With(t, func(map[string]any) {}),
		`The hook belongs to the app "cellar", whose repository is `+cellar.Clone()+", not harbor/shop (id ")
	testkit.Equal(t, "number of runs", len(site.List[client.Run](w.Site, "/runs")), 0)
	// An app's deliveries are those to its own hook, and those to the installation's that were for it when they came,
	// whatever they do.
	var events []string
	out, _ := w.Run(t.TempDir(), "app", "deliveries", "shop", "-o", "json")
	for _, d := range slices.Backward(testkit.Decode[[]client.Delivery](t, []byte(out))) {
		events = append(events, d.Event)
	}
	testkit.Equal(t, "deliveries of the app", strings.Join(events, " "), "pull_request star issues ping push")
	if out, _ := w.Run(t.TempDir(), "app", "deliveries", "shop"); strings.Contains(out, "harbor/stranger") ||
		strings.Count(out, "shared") != 4 || strings.Count(out, "own") != 1 {
		t.Errorf("got %s, want four to the shared webhook, and one to its own", out)
	}

	w.Hears(push)
	one := forge.WantEnds(t, w, "shop", shop.Head(), landfall.RunSucceeded)
	swapped := func(d forge.Delivery, name, address any, id any) forge.Delivery {
		return d.With(t, func(payload map[string]any) {
			repository := forge.Object(t, payload, "repository")
			for field, value := range map[string]any{"name": name, "clone_url": address, "html_url": address, "id": id} {
				if value != nil {
					repository[field] = value
				}
			}
		})
	}
	// N-005: once an id is bound, the names and addresses of a payload count no more
	check(t, "the names of one with the id of another", own, swapped(other, "shop", shop.Clone(), nil),
		fmt.Sprintf("whose repository is harbor/shop (id %d), not harbor/shop (id %d).", shop.ID, cellar.ID))
	check(t, "the same under the installation's secret", w.Installation(), swapped(strange, "shop", shop.Clone(), nil),
		fmt.Sprintf("No app has the repository harbor/shop (id %d).", stranger.ID))
	testkit.Equal(t, "requests for the stranger", w.Requests(stranger.Name)+w.Requests(cellar.Name), 0)
	testkit.EqualList(t, "moves of live", w.WasLive("shop"), []landfall.UID{one.Release})
	testkit.Equal(t, "number of runs", len(site.List[client.Run](w.Site, "/runs")), 1)

	renamed := swapped(push, "store", stranger.Clone(), nil)
	w.Hears(renamed)
	_, next := shop.Release("two")
	w.Hears(swapped(next, "store", stranger.Clone(), nil))
	forge.WantEnds(t, w, "shop", shop.Head(), landfall.RunSucceeded)
	// N-005: of a renamed repository the content still comes from the app's own address
	testkit.Equal(t, "requests for the stranger", w.Requests(stranger.Name), 0)
	site.WantServed(t, w.Site, "shop", "/", "two")
	mirrors := func() int {
		all, err := os.ReadDir(filepath.Join(w.Data, "mirrors"))
		return len(testkit.Must(all, err)(t))
	}
	testkit.Equal(t, "mirrors", mirrors(), 1)
	w.Call(http.MethodDelete, "/apps/shop?force=true", nil, nil)
	// K-015: the mirror of its repository is collected
	w.Eventually("its mirror is gone", func() bool { return mirrors() == 0 })
	check(t, "a deleted app's repository", own, swapped(push, nil, nil, nil),
		`The hook belongs to the app "shop", which was deleted.`)
}

// Whoever has the secret of an app's hook can bind the id of any repository there. What comes to the installation's
// hook of that one is not the app's: nothing is done with it, nor shown to the app.
func TestWebhookOfAForeignID(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	shop, app := w.Follow("shop")
	vault := w.Host(t, "harbor/vault")
	_, push := shop.Release("one")
	own := forge.Hook{URL: app.Hook.URL, Secret: app.Hook.Secret}
	forged := push.With(t, func(payload map[string]any) { forge.Object(t, payload, "repository")["id"] = vault.ID })
	if got := w.Deliver(own, forged); len(got.Runs) != 1 {
		t.Fatalf("to its own hook: got %+v, want a run", got)
	}
	_, secret := vault.Release("secret")
	for _, d := range []forge.Delivery{
		secret, vault.Delivery("star", "star_created", func(map[string]any) {}),
		vault.Delivery("ping", "ping_repository", func(map[string]any) {}),
	} {
		// S6: what names another repository does nothing
		if got := w.Deliver(w.Installation(), d); got.Status != http.StatusAccepted || len(got.Runs) != 0 {
			t.Errorf("a foreign %s: got %+v, want 202 and no run", d.Event, got)
		}
	}
	out, _ := w.Run(t.TempDir(), "app", "deliveries", "shop", "-o", "json")
	// The deliveries of an app are those that were for it when they came.
	if all := testkit.Decode[[]client.Delivery](t, []byte(out)); len(all) != 1 || all[0].ID != forged.ID {
		t.Errorf("got %+v, want the one to its own hook", all)
	}
}

// A delivery that came before its app was made acts when it is delivered again.
func TestWebhookRedeliveredOnceTheAppIsThere(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h := w.Host(t, "harbor/early")
	commit, push := h.Release("early")
	got := w.Deliver(w.Installation(), push)
	if len(got.Runs) != 0 || !strings.HasPrefix(got.Decision, "No app has the repository harbor/early") {
		t.Errorf("before the app: got %+v, want no run, and why", got)
	}
	w.Call(http.MethodPost, "/apps", client.NewApp{Name: "early", Repository: h.Clone(), Branch: "main"}, nil)
	if got = w.Deliver(w.Installation(), push); len(got.Runs) != 1 {
		t.Errorf("the same delivery again: got %+v, want one run", got)
	}
	forge.WantEnds(t, w, "early", commit, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "early", "/", "early")
	again := w.Deliver(w.Installation(), push)
	testkit.Equal(t, "status of a third delivery", again.Status, http.StatusOK)
	testkit.Equal(t, "runs after it", len(w.Runs("early")), 1)
}
