package github

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// Commands is the queue of what people asked for at GitHub.
type Commands interface {
	// Due returns at most limit commands that must be obeyed, or whose reaction must be sent, and whose NextAt is not
	// after now, the oldest first.
	Due(ctx context.Context, now time.Time, limit int) ([]landfall.Command, error)

	// Obey does what a command asks for if its sender's permission allows that, else it refuses; and it records that. The
	// permission is empty when GitHub did not say it in time. A command that was obeyed before changes nothing.
	// Unavailable when it cannot be obeyed now.
	Obey(ctx context.Context, command landfall.Command, permission landfall.Permission) error

	// Reacted records that nothing more is to be sent about a command, and why not when there is a problem.
	Reacted(ctx context.Context, command landfall.Command, problem string) error

	// Postpone adds one to a command's attempts, and sets when it is due again and what the problem is.
	Postpone(ctx context.Context, command landfall.Command, at time.Time, problem string) error
}

// flushCommand does what is to be done first about a command. It reports whether there was one.
func (s *Sender) flushCommand(ctx context.Context) (bool, error) {
	if s.Commands == nil {
		return false, nil
	}
	due, err := s.Commands.Due(ctx, s.Now(), 1)
	if err != nil || len(due) == 0 {
		return false, err
	}
	if !due[0].Obeyed {
		return true, s.obey(ctx, due[0])
	}
	return true, s.react(ctx, due[0])
}

// obey asks for the permission of a command's sender, and has the command obeyed when it is known, or when it is too
// late.
func (s *Sender) obey(ctx context.Context, command landfall.Command) error {
	end := command.Received.Add(landfall.CommandLife)
	if !s.Now().Before(end) {
		return s.obeyAs(ctx, command, "")
	}
	if command.Kind == landfall.UnlabelCommand {
		return s.unlabel(ctx, command, end)
	}
	permission, response, err := s.permission(ctx, command.Repository, command.Sender)
	if err := notSent(ctx, err); err != nil {
		return err
	}
	v := s.classify(commandSubject(command), response, err)
	// What GitHub has said is recorded even while we are stopping.
	ctx = context.WithoutCancel(ctx)
	switch log := s.commandLog(command); {
	case v.problem == "":
		log.Info("permission received", "permission", permission)
		return s.obeyAs(ctx, command, permission)
	case v.drop:
		log.Warn("permission refused", "problem", v.problem)
		return s.obeyAs(ctx, command, landfall.PermissionNone)
	default:
		if v.at.After(end) {
			v.at = end
		}
		log.Warn("command postponed", "until", v.at, "problem", v.problem, "cause", v.cause)
		return s.Commands.Postpone(ctx, command, v.at, v.problem)
	}
}

// obeyAgain is when a command is tried again that cannot be obeyed now.
const obeyAgain = time.Minute

// obeyAs has a command obeyed. One that cannot be obeyed now waits, and holds back nothing else.
func (s *Sender) obeyAs(ctx context.Context, command landfall.Command, permission landfall.Permission) error {
	err := s.Commands.Obey(ctx, command, permission)
	if !landfall.Is(err, landfall.Unavailable) {
		return err
	}
	s.commandLog(command).Warn("command postponed", "error", err)
	return s.Commands.Postpone(ctx, command, s.Now().Add(obeyAgain), "It cannot be obeyed now; it is tried again.")
}

// react sends the reaction that a command has.
func (s *Sender) react(ctx context.Context, command landfall.Command) error {
	response, err := s.call(ctx, writes, func(ctx context.Context) (*gogithub.Response, error) {
		owner, name := pathNames(command.Repository)
		_, response, err := s.Client.Reactions.CreateIssueCommentReaction(ctx, owner, name, command.Comment,
			string(command.Reaction))
		return response, err
	})
	if err := notSent(ctx, err); err != nil {
		return err
	}
	v := s.classify(commandSubject(command), response, err)
	ctx = context.WithoutCancel(ctx)
	log := s.commandLog(command)
	late := s.Now().Sub(command.Received) > landfall.CommandLife
	switch {
	case v.problem == "" || v.drop || late:
		log.Info("reaction sent", "reaction", command.Reaction, "problem", v.problem)
		return s.Commands.Reacted(ctx, command, v.problem)
	default:
		log.Warn("reaction postponed", "until", v.at, "problem", v.problem, "cause", v.cause)
		return s.Commands.Postpone(ctx, command, v.at, v.problem)
	}
}

func (s *Sender) commandLog(command landfall.Command) *slog.Logger {
	return s.Logger.With("command", command.ID, "kind", command.Kind, "repository", nameOf(command.Repository),
		"pull_request", command.Number, "sender", command.Sender.Login, "delivery", command.Delivery)
}

func commandSubject(command landfall.Command) subject {
	repository := nameOf(command.Repository)
	return subject{
		repository: repository, attempts: command.Attempts,
		forbidden: fmt.Sprintf("The token may not ask what people may do with %s, or not react to comments there: it needs "+
			"to read its metadata, and write access to pull requests.", repository),
		refused: fmt.Sprintf("GitHub refused what a command in %s needs.", repository),
	}
}
