package accept

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// commandsWaiting is how many commands of one pull request may wait at once.
const commandsWaiting = 20

// queueCommand queues a command that a delivery brought, and returns the decision about the delivery. An app is given
// the command of a comment once, whichever deliveries tell of it.
func (acceptor *Acceptor) queueCommand(ctx context.Context, tx *store.Tx, apps []landfall.App,
	command landfall.Command) (decision string, err error) {
	reports, err := acceptor.Runs.Reports(ctx, tx)
	if err != nil {
		return "", err
	}
	if !reports {
		return "Nothing is done for it: that needs a GitHub App or a token, with which GitHub says what its sender may do.",
			nil
	}
	if len(apps) == 0 {
		return "", nil
	}
	command.Repository, command.Received = apps[0].GitHub, acceptor.Now()
	if other, err := ofAnotherHook(ctx, tx, apps, command); err != nil || other != "" {
		return fmt.Sprintf("It is for the app %s, whose own hook tells of it.", other), err
	}
	earlier, err := tx.CommandsOf(ctx, command.Repository, command.Number)
	if err != nil {
		return "", err
	}
	waiting := 0
	for _, c := range earlier {
		if !c.Obeyed {
			waiting++
		}
	}
	if waiting >= commandsWaiting {
		return "Nothing is done for it: too many commands of the pull request wait already.", nil
	}
	toldBefore := false
	for _, app := range named(apps, command) {
		if command.Comment != 0 {
			first, err := tx.TakeComment(ctx, app, command.Comment)
			if err != nil {
				return "", err
			}
			if toldBefore = !first; toldBefore {
				continue
			}
		}
		about, err := aboutPull(ctx, tx, app.ID, command.Number)
		if err != nil {
			return "", err
		}
		command.Apps = append(command.Apps, about)
	}
	switch {
	case len(command.Apps) == 0 && toldBefore:
		return "It was told of before.", nil
	case len(command.Apps) == 0:
		return "The repository has no app of that name.", nil
	}
	if err := tx.CreateCommand(ctx, command); err != nil {
		return "", err
	}
	return fmt.Sprintf("It is done or refused once GitHub has said what %s may do.", command.Sender.Login), nil
}

// aboutPull returns what an app has heard of a pull request's head.
func aboutPull(ctx context.Context, tx *store.Tx, app string, number int) (landfall.CommandApp, error) {
	about := landfall.CommandApp{ID: app}
	pull, err := tx.PullRequest(ctx, app, number)
	if err != nil {
		return about, landfall.Ignore(err, landfall.NotFound)
	}
	about.Head, about.Told = pull.HeadSHA, pull.HeadSHA
	if pull.Open && !pull.Fork {
		head, err := tx.Head(ctx, app, pull.HeadRef)
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return about, err
		}
		if !head.SHA.IsZero() {
			about.Head = head.SHA
		}
	}
	return about, nil
}

// Commands is the store's queue of commands, with what obeys them.
type Commands struct {
	store.Commands

	Acceptor *Acceptor
}

// obeyAgain is when a command is tried again that failed for a reason of ours.
const obeyAgain = time.Minute

// Obey has each app that a command concerns obey or refuse it, in a transaction of its own: each does so once, also
// when the process ends between two of them. Unavailable when the store takes no writes.
func (c Commands) Obey(ctx context.Context, command landfall.Command, permission landfall.Permission) error {
	for !command.Obeyed {
		next, changed, err := c.Acceptor.obeyNext(ctx, command.ID, permission)
		if err == nil && changed.ID != "" {
			c.Acceptor.Rollout.Refresh(ctx, changed)
		}
		switch kind := landfall.KindOf(err); {
		case err == nil:
			command = next
		case kind == landfall.NotFound, kind == landfall.Unavailable, kind == landfall.Canceled:
			return landfall.Ignore(err, landfall.NotFound)
		default: // it does not hold back other commands
			c.Acceptor.Logger.ErrorContext(ctx, "a command cannot be obeyed", "command", command.ID, "kind", command.Kind,
				"delivery", command.Delivery, "error", err)
			return c.Postpone(ctx, command, c.Acceptor.Now().Add(obeyAgain), "It failed; the log says why.")
		}
	}
	return nil
}

// obeyNext has the next app obey or refuse a command. It returns what is left of the command, and the app if gateways
// must read it again.
func (acceptor *Acceptor) obeyNext(ctx context.Context, id int64,
	permission landfall.Permission) (command landfall.Command, changed landfall.App, err error) {
	var refused error
	obey := func(tx *store.Tx) (err error) {
		changed = landfall.App{}
		if command, err = tx.Command(ctx, id); err != nil || command.Obeyed {
			return err
		}
		app, err := tx.ActiveApp(ctx, command.Apps[0].ID)
		answer := ""
		switch {
		case landfall.Ignore(err, landfall.NotFound) != nil:
			return err
		case err == nil && refused == nil:
			if answer, refused = acceptor.do(ctx, tx, app, command, permission); refused != nil {
				return refused // nothing is kept of what was begun
			}
		case err == nil:
			answer = landfall.MessageOf(refused)
		}
		command.Apps = command.Apps[1:]
		command.Obeyed = len(command.Apps) == 0
		if answer != "" {
			command.Answer = strings.TrimSpace(command.Answer + "\n" + fmt.Sprintf("%s asked to %s: %s: %s",
				command.Sender.Login, asked(command), app.Name, answer))
		}
		if tx.HasChanged(app.ID) {
			changed = app
		}
		if command.Comment != 0 && err == nil {
			command.Reaction = worse(command.Reaction, reactionTo(refused))
		}
		if err := acceptor.answerCheck(ctx, tx, app, command); err != nil {
			return err
		}
		commented, enabling := acceptor.Runs.CommentsEnabled(ctx, tx, app)
		if enabling != nil {
			return enabling
		}
		if command.Answer != "" && command.Obeyed && command.Number != 0 && commented {
			if err := tx.WantComment(ctx, command.Repository, command.Number, acceptor.Now()); err != nil {
				return err
			}
		}
		return tx.AnswerCommand(ctx, command)
	}
	err = acceptor.DB.UpdateAsLeader(ctx, obey)
	if refused != nil && isRefusal(refused) {
		err = acceptor.DB.UpdateAsLeader(ctx, obey)
	}
	return command, changed, err
}

// isRefusal reports whether an error answers the person; others are not theirs.
func isRefusal(err error) bool {
	return slices.Contains([]landfall.Kind{landfall.Invalid, landfall.NotFound, landfall.Conflict, landfall.Unauthorized,
		landfall.Forbidden}, landfall.KindOf(err))
}

// reactionTo returns the reaction to a command that was obeyed, or refused for a reason.
func reactionTo(refused error) landfall.Reaction {
	switch {
	case refused == nil:
		return landfall.ReactionDone
	case landfall.KindOf(refused) == landfall.Forbidden:
		return landfall.ReactionRefused
	}
	return landfall.ReactionUnclear
}

// worse returns the reaction that says more of what was not done, of two apps.
func worse(a, b landfall.Reaction) landfall.Reaction {
	ascending := []landfall.Reaction{"", landfall.ReactionDone, landfall.ReactionUnclear, landfall.ReactionRefused}
	if slices.Index(ascending, a) > slices.Index(ascending, b) {
		return a
	}
	return b
}

// need returns a Forbidden error unless a command's sender has the permission that something needs.
func need(needed, has landfall.Permission, command landfall.Command, what string) error {
	const op landfall.Op = "accept.need"
	switch {
	case has == "":
		return landfall.Errorf(op, landfall.Conflict, "GitHub did not say in time what %s may do; ask again",
			command.Sender.Login)
	case has.Includes(needed):
		return nil
	}
	return landfall.Errorf(op, landfall.Forbidden, "%s needs the role %s in %s/%s, and %s has %s", what, needed,
		command.Repository.Owner, command.Repository.Name, command.Sender.Login, has)
}

// asked says what a command asks for, after "to".
func asked(command landfall.Command) string {
	if command.Kind != landfall.CommentCommand {
		return string(checkRequest(command).Action)
	}
	if _, err := parseComment(command); err != nil {
		return "do what Landfall does not know"
	}
	return strings.Join(wordsOf(command), " ")
}

// do obeys a command in one app, the first of its Apps, in the caller's transaction. It returns what was done, for
// people, or why not: nothing of the transaction is kept then. It needs the permission before all else.
func (acceptor *Acceptor) do(ctx context.Context, tx *store.Tx, app landfall.App, command landfall.Command,
	permission landfall.Permission) (answer string, err error) {
	switch command.Kind {
	case landfall.CommentCommand:
		return acceptor.doComment(ctx, tx, app, command, permission)
	case landfall.LabelCommand:
		return acceptor.doLabel(ctx, tx, app, command, permission)
	case landfall.UnlabelCommand:
		return "", nil
	case landfall.CheckCommand:
		return acceptor.doCheck(ctx, tx, app, command, permission)
	}
	return "", &landfall.Error{Op: "accept.do", Message: "unknown kind of command: " + string(command.Kind)}
}
