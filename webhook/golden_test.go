package webhook_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/webhook"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden is an intake as a golden file has it, without what does not come from the payload.
type golden struct {
	Event      string            `json:"event"`
	Decision   string            `json:"decision"`
	Repository *goldenRepository `json:"repository,omitempty"`
	Push       *goldenPush       `json:"push,omitempty"`
	Pull       *goldenPull       `json:"pull_request,omitempty"`

	Command       *goldenCommand         `json:"command,omitempty"`
	CommentChange *webhook.CommentChange `json:"comment_change,omitempty"`

	RepositoryChange *webhook.RepositoryChange `json:"repository_change,omitempty"`
}

type goldenRepository struct {
	ID    int64    `json:"id"`
	Owner string   `json:"owner"`
	Name  string   `json:"name"`
	URLs  []string `json:"urls"`
}

type goldenPush struct {
	Source  landfall.PushSource `json:"source"`
	Ref     landfall.RefName    `json:"ref"`
	Before  landfall.CommitSHA  `json:"before"`
	After   landfall.CommitSHA  `json:"after"`
	Forced  bool                `json:"forced"`
	Actor   string              `json:"actor"`
	Message string              `json:"message"`
}

type goldenPull struct {
	landfall.PullRequest
	Head   landfall.RefName   `json:"head"`
	Commit landfall.CommitSHA `json:"commit"`
	Actor  string             `json:"actor"`
}

type goldenCommand struct {
	Kind    landfall.CommandKind `json:"kind"`
	Number  int                  `json:"number"`
	Sender  landfall.GitHubUser  `json:"sender"`
	Comment int64                `json:"comment"`
	Data    string               `json:"data"`
}

func goldenOf(intake webhook.Event) golden {
	g := golden{Event: intake.Delivery.Event, Decision: intake.Delivery.Decision, CommentChange: intake.CommentChange,
		RepositoryChange: intake.RepositoryChange}
	if c := intake.Command; c != nil {
		g.Command = &goldenCommand{c.Kind, c.Number, c.Sender, c.Comment, c.Data}
	}
	if r := intake.Repository; r.ID != 0 {
		g.Repository = &goldenRepository{r.ID, r.Owner, r.Name, r.URLs}
	}
	if p := intake.Push; p != nil {
		g.Push = &goldenPush{p.Source, p.Ref, p.Before, p.After, p.Forced, p.Actor, p.Message}
	}
	if p := intake.PullRequest; p != nil {
		g.Pull = &goldenPull{p.PullRequest, p.Head, p.Commit, p.Actor}
	}
	return g
}

// eventOf returns the event that a fixture belongs to, by its name.
func eventOf(t *testing.T, name string) string {
	t.Helper()
	for _, event := range []string{"push", "pull_request", "ping", "issues", "issue_comment", "merge_group", "star",
		"check_run", "check_suite", "repository"} {
		if strings.HasPrefix(name, event+"_") {
			return event
		}
	}
	t.Fatalf("the name of fixture %s begins with no event", name)
	return ""
}

// Each form of each event, as GitHub sends it over HTTP, gives what its golden file says.
func TestEvents(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(fixtures, "*.json"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			body := fixture(t, name)
			got := send(t, d.delivery(t, eventOf(t, name), "golden", body))
			if got.status != http.StatusAccepted {
				t.Fatalf("got %d %s, want 202", got.status, got.Detail)
			}
			stored := d.store.deliveries()
			if len(stored) != 1 {
				t.Fatalf("%d deliveries were stored, want 1", len(stored))
			}
			text, err := json.MarshalIndent(goldenOf(stored[0]), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join(fixtures, name+".golden"), append(text, '\n'))
		})
	}
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant, as in %s,\n%s", got, file, want)
	}
}

// The form content type carries the same payload, signed over the raw form.
func TestForm(t *testing.T) {
	t.Parallel()
	d := open(t)
	form := []byte(url.Values{"payload": {string(fixture(t, "push_branch_update"))}}.Encode())
	r := d.delivery(t, "push", "form", form)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if got := send(t, r); got.status != http.StatusAccepted || len(got.Runs) != 2 {
		t.Errorf("got %d with runs %v, want 202 with two", got.status, got.Runs)
	}
	for name, form := range map[string]string{"no payload": "a=b", "an empty payload": "payload=", "no form": "%zz"} {
		r := d.delivery(t, "push", "form-bad", []byte(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		if got := send(t, r); got.status != http.StatusBadRequest || got.Detail == "" {
			t.Errorf("%s: got %d %q, want 400 with a reason", name, got.status, got.Detail)
		}
	}
}
