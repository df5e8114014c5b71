package accept

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// onPull is a command on a pull request in one app.
type onPull struct {
	tx      *store.Tx
	app     landfall.App
	pull    store.PullRequest
	head    landfall.CommitSHA // of the pull request, now and when the command came
	command landfall.Command
}

// wordsOf returns the words of a command in a comment.
func wordsOf(command landfall.Command) []string {
	var words []string
	_ = json.Unmarshal([]byte(command.Data), &words) // we wrote them
	return words
}

// commentCommand is a command in a comment.
type commentCommand struct {
	verb string
	app  string // the name of the app that it is for; empty: all of the repository
	// of approve: the commit, or its first digits
	commit string
}

// usage says what a comment can ask for.
const usage = "right would be retry, cancel or promote, with an app's name if there are several, or approve COMMIT " +
	"for a fork"

// parseComment returns the command in a comment. Invalid when it is none that we know.
func parseComment(command landfall.Command) (commentCommand, error) {
	words := wordsOf(command)
	if len(words) == 2 && words[0] == "approve" {
		return commentCommand{verb: words[0], commit: words[1]}, nil
	}
	if len(words) == 0 || len(words) > 2 || !slices.Contains([]string{"retry", "cancel", "promote"}, words[0]) {
		return commentCommand{}, landfall.Errorf("accept.parseComment", landfall.Invalid, usage)
	}
	return commentCommand{verb: words[0], app: strings.Join(words[1:], "")}, nil
}

// named returns the apps that a command concerns: the one that it names, or all. When one in a comment names none of
// them, or is none that we know, the first one is to say so.
func named(apps []landfall.App, command landfall.Command) []landfall.App {
	if command.Kind != landfall.CommentCommand {
		name := checkRequest(command).App
		return slices.DeleteFunc(slices.Clone(apps), func(app landfall.App) bool { return name != "" && name != app.Name })
	}
	c, err := parseComment(command)
	if err == nil && c.app == "" {
		return apps
	}
	i := slices.IndexFunc(apps, func(app landfall.App) bool { return err == nil && app.Name == c.app })
	return apps[max(i, 0):][:1]
}

// ofAnotherHook returns the app of the same repository that a command in a comment names, if the hook that told of it
// is not for that one; empty otherwise.
func ofAnotherHook(ctx context.Context, tx *store.Tx, apps []landfall.App, command landfall.Command) (string, error) {
	if command.Kind != landfall.CommentCommand {
		return "", nil
	}
	c, _ := parseComment(command) // what is no command names no app
	if c.app == "" || slices.ContainsFunc(apps, func(app landfall.App) bool { return app.Name == c.app }) {
		return "", nil
	}
	other, err := tx.AppByName(ctx, c.app)
	if err != nil || !other.Deleted.IsZero() || other.GitHub.ID != command.Repository.ID {
		return "", landfall.Ignore(err, landfall.NotFound)
	}
	return other.Name, nil
}

// doComment obeys a command in a comment.
func (acceptor *Acceptor) doComment(ctx context.Context, tx *store.Tx, app landfall.App, command landfall.Command,
	permission landfall.Permission) (answer string, err error) {
	c, unknown := parseComment(command)
	needed := landfall.PermissionWrite
	if c.verb == "promote" {
		needed = landfall.PermissionMaintain
	}
	if err := need(needed, permission, command, cmp.Or(c.verb, "a command")); err != nil {
		return "", err
	}
	if unknown != nil {
		return "", unknown
	}
	if c.app != "" && c.app != app.Name {
		return "", landfall.Errorf("accept.doComment", landfall.NotFound, "the repository has no app %s", c.app)
	}
	on, err := acceptor.onPull(ctx, tx, app, command)
	if err != nil {
		return "", err
	}
	switch c.verb {
	case "approve":
		return acceptor.approve(ctx, tx, app, command, c.commit, "a comment")
	case "retry":
		return acceptor.retryPull(ctx, on)
	case "cancel":
		return acceptor.cancelPull(ctx, on)
	default:
		return acceptor.promotePull(ctx, on)
	}
}

// onPull reads what a command on a pull request is about. Conflict when the pull request is closed, or when its head
// has moved since the command came.
func (acceptor *Acceptor) onPull(ctx context.Context, tx *store.Tx, app landfall.App,
	command landfall.Command) (onPull, error) {
	const op landfall.Op = "accept.onPull"
	pull, err := tx.PullRequest(ctx, app.ID, command.Number)
	if err != nil && landfall.KindOf(err) == landfall.NotFound {
		err = landfall.Errorf(op, landfall.Conflict, "the app has heard nothing of this pull request; push to it")
	}
	if err != nil {
		return onPull{}, err
	}
	about, err := aboutPull(ctx, tx, app.ID, command.Number)
	switch {
	case err != nil:
		return onPull{}, err
	case !pull.Open:
		return onPull{}, landfall.Errorf(op, landfall.Conflict, "the pull request is closed")
	case about != command.Apps[0]:
		return onPull{}, landfall.Errorf(op, landfall.Conflict, "the pull request is at %s since; ask again",
			about.Told.Short())
	}
	return onPull{tx, app, pull, about.Head, command}, nil
}

// newestRun returns the newest run of the pull request's head. Conflict when there is none.
func (on onPull) newestRun(ctx context.Context) (landfall.Run, error) {
	all, err := on.tx.RunsOfFork(ctx, on.app.ID, on.head, on.pull.ForkNumber())
	if err == nil && len(all) == 0 {
		err = landfall.Errorf("accept.newestRun", landfall.Conflict, "%s has no run", on.head.Short())
	}
	if err != nil {
		return landfall.Run{}, err
	}
	return all[0], nil
}

func (acceptor *Acceptor) retryPull(ctx context.Context, on onPull) (string, error) {
	if on.pull.Fork {
		return "", landfall.Errorf("accept.retryPull", landfall.Conflict, "the commit of a fork runs when it is approved")
	}
	run, err := on.newestRun(ctx)
	if err != nil {
		return "", err
	}
	if _, err := acceptor.Runs.RetryIn(ctx, on.tx, run.ID, on.command.Sender.Login, false); err != nil {
		return "", err
	}
	return on.head.Short() + " is queued again", nil
}

func (acceptor *Acceptor) cancelPull(ctx context.Context, on onPull) (string, error) {
	run, err := on.newestRun(ctx)
	if err != nil {
		return "", err
	}
	if err := acceptor.Runs.CancelIn(ctx, on.tx, run.ID, on.command.Sender.Login); err != nil {
		return "", err
	}
	return "the run of " + on.head.Short() + " is cancelled", nil
}

func (acceptor *Acceptor) promotePull(ctx context.Context, on onPull) (string, error) {
	const op landfall.Op = "accept.promotePull"
	if on.pull.Fork {
		return "", landfall.Errorf(op, landfall.Forbidden, "a release of a fork never becomes live; merge it")
	}
	run, err := on.newestRun(ctx)
	if err != nil {
		return "", err
	}
	return acceptor.promoteRun(ctx, on.tx, on.app, run, on.command,
		fmt.Sprintf("promoted on pull request %d", on.pull.Number))
}
