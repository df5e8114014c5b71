package githubtest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall/github/githubtest"
)

const deploymentsPath = "repos/harbor/shop/deployments"

// deploy makes a deployment, and returns it as the answer has it.
func deploy(t *testing.T, s *githubtest.Server, body string) map[string]any {
	t.Helper()
	status, made := call(t, s, http.MethodPost, deploymentsPath, body)
	fields, ok := made.(map[string]any)
	if status != http.StatusCreated || !ok {
		t.Fatalf("%s: got %d %v, want 201", body, status, made)
	}
	return fields
}

// A deployment is made for what its branch is then, unless the branch is unknown, behind or has checks that did not
// succeed; the rules are those of GitHub's documentation.
func TestDeployments(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Point("harbor/shop", "topic", commit, true)
	for body, want := range map[string]int{
		`{"environment":"production"}`:      400, // ref is required
		`{"ref":"none"}`:                    422,
		`{"ref":"topic"}`:                   202, // it merges the default branch instead
		`{"ref":"topic","auto_merge":true}`: 202,
		`{"ref":"topic","auto_merge":false,"required_contexts":["ci/janky"]}`: 409,
	} {
		if status, got := call(t, s, http.MethodPost, deploymentsPath, body); status != want {
			t.Errorf("%s: got %d %v, want %d", body, status, got, want)
		}
	}
	if got := s.Problems(); len(got) != 1 {
		t.Errorf("the problems are %q, want the missing ref", got)
	}
	call(t, s, http.MethodPost, "repos/harbor/shop/statuses/"+commit, `{"state":"pending","context":"ci/janky"}`)
	if status, _ := call(t, s, http.MethodPost, deploymentsPath, `{"ref":"`+commit+`"}`); status != http.StatusConflict {
		t.Errorf("with a pending status: got %d, want 409", status)
	}
	// the advanced example of the documentation, without contexts
	made := deploy(t, s, `{"ref":"topic","auto_merge":false,"payload":"{ \"deploy\": \"migrate\" }",
		"description":"Deploy request from hubot","required_contexts":[]}`)
	if made["sha"] != commit || made["ref"] != "topic" || made["environment"] != "production" ||
		made["production_environment"] != true || made["transient_environment"] != false ||
		made["payload"] != `{ "deploy": "migrate" }` {
		t.Errorf("got %v, want the deployment of production", made)
	}
	deploy(t, s, `{"ref":"`+commit+`","required_contexts":[],"environment":"preview/x","transient_environment":true,
		"payload":{"a":1}}`)
	for query, want := range map[string]int{"": 2, "?environment=preview%2Fx": 1, "?ref=topic": 1, "?sha=" + commit: 2,
		"?environment=none": 0, "?per_page=1&page=2": 1} {
		status, got := call(t, s, http.MethodGet, deploymentsPath+query, "")
		if all, ok := got.([]any); status != http.StatusOK || !ok || len(all) != want {
			t.Errorf("%s: got %d %v, want %d", query, status, got, want)
		}
	}
	_, newest := call(t, s, http.MethodGet, deploymentsPath+"?per_page=1", "")
	if got := fmt.Sprint(newest); !strings.Contains(got, "preview/x") || strings.Contains(got, "Deploy request") {
		t.Errorf("the first is %s, want the newest", got)
	}
}

// A success makes the earlier ones of its environment inactive where GitHub says so: not in production, not where
// environments are transient, and not when it was told not to.
func TestDeploymentStatuses(t *testing.T) {
	t.Parallel()
	s := start(t)
	for environment, kept := range map[string]string{
		`"environment":"staging"`: "inactive", `"environment":"production"`: "success",
		`"environment":"t","transient_environment":true`: "success", `"environment":"kept"`: "success",
	} {
		var last int
		for range 2 {
			id, ok := deploy(t, s, `{"ref":"`+commit+`",`+environment+`}`)["id"].(float64)
			if !ok {
				t.Fatal("a deployment has no id")
			}
			last = int(id)
			body := `{"state":"success","environment_url":"https://shop.test/","log_url":"https://landfall.test/runs/r1"`
			if strings.Contains(environment, "kept") {
				body += `,"auto_inactive":false`
			}
			status, got := call(t, s, http.MethodPost, fmt.Sprintf("%s/%d/statuses", deploymentsPath, last), body+"}")
			if status != http.StatusCreated || !hasState(got, "success") {
				t.Errorf("got %d %v, want success", status, got)
			}
		}
		all := s.Deployments("harbor/shop", "")
		if got := all[len(all)-2]; got.State() != kept || all[len(all)-1].State() != "success" {
			t.Errorf("%s: the earlier one is %s, want %s", environment, got.State(), kept)
		}
		status, list := call(t, s, http.MethodGet, fmt.Sprintf("%s/%d/statuses", deploymentsPath, last), "")
		if statuses, ok := list.([]any); status != http.StatusOK || !ok || len(statuses) != 1 {
			t.Errorf("got %d %v, want the status", status, list)
		}
	}
	first := fmt.Sprintf("%s/%d/statuses", deploymentsPath, s.Deployments("harbor/shop", "")[0].ID)
	for body, want := range map[string]int{
		`{"state":"done"}`: 400, `{"state":"error","environment_url":"ftp://x"}`: 422,
		`{"state":"error","description":"` + strings.Repeat("x", 141) + `"}`: 422,
	} {
		if status, _ := call(t, s, http.MethodPost, first, body); status != want {
			t.Errorf("%s: got %d, want %d", body, status, want)
		}
	}
	_ = s.Problems()
	if status, _ := call(t, s, http.MethodPost, deploymentsPath+"/5/statuses", `{"state":"error"}`); status != 404 {
		t.Errorf("an unknown deployment got %d, want 404", status)
	}
}
