package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
)

// While the disk of the database is full functions answer, and whoever does not want to wait is told that nothing could be kept. When
// there is space again both are on record as ever, and all that was accepted is run, without a restart.
func TestFaultFullDiskOfExecutions(t *testing.T) {
	t.Parallel()
	const size = 24 << 20
	s := newStopped(t, engineOf(t, "sqlite+folder"), "LANDFALL_SANDBOX=off")
	v := newVolume(t, size, s.data)
	s.within = v.enter()
	s.env = append(s.env, "LANDFALL_DATABASE="+filepath.Join(v.folder, "landfall.db"))
	s.start()
	s.readToken()
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "echo echo.main"), "specs/app.yaml", appSpec("shop"), "site/index.html", "page",
		"echo/echo.py", "import sys\n\ndef main(event):\n    print('log of', event['id'], file=sys.stderr)\n    return event['id']\n")
	s.pushed(r, "shop", "A function")
	padding := strings.Repeat("x", 100_000)
	call := func(id string, header ...string) page {
		return s.post(s.URL+"/functions/default/echo:latest", "application/cloudevents+json",
			fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/me","type":"echo","data":%q}`, id, padding), header...)
	}
	var accepted []landfall.Execution
	accept := func() page {
		p := call(fmt.Sprint("later-", len(accepted)), "Prefer", "respond-async")
		if p.status == http.StatusAccepted {
			accepted = append(accepted, decode[landfall.Execution](t, []byte(p.body)))
		}
		return p
	}
	wantEqual(t, "status before", accept().status, http.StatusAccepted)
	v.fill(0)
	var refused page
	s.eventually("one is refused", func() bool { refused = accept(); return refused.status != http.StatusAccepted })
	wantEqual(t, "status of one that could not be kept", refused.status, http.StatusServiceUnavailable)
	for i := range 20 {
		p := call(fmt.Sprint("now-", i))
		wantEqual(t, "status while nothing can be recorded", p.status, http.StatusOK)
		wantText(t, told{p.body}, fmt.Sprint(`"data":"now-`, i))
	}
	v.drain()
	s.eventually("one is accepted again", func() bool { return accept().status == http.StatusAccepted })
	for _, x := range accepted {
		s.eventually("what was accepted is over", func() bool {
			s.call(http.MethodGet, "/executions/"+x.ID, nil, &x)
			return x.State == landfall.ExecutionSucceeded
		})
	}
	recorded := func() (n int) {
		for _, x := range list[landfall.Execution](s, "/executions?limit=1000") {
			if strings.HasPrefix(x.Event.ID, "now-") && x.State == landfall.ExecutionSucceeded {
				n++
			}
		}
		return n
	}
	s.eventually("what was answered meanwhile is on record", func() bool { return recorded() == 20 })
}
