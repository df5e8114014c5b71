package function_test

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A person makes a webhook and a job of a function: others call it without a token, and it runs at times. Both hold the
// version that they name, until they are deleted or over.
func TestJobsAndWebhooks(t *testing.T) {
	t.Parallel()
	s, _ := site.NumberedIn(t, 2)
	s.Landfall("function", "alias", "update", "hello", "prod", "latest")
	s.Landfall("release", "expire", "shop", string(s.Accessible("shop")[1]))
	const path = "/functions/hello/versions"

	said := s.Landfall("webhook", "create", "hello", "--version", "1", "--description", "For the tills", "-o", "json")
	pinned := testkit.Decode[client.Webhook](t, []byte(said))
	var floating client.Webhook
	s.Call(http.MethodPost, "/webhooks", map[string]any{"function_id": "hello"}, &floating)
	// C-013, C-014, C-029: a webhook's record says which version is in use, 0 for the latest, which is the default
	testkit.Equal(t, "versions of the webhooks", [2]int64{pinned.Number, floating.Number}, [2]int64{1, 0})
	for hook, want := range map[string]string{pinned.URL: "1", floating.URL: "2"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			answer := s.Send(method, hook, "")
			// C-029: whoever knows the address calls that version, without a token
			testkit.Equal(t, method+" of a webhook", strings.TrimSpace(answer.Body), want)
			testkit.Equal(t, "policy", answer.Header.Get("Content-Security-Policy"), "sandbox; default-src 'none'")
		}
	}
	testkit.Equal(t, "another address", s.Get(s.URL+landfall.HookPath+strings.Repeat("a", 26)).Status,
		http.StatusNotFound)
	list := s.Landfall("webhook", "list", "--function", "hello")
	testkit.Contains(t, site.Told{list}, "WEBHOOK", pinned.ID, "latest", "For the tills", floating.URL)

	// A job of another name for the same version; the pattern has seconds, so that it is over soon.
	said = s.Landfall("job", "create", "hello", "--version", "1", "--name", "twice", "--pattern", "* * * * * *", "--count",
		"2", "-o", "json")
	job := testkit.Decode[client.Job](t, []byte(said))
	// C-013, C-028
	testkit.Equal(t, "version of the job", job.Number, 1)
	nightly := testkit.Decode[client.Job](t, []byte(s.Landfall("job", "create", "hello", "--pattern", "0 3 * * *", "-o",
		"json")))
	// C-014, C-028
	testkit.Equal(t, "version of a job that says none", nightly.Number, 0)
	s.Eventually("the job is done", func() bool {
		s.Call(http.MethodGet, "/jobs/"+job.ID, nil, &job)
		return job.Status == landfall.JobDone
	})
	runs := []landfall.Execution{}
	s.Eventually("both runs are over", func() bool {
		runs = site.List[landfall.Execution](s, "/executions?app=shop&state=succeeded")
		return strings.Count(eventsOf(runs), "/api/v1/jobs/"+job.ID) == 2
	})
	for _, x := range runs {
		if x.Event.Source == "/api/v1/jobs/"+job.ID && x.Number != 1 {
			t.Errorf("a run of the job was of version %d, want 1", x.Number)
		}
	}
	s.Landfall("job", "create", "hello", "--version", "1", "--name", "held", "--pattern", "0 3 * * *")
	held := site.List[client.Job](s, "/jobs?function=hello")[0]

	refused := s.Refused(http.MethodDelete, path+"/1", nil)
	// C-024: all that holds a version is named, by its kind; a job that is over holds none
	testkit.Contains(t, site.Told{refused.Message}, "the job "+held.ID, "landfall job delete "+held.ID,
		"the webhook "+pinned.ID, "landfall webhook delete "+pinned.ID, "nothing was deleted")
	if strings.Contains(refused.Message, job.ID) || strings.Contains(refused.Message, floating.ID) {
		t.Errorf("got %q, want neither the job that is done nor the webhook of the latest", refused.Message)
	}
	s.Landfall("job", "delete", held.ID)
	s.Landfall("webhook", "delete", pinned.ID)
	testkit.Equal(t, "its address", s.Get(pinned.URL).Status, http.StatusNotFound)
	// C-024
	s.Call(http.MethodDelete, path+"/1", nil, nil)
	testkit.Equal(t, "versions at the end", numbers(s, "/functions/hello"), "2")
	s.WantWhole()
}

// eventsOf are the sources of the events of executions.
func eventsOf(all []landfall.Execution) string {
	var sources []string
	for _, x := range all {
		sources = append(sources, x.Event.Source)
	}
	return strings.Join(sources, " ")
}
