package github

import (
	"context"
	"net/http"
	"net/url"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// unlabel takes the label that approves off a pull request, unless it is gone, or it is too late.
func (s *Sender) unlabel(ctx context.Context, command landfall.Command, end time.Time) error {
	response, err := s.call(ctx, writes, func(ctx context.Context) (*gogithub.Response, error) {
		owner, name := pathNames(command.Repository)
		return s.Client.Issues.RemoveLabelForIssue(ctx, owner, name, command.Number, url.PathEscape(landfall.ApprovalLabel))
	})
	if err := notSent(ctx, err); err != nil {
		return err
	}
	v := s.classify(commandSubject(command), response, err)
	ctx = context.WithoutCancel(ctx)
	log := s.commandLog(command)
	if gone := response != nil && response.StatusCode == http.StatusNotFound; v.problem == "" || v.drop || gone {
		log.Info("label removed", "problem", v.problem)
		return s.Commands.Obey(ctx, command, "")
	}
	if v.at.After(end) {
		v.at = end
	}
	log.Warn("command postponed", "until", v.at, "problem", v.problem, "cause", v.cause)
	return s.Commands.Postpone(ctx, command, v.at, v.problem)
}
