package webhook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/webhook"
)

func FuzzPush(f *testing.F)         { fuzz(f, "push") }
func FuzzPullRequest(f *testing.F)  { fuzz(f, "pull_request") }
func FuzzIssueComment(f *testing.F) { fuzz(f, "issue_comment") }
func FuzzMergeGroup(f *testing.F)   { fuzz(f, "merge_group") }
func FuzzPing(f *testing.F)         { fuzz(f, "ping") }
func FuzzCheckRun(f *testing.F)     { fuzz(f, "check_run") }
func FuzzCheckSuite(f *testing.F)   { fuzz(f, "check_suite") }
func FuzzRepository(f *testing.F)   { fuzz(f, "repository") }
func FuzzInstallation(f *testing.F) { fuzz(f, "installation") }
func FuzzInstalled(f *testing.F)    { fuzz(f, "installation_repositories") }

// FuzzEvents begins with every payload that GitHub publishes, of whatever event.
func FuzzEvents(f *testing.F) {
	for event, examples := range published(f) {
		for _, payload := range examples {
			f.Add(event, []byte(payload))
		}
	}
	// S3: no payload of any event ends the process
	f.Fuzz(judge)
}

// published returns the examples of payloads that GitHub publishes, by their events.
func published(f *testing.F) map[string][]json.RawMessage {
	f.Helper()
	var events []struct {
		Name     string            `json:"name"`
		Examples []json.RawMessage `json:"examples"`
	}
	text, err := os.ReadFile("../build/npm/node_modules/@octokit/webhooks-examples/api.github.com/index.json")
	if err == nil {
		err = json.Unmarshal(text, &events)
	}
	if err != nil || len(events) == 0 {
		f.Fatalf("the published payloads are not there; type: make build/npm (%v)", err)
	}
	all := map[string][]json.RawMessage{}
	for _, e := range events {
		all[e.Name] = e.Examples
	}
	return all
}

// fuzz begins with the payloads of an event.
func fuzz(f *testing.F, event string) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join(fixtures, event+"_*.json"))
	examples := published(f)[event]
	if err != nil || len(files)+len(examples) == 0 {
		f.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, payload := range examples {
		f.Add([]byte(payload))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{"", "null", "[]", "{}", `{"repository":null}`,
		`{"pull_request":{"head":{"repo":null}}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, payload []byte) { judge(t, event, payload) })
}

// judge checks that no payload ends the process, and that nothing comes through that a later step could stumble over.
func judge(t *testing.T, event string, payload []byte) {
	t.Helper()
	intake, err := webhook.Parse(event, payload)
	if err != nil {
		if kind := landfall.KindOf(err); kind != landfall.Invalid || landfall.MessageOf(err) == "" {
			t.Fatalf("the error is %v with message %q, want invalid with a reason", kind, landfall.MessageOf(err))
		}
		return
	}
	if intake.Delivery.Decision == "" {
		t.Fatal("there is no decision")
	}
	if p := intake.Push; p != nil {
		checkObjects(t, intake.Repository, p.Ref, p.Before, p.After)
	}
	if c := intake.Command; c != nil && (c.Number < 0 || c.Sender.ID <= 0 || c.Sender.Login == "" || len(c.Data) > 4096) {
		t.Fatalf("the command is %+v", c)
	}
	if c := intake.CommentChange; c != nil && (c.Number <= 0 || c.Comment <= 0) {
		t.Fatalf("the changed comment is %+v", c)
	}
	if p := intake.PullRequest; p != nil {
		checkObjects(t, intake.Repository, p.Head, p.Commit)
		if p.Number <= 0 {
			t.Fatalf("the number is %d", p.Number)
		}
	}
}

func checkObjects(t *testing.T, r webhook.Repository, ref landfall.RefName, commits ...landfall.CommitSHA) {
	t.Helper()
	if r.ID <= 0 || r.Owner == "" || r.Name == "" {
		t.Fatalf("the repository is %+v", r)
	}
	if _, err := landfall.ParseRefName(string(ref)); err != nil {
		t.Fatalf("the reference is %q", ref)
	}
	for _, commit := range commits {
		if _, err := landfall.ParseCommitSHA(string(commit)); err != nil {
			t.Fatalf("the commit is %q", commit)
		}
	}
}
