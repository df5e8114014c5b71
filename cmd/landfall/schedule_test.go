package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/api/client"
)

// timerSpec declares time triggers, each NAME FUNCTION CRON, where the function is as functionref has it.
func timerSpec(triggers ...string) string {
	var text strings.Builder
	for _, line := range triggers {
		name, rest, _ := strings.Cut(line, " ")
		function, cron, _ := strings.Cut(rest, " ")
		fmt.Fprintf(&text, "---\napiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: %s}\nspec: {functionref: {name: %q}, cron: %q}\n", name, function, cron)
	}
	return text.String()
}

// failing is a function that fails, with a word that the log of firings has.
func failing(word string) string {
	return "def main():\n    raise ValueError('" + word + "')\n"
}

// firings returns how many firings of a trigger the log has with a word.
func (s *site) firings(trigger, word string) int {
	n := 0
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "time trigger fired") && strings.Contains(line, `"trigger":"`+trigger+`"`) && strings.Contains(line, word) {
			n++
		}
	}
	return n
}

// A push makes a function run by a schedule; the next push another version of it, a rollback the old one again, and a trigger that
// names a version keeps to it.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := functionsSpec("python-env", "hello hello.main")
	r.write("specs/functions.yaml", specs+timerSpec("tick hello @every 1s", "fields hello * * * * * *"), "specs/app.yaml", appSpec("shop"),
		"site/index.html", "page", "hello/hello.py", failing("word-one"))
	s.pushed(r, "shop", "A schedule")
	fires := func(what, trigger, word string) {
		t.Helper()
		before := s.firings(trigger, word)
		s.eventually(what, func() bool { return s.firings(trigger, word) > before+1 })
	}
	fires("@every fires", "tick", "word-one")
	// E-063: the scheduler fires the trigger on the schedule set by the user
	fires("six fields fire", "fields", "word-one")

	out, code := s.run(t.TempDir(), "trigger", "list", "shop")
	if code != 0 || !strings.Contains(out, "GET,POST /api/hello") || !strings.Contains(out, "@every 1s") {
		t.Errorf("trigger list: %s", out)
	}
	triggers := list[client.Trigger](s, "/apps/shop/triggers")
	wantEqual(t, "triggers", len(triggers), 3)
	tick := triggers[2]
	wantEqual(t, "kind, name and function", string(tick.Kind)+" "+tick.Name+" "+tick.Function, "time-trigger tick hello")
	if tick.Next == nil || !tick.Next.After(tick.Last.Due) || tick.Last.Fired.Before(tick.Last.Due) {
		t.Errorf("got %+v with the last firing %+v", tick, tick.Last)
	}

	r.write("hello/hello.py", failing("word-two"), "specs/functions.yaml", specs+timerSpec("tick hello @every 1s", "pinned hello:1 @every 1s"))
	s.pushed(r, "shop", "Another version")
	fires("the new version is fired", "tick", "word-two")
	old := s.firings("tick", "word-one")
	// a time trigger that names a version runs that version
	fires("the pinned version is fired", "pinned", "word-one")
	wantEqual(t, "firings of the old version after the switch", s.firings("tick", "word-one"), old)

	if out, code := s.run(t.TempDir(), "release", "rollback", "shop"); code != 0 {
		t.Fatalf("rollback: %s", out)
	}
	fires("after a rollback the old version is fired", "tick", "word-one")
	// a time trigger for a specific version runs no other one
	if n := s.firings("pinned", "word-two"); n != 0 {
		t.Errorf("the pinned trigger ran another version %d times", n)
	}
}

// A schedule is meant in its time zone: what is due there at this hour is fired, and what would be due in UTC at that hour is not.
func TestScheduleZone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	there := time.Now().In(time.FixedZone("", 5*60*60+30*60)).Hour()
	hours := fmt.Sprintf("* * %d,%d * * *", there, (there+1)%24) // five hours from now on, at least, in UTC
	zoned := strings.Replace(timerSpec("zoned hello "+hours), "cron:", "timeZone: Asia/Kolkata, cron:", 1)
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main")+zoned+timerSpec("utc hello "+hours), "specs/app.yaml", appSpec("shop"),
		"site/index.html", "page", "hello/hello.py", failing("word-one"))
	s.pushed(r, "shop", "A schedule in a time zone")
	s.eventually("it is fired twice", func() bool { return s.firings("zoned", "word-one") > 1 })
	wantEqual(t, "firings of the one in UTC", s.firings("utc", ""), 0)
}

// A server that is killed while a firing runs runs it again when it is back: the same time, and no other one twice.
func TestScheduleKill(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "slow slow.main")+timerSpec("slow slow @every 1s"), "specs/app.yaml", appSpec("shop"),
		"site/index.html", "page", "slow/slow.py", "import time\n\n\ndef main():\n    time.sleep(5)\n    raise ValueError('slow-done')\n")
	s.pushed(r, "shop", "A slow function")
	s.eventually("one is running", func() bool { return s.firings("slow", "was still running") > 0 })
	_ = s.cmd.Process.Kill()
	<-s.done
	before := s.log.String()
	s.start()
	s.eventually("it is run again", func() bool { return s.firings("slow", `"attempt":2`) > 0 })
	for line := range strings.Lines(s.log.String()) {
		if !strings.Contains(line, `"attempt":2`) {
			continue
		}
		_, due, _ := strings.Cut(line, `"due":`)
		due, _, _ = strings.Cut(due, ",")
		if !strings.Contains(line, "slow-done") || strings.Contains(before, `"due":`+due) {
			t.Errorf("run again is %s, want the one that was running", line)
		}
		wantEqual(t, "how often it ended", s.firings("slow", `"due":`+due), 1)
	}
}
