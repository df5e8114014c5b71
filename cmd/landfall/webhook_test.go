package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/webhook"
)

// A push at the forge becomes a release with its own address, and the app shows it.
func TestWebhookPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	t.Run("a push becomes a release", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("shop")
		h.write("specs/app.yaml", appSpec("shop", "  - {src: css, path: /css}"), "site/index.html", "<h1>one</h1>", "site/about.html", "about", "css/a.css", "a{}")
		open := h.hold()
		one := h.commit("Open the shop")
		push := h.send("main")
		got := w.deliver(w.installation(), push)
		// P-001: a signed delivery is accepted
		wantEqual(t, "status", got.status, http.StatusAccepted)
		// L-020: it is answered before anything was fetched, with the addresses of what was stored
		if len(got.Runs) != 1 || !strings.HasPrefix(got.Runs[0], w.URL+"/runs/") || got.Decision != "Branch main is now at "+one.Short()+"." {
			t.Errorf("got %+v, want the address of one run, and what the push did", got)
		}
		p := w.readAs(got.Delivery)
		if p.status != http.StatusOK || decode[client.Delivery](t, []byte(p.body)).ID != push.id {
			t.Errorf("the delivery's address answers %d %s, want the delivery", p.status, p.body)
		}
		known, ok := w.runOf("shop", one)
		// L-036: the release's address is known before the commit is even here
		if want := w.at("shop--"+string(known.UID), "/"); !ok || known.State.Final() || known.URL != want || known.UID == "" {
			t.Errorf("got the run %+v, want one on its way with the address %s", known, want)
		}
		wantStatus(t, w.site, "shop--"+string(known.UID), http.StatusNotFound)
		open()
		run := wantEnds(t, w, "shop", one, landfall.RunSucceeded, "Released")
		wantEqual(t, "release", run.Release, known.UID)

		// P-003: what is served is the tree of the pushed commit
		wantServed(t, w.site, "shop--"+string(run.Release), "/", "<h1>one</h1>")
		// P-014: it is live: one process was started by one command, and nothing else
		wantServed(t, w.site, "shop", "/", "<h1>one</h1>")
		// L-014: every answer names the release that it comes from
		wantEqual(t, "Landfall-Release", w.get(w.at("shop", "/")).header.Get("Landfall-Release"), string(run.Release))
		var group client.GroupTracker
		w.call(http.MethodGet, "/apps/shop/groups/"+string(run.Release), nil, &group)
		// P-005: the group version names commit, branch, and that nothing else was in it
		wantEqual(t, "git", group.Spec.Git, client.Git{Commit: one, Branch: "main", Clean: "yes"})

		before := w.stored("shop")
		h.write("site/index.html", "<h1>two</h1>")
		two := h.commit("Say two")
		w.hears(h.send("main"))
		second := wantEnds(t, w, "shop", two, landfall.RunSucceeded)
		var changed []string
		for _, c := range second.Changes {
			if c.Change != landfall.Unchanged {
				changed = append(changed, c.Unit.String())
			}
		}
		// P-004: the diff against what was applied before names one unit
		wantList(t, "changed units", changed, []string{"static /"})
		prefix := w.objectsOf("shop") + "static/"
		fresh := added(before, w.stored("shop"))
		// P-006: of a changed unit the changed file and one manifest are stored, below the version's prefix; of the other nothing
		if len(fresh) != 2 || second.Stats.FilesUploaded != 1 || slices.ContainsFunc(fresh, func(key string) bool {
			return !strings.HasPrefix(key, prefix) || !strings.Contains(key, "/"+string(second.Release)+"/")
		}) {
			t.Errorf("%d files were uploaded, and stored were %q, want one file and a manifest below %s…/%s", second.Stats.FilesUploaded, fresh, prefix, second.Release)
		}
		wantServed(t, w.site, "shop", "/", "<h1>two</h1>")
		wantServed(t, w.site, "shop--"+string(run.Release), "/", "<h1>one</h1>")
	})

	t.Run("one delivery is one run, however often it comes", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("copies")
		open := h.hold()
		one, push := h.release("one")
		answers := make([]response, 8)
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() { answers[i] = w.deliver(w.installation(), push) })
		}
		group.Wait()
		count := map[int]int{}
		for _, got := range answers {
			count[got.status]++
			// P-002: every copy is told of the same run
			wantList(t, "runs", got.Runs, answers[0].Runs)
		}
		if count[http.StatusAccepted] != 1 || count[http.StatusOK] != len(answers)-1 {
			t.Errorf("got the answers %v, want one 202, and 200 for the others", count)
		}
		open()
		run := wantEnds(t, w, "copies", one, landfall.RunSucceeded)
		again := w.deliver(w.installation(), push)
		// N-003: a repeat is 200 with the first one's run, also when that is over
		wantEqual(t, "repeat", fmt.Sprint(again.status, again.Runs), fmt.Sprint(http.StatusOK, []string{w.runPage(run.ID)}))
		sameCommit := push.with(t, func(map[string]any) {})
		got := w.hears(sameCommit)
		// L-020: another delivery of the same commit for the same branch joins the run
		wantList(t, "runs", got.Runs, again.Runs)
		// P-002: there is one run
		wantEqual(t, "number of runs", len(w.runs("copies")), 1)
		wantList(t, "moves of live", w.wasLive("copies"), []landfall.UID{run.Release})
	})

	t.Run("a commit that failed is not tried again by another delivery", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("again")
		h.write("README", "no page")
		bad := h.commit("Nothing to serve")
		h.git("switch", "--quiet", "-c", "feature")
		w.hears(h.send("feature"))
		wantEnds(t, w, "again", bad, landfall.RunFailed)
		w.hears(h.pull("opened", 4, "feature"))
		w.hears(h.pull("synchronize", 4, "feature"))
		// L-020: the branch is where it was: nothing new is to be done
		wantEqual(t, "number of runs", len(w.runs("again")), 1)
	})

	t.Run("the command line makes an app with a hook of its own", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h := w.host(t, "harbor/cellar")
		out, code := w.run(t.TempDir(), "app", "create", "cellar", "--repo", h.clone(), "-o", "json")
		if code != 0 {
			t.Fatalf("got the exit code %d:\n%s", code, out)
		}
		made := decode[client.App](t, []byte(out))
		if made.Hook == nil || !strings.HasPrefix(made.Hook.URL, w.URL+"/webhooks/github/") || len(made.Hook.Secret) < 32 {
			t.Fatalf("got %s, want the hook's address and a secret of 32 characters or more", out)
		}
		own := hook{url: made.Hook.URL, secret: made.Hook.Secret}
		one, push := h.release("one")
		got := w.deliver(own, push)
		wantEqual(t, "status", got.status, http.StatusAccepted)
		run := wantEnds(t, w, "cellar", one, landfall.RunSucceeded)
		wantServed(t, w.site, "cellar", "/", "one")
		p := w.readAs(got.Delivery)
		if p.status != http.StatusOK || decode[client.Delivery](t, []byte(p.body)).ID != push.id {
			t.Errorf("the delivery's address %s answers %d %s, want the delivery", got.Delivery, p.status, p.body)
		}
		_, next := h.release("two")
		for name, wrong := range map[string]hook{
			"the installation's secret at the app's hook": {url: own.url, secret: webhookSecret},
			"the app's secret at the installation's hook": {url: w.installation().url, secret: own.secret},
			"a hook that is not there":                    {url: w.installation().url + "/0123456789abcdef0123456789abcdef", secret: own.secret},
		} {
			if got := w.deliver(wrong, next); got.status != http.StatusUnauthorized {
				t.Errorf("%s: got %d, want 401", name, got.status)
			}
		}
		wantList(t, "moves of live", w.wasLive("cellar"), []landfall.UID{run.Release})
		next.body = []byte("payload=" + url.QueryEscape(string(next.body)))
		header := signature(webhookSecret, next.body)
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		wantEqual(t, "a form under the installation's secret", post(t, w.installation().url, next, header).status, http.StatusAccepted)
		wantEnds(t, w, "cellar", h.head(), landfall.RunSucceeded)
		wantServed(t, w.site, "cellar", "/", "two")
	})

	t.Run("a secret that was lost is replaced", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, app := w.follow("attic")
		old := hook{url: app.Hook.URL, secret: app.Hook.Secret}
		command := func(args ...string) string {
			t.Helper()
			out, code := w.run(t.TempDir(), args...)
			if code != 0 {
				t.Fatalf("landfall %s ended with %d:\n%s", strings.Join(args, " "), code, out)
			}
			return out
		}
		for _, shown := range []string{command("app", "show", "attic"), command("app", "hook", "attic"), command("app", "show", "attic", "-o", "json")} {
			if !strings.Contains(shown, old.url) || strings.Contains(shown, "secret") || strings.Contains(shown, old.secret) {
				t.Errorf("got %s, want the hook's address and no secret", shown)
			}
		}
		commit, push := h.release("zero")
		wantEqual(t, "before", w.deliver(old, push).status, http.StatusAccepted)
		wantEnds(t, w, "attic", commit, landfall.RunSucceeded)
		fresh := decode[client.Hook](t, []byte(command("app", "hook", "attic", "--rotate", "-o", "json")))
		if fresh.URL != old.url || fresh.Secret == old.secret || len(fresh.Secret) < 32 {
			t.Errorf("got %+v, want the same address and a new secret", fresh)
		}
		commit, push = h.release("one")
		wantEqual(t, "signed with the old secret", w.deliver(old, push).status, http.StatusUnauthorized)
		wantEqual(t, "signed with the new secret", w.deliver(hook{url: fresh.URL, secret: fresh.Secret}, push).status, http.StatusAccepted)
		wantEnds(t, w, "attic", commit, landfall.RunSucceeded)
		if out := command("app", "hook", "attic"); strings.Contains(out, fresh.Secret) {
			t.Errorf("the new secret is shown again: %s", out)
		}
		// Whether the hook works is seen without the forge: other hooks' deliveries are not among its own.
		deliveries := decode[[]client.Delivery](t, []byte(command("app", "deliveries", "attic", "-o", "json")))
		if len(deliveries) != 2 || deliveries[0].ID != push.id {
			t.Errorf("got the deliveries %+v, want two and %s first", deliveries, push.id)
		}
		if out := command("app", "deliveries", "attic"); !strings.Contains(out, "Branch main is now at "+commit.Short()) {
			t.Errorf("got %s, want what became of the delivery", out)
		}
		w.app("cottage")
		for _, args := range [][]string{{"app", "hook", "cottage"}, {"app", "hook", "cottage", "--rotate"}, {"app", "deliveries", "cottage"}} {
			if out, code := w.run(t.TempDir(), args...); code != 3 || !strings.Contains(out, "cottage has no webhook") {
				t.Errorf("landfall %s: got %d %s, want 3, and that the built-in remote needs none", strings.Join(args, " "), code, out)
			}
		}
	})

	t.Run("several apps of one repository", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("front")
		var back client.App
		w.call(http.MethodPost, "/apps", client.NewApp{Name: "back", Repository: strings.TrimSuffix(h.clone(), ".git"), Branch: "main", Folder: "back"}, &back)
		h.write("index.html", "front", "back/index.html", "back")
		one := h.commit("Both")
		got := w.hears(h.send("main"))
		wantEqual(t, "number of runs", len(got.Runs), 2)
		wantEnds(t, w, "front", one, landfall.RunSucceeded)
		wantEnds(t, w, "back", one, landfall.RunSucceeded)
		wantServed(t, w.site, "front", "/", "front")
		wantServed(t, w.site, "back", "/", "back")
		wantEqual(t, "runs of one app's hook", len(w.deliver(hook{url: back.Hook.URL, secret: back.Hook.Secret}, h.send("main")).Runs), 1)
	})
}

// What is not signed by the hook's secret, is too large, or is no event leaves nothing behind.
func TestWebhookRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.follow("shop")
	_, push := h.release("one")
	good := signature(webhookSecret, push.body)
	sha1Only := good.Clone()
	sha1Only.Del("X-Hub-Signature-256")
	html := good.Clone()
	html.Set("Content-Type", "text/html")
	large := delivery{id: push.id, event: "push", body: make([]byte, 25<<20+1)}
	broken := delivery{id: push.id, event: "push", body: push.body[:len(push.body)-2]}
	nameless := delivery{event: "push", body: push.body}
	empty := delivery{id: push.id, event: "push", body: []byte("{}")}
	type request struct {
		delivery
		header http.Header
		status int
	}
	wantRefusals := func(t *testing.T, requests map[string]request) {
		t.Helper()
		for name, r := range requests {
			if got := post(t, w.installation().url, r.delivery, r.header); got.status != r.status || got.Detail == "" {
				t.Errorf("%s: got %d %q, want %d and why", name, got.status, got.Detail, r.status)
			}
		}
	}
	// N-001: a signature that is wrong, missing, empty or by SHA-1 only is 401
	wantRefusals(t, map[string]request{
		"a wrong secret":               {push, signature("another secret of the same kind", push.body), 401},
		"an empty secret":              {push, signature("", push.body), 401},
		"another body's signature":     {broken, good, 401},
		"no signature":                 {push, http.Header{}, 401},
		"only a signature by SHA-1":    {push, sha1Only, 401},
		"a signature that is no digit": {push, http.Header{"X-Hub-Signature-256": {"sha256=zz"}}, 401},
	})
	// N-004: what is too large, no JSON, or no such event is told so
	wantRefusals(t, map[string]request{
		"a body over the limit":      {large, signature(webhookSecret, large.body), 413},
		"a body that is a page":      {push, html, 415},
		"a body that is cut":         {broken, signature(webhookSecret, broken.body), 400},
		"a delivery without a name":  {nameless, good, 400},
		"an event without a payload": {empty, signature(webhookSecret, empty.body), 400},
	})
	// N-001: no row was left
	wantEqual(t, "number of deliveries", len(list[client.Delivery](w.site, "/deliveries")), 0)
	wantEqual(t, "number of runs", len(w.runs("shop")), 0)
	wantEqual(t, "requests for the repository", w.requests(h.name), 0)
	w.stop()
	refusals := 0
	for line := range strings.Lines(w.log.String()) {
		entry := map[string]any{}
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == "webhook refused" && entry["status"] == float64(401) && entry["delivery"] == push.id {
			refusals++
		}
	}
	// P-001: each bad signature is in the log
	wantEqual(t, "refusals in the log", refusals, 6)
}

// Without a secret nothing is accepted, whatever it is signed with.
func TestWebhookWithoutSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LANDFALL_GITHUB_WEBHOOK_SECRET=")
	h, _ := w.follow("shop")
	_, push := h.release("one")
	for _, secret := range []string{"", webhookSecret} {
		// N-001: an empty secret is no secret
		wantEqual(t, "status", w.deliver(hook{url: w.installation().url, secret: secret}, push).status, http.StatusUnauthorized)
	}
	// N-001: no row was left
	wantEqual(t, "number of deliveries", len(list[client.Delivery](w.site, "/deliveries")), 0)
}

// A delivery that is none of an app's business is recorded, and does nothing.
func TestWebhookDoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shop, shopApp := w.follow("shop")
	cellar, cellarApp := w.follow("cellar")
	stranger := w.host(t, "harbor/stranger")
	_, push := shop.release("one")
	_, other := cellar.release("cellar")
	_, strange := stranger.release("stranger")
	own := hook{url: shopApp.Hook.URL, secret: shopApp.Hook.Secret}

	check := func(t *testing.T, what string, to hook, d delivery, decision string) {
		t.Helper()
		got := w.deliver(to, d)
		stored, ok := w.recorded(d.id)
		if got.status != http.StatusAccepted || len(got.Runs) != 0 || !ok || stored.Decision != got.Decision || !strings.Contains(stored.Decision, decision) {
			t.Errorf("%s: got %+v and the record %+v, want 202, no run, and a decision that says %q", what, got, stored, decision)
		}
	}
	// N-002: events that are not acted on, and repositories that no app has
	check(t, "a label", w.installation(), shop.delivery("pull_request", "pull_request_labeled", func(map[string]any) {}), "labeled")
	check(t, "a star", w.installation(), shop.delivery("star", "star_created", func(map[string]any) {}), "star")
	check(t, "an issue", w.installation(), shop.delivery("issues", "issues_opened", func(map[string]any) {}), "issues")
	check(t, "a ping", w.installation(), shop.delivery("ping", "ping_repository", func(map[string]any) {}), "")
	check(t, "an organisation's ping", w.installation(), delivery{id: "ping-2", event: "ping", body: fixture(t, "ping_organization")}, "")
	check(t, "an unknown repository", w.installation(), strange, "harbor/stranger")
	// N-005: the hook of one app does nothing for another one's repository
	check(t, "another app's repository", own, other,
		fmt.Sprintf(`The hook belongs to the app "shop", whose repository is harbor/shop (id %d), not harbor/cellar (id %d).`, shop.id, cellar.id))
	check(t, "another repository, before the app's own was heard of", hook{url: cellarApp.Hook.URL, secret: cellarApp.Hook.Secret}, push.with(t, func(map[string]any) {}),
		`The hook belongs to the app "cellar", whose repository is `+cellar.clone()+", not harbor/shop (id ")
	wantEqual(t, "number of runs", len(list[client.Run](w.site, "/runs")), 0)
	// An app's deliveries are those to its own hook, and those to the installation's that were for it when they came, whatever they do.
	var events []string
	out, _ := w.run(t.TempDir(), "app", "deliveries", "shop", "-o", "json")
	for _, d := range slices.Backward(decode[[]client.Delivery](t, []byte(out))) {
		events = append(events, d.Event)
	}
	wantEqual(t, "deliveries of the app", strings.Join(events, " "), "pull_request star issues ping push")
	if out, _ := w.run(t.TempDir(), "app", "deliveries", "shop"); strings.Contains(out, "harbor/stranger") || strings.Count(out, "shared") != 4 || strings.Count(out, "own") != 1 {
		t.Errorf("got %s, want four to the shared webhook, and one to its own", out)
	}

	w.hears(push)
	one := wantEnds(t, w, "shop", shop.head(), landfall.RunSucceeded)
	swapped := func(d delivery, name, address any, id any) delivery {
		return d.with(t, func(payload map[string]any) {
			repository := object(t, payload, "repository")
			for field, value := range map[string]any{"name": name, "clone_url": address, "html_url": address, "id": id} {
				if value != nil {
					repository[field] = value
				}
			}
		})
	}
	// N-005: once an id is bound, the names and addresses of a payload count no more
	check(t, "the names of one with the id of another", own, swapped(other, "shop", shop.clone(), nil),
		fmt.Sprintf("whose repository is harbor/shop (id %d), not harbor/shop (id %d).", shop.id, cellar.id))
	check(t, "the same under the installation's secret", w.installation(), swapped(strange, "shop", shop.clone(), nil),
		fmt.Sprintf("No app has the repository harbor/shop (id %d).", stranger.id))
	wantEqual(t, "requests for the stranger", w.requests(stranger.name)+w.requests(cellar.name), 0)
	wantList(t, "moves of live", w.wasLive("shop"), []landfall.UID{one.Release})
	wantEqual(t, "number of runs", len(list[client.Run](w.site, "/runs")), 1)

	renamed := swapped(push, "store", stranger.clone(), nil)
	w.hears(renamed)
	_, next := shop.release("two")
	w.hears(swapped(next, "store", stranger.clone(), nil))
	wantEnds(t, w, "shop", shop.head(), landfall.RunSucceeded)
	// N-005: of a renamed repository the content still comes from the app's own address
	wantEqual(t, "requests for the stranger", w.requests(stranger.name), 0)
	wantServed(t, w.site, "shop", "/", "two")
	mirrors := func() int {
		all, err := os.ReadDir(filepath.Join(w.data, "mirrors"))
		return len(must(all, err)(t))
	}
	wantEqual(t, "mirrors", mirrors(), 1)
	w.call(http.MethodDelete, "/apps/shop?force=true", nil, nil)
	// K-015: the mirror of its repository is collected
	w.eventually("its mirror is gone", func() bool { return mirrors() == 0 })
	check(t, "a deleted app's repository", own, swapped(push, nil, nil, nil), `The hook belongs to the app "shop", which was deleted.`)
}

// Whoever has the secret of an app's hook can bind the id of any repository there. What comes to the installation's hook of that one is
// not the app's: nothing is done with it, nor shown to the app.
func TestWebhookOfAForeignID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shop, app := w.follow("shop")
	vault := w.host(t, "harbor/vault")
	_, push := shop.release("one")
	own := hook{url: app.Hook.URL, secret: app.Hook.Secret}
	forged := push.with(t, func(payload map[string]any) { object(t, payload, "repository")["id"] = vault.id })
	if got := w.deliver(own, forged); len(got.Runs) != 1 {
		t.Fatalf("to its own hook: got %+v, want a run", got)
	}
	_, secret := vault.release("secret")
	for _, d := range []delivery{
		secret, vault.delivery("star", "star_created", func(map[string]any) {}), vault.delivery("ping", "ping_repository", func(map[string]any) {}),
	} {
		if got := w.deliver(w.installation(), d); got.status != http.StatusAccepted || len(got.Runs) != 0 {
			t.Errorf("a foreign %s: got %+v, want 202 and no run", d.event, got)
		}
	}
	out, _ := w.run(t.TempDir(), "app", "deliveries", "shop", "-o", "json")
	// The deliveries of an app are those that were for it when they came.
	if all := decode[[]client.Delivery](t, []byte(out)); len(all) != 1 || all[0].ID != forged.id {
		t.Errorf("got %+v, want the one to its own hook", all)
	}
}

// fixture returns a payload of testdata/github as it is.
func fixture(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "github", name+".json"))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// BenchmarkWebhookAccept measures from a signed request to its answer, over HTTP, while the pipeline works on what was
// accepted: each push is a new commit of one of eight apps, and the forge takes its time.
func BenchmarkWebhookAccept(b *testing.B) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	b.Cleanup(elsewhere.Close)
	env := map[string]string{
		"LANDFALL_DATA": b.TempDir(), "LANDFALL_LISTEN": "127.0.0.1:0", "LANDFALL_GITHUB_WEBHOOK_SECRET": webhookSecret,
		"LANDFALL_ALLOWED_HOSTS": strings.TrimPrefix(elsewhere.URL, "http://"),
	}
	config, err := loadConfig(defaultConfigFile, func(name string) string { return env[name] }, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := newServer(ctx, config, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			b.Error(err)
		}
	})
	c := &client.Client{URL: s.config.URL.String(), Token: s.config.Token}
	const apps = 8
	for i := range apps {
		app := client.NewApp{Name: fmt.Sprintf("app-%d", i), Repository: fmt.Sprintf("%s/%d/harbor/shop.git", elsewhere.URL, i)}
		if err := c.Do(ctx, http.MethodPost, "/apps", app, nil); err != nil {
			b.Fatal(err)
		}
	}
	payload := string(fixture(b, "push_branch_update"))
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		body := []byte(strings.NewReplacer(
			"710200300", fmt.Sprint(1000+n%apps), "https://github.com/harbor/shop", fmt.Sprintf("%s/%d/harbor/shop", elsewhere.URL, n%apps),
			"c3d9a1f04b7e62855d0c9be1f3a76240d8e5917b", fmt.Sprintf("%040x", n+1)).Replace(payload))
		d := delivery{id: fmt.Sprint("delivery-", n), event: "push", body: body}
		header := signature(webhookSecret, body)
		start := time.Now()
		got := post(b, c.URL+webhook.Path, d, header)
		took = append(took, time.Since(start))
		if got.status != http.StatusAccepted || len(got.Runs) != 1 {
			b.Fatalf("got %+v, want 202 and a run", got)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max")
}

// A delivery that came before its app was made acts when it is delivered again.
func TestWebhookRedeliveredOnceTheAppIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.host(t, "harbor/early")
	commit, push := h.release("early")
	got := w.deliver(w.installation(), push)
	if len(got.Runs) != 0 || !strings.HasPrefix(got.Decision, "No app has the repository harbor/early") {
		t.Errorf("before the app: got %+v, want no run, and why", got)
	}
	w.call(http.MethodPost, "/apps", client.NewApp{Name: "early", Repository: h.clone(), Branch: "main"}, nil)
	if got = w.deliver(w.installation(), push); len(got.Runs) != 1 {
		t.Errorf("the same delivery again: got %+v, want one run", got)
	}
	wantEnds(t, w, "early", commit, landfall.RunSucceeded)
	wantServed(t, w.site, "early", "/", "early")
	again := w.deliver(w.installation(), push)
	wantEqual(t, "status of a third delivery", again.status, http.StatusOK)
	wantEqual(t, "runs after it", len(w.runs("early")), 1)
}
