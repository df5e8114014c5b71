package accept_test

import (
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/webhook"
)

// asker is a person who comments on pull request 12 of the shop.
type asker struct {
	*shop
	accept.WebhookReceiver

	queue accept.Commands
	n     int64
}

// newAsker returns a person, and the commit at the head of the open pull request.
func newAsker(t *testing.T) (*asker, landfall.CommitSHA) {
	t.Helper()
	s := newShop(t)
	a := &asker{shop: s, WebhookReceiver: s.Hooked()}
	a.queue = accept.Commands{Commands: store.Commands{DB: s.Receiver.DB}, Acceptor: s.Receiver.Acceptor}
	head := s.Commit("one")
	a.deliver(t, s.Opens("opens", head))
	return a, head
}

func (a *asker) deliver(t *testing.T, event webhook.Event) landfall.Delivery {
	t.Helper()
	stored, _, err := a.Accept(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// asks has the command delivered, and returns it as it waits.
func (a *asker) asks(t *testing.T, words string) landfall.Command {
	t.Helper()
	a.n++
	a.deliver(t, a.comment(words, a.n))
	due := testkit.Must(a.queue.Due(t.Context(), time.Now().Add(time.Hour), 100))(t)
	if len(due) == 0 || due[len(due)-1].Comment != a.n {
		t.Fatalf("%s: got %+v, want that it waits", words, due)
	}
	return due[len(due)-1]
}

// comment returns the delivery of a comment that has a command.
func (a *asker) comment(words string, id int64) webhook.Event {
	return webhook.Event{
		Delivery:   landfall.Delivery{ID: "comment-" + words + string(rune('a'+id)), Event: "issue_comment"},
		Repository: webhook.Repository{ID: 1, Owner: "harbor", Name: "shop"},
		Command: &landfall.Command{
			Kind: landfall.CommentCommand, Number: 12, Sender: landfall.GitHubUser{ID: 7, Login: "ada"}, Comment: id,
			Data: `["` + strings.ReplaceAll(words, " ", `","`) + `"]`,
		},
	}
}

// wants has GitHub answer, and checks the reaction and what the answer says.
func (a *asker) wants(t *testing.T, c landfall.Command, permission landfall.Permission, reaction landfall.Reaction,
	says string) {
	t.Helper()
	if err := a.queue.Obey(t.Context(), c, permission); err != nil {
		t.Fatal(err)
	}
	got := testkit.Must(a.DB.Command(t.Context(), c.ID))(t)
	if !got.Obeyed || got.Reaction != reaction || !strings.Contains(got.Answer, says) {
		t.Errorf("%s by who has %q: got %q and %q, want %q and %q", c.Data, permission, got.Reaction, got.Answer, reaction,
			says)
	}
}

func (a *asker) runOf(t *testing.T, commit landfall.CommitSHA) landfall.Run {
	t.Helper()
	return testkit.Must(a.DB.RunsOfCommit(t.Context(), "hooked", commit))(t)[0]
}

// What a comment asks for is done once, for who may ask for it.
func TestCommandsInComments(t *testing.T) {
	t.Parallel()
	a, head := newAsker(t)
	first := a.runOf(t, head)
	cancel := a.asks(t, "cancel")
	a.wants(t, cancel, landfall.PermissionTriage, landfall.ReactionRefused, "cancel needs the role write in harbor/shop, and "+
		"ada has triage")
	testkit.Equal(t, "after a command without the permission", a.runOf(t, head).State, landfall.RunQueued)
	a.wants(t, a.asks(t, "cancel"), landfall.PermissionWrite, landfall.ReactionDone,
		"ada asked to cancel: hooked: the run of "+head.Short()+" is cancelled")
	testkit.Equal(t, "reason", a.runOf(t, head).Reason, "Cancelled by ada")
	a.wants(t, a.asks(t, "cancel"), landfall.PermissionWrite, landfall.ReactionUnclear, "the run is over: cancelled")

	retry := a.asks(t, "retry hooked")
	a.wants(t, retry, landfall.PermissionWrite, landfall.ReactionDone, head.Short()+" is queued again")
	second := a.runOf(t, head)
	if second.ID == first.ID || second.State != landfall.RunQueued {
		t.Errorf("got %+v, want a new run", second)
	}
	a.wants(t, retry, landfall.PermissionWrite, landfall.ReactionDone, "is queued again") // GitHub's answer came twice
	testkit.Equal(t, "runs", len(testkit.Must(a.DB.RunsOfCommit(t.Context(), "hooked", head))(t)), 2)

	for _, c := range []struct {
		words      string
		permission landfall.Permission
		reaction   landfall.Reaction
		says       string
	}{
		{"retry", landfall.PermissionWrite, landfall.ReactionUnclear, "is still queued"},
		{"retry zoo", landfall.PermissionWrite, landfall.ReactionUnclear, "the repository has no app zoo"},
		{"dance", landfall.PermissionWrite, landfall.ReactionUnclear,
			"right would be retry, cancel or promote, with an app's name if there are several, or approve COMMIT for a fork"},
		{"dance", landfall.PermissionRead, landfall.ReactionRefused, "a command needs the role write"},
		{"promote", landfall.PermissionWrite, landfall.ReactionRefused, "promote needs the role maintain"},
		{"promote", landfall.PermissionAdmin, landfall.ReactionUnclear, "has no release: its run is queued"},
		{"cancel", "", landfall.ReactionUnclear, "GitHub did not say in time what ada may do; ask again"},
	} {
		a.wants(t, a.asks(t, c.words), c.permission, c.reaction, c.says)
	}
	testkit.Equal(t, "at the end", a.runOf(t, head).State, landfall.RunQueued)
	testkit.Equal(t, "answers that are kept", len(testkit.Must(a.DB.CommandsOf(t.Context(),
		landfall.GitHubRepository{ID: 1, Owner: "harbor", Name: "shop"}, 12))(t)), 11)
}

// A command is about the pull request as its sender saw it.
func TestCommandAboutAnotherHead(t *testing.T) {
	t.Parallel()
	a, _ := newAsker(t)
	cancel, promote := a.asks(t, "cancel"), a.asks(t, "promote")
	next := a.Commit("two")
	a.deliver(t, a.Opens("moves", next))
	a.wants(t, cancel, landfall.PermissionAdmin, landfall.ReactionUnclear, "the pull request is at "+next.Short()+" since")
	a.wants(t, promote, landfall.PermissionAdmin, landfall.ReactionUnclear, "ask again")
	testkit.Equal(t, "the run of the new head", a.runOf(t, next).State, landfall.RunQueued)
	cancel = a.asks(t, "cancel")
	closed := a.Opens("closes", next)
	closed.PullRequest.Closed = true
	a.deliver(t, closed)
	a.wants(t, cancel, landfall.PermissionAdmin, landfall.ReactionUnclear, "the pull request is closed")
}

// A command in a comment is obeyed once, also when nothing else is known of it any more.
func TestACommentIsObeyedOnce(t *testing.T) {
	t.Parallel()
	a, _ := newAsker(t)
	captured := a.comment("cancel", 1)
	a.wants(t, a.asks(t, "cancel"), landfall.PermissionWrite, landfall.ReactionDone, "is cancelled")
	for range 4 {
		a.wants(t, a.asks(t, "cancel"), landfall.PermissionWrite, landfall.ReactionUnclear, "the run is over")
	}
	for _, c := range testkit.Must(a.queue.Due(t.Context(), time.Now().Add(time.Hour), 100))(t) {
		if err := a.queue.Reacted(t.Context(), c, ""); err != nil {
			t.Fatal(err)
		}
	}
	_, err := a.DB.Command(t.Context(), 1)
	testkit.Kind(t, "the record of the command", err, landfall.NotFound)
	captured.Delivery.ID = "another"
	// S7: whoever captured the delivery does not give the command again under another id
	testkit.Contains(t, said(a.deliver(t, captured).Decision), "It was told of before.")
	testkit.Equal(t, "commands that wait", len(testkit.Must(a.queue.Due(t.Context(), time.Now().Add(time.Hour), 9))(t)), 0)
}

// Where each app of a repository has a hook of its own, each is asked by its own; a command that names one is that
// one's.
func TestCommandsByHooksOfApps(t *testing.T) {
	t.Parallel()
	a, _ := newAsker(t)
	a.follow("zoo", "shop")
	hooked := map[string]string{"hook-a": "hooked", "hook-b": "zoo"}
	a.Update(func(tx *store.Tx) error {
		for hook, app := range hooked {
			if err := tx.CreateHook(t.Context(), landfall.Hook{ID: hook, App: app, Secret: "s"}, 0); err != nil {
				return err
			}
		}
		return nil
	})
	told := func(hook, words string, id int64) string {
		event := a.comment(words, id)
		event.Delivery.Hook, event.Secret = hook, "s"
		event.Repository.URLs = []string{"https://github.com/harbor/shop"}
		return a.deliver(t, event).Decision
	}
	testkit.Contains(t, said(told("hook-b", "retry hooked", 1)), "It is for the app hooked, whose own hook tells of it.")
	for _, hook := range []string{"hook-a", "hook-b"} {
		testkit.Contains(t, said(told(hook, "cancel", 2)), "once GitHub has said")
	}
	testkit.Contains(t, said(told("hook-a", "retry hooked", 1)), "once GitHub has said")
	var apps []string
	for _, c := range testkit.Must(a.queue.Due(t.Context(), time.Now().Add(time.Hour), 9))(t) {
		for _, app := range c.Apps {
			apps = append(apps, app.ID)
		}
	}
	testkit.Same(t, "apps that are asked", apps, []string{"hooked", "zoo", "hooked"})
}

// One comment is one command, whatever the number of hooks that tell of it; too many at once, and those that nobody can
// answer, are not kept.
func TestCommandsThatDoNotWait(t *testing.T) {
	t.Parallel()
	a, _ := newAsker(t)
	says := func(event webhook.Event, want string) {
		t.Helper()
		if got := a.deliver(t, event).Decision; !strings.Contains(got, want) {
			t.Errorf("got the decision %q, want %q", got, want)
		}
	}
	says(a.comment("retry", 1), "is done or refused once GitHub has said what ada may do")
	again := a.comment("retry", 1)
	again.Delivery.ID = "another-hook"
	says(again, "told of before")
	for id := int64(2); id <= 20; id++ {
		says(a.comment("retry", id), "is done or refused once")
	}
	says(a.comment("retry", 21), "too many")
	a.Runs.Reporting = false
	says(a.comment("cancel", 22), "needs a GitHub App or a token")
	err := a.DB.Update(t.Context(), func(tx *store.Tx) error {
		return tx.PutGitHubApp(t.Context(), landfall.GitHubApp{ID: 1, Slug: "landfall"})
	})
	if err != nil {
		t.Fatal(err)
	}
	says(a.comment("cancel", 23), "too many")
}
