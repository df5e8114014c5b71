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

// atGitHub are webhooks at GitHub, as a story asks for them.
type atGitHub struct{ *forge.World }

// hook waits until the one webhook of a repository is as it has to be, and returns it.
func (w atGitHub) hook(what string, h *forge.Hosted, right func(githubtest.Hook) bool) (hook githubtest.Hook) {
	w.T.Helper()
	w.Eventually(what, func() bool {
		all := w.API.Hooks(h.Name)
		if len(all) == 1 {
			hook = all[0]
		}
		return len(all) == 1 && right(hook)
	})
	return hook
}

// says waits until the description of an app says every part.
func (w atGitHub) says(app string, parts ...string) {
	w.T.Helper()
	w.Eventually(app+" says "+strings.Join(parts, ", "), func() bool {
		shown := strings.Join(strings.Fields(w.Landfall("app", "show", app)), " ")
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(shown, part) })
	})
}

// With a token, an app hears of its repository by a webhook that the server makes at GitHub. It is looked after: what
// somebody changes there is said, and mended, and what could not be delivered meanwhile is asked for again.
func TestWebhookAtGitHub(t *testing.T) {
	t.Parallel()
	w := atGitHub{forge.NewGitHubWorld(t)}
	h, app := w.Follow("shop")
	isOurs := func(app client.App) func(githubtest.Hook) bool {
		return func(hook githubtest.Hook) bool {
			return hook.URL == app.Hook.URL && hook.Secret == app.Hook.Secret && hook.Active && hook.ContentType == "json" &&
				hook.InsecureSSL == "0" && slices.Contains(hook.Events, "push") && slices.Contains(hook.Events, "pull_request")
		}
	}
	// S4: the webhook has a secret of its own, from the start
	made := w.hook("the webhook is there", h, isOurs(app))
	one, push := h.Release("one")
	w.API.Deliver(h.Name, push.Event, push.Body)
	forge.WantEnds(t, w.World, "shop", one, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "shop", "/", "one")
	w.says("shop", "webhook at the forge: made by this server, as it has to be at")

	w.Landfall("app", "hook", "shop", "--rotate")
	w.hook("the forge has the new secret", h, func(hook githubtest.Hook) bool { return hook.Secret != made.Secret })

	gone, goneApp := w.Follow("gone")
	odd, oddApp := w.Follow("odd")
	w.hook("the second one", gone, isOurs(goneApp))
	wrong := w.hook("the third one", odd, isOurs(oddApp))
	for _, refused := range []int{http.StatusForbidden, http.StatusNotFound} {
		w.API.RefuseHooks(refused)
		// N-044: a token that may not do it is said, with what to do by hand
		name := map[int]string{http.StatusForbidden: "barred", http.StatusNotFound: "hidden"}[refused]
		_, _ = w.Follow(name)
		w.says(name, "may not administer webhooks of harbor/"+name, "admin:repo_hook", "landfall app hook "+name+" --rotate",
			"push, pull_request")
	}
	w.API.RefuseHooks(0)
	hidden := w.ShowApp("hidden")
	w.API.AddHook(githubtest.Hook{Repository: "harbor/hidden", URL: hidden.Hook.URL, Secret: "by hand", ContentType: "json",
		InsecureSSL: "0", Events: []string{"push"}, Active: true})

	oddOne, oddPush := odd.Release("one")
	w.API.ChangeHook(wrong.ID, func(hook *githubtest.Hook) { hook.Secret = "another one" })
	refused := w.API.Deliver(odd.Name, oddPush.Event, oddPush.Body)
	w.Stop()

	// Somebody changes webhooks, and the server hears of nothing.
	w.API.DeleteHook(w.API.Hooks(gone.Name)[0].ID)
	w.API.ChangeHook(wrong.ID, func(hook *githubtest.Hook) {
		hook.Active, hook.Events, hook.InsecureSSL = false, []string{"star"}, "1"
	})
	two, push := h.Release("two")
	missed := w.API.Deliver(h.Name, push.Event, push.Body)
	h.Git("switch", "--quiet", "-c", "feature")
	three, _ := h.Release("three")
	pull := h.Pull("opened", 4, "feature")
	pulled := w.API.Deliver(h.Name, pull.Event, pull.Body)
	labeled := w.API.Deliver(h.Name, "pull_request", pull.With(t, func(payload map[string]any) {
		payload["action"] = "labeled"
	}).Body)
	w.Start()

	// N-044: a webhook that was deleted is made again, and that is said
	w.hook("the deleted one is there again", gone, isOurs(goneApp))
	w.says("gone", "It was deleted, and was mended.")
	w.hook("the changed one is as it was", odd, isOurs(oddApp))
	w.says("odd", "was disabled", "did not check certificates", "lacked the events push, pull_request")
	// What a person made is left as it is.
	w.says("hidden", "which a person made, lacked the events pull_request")

	forge.WantEnds(t, w.World, "shop", two, landfall.RunSucceeded)
	run := forge.WantEnds(t, w.World, "shop", three, landfall.RunSucceeded)
	w.Eventually("the pull request's release has its tag", func() bool { return w.Tagged("shop")["pr-4"] == run.Release })
	for _, id := range []string{missed, pulled} {
		// L-019: what could not be delivered is asked for again, under the same id, and its record says so
		w.Eventually("the delivery is recovered", func() bool {
			d, ok := w.Recorded(id)
			return ok && d.Asked == 1 && len(d.Runs) == 1 && strings.Contains(d.Decision, "Recovered")
		})
	}
	testkit.Contains(t, site.Told{w.Landfall("run", "logs", run.ID)}, "recovered: ")
	forge.WantEnds(t, w.World, "odd", oddOne, landfall.RunSucceeded)
	w.Eventually("what was signed with another secret is accepted", func() bool {
		d, ok := w.Recorded(refused)
		return ok && len(d.Runs) == 1
	})
	attempts := map[string]int{}
	for _, d := range w.API.Hooks(h.Name)[0].Deliveries {
		attempts[d.GUID]++
	}
	// L-019: only what matters is asked for again, and once
	testkit.Equal(t, "attempts at a push", attempts[missed], 2)
	testkit.Equal(t, "attempts at a pull request", attempts[pulled], 2)
	testkit.Equal(t, "attempts at a label", attempts[labeled], 1)

	w.Landfall("app", "delete", "shop", "--force")
	w.Eventually("the webhook of the deleted app is gone", func() bool { return len(w.API.Hooks(h.Name)) == 0 })
}
