package webhook_test

import (
	"maps"
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

// dev is a person at GitHub who presses buttons.
const dev = 77

// checked waits until the newest check run of a commit is as wanted, and returns it.
func checked(t *testing.T, w *forge.World, h *forge.Hosted, commit landfall.CommitSHA,
	wanted func(githubtest.CheckRun) bool) (got githubtest.CheckRun) {
	t.Helper()
	w.In(t).Eventually("the check of "+commit.Short(), func() bool {
		all := w.API.CheckRuns(h.Name, string(commit))
		if len(all) > 0 {
			got = all[len(all)-1]
		}
		return len(all) > 0 && wanted(got)
	})
	return got
}

// concluded waits until the newest check run of a commit has a conclusion and is of a run, which is given when another
// one had one before.
func concluded(t *testing.T, w *forge.World, h *forge.Hosted, commit landfall.CommitSHA, conclusion string,
	after ...string) githubtest.CheckRun {
	t.Helper()
	return checked(t, w, h, commit, func(c githubtest.CheckRun) bool {
		return c.Conclusion == conclusion && !slices.Contains(after, c.ExternalID)
	})
}

// buttons returns the buttons of a check run.
func buttons(c githubtest.CheckRun) (all []string) {
	for _, action := range c.Actions {
		all = append(all, action.Label)
	}
	return all
}

// presses has dev, in a role, press a button: a template's name says which. The role is the one at GitHub at that moment.
func presses(t *testing.T, w *forge.World, h *forge.Hosted, template, role string, commit landfall.CommitSHA) {
	t.Helper()
	w.API.Permit(h.Name, dev, role)
	event := "check_run"
	if template == "check_suite_rerequested" {
		event = "check_suite"
	}
	before := w.API.Asked(h.Name, dev)
	w.In(t).Tells(h.Delivery(event, template, func(payload map[string]any) {
		forge.Object(t, payload, event)["head_sha"] = string(commit)
		maps.Copy(forge.Object(t, payload, "sender"), map[string]any{"id": dev, "login": githubtest.Login(dev)})
	}))
	w.In(t).Eventually("GitHub is asked what "+githubtest.Login(dev)+" may do", func() bool {
		return w.API.Asked(h.Name, dev) > before
	})
}

// What a person sees at GitHub of an app that a GitHub App looks after: the check of a commit goes from "in progress" to
// what came of it, with errors at their lines, and has buttons for those who may press them. The commit's status says
// the same, beside it.
func TestChecks(t *testing.T) {
	t.Parallel()
	w := forge.NewUnconnectedWorld(t)
	w.Connect()
	h := w.Private("harbor/shop")
	w.API.Install("harbor", map[string]int64{h.Name: h.ID})
	if out, code := w.Run(t.TempDir(), "app", "create", "shop", "--repo", h.Name, "--branch", "main"); code != 0 {
		t.Fatalf("app create got %d %s", code, out)
	}
	var one, two landfall.CommitSHA

	t.Run("a push", func(t *testing.T) {
		w := w.In(t)
		open := h.Hold()
		var push forge.Delivery
		one, push = h.Release("one")
		w.API.Point(h.Name, "main", string(one), false)
		w.Tells(push)
		begun := checked(t, w, h, one, func(c githubtest.CheckRun) bool { return c.Status == "in_progress" })
		run, _ := w.RunOf("shop", one)
		testkit.Equal(t, "where it leads", begun.Details, w.RunPage(run.ID))
		testkit.Equal(t, "name", begun.Name, "landfall/shop")
		open()
		got := concluded(t, w, h, one, "success")
		live := w.Ends("shop", one, landfall.RunSucceeded).Release
		testkit.Equal(t, "check runs of the commit", len(w.API.CheckRuns(h.Name, string(one))), 1)
		testkit.Contains(t, site.Told{got.Output.Summary}, "static", "added", w.Label("shop--"+string(live)))
		testkit.Contains(t, site.Told{got.Output.Text}, "Released")
		testkit.EqualList(t, "buttons of what is live", buttons(got), []string{"Re-run"})
		forge.WantTold(t, w, one, landfall.StatusSuccess, w.At("shop--"+string(live), "/"))
	})

	t.Run("an error in a spec, and the run again", func(t *testing.T) {
		w := w.In(t)
		h.Git("switch", "--quiet", "-c", "wrong")
		h.Write("specs/app.yaml", site.AppSpec("shop", "colour: red"))
		bad := h.Commit("A field that there is not")
		w.Tells(h.Send("wrong"))
		h.Git("switch", "--quiet", "main")
		first := concluded(t, w, h, bad, "failure")
		notes := first.Output.Annotations
		if len(notes) != 1 || notes[0].Path != "specs/app.yaml" || notes[0].Start != 7 {
			t.Errorf("got the annotations %+v, want one at line 7 of specs/app.yaml", notes)
		}
		forge.WantTold(t, w, bad, landfall.StatusFailure, w.RunPage(first.ExternalID), "specs/app.yaml:7")

		presses(t, w, h, "check_run_rerequested", "read", bad) // nothing comes of that
		presses(t, w, h, "check_run_rerequested", "write", bad)
		second := concluded(t, w, h, bad, "failure", first.ExternalID)
		presses(t, w, h, "check_suite_rerequested", "write", bad)
		concluded(t, w, h, bad, "failure", first.ExternalID, second.ExternalID)
		testkit.Equal(t, "check runs of the commit", len(w.API.CheckRuns(h.Name, string(bad))), 3)
	})

	t.Run("Promote", func(t *testing.T) {
		w := w.In(t)
		h.Git("switch", "--quiet", "-c", "feature")
		var push forge.Delivery
		two, push = h.Release("two")
		w.API.Point(h.Name, "feature", string(two), false)
		w.Tells(push, h.Pull("opened", 12, "feature"))
		got := concluded(t, w, h, two, "success")
		testkit.EqualList(t, "buttons of a preview", buttons(got), []string{"Re-run", "Promote"})
		presses(t, w, h, "check_run_promote", "write", two)
		checked(t, w, h, two, func(c githubtest.CheckRun) bool {
			return strings.Contains(c.Output.Summary, "promote needs the role maintain")
		})
		presses(t, w, h, "check_run_promote", "maintain", two)
		w.Eventually("visitors see it", func() bool { return w.Get(w.At("shop", "/")).Body == "two" })
		moves := site.List[client.Move](w.Site, "/apps/shop/moves?pointer=live")
		testkit.Equal(t, "moves of live", len(moves), 2)
		testkit.Equal(t, "who moved it", moves[0].Actor, githubtest.Login(dev))
		h.Git("switch", "--quiet", "main")

		// The checks of both commits say what is live now, and who was replaced can come back.
		says := func(commit landfall.CommitSHA, line string, want ...string) {
			t.Helper()
			got := checked(t, w, h, commit, func(c githubtest.CheckRun) bool {
				return strings.HasPrefix(c.Output.Summary, line+"\n")
			})
			testkit.EqualList(t, "buttons", buttons(got), want)
		}
		says(two, "This release is live.", "Re-run")
		says(one, "This release was live, and is not any more.", "Re-run", "Promote")
		w.Landfall("release", "rollback", "shop")
		says(one, "This release is live.", "Re-run")
		says(two, "This release was live, and is not any more.", "Re-run", "Promote")
	})

	t.Run("Approve", func(t *testing.T) {
		w := w.In(t)
		f := h.Fork(t, 13)
		f.Write("index.html", "theirs")
		theirs, told := f.Push("opened_fork", "Theirs")
		w.Tells(told)
		got := concluded(t, w, h, theirs, "action_required")
		testkit.EqualList(t, "buttons of what waits", buttons(got), []string{"Approve"})
		presses(t, w, h, "check_run_approve", "triage", theirs)
		open := h.Hold()
		presses(t, w, h, "check_run_approve", "write", theirs)
		checked(t, w, h, theirs, func(c githubtest.CheckRun) bool { return c.Status == "in_progress" })
		open()
		// S18: a button approves the very commit, for who has write access alone
		got = concluded(t, w, h, theirs, "success")
		testkit.EqualList(t, "buttons of a fork's preview", buttons(got), []string{"Re-run"})
		run := w.Ends("shop", theirs, landfall.RunSucceeded)
		site.WantServed(t, w.Site, "shop--pr-13", "/", "theirs")
		var whole client.Run
		w.Call(http.MethodGet, "/runs/"+run.ID, nil, &whole)
		testkit.Equal(t, "who approved", whole.Approval.By, githubtest.Login(dev))
		last := w.Told(theirs)
		testkit.Equal(t, "where the status leads", last[len(last)-1].Target, w.At("shop--"+string(run.Release), "/"))

		// What is live is told after all that was to be told of the fork.
		before := len(w.API.Deployments(h.Name, "production"))
		w.Landfall("release", "live", "shop", string(w.Ends("shop", two, landfall.RunSucceeded).Release))
		w.Eventually("GitHub shows what is live", func() bool { return len(w.API.Deployments(h.Name, "production")) > before })
		for _, d := range w.API.Deployments(h.Name, "") {
			// S18: a deployment would let GitHub Actions run the fork's own workflows with the repository's secrets
			if d.SHA == string(theirs) {
				t.Errorf("got the deployment %+v of the fork's commit, want none", d)
			}
		}
	})

	for _, c := range w.API.CheckRuns(h.Name, "") {
		// L-005: nothing is left in progress
		if c.Status != "completed" {
			t.Errorf("the check run %+v is not completed", c)
		}
	}
}
