package crash_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// callCrash is a server that is killed while a function runs that nobody waits for.
type callCrash struct {
	*site.Site
	notes string // has a line for each run of the function: the type and the id of its event
	point string
}

// The program is killed at every instant at which a function is called that nobody waits for: each time of a schedule
// is fired once, what was accepted is run, each message is answered once, and only a function that had run already when
// nothing of that was stored runs again.
func TestCrashOfCall(t *testing.T) {
	t.Parallel()
	site.Each(t, crashpoint.OfCall(), func(t *testing.T, point string) {
		t.Helper()
		c := &callCrash{Site: site.New(t, "LANDFALL_LEASE=2s", "LANDFALL_SANDBOX=off"),
			notes: filepath.Join(t.TempDir(), "notes"), point: point}
		kind, _, _ := strings.Cut(point, ".")
		specs := site.FunctionsSpec("python-env", "note note.main")
		switch kind {
		case "firing":
			specs += site.TimerSpec("tick note @every 3s") // which is enough for each to be over before the next
		case "message":
			specs += site.QueueSpec("note", "functionref: {name: note}", "topic: in", "respTopic: out")
		}
		r := c.Repository(c.App("shop"))
		r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
			"note/note.py", fmt.Sprintf(`
import os

def main(event):
    notes_file = %q
    with open(notes_file, "a") as notes:
        notes.write(event["type"] + " " + event["id"] + "\n")
    if event["type"] == "call.broken" and not os.path.exists(notes_file + ".mended"):
        raise ValueError("not yet")
    if event["type"] == "dev.landfall.schedule":
        raise ValueError("noted") # which the log has
    return event["id"]
`, c.notes))
		c.armed(r)
		switch kind {
		case "firing":
			c.fired()
		case "execution":
			if point == "execution.resent" {
				c.resent()
				return
			}
			c.accepted()
		case "job":
			c.due()
		case "message":
			c.published()
		}
	})
}

// armed releases the app, and starts the server that is to be killed.
func (c *callCrash) armed(r *site.Repository) {
	c.T.Helper()
	c.Pushed(r, "shop", "A function that takes notes")
	c.Stop()
	c.Start("LANDFALL_CRASH=" + c.point)
}

// revived waits until the server is killed, and starts it again.
func (c *callCrash) revived() {
	c.T.Helper()
	<-c.Done
	c.Start()
}

// runs returns how often the function ran for each event.
func (c *callCrash) runs() map[string]int {
	c.T.Helper()
	text, err := os.ReadFile(c.notes)
	if err != nil && !os.IsNotExist(err) {
		c.T.Fatal(err)
	}
	runs := map[string]int{}
	for line := range strings.Lines(string(text)) {
		runs[strings.TrimSpace(line)]++
	}
	return runs
}

// again reports whether the function had run when the server was killed, and nothing of that was stored.
func (c *callCrash) again() bool {
	return strings.HasSuffix(c.point, ".answered") || c.point == "message.replied"
}

// repeated returns how often the function ran for an event for which it had run.
func (c *callCrash) repeated() int {
	c.T.Helper()
	repeated := 0
	for _, n := range c.runs() {
		repeated += n - 1
	}
	return repeated
}

// wantRuns fails the test unless the function ran once for each event, or twice for the one at which the server was
// killed.
func (c *callCrash) wantRuns() {
	c.T.Helper()
	want := 0
	if c.again() {
		want = 1
	}
	testkit.Equal(c.T, fmt.Sprintf("how often the function ran again: %v", c.runs()), c.repeated(), want)
}

func (c *callCrash) fired() {
	c.T.Helper()
	c.revived()
	before := len(c.runs())
	c.Eventually("it is fired as before", func() bool { return len(c.runs()) > before+1 })
	if c.point == "firing.claimed" || c.again() {
		c.Eventually("what was cut off is run again", func() bool { return c.Firings("tick", `"attempt":2`) == 1 })
	}
	c.wantRuns()
	testkit.Equal(c.T, "firings that were tried again and again", c.Firings("tick", `"attempt":3`), 0)
}

// due has a job that runs once, soon.
func (c *callCrash) due() {
	c.T.Helper()
	c.Landfall("job", "create", "note", "--pattern", "@every 2s", "--count", "1")
	c.revived()
	c.Eventually("the job has run", func() bool {
		all := site.List[landfall.Execution](c.Site, "/executions")
		return len(all) == 1 && all[0].State == landfall.ExecutionSucceeded
	})
	c.wantRuns()
}

// resent sends a dead letter again.
func (c *callCrash) resent() {
	c.T.Helper()
	c.accept("call.broken")
	var letters []landfall.Execution
	c.Eventually("it is a dead letter", func() bool {
		letters = site.List[landfall.Execution](c.Site, "/executions?dead=true")
		return len(letters) == 1
	})
	if err := os.WriteFile(c.notes+".mended", nil, 0o600); err != nil {
		c.T.Fatal(err)
	}
	out, code := c.Run(c.T.TempDir(), "execution", "retry", letters[0].ID)
	if code == 0 {
		c.T.Errorf("who sent it heard of it from a server that was killed: %s", out)
	}
	c.revived()
	c.Eventually("what was sent again is done", func() bool {
		all := site.List[landfall.Execution](c.Site, "/executions")
		return len(all) == 1 && all[0].State == landfall.ExecutionSucceeded
	})
	testkit.Equal(c.T, "runs of it", c.runs()["call.broken 1"], 2)
	if out, code := c.Run(c.T.TempDir(), "execution", "retry", letters[0].ID); code != 4 {
		c.T.Errorf("sending it once more got the exit code %d, want 4: %s", code, out)
	}
}

func (c *callCrash) accepted() {
	c.T.Helper()
	c.accept("call")
	c.revived()
	c.Eventually("what was accepted is done", func() bool {
		all := site.List[landfall.Execution](c.Site, "/executions")
		return len(all) == 1 && all[0].State == landfall.ExecutionSucceeded
	})
	c.wantRuns()
}

// accept sends an event that nobody waits for. The server may be killed before it answers.
func (c *callCrash) accept(kind string) {
	c.T.Helper()
	request, err := http.NewRequestWithContext(c.T.Context(), http.MethodPost, c.URL+"/functions/default/note:latest",
		strings.NewReader(`{"specversion":"1.0","id":"1","source":"/me","type":"`+kind+`"}`))
	if err != nil {
		c.T.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + c.Token, "Content-Type": "application/cloudevents+json", "Prefer": "respond-async",
	} {
		request.Header.Set(name, value)
	}
	if answer, err := http.DefaultClient.Do(request); err == nil { // else it was killed before
		_ = answer.Body.Close()
		testkit.Equal(c.T, "status", answer.StatusCode, http.StatusAccepted)
	}
}

func (c *callCrash) published() {
	c.T.Helper()
	publish := func() error {
		_, err := c.Publish(c.T.Context(), "shop", "in", "one", "text/plain", []byte("one"))
		return err
	}
	_ = publish() // it may be killed before it answers
	c.revived()
	if err := publish(); err != nil { // as who had no answer does
		c.T.Error(err)
	}
	c.Eventually("it is answered", func() bool { return len(c.Messages("shop", "out")) > 0 })
	// Nothing comes later: what is published next is answered after that.
	if _, err := c.Publish(c.T.Context(), "shop", "in", "two", "text/plain", []byte("two")); err != nil {
		c.T.Error(err)
	}
	c.Eventually("both are done", func() bool { return len(c.runs()) == 2 && len(c.Messages("shop", "out")) >= 2 })
	if c.again() { // which may be after the next
		c.Eventually("what was cut off is run again", func() bool { return c.repeated() > 0 })
	}
	testkit.EqualList(c.T, "answers", site.Texts(c.Messages("shop", "out")), []string{"one", "two"})
	c.wantRuns()
}
