package forge

import (
	"maps"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
)

// Fork is a fork of a repository, with a pull request to it. As at GitHub, the repository itself names the head of the
// pull request, which stays there when the fork is deleted.
type Fork struct {
	*site.Repository
	Base   *Hosted
	Number int
	head   landfall.CommitSHA
}

// Fork forks a repository at its branch main.
func (h *Hosted) Fork(t testing.TB, number int) *Fork {
	t.Helper()
	f := &Fork{Repository: site.NewRepository(t), Base: h, Number: number}
	f.Git("remote", "add", "upstream", h.Bare.Dir)
	f.Git("fetch", "--quiet", "upstream", "main")
	f.Git("reset", "--quiet", "--hard", "FETCH_HEAD")
	return f
}

// Push commits everything and pushes it, and returns the commit and what GitHub then delivers: a template's name says
// what of.
func (f *Fork) Push(template, message string) (landfall.CommitSHA, Delivery) {
	f.T.Helper()
	before := f.head
	f.head = f.Commit(message)
	f.Git("push", "--quiet", "--force", "upstream", "HEAD:"+string(landfall.PullRef(f.Number)))
	return f.head, f.Tell(template, map[string]any{"before": string(before), "after": string(f.head)})
}

// Tell returns a delivery about the pull request, with more fields in its payload.
func (f *Fork) Tell(template string, fields map[string]any) Delivery {
	f.T.Helper()
	return f.Base.Delivery("pull_request", "pull_request_"+template, func(payload map[string]any) {
		payload["number"] = f.Number
		maps.Copy(payload, fields)
		pull := Object(f.T, payload, "pull_request")
		pull["number"], pull["created_at"] = f.Number, time.Now().UTC().Format(time.RFC3339)
		head, base := Object(f.T, pull, "head"), Object(f.T, pull, "base")
		head["ref"], head["sha"], base["ref"] = "patch", string(f.head), "main"
		base["repo"] = payload["repository"]
	})
}
