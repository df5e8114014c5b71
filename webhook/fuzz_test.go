package webhook_test

import (
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

// fuzz checks that no payload ends the process, and that nothing comes through that a later step could stumble over.
func fuzz(f *testing.F, event string) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join(fixtures, event+"_*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("%d fixtures, %v", len(files), err)
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
	f.Fuzz(func(t *testing.T, payload []byte) {
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
	})
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
