package githubtest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall/github/githubtest"
)

// appToken is one of an App's installation.
const appToken = "ghs_of_the_test"

func startForApp(t *testing.T) *githubtest.Server {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	return githubtest.New(t, d, appToken)
}

// The examples of GitHub's documentation: a check run in progress, and one that is completed with annotations.
const (
	inProgress = `{"name":"mighty_readme","head_sha":"` + commit + `","status":"in_progress","external_id":"42",
		"started_at":"2018-05-04T01:14:52Z","output":{"title":"Mighty Readme report","summary":"","text":""}}`
	completed = `{"name":"mighty_readme","started_at":"2017-11-30T19:39:10Z","status":"completed","conclusion":"success",
		"completed_at":"2017-11-30T19:49:10Z","output":{"title":"Mighty Readme report","summary":"There are 0 failures.",
		"text":"You may have some misspelled words.","annotations":[{"path":"README.md","annotation_level":"warning",
		"message":"Check your spelling for 'banaas'.","start_line":2,"end_line":2}]},
		"actions":[{"label":"Fix","identifier":"fix_errors","description":"Allow us to fix these errors for you"}]}`
)

// A check run is made, changed and listed; each change adds its annotations.
func TestCheckRuns(t *testing.T) {
	t.Parallel()
	s := startForApp(t)
	const path = "repos/harbor/shop/check-runs"
	status, made := callAs(t, s, appToken, http.MethodPost, path, inProgress)
	fields, ok := made.(map[string]any)
	if status != http.StatusCreated || !ok || fields["status"] != "in_progress" || fields["conclusion"] != nil {
		t.Fatalf("got %d %v, want it in progress", status, made)
	}
	one := fmt.Sprintf("%s/%d", path, s.CheckRuns("harbor/shop", commit)[0].ID)
	for range 2 {
		if status, got := callAs(t, s, appToken, http.MethodPatch, one, completed); status != http.StatusOK {
			t.Fatalf("got %d %v, want 200", status, got)
		}
	}
	run := s.CheckRuns("harbor/shop", commit)[0]
	if run.Status != "completed" || run.Conclusion != "success" || len(run.Output.Annotations) != 2 ||
		len(run.Actions) != 1 || run.ExternalID != "42" || run.Output.Annotations[0].Path != "README.md" {
		t.Errorf("got %+v, want it completed, and both annotations", run)
	}
	callAs(t, s, appToken, http.MethodPatch, one, inProgress)
	if run = s.CheckRuns("harbor/shop", commit)[0]; run.Status != "completed" || run.Conclusion != "success" {
		t.Errorf("got %+v, want that what is completed remains so", run)
	}
	callAs(t, s, appToken, http.MethodPost, path, inProgress)
	for query, want := range map[string]int{"": 1, "?filter=all": 2, "?check_name=other": 0} {
		_, list := callAs(t, s, appToken, http.MethodGet, "repos/harbor/shop/commits/"+commit+"/check-runs"+query, "")
		if all, ok := list.(map[string]any); !ok || fmt.Sprint(all["total_count"]) != fmt.Sprint(want) {
			t.Errorf("%q: got %v, want %d", query, list, want)
		}
	}
	if status, _ := callAs(t, s, appToken, http.MethodGet, one, ""); status != http.StatusOK {
		t.Errorf("one: got %d, want 200", status)
	}
	if status, _ := callAs(t, s, appToken, http.MethodGet, path+"/5", ""); status != http.StatusNotFound {
		t.Errorf("an unknown one: got %d, want 404", status)
	}
}

// Who is no App may make none; too much of anything is refused.
func TestCheckRunsRefused(t *testing.T) {
	t.Parallel()
	const path = "repos/harbor/shop/check-runs"
	plain := start(t)
	if status, _ := call(t, plain, http.MethodPost, path, inProgress); status != http.StatusForbidden {
		t.Errorf("a plain token got %d, want 403", status)
	}
	s := startForApp(t)
	with := func(more string) string {
		return `{"name":"x","head_sha":"` + commit + `","status":"completed","conclusion":"failure",` + more + `}`
	}
	action := func(label, identifier, description string) string {
		return `{"label":"` + label + `","identifier":"` + identifier + `","description":"` + description + `"}`
	}
	note := `{"path":"a","start_line":1,"end_line":1,"annotation_level":"failure","message":"x"}`
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"51 annotations": {with(`"output":{"title":"x","summary":"x","annotations":[` +
			strings.TrimSuffix(strings.Repeat(note+",", 51), ",") + `]}`), 400},
		"four actions": {with(`"actions":[` + strings.TrimSuffix(strings.Repeat(action("a", "b", "c")+",", 4), ",") +
			`]`), 400},
		"a long label":              {with(`"actions":[` + action(strings.Repeat("x", 21), "b", "c") + `]`), 400},
		"a long identifier":         {with(`"actions":[` + action("a", strings.Repeat("x", 21), "c") + `]`), 400},
		"a long description":        {with(`"actions":[` + action("a", "b", strings.Repeat("x", 41)) + `]`), 400},
		"a summary without a title": {with(`"output":{"summary":"x"}`), 400},
		"a long summary":            {with(`"output":{"title":"x","summary":"` + strings.Repeat("é", 40_000) + `"}`), 422},
		"no commit":                 {`{"name":"x","head_sha":"main"}`, 422},
		"no conclusion":             {`{"name":"x","head_sha":"` + commit + `","status":"completed"}`, 422},
	} {
		if got, answer := callAs(t, s, appToken, http.MethodPost, path, c.body); got != c.status {
			t.Errorf("%s: got %d %v, want %d", name, got, answer, c.status)
		}
	}
	if got := s.Problems(); len(got) < 6 {
		t.Errorf("the problems are %q, want six or more", got)
	}
}
