package function_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// failing is a function that fails, with a word that the log of firings has.
func failing(word string) string {
	return "def main():\n    raise ValueError('" + word + "')\n"
}

// A push makes a function run by a schedule; the next push another version of it, a rollback the old one again, and a
// trigger that names a version keeps to it.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := site.FunctionsSpec("python-env", "hello hello.main")
	r.Write("specs/functions.yaml", specs+site.TimerSpec("tick hello @every 1s", "fields hello * * * * * *"),
		"specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", failing("word-one"))
	s.Pushed(r, "shop", "A schedule")
	fires := func(what, trigger, word string) {
		t.Helper()
		before := s.Firings(trigger, word)
		s.Eventually(what, func() bool { return s.Firings(trigger, word) > before+1 })
	}
	fires("@every fires", "tick", "word-one")
	// E-063: the scheduler fires the trigger on the schedule set by the user
	fires("six fields fire", "fields", "word-one")

	out, code := s.Run(t.TempDir(), "trigger", "list", "shop")
	if code != 0 || !strings.Contains(out, "GET,POST /api/hello") || !strings.Contains(out, "@every 1s") {
		t.Errorf("trigger list: %s", out)
	}
	triggers := site.List[client.Trigger](s, "/apps/shop/triggers")
	testkit.Equal(t, "triggers", len(triggers), 3)
	tick := triggers[2]
	testkit.Equal(t, "kind, name and function", string(tick.Kind)+" "+tick.Name+" "+tick.Function,
		"time-trigger tick hello")
	if tick.Next == nil || !tick.Next.After(tick.Last.Due) || tick.Last.Fired.Before(tick.Last.Due) {
		t.Errorf("got %+v with the last firing %+v", tick, tick.Last)
	}

	r.Write("hello/hello.py", failing("word-two"), "specs/functions.yaml",
		specs+site.TimerSpec("tick hello @every 1s", "pinned hello:1 @every 1s"))
	s.Pushed(r, "shop", "Another version")
	fires("the new version is fired", "tick", "word-two")
	old := s.Firings("tick", "word-one")
	// a time trigger that names a version runs that version
	fires("the pinned version is fired", "pinned", "word-one")
	testkit.Equal(t, "firings of the old version after the switch", s.Firings("tick", "word-one"), old)

	if out, code := s.Run(t.TempDir(), "release", "rollback", "shop"); code != 0 {
		t.Fatalf("rollback: %s", out)
	}
	fires("after a rollback the old version is fired", "tick", "word-one")
	// a time trigger for a specific version runs no other one
	if n := s.Firings("pinned", "word-two"); n != 0 {
		t.Errorf("the pinned trigger ran another version %d times", n)
	}
}

// A schedule is meant in its time zone: what is due there at this hour is fired, and what would be due in UTC at that
// hour is not.
func TestScheduleZone(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	there := time.Now().In(time.FixedZone("", 5*60*60+30*60)).Hour()
	hours := fmt.Sprintf("* * %d,%d * * *", there, (there+1)%24) // five hours from now on, at least, in UTC
	zoned := strings.Replace(site.TimerSpec("zoned hello "+hours), "cron:", "timeZone: Asia/Kolkata, cron:", 1)
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main")+zoned+
		site.TimerSpec("utc hello "+hours), "specs/app.yaml", site.AppSpec("shop"),
		"site/index.html", "page", "hello/hello.py", failing("word-one"))
	s.Pushed(r, "shop", "A schedule in a time zone")
	s.Eventually("it is fired twice", func() bool { return s.Firings("zoned", "word-one") > 1 })
	testkit.Equal(t, "firings of the one in UTC", s.Firings("utc", ""), 0)
}

// A server that is killed while a firing runs runs it again when it is back: the same time, and no other one twice.
func TestScheduleKill(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "slow slow.main")+
		site.TimerSpec("slow slow @every 1s"), "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"slow/slow.py", "import time\n\n\ndef main():\n    time.sleep(5)\n    raise ValueError('slow-done')\n")
	s.Pushed(r, "shop", "A slow function")
	s.Eventually("one is running", func() bool { return s.Firings("slow", "was still running") > 0 })
	_ = s.Cmd.Process.Kill()
	<-s.Done
	before := s.Log.String()
	s.Start()
	s.Eventually("it is run again", func() bool { return s.Firings("slow", `"attempt":2`) > 0 })
	for line := range strings.Lines(s.Log.String()) {
		if !strings.Contains(line, `"attempt":2`) {
			continue
		}
		_, due, _ := strings.Cut(line, `"due":`)
		due, _, _ = strings.Cut(due, ",")
		if !strings.Contains(line, "slow-done") || strings.Contains(before, `"due":`+due) {
			t.Errorf("run again is %s, want the one that was running", line)
		}
		testkit.Equal(t, "how often it ended", s.Firings("slow", `"due":`+due), 1)
	}
}
