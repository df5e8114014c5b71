package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// entry is one line of the server's log.
type entry map[string]any

// logged returns what the server has logged.
func (s *site) logged() []entry {
	s.t.Helper()
	var lines []entry
	for line := range strings.Lines(s.log.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		lines = append(lines, decode[entry](s.t, []byte(line)))
	}
	return lines
}

// mentions reports whether any attribute of the line names the text.
func (l entry) mentions(text string) bool {
	data, err := json.Marshal(l)
	return err == nil && strings.Contains(string(data), text)
}

// wantLogged fails the test unless every line that names the run or its commit says whose it is, and these are their messages,
// in the order of the alphabet. The line of a delivery itself, which may be of many apps, names no run.
func wantLogged(t *testing.T, s *site, app client.App, run client.Run, delivery string, messages ...string) {
	t.Helper()
	want := entry{"app": app.Name, "app_id": app.ID, "run": run.ID, "commit": string(run.Commit)}
	if delivery != "" {
		want["delivery"] = delivery
	}
	var said []string
	for _, line := range s.in(t).logged() {
		if !line.mentions(run.ID) && !line.mentions(string(run.Commit)) {
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
	wantList(t, "what the log says of the run", said, messages)
}

// Whoever reads the log finds all lines of a run, and in each of them whose it is: whichever way it came, and however it ended.
func TestLog(t *testing.T) {
	t.Parallel()
	w := newReportingWorld(t)
	show := func(run client.Run) client.App { return w.showApp(run.App) }

	t.Run("a webhook", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("hooked")
		h.write("specs/app.yaml", appSpec("hooked"), "site/index.html", "one")
		commit, push := h.commit("One"), h.send("main")
		w.hears(push)
		run := w.ends("hooked", commit, landfall.RunSucceeded)
		w.quiet("hooked")
		wantLogged(t, w.site, show(run), run, push.id, "commit status sent", "commit status sent", "push accepted", "release made")

		h.write("specs/app.yaml", "kind: Nonsense")
		commit, push = h.commit("Nonsense"), h.send("main")
		w.hears(push)
		run = w.ends("hooked", commit, landfall.RunFailed)
		w.quiet("hooked")
		wantLogged(t, w.site, show(run), run, push.id, "commit status sent", "commit status sent", "push accepted", "run failed")
	})
	t.Run("a push to the built-in remote", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		app := w.app("pushed")
		r := w.repository(app)
		r.write("specs/app.yaml", appSpec("pushed"), "site/index.html", "one")
		w.pushed(r, "pushed", "One")
		run := w.finished("pushed", r.head())
		wantLogged(t, w.site, show(run), run, "", "push accepted", "release made")
	})
	t.Run("a build that asks for a host", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		app := w.app("built")
		r := w.repository(app)
		r.write("in.txt", "one", "specs/app.yaml", appSpec("built", "build:",
			"  command: git ls-remote "+w.url+"/harbor/none.git; mkdir site && cp in.txt site/index.html", "  inputs: [in.txt]", "  outputs: [site]"))
		w.pushed(r, "built", "One")
		run := w.finished("built", r.head())
		wantLogged(t, w.site, show(run), run, "", "a build asked for a host", "push accepted", "release made")
	})
	t.Run("an apply", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		app := w.app("applied")
		r := w.repository(app)
		r.write("specs/app.yaml", appSpec("applied"), "site/index.html", "one")
		r.commit("One")
		run := w.applied(r, "applied", "main", false)
		wantLogged(t, w.site, show(run), run, "", "push accepted", "release made")
	})
	t.Run("a retry", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		h, _ := w.follow("retried")
		h.write("specs/app.yaml", appSpec("retried"), "site/index.html", "one")
		w.rule("harbor/retried", rule{status: http.StatusNotFound})
		commit, push := h.commit("One"), h.send("main")
		w.hears(push)
		failed := w.finished("retried", commit)
		w.rule("harbor/retried", rule{})
		var again client.Run
		w.call(http.MethodPost, "/runs/"+failed.ID+"/retry", struct{}{}, &again)
		run := w.final(again.ID)
		wantEqual(t, "state", run.State, landfall.RunSucceeded)
		made := slices.ContainsFunc(w.logged(), func(l entry) bool {
			return l["msg"] == "release made" && l["run"] == run.ID && l["delivery"] == push.id && l["app_id"] == show(run).ID
		})
		wantEqual(t, "the release of the retry is logged, with the delivery that brought the commit", made, true)
	})
}
