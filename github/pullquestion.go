package github

import (
	"context"
	"fmt"
	"net/http"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// PullQuestions is the queue of commits of which no delivery has named a pull request.
type PullQuestions interface {
	// Due returns at most limit questions that have no answer yet and whose NextAt is not after now.
	Due(ctx context.Context, now time.Time, limit int) ([]landfall.PullQuestion, error)

	// Answer records which pull requests a commit belongs to.
	Answer(ctx context.Context, q landfall.PullQuestion, pulls []landfall.FoundPull) error

	// Postpone adds one to a question's attempts, and sets when it is due again and what the problem is.
	Postpone(ctx context.Context, q landfall.PullQuestion, at time.Time, problem string) error

	// Drop gives up a question.
	Drop(ctx context.Context, q landfall.PullQuestion) error
}

// flushPullQuestion asks the question that is due first. It reports whether there was one. What else is sent is not
// kept waiting for it.
func (s *Sender) flushPullQuestion(ctx context.Context) (bool, error) {
	if !s.limits().spare(s.Now()) {
		return false, nil
	}
	due, err := s.PullQuestions.Due(ctx, s.Now(), 1)
	if err != nil || len(due) == 0 {
		return false, err
	}
	return true, s.askForPulls(ctx, due[0])
}

// askForPulls asks which pull requests a commit belongs to.
func (s *Sender) askForPulls(ctx context.Context, q landfall.PullQuestion) error {
	var found []pullRequest
	response, err := s.call(ctx, reads, func(ctx context.Context) (*gogithub.Response, error) {
		owner, name := pathNames(q.Repository)
		path := fmt.Sprintf("repos/%s/%s/commits/%s/pulls?per_page=%d", owner, name, q.Commit, pageSize)
		request, err := s.Client.NewRequest(http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		return s.Client.Do(ctx, request, &found)
	})
	if err := notSent(ctx, err); err != nil {
		return err
	}
	if err != nil {
		response = completeResponse(response)
	}
	repository := nameOf(q.Repository)
	v := s.classify(subject{
		repository: repository, attempts: q.Attempts,
		forbidden: fmt.Sprintf("The token may not read the pull requests of %s.", repository),
		refused:   fmt.Sprintf("GitHub does not know the commit %s of %s.", q.Commit.Short(), repository),
	}, response, err)
	log := s.Logger.With("app_id", q.App, "run", q.Run, "commit", q.Commit)
	ctx = context.WithoutCancel(ctx)
	switch {
	case v.problem == "":
		log.Info("pull requests received", "pull_requests", len(found))
		return s.PullQuestions.Answer(ctx, q, foundPulls(q.Repository, found))
	case v.drop, v.refused:
		log.Warn("pull requests are not known", "problem", v.problem)
		return s.PullQuestions.Drop(ctx, q)
	default:
		log.Warn("the question for pull requests was postponed", "until", v.at, "problem", v.problem, "cause", v.cause)
		return s.PullQuestions.Postpone(ctx, q, v.at, v.problem)
	}
}

// pullRequest is the part that we read of a pull request. The type of go-github fails for a repository with custom
// properties that are lists.
type pullRequest struct {
	Number    int        `json:"number"`
	State     string     `json:"state"`
	UpdatedAt time.Time  `json:"updated_at"`
	MergedAt  *time.Time `json:"merged_at"`
	User      struct {
		Login string `json:"login"`
	} `json:"user"`
	Head pullEnd `json:"head"`
	Base pullEnd `json:"base"`
}

// pullEnd is the head or the base of a pull request.
type pullEnd struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo struct {
		ID int64 `json:"id"`
	} `json:"repo"` // null when it was deleted
}

// foundPulls returns the pull requests to a repository of those that GitHub names, without those whose names we refuse.
func foundPulls(repository landfall.GitHubRepository, found []pullRequest) []landfall.FoundPull {
	var pulls []landfall.FoundPull
	for _, p := range found {
		head, err := landfall.ParseRefName(landfall.BranchPrefix + p.Head.Ref)
		commit, wrong := landfall.ParseCommitSHA(p.Head.SHA)
		if err != nil || wrong != nil || p.Number <= 0 || p.Base.Repo.ID != repository.ID {
			continue
		}
		pulls = append(pulls, landfall.FoundPull{
			PullRequest: landfall.PullRequest{Number: p.Number, Base: p.Base.Ref, Closed: p.State == "closed",
				Fork: p.Head.Repo.ID != repository.ID},
			Head: head, Commit: commit, Merged: p.MergedAt != nil, Author: p.User.Login, At: p.UpdatedAt,
		})
	}
	return pulls
}
