package github_test

import (
	"context"
	"os"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/testkit"
)

// pullQuestions is a github.PullQuestions in memory.
type pullQuestions struct {
	all     []landfall.PullQuestion
	answers [][]landfall.FoundPull
	dropped int
}

func (p *pullQuestions) Due(_ context.Context, now time.Time, limit int) ([]landfall.PullQuestion, error) {
	var due []landfall.PullQuestion
	for _, q := range p.all {
		if !q.NextAt.After(now) && len(due) < limit {
			due = append(due, q)
		}
	}
	return due, nil
}

func (p *pullQuestions) Answer(_ context.Context, _ landfall.PullQuestion, pulls []landfall.FoundPull) error {
	p.all, p.answers = p.all[1:], append(p.answers, pulls)
	return nil
}

func (p *pullQuestions) Postpone(_ context.Context, _ landfall.PullQuestion, at time.Time, _ string) error {
	p.all[0].NextAt, p.all[0].Attempts = at, p.all[0].Attempts+1
	return nil
}

func (p *pullQuestions) Drop(context.Context, landfall.PullQuestion) error {
	p.all, p.dropped = p.all[1:], p.dropped+1
	return nil
}

// pullTo returns a pull request to a repository. The second one is a fork's.
func pullTo(t *testing.T, number int, base int64) map[string]any {
	t.Helper()
	text := testkit.Must(os.ReadFile("../testdata/github/pull_request_opened.json"))(t)
	pull := testkit.Decode[struct {
		PullRequest map[string]any `json:"pull_request"`
	}](t, text).PullRequest
	pull["number"] = number
	repositoryOf := func(end string) map[string]any {
		side, _ := pull[end].(map[string]any)
		repository, _ := side["repo"].(map[string]any)
		return repository
	}
	repositoryOf("base")["id"] = base
	if number == 2 {
		repositoryOf("head")["id"] = 6
	}
	return pull
}

// Which pull requests a commit belongs to is asked once, later when GitHub is down, and not again when it may not be
// asked. Pull requests to another repository are left out.
func TestPullQuestions(t *testing.T) {
	t.Parallel()
	const commit = "c3d9a1f04b7e62855d0c9be1f3a76240d8e5917b"
	b, queue := newBench(t), &pullQuestions{}
	ask := func() {
		queue.all = append(queue.all, landfall.PullQuestion{
			Repository: landfall.GitHubRepository{ID: 710200300, Owner: "harbor", Name: "shop"}, Commit: commit})
	}
	b.PullQuestions = queue
	for i, base := range []int64{710200300, 710200300, 5} {
		b.server.Pull("harbor/shop", pullTo(t, i+1, base))
	}
	b.server.Fail(1, githubtest.Fault{Status: 502})
	ask()
	b.flush(t)
	testkit.Equal(t, "attempts while it is down", queue.all[0].Attempts, 1)
	_ = b.clock.Wait(t.Context(), time.Minute)
	b.flush(t)
	testkit.Equal(t, "answers", len(queue.answers), 1)
	want := landfall.FoundPull{PullRequest: landfall.PullRequest{Number: 1, Base: "main"}, Head: "refs/heads/feature/tax",
		Commit: commit, Author: "mira", At: time.Date(2026, 11, 20, 15, 33, 22, 0, time.UTC)}
	another := want
	another.Number, another.Fork = 2, true
	testkit.Same(t, "pull requests", queue.answers[0], []landfall.FoundPull{want, another})
	for _, status := range []int{404, 422, 403} {
		ask()
		b.server.Fail(1, githubtest.Fault{Status: status})
		b.flush(t)
	}
	testkit.Equal(t, "given up", queue.dropped, 3)
}
