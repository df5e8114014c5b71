package push_test

import (
	"net/http"
	"slices"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// wantLogged fails the test unless every line that names the run or its commit says whose it is, and these are their
// messages, in the order of the alphabet. The line of a delivery itself, which may be of many apps, names no run.
func wantLogged(t *testing.T, s *site.Site, app client.App, run client.Run, delivery string, messages ...string) {
	t.Helper()
	want := site.Entry{"app": app.Name, "app_id": app.ID, "run": run.ID, "commit": string(run.Commit)}
	if delivery != "" {
		want["delivery"] = delivery
	}
	var said []string
	for _, line := range s.In(t).Logged() {
		if !line.Mentions(run.ID) && !line.Mentions(string(run.Commit)) {
			continue
		}
		message, _ := line["msg"].(string)
		said = append(said, message)
		for name, value := range want {
			if line[name] != value {
				t.Errorf("%q: %s is %v, want %v, in %v", message, name, line[name], value, line)
			}
		}
	}
	slices.Sort(said)
	testkit.EqualList(t, "what the log says of the run", said, messages)
}

// Whoever reads the log finds all lines of a run, and in each of them whose it is: whichever way it came, and however
// it ended.
func TestLog(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)
	show := func(run client.Run) client.App { return w.ShowApp(run.App) }

	t.Run("a webhook", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("hooked")
		h.Write("specs/app.yaml", site.AppSpec("hooked"), "site/index.html", "one")
		commit, push := h.Commit("One"), h.Send("main")
		w.Hears(push)
		run := w.Ends("hooked", commit, landfall.RunSucceeded)
		w.Quiet("hooked")
		wantLogged(t, w.Site, show(run), run, push.ID, "commit status sent", "commit status sent", "push accepted",
			"release made")

		h.Write("specs/app.yaml", "kind: Nonsense")
		commit, push = h.Commit("Nonsense"), h.Send("main")
		w.Hears(push)
		run = w.Ends("hooked", commit, landfall.RunFailed)
		w.Quiet("hooked")
		wantLogged(t, w.Site, show(run), run, push.ID, "commit status sent", "commit status sent", "push accepted",
			"run failed")
	})
	t.Run("a push to the built-in remote", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		app := w.App("pushed")
		r := w.Repository(app)
		r.Write("specs/app.yaml", site.AppSpec("pushed"), "site/index.html", "one")
		w.Pushed(r, "pushed", "One")
		run := w.Finished("pushed", r.Head())
		wantLogged(t, w.Site, show(run), run, "", "push accepted", "release made")
	})
	t.Run("a build that asks for a host", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		app := w.App("built")
		r := w.Repository(app)
		r.Write("in.txt", "one", "specs/app.yaml", site.AppSpec("built", "build:",
			"  command: git ls-remote "+w.Address+"/harbor/none.git; mkdir site && cp in.txt site/index.html",
			"  inputs: [in.txt]", "  outputs: [site]"))
		w.Pushed(r, "built", "One")
		run := w.Finished("built", r.Head())
		wantLogged(t, w.Site, show(run), run, "", "a build asked for a host", "push accepted", "release made")
	})
	t.Run("an apply", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		app := w.App("applied")
		r := w.Repository(app)
		r.Write("specs/app.yaml", site.AppSpec("applied"), "site/index.html", "one")
		r.Commit("One")
		run := w.Applied(r, "applied", "main", false)
		wantLogged(t, w.Site, show(run), run, "", "push accepted", "release made")
	})
	t.Run("a retry", func(t *testing.T) {
		t.Parallel()
		w := w.In(t)
		h, _ := w.Follow("retried")
		h.Write("specs/app.yaml", site.AppSpec("retried"), "site/index.html", "one")
		w.Rule("harbor/retried", forge.Rule{Status: http.StatusNotFound})
		commit, push := h.Commit("One"), h.Send("main")
		w.Hears(push)
		failed := w.Finished("retried", commit)
		w.Rule("harbor/retried", forge.Rule{})
		var again client.Run
		w.Call(http.MethodPost, "/runs/"+failed.ID+"/retry", struct{}{}, &again)
		run := w.Final(again.ID)
		testkit.Equal(t, "state", run.State, landfall.RunSucceeded)
		made := slices.ContainsFunc(w.Logged(), func(l site.Entry) bool {
			return l["msg"] == "release made" && l["run"] == run.ID && l["delivery"] == push.ID && l["app_id"] == show(run).ID
		})
		testkit.Equal(t, "the release of the retry is logged, with the delivery that brought the commit", made, true)
	})
}
