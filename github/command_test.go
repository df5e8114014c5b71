package github_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github/githubtest"
)

// commands is a github.Commands in memory. It obeys whoever may write.
type commands struct {
	all  []landfall.Command
	said []landfall.Permission // what GitHub said, for each that was obeyed
	down map[int64]bool        // those that cannot be obeyed now
}

func (c *commands) Due(_ context.Context, now time.Time, limit int) ([]landfall.Command, error) {
	var due []landfall.Command
	for _, command := range c.all {
		if (!command.Obeyed || command.Reaction != "") && !command.NextAt.After(now) && len(due) < limit {
			due = append(due, command)
		}
	}
	return due, nil
}

func (c *commands) Obey(_ context.Context, command landfall.Command, permission landfall.Permission) error {
	if c.down[command.ID] {
		return &landfall.Error{Kind: landfall.Unavailable, Message: "what it needs is down"}
	}
	c.said = append(c.said, permission)
	is := &c.all[command.ID]
	is.Obeyed, is.Attempts, is.Reaction = true, 0, landfall.ReactionRefused
	if permission.Includes(landfall.PermissionWrite) {
		is.Reaction = landfall.ReactionDone
	}
	return nil
}

func (c *commands) Reacted(_ context.Context, command landfall.Command, problem string) error {
	c.all[command.ID].Reaction, c.all[command.ID].Problem = "", problem
	return nil
}

func (c *commands) Postpone(_ context.Context, command landfall.Command, at time.Time, problem string) error {
	is := &c.all[command.ID]
	is.NextAt, is.Problem, is.Attempts = at, problem, is.Attempts+1
	return nil
}

// commanded returns a bench with a comment of each of the users that has a command.
func commanded(t *testing.T, users ...int64) (*bench, *commands) {
	t.Helper()
	b, queue := newBench(t), &commands{}
	b.Commands = queue
	for i, user := range users {
		queue.all = append(queue.all, landfall.Command{
			ID: int64(i), Kind: "comment", Repository: landfall.GitHubRepository{ID: 710200300, Owner: "harbor", Name: "shop"},
			Number: 12, Sender: landfall.GitHubUser{ID: user, Login: githubtest.Login(user)},
			Comment: b.server.Comment("harbor/shop", 12, user, "/landfall retry"), Received: b.clock.Now(),
		})
	}
	return b, queue
}

// A command is obeyed with the permission that GitHub names, and its comment gets the reaction.
func TestCommandsAreObeyedByPermission(t *testing.T) {
	t.Parallel()
	roles := []string{"none", "read", "triage", "write", "maintain", "admin", "read:admin", "write:maintain", "admin:owner"}
	want := "none read triage write maintain admin read maintain admin"
	users := make([]int64, len(roles))
	for i := range users {
		users[i] = int64(100 + i)
	}
	b, queue := commanded(t, users...)
	for i, role := range roles {
		b.server.Permit("harbor/shop", users[i], role)
	}
	b.flush(t)
	var got []string
	for i, permission := range queue.said {
		got = append(got, string(permission))
		reactions := b.server.Reactions(queue.all[i].Comment)
		content := "-1"
		if permission.Includes(landfall.PermissionWrite) {
			content = "+1"
		}
		if len(reactions) != 1 || reactions[0].Content != content {
			t.Errorf("%s: got the reactions %+v, want %s", permission, reactions, content)
		}
	}
	if strings.Join(got, " ") != want {
		t.Errorf("got the permissions %s, want %s", got, want)
	}
	requests := b.server.Requests()
	b.flush(t)
	if got := b.server.Requests(); got != requests {
		t.Errorf("%d requests more, want none for what was obeyed", got-requests)
	}
}

// Whoever has the name of another user may do nothing by it.
func TestCommandOfAnotherUser(t *testing.T) {
	t.Parallel()
	b, queue := commanded(t, 7)
	b.server.Permit("harbor/shop", 7, "admin")
	queue.all[0].Sender.ID = 8
	b.flush(t)
	if len(queue.said) != 1 || queue.said[0] != landfall.PermissionNone {
		t.Errorf("got the permissions %q, want none", queue.said)
	}
	b, queue = commanded(t, 7)
	queue.all[0].Sender.Login = "nobody"
	b.flush(t)
	if len(queue.said) != 1 || queue.said[0] != landfall.PermissionNone {
		t.Errorf("an unknown user: got the permissions %q, want none", queue.said)
	}
}

// While GitHub is down a command waits, but not longer than it is good for; what came in time is obeyed once.
func TestCommandsWaitForGitHub(t *testing.T) {
	t.Parallel()
	b, queue := commanded(t, 7)
	b.server.Permit("harbor/shop", 7, "write")
	for n := range 3 {
		b.server.Fail(n+1, githubtest.Fault{Status: 502})
	}
	for range 3 {
		b.flush(t)
		if len(queue.said) != 0 || !strings.Contains(queue.all[0].Problem, "502") {
			t.Fatalf("got %+v, want that it waits", queue.all[0])
		}
		_ = b.clock.Wait(t.Context(), time.Minute)
	}
	b.server.Fail(2, githubtest.Fault{Status: 500}) // the reaction
	b.flush(t)
	_ = b.clock.Wait(t.Context(), time.Minute)
	b.flush(t)
	if len(queue.said) != 1 || queue.said[0] != landfall.PermissionWrite || queue.all[0].Reaction != "" ||
		len(b.server.Reactions(queue.all[0].Comment)) != 1 {
		t.Errorf("got %q and %+v, want it obeyed once, with a reaction", queue.said, queue.all[0])
	}

	b, queue = commanded(t, 7)
	for n := range 30 {
		b.server.Fail(n+1, githubtest.Fault{Status: 503})
	}
	for range 62 {
		b.flush(t)
		_ = b.clock.Wait(t.Context(), time.Minute)
	}
	if len(queue.said) != 1 || queue.said[0] != "" {
		t.Errorf("got %q, want that GitHub did not say it in time", queue.said)
	}
	if queue.all[0].Reaction != "" {
		t.Errorf("got %+v, want that its reaction is given up too", queue.all[0])
	}
}

// A command that cannot be obeyed now holds back neither other commands nor what comes after commands.
func TestCommandThatCannotBeObeyedNow(t *testing.T) {
	t.Parallel()
	b, queue := commanded(t, 7, 8)
	b.server.Permit("harbor/shop", 7, "write")
	b.server.Permit("harbor/shop", 8, "read")
	b.comments.want(12, landfall.PullRequestReport{Apps: []landfall.AppReport{{App: "shop"}}})
	queue.down = map[int64]bool{0: true}
	b.flush(t)
	if len(queue.said) != 1 || queue.said[0] != landfall.PermissionRead || queue.all[0].Problem == "" {
		t.Errorf("got %q and %+v, want the second one obeyed, and the first one waiting", queue.said, queue.all[0])
	}
	if got := b.server.Comments("harbor/shop", 12); len(got) != 3 {
		t.Errorf("got the comments %+v, want ours, too", got)
	}
	queue.down = nil
	_ = b.clock.Wait(t.Context(), time.Minute)
	b.flush(t)
	if len(queue.said) != 2 || queue.said[1] != landfall.PermissionWrite {
		t.Errorf("got %q, want both obeyed", queue.said)
	}
}

// A comment that is gone needs no reaction.
func TestReactionToADeletedComment(t *testing.T) {
	t.Parallel()
	b, queue := commanded(t, 7)
	b.server.DeleteComment(queue.all[0].Comment)
	b.flush(t)
	if queue.all[0].Reaction != "" || queue.all[0].Problem == "" {
		t.Errorf("got %+v, want no reaction, and why", queue.all[0])
	}
}
