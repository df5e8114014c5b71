package fault_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/machine"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// While the disk of the database is full functions answer, and whoever does not want to wait is told that nothing could
// be kept. When there is space again both are on record as ever, and all that was accepted is run, without a restart.
func TestFaultFullDiskOfExecutions(t *testing.T) {
	t.Parallel()
	const size = 24 << 20
	s := site.NewStopped(t, site.EngineOf(t, "sqlite+folder"), "LANDFALL_SANDBOX=off")
	v := machine.NewVolume(t, size, s.Data)
	s.Within = v.Enter()
	s.Env = append(s.Env, "LANDFALL_DATABASE="+filepath.Join(v.Folder, "landfall.db"))
	s.Start()
	s.ReadToken()
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "echo echo.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "echo/echo.py",
		"import sys\n\ndef main(event):\n    print('log of', event['id'], file=sys.stderr)\n    return event['id']\n")
	s.Pushed(r, "shop", "A function")
	padding := strings.Repeat("x", 100_000)
	call := func(id string, header ...string) site.Page {
		return s.Post(s.URL+"/functions/default/echo:latest", "application/cloudevents+json",
			fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/me","type":"echo","data":%q}`, id, padding), header...)
	}
	var accepted []landfall.Execution
	accept := func() site.Page {
		p := call(fmt.Sprint("later-", len(accepted)), "Prefer", "respond-async")
		if p.Status == http.StatusAccepted {
			accepted = append(accepted, testkit.Decode[landfall.Execution](t, []byte(p.Body)))
		}
		return p
	}
	testkit.Equal(t, "status before", accept().Status, http.StatusAccepted)
	v.Fill(0)
	var refused site.Page
	s.Eventually("one is refused", func() bool { refused = accept(); return refused.Status != http.StatusAccepted })
	testkit.Equal(t, "status of one that could not be kept", refused.Status, http.StatusServiceUnavailable)
	for i := range 20 {
		p := call(fmt.Sprint("now-", i))
		testkit.Equal(t, "status while nothing can be recorded", p.Status, http.StatusOK)
		testkit.Contains(t, site.Told{p.Body}, fmt.Sprint(`"data":"now-`, i))
	}
	v.Drain()
	s.Eventually("one is accepted again", func() bool { return accept().Status == http.StatusAccepted })
	for _, x := range accepted {
		s.Eventually("what was accepted is over", func() bool {
			s.Call(http.MethodGet, "/executions/"+x.ID, nil, &x)
			return x.State == landfall.ExecutionSucceeded
		})
	}
	recorded := func() (n int) {
		for _, x := range site.List[landfall.Execution](s, "/executions?limit=1000") {
			if strings.HasPrefix(x.Event.ID, "now-") && x.State == landfall.ExecutionSucceeded {
				n++
			}
		}
		return n
	}
	s.Eventually("what was answered meanwhile is on record", func() bool { return recorded() == 20 })
}
