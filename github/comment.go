package github

import (
	"context"
	"net/http"
	"strings"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/trace"
)

// Comments is the queue of comments that must be sent.
type Comments interface {
	Queue[landfall.Comment]

	// MarkWritten records that GitHub has a comment: its ID, its Body, and the value of Wanted.
	MarkWritten(ctx context.Context, comment landfall.Comment) error
}

const pageSize = 100 // comments per request: GitHub's maximum

// sendComment makes one attempt at one comment, and records the result.
func (s *Sender) sendComment(ctx context.Context, comment landfall.Comment) error {
	text := Text(comment.Report, s.URL)
	digest := landfall.DigestOf([]byte(text))
	var v outcome
	if comment.ID == 0 || comment.Body != digest {
		traced, span := s.Tracer.Start(ctx, "comment", trace.Comment(comment)...)
		response, err := s.write(traced, &comment, text)
		span.End(err)
		if err := notSent(ctx, err); err != nil {
			return err
		}
		v = s.classify(commentSubject(comment), response, err)
	}
	log := s.Logger.With("repository", nameOf(comment.Repository), "pull_request", comment.Number, "apps", appsOf(comment))
	ctx = context.WithoutCancel(ctx)
	if v.problem != "" {
		return fail(ctx, s, s.Comments, comment, commentSubject(comment), v, log)
	}
	log.Info("comment told", "comment", comment.ID)
	comment.Body = digest
	err := s.Comments.MarkWritten(ctx, comment)
	crashpoint.Here("report.told")
	return err
}

// appsOf returns the names of the apps that have a section in a comment.
func appsOf(comment landfall.Comment) []string {
	names := make([]string, 0, len(comment.Report.Apps))
	for _, app := range comment.Report.Apps {
		names = append(names, app.App)
	}
	return names
}

// write edits the comment, or makes it if the pull request has none, and sets its ID. It returns the decisive answer.
// A comment that somebody else made, which we were before an App was connected, may only be read: ours is another one
// then. On a closed pull request it makes no comment, because there is nothing to look at.
func (s *Sender) write(ctx context.Context, comment *landfall.Comment, text string) (*gogithub.Response, error) {
	var refused *gogithub.Response
	var refusal error
	if comment.ID != 0 {
		response, err := s.edit(ctx, comment, text)
		switch {
		case s.isForbidden(response, err):
			refused, refusal = response, err
		case response == nil || response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusGone:
			return response, err
		}
	}
	found, response, err := s.find(ctx, *comment)
	switch {
	case err != nil:
		return response, err
	case refused != nil && found.GetID() == comment.ID: // it is ours, and we may not edit it
		return refused, refusal
	case found != nil:
		comment.ID = found.GetID()
		if found.GetBody() == text {
			return response, nil
		}
		return s.edit(ctx, comment, text)
	case comment.Report.Closed:
		comment.ID = 0
		return response, nil
	}
	return s.create(ctx, comment, text)
}

// isForbidden reports whether an answer says that we may not do this, also later.
func (s *Sender) isForbidden(response *gogithub.Response, err error) bool {
	if response == nil || response.StatusCode != http.StatusForbidden {
		return false
	}
	_, limited := limit(response, err, s.Now())
	return !limited
}

func (s *Sender) edit(ctx context.Context, comment *landfall.Comment, text string) (*gogithub.Response, error) {
	return s.call(ctx, comments, func(ctx context.Context) (*gogithub.Response, error) {
		owner, name := pathNames(comment.Repository)
		crashpoint.Here("report.commenting")
		_, response, err := s.Client.Issues.EditComment(ctx, owner, name, comment.ID, &gogithub.IssueComment{Body: &text})
		crashpoint.Here("report.commented")
		return response, err
	})
}

func (s *Sender) create(ctx context.Context, comment *landfall.Comment, text string) (*gogithub.Response, error) {
	return s.call(ctx, comments, func(ctx context.Context) (*gogithub.Response, error) {
		owner, name := pathNames(comment.Repository)
		crashpoint.Here("report.commenting")
		made, response, err := s.Client.Issues.CreateComment(ctx, owner, name, comment.Number,
			&gogithub.IssueComment{Body: &text})
		crashpoint.Here("report.commented")
		comment.ID = made.GetID() // 0 when the rest of the answer was lost: then it is looked for
		return response, err
	})
}

// find looks for the comment that we made, by its first line and its author. It returns nil when there is none.
func (s *Sender) find(ctx context.Context, comment landfall.Comment) (*gogithub.IssueComment,
	*gogithub.Response, error) {
	ours, response, err := s.author(ctx)
	if err != nil {
		return nil, response, err
	}
	owner, name := pathNames(comment.Repository)
	options := &gogithub.IssueListCommentsOptions{ListOptions: gogithub.ListOptions{PerPage: pageSize}}
	for {
		var page []*gogithub.IssueComment
		response, err := s.call(ctx, reads, func(ctx context.Context) (response *gogithub.Response, err error) {
			page, response, err = s.Client.Issues.ListComments(ctx, owner, name, comment.Number, options)
			return response, err
		})
		if err != nil {
			return nil, completeResponse(response), err
		}
		for _, c := range page {
			if ours(c.GetUser()) && strings.HasPrefix(c.GetBody(), marker(s.URL)) {
				return c, response, nil
			}
		}
		if response.NextPage == 0 {
			return nil, response, nil
		}
		options.Page = response.NextPage
	}
}

// author returns what reports whether a user is the one in whose name we write.
func (s *Sender) author(ctx context.Context) (ours func(*gogithub.User) bool, response *gogithub.Response, err error) {
	if s.AppLogin != nil {
		login, err := s.AppLogin(ctx)
		if err != nil || login != "" {
			return func(u *gogithub.User) bool { return u.GetLogin() == login }, nil, err
		}
	}
	if s.self == 0 {
		response, err = s.loadSelf(ctx)
	}
	return func(u *gogithub.User) bool { return u.GetID() == s.self }, response, err
}

// loadSelf asks GitHub for our user.
func (s *Sender) loadSelf(ctx context.Context) (*gogithub.Response, error) {
	var user *gogithub.User
	response, err := s.call(ctx, reads, func(ctx context.Context) (response *gogithub.Response, err error) {
		user, response, err = s.Client.Users.Get(ctx, "")
		return response, err
	})
	s.self = user.GetID()
	return completeResponse(response), err
}

// completeResponse returns nil for a successful answer that could not be read, so that the request is repeated.
func completeResponse(response *gogithub.Response) *gogithub.Response {
	if response != nil && response.StatusCode < http.StatusMultipleChoices {
		return nil
	}
	return response
}
