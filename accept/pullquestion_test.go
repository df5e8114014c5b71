package accept_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/webhook"
)

// The forge is asked for the pull requests of a commit once, and only where a pull request may have been missed that
// nobody told of meanwhile.
func TestWhenPullsAreAskedFor(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in := s.Hooked()
	questions := accept.PullQuestions{PullQuestions: store.PullQuestions{DB: s.Receiver.DB}, Acceptor: s.Receiver.Acceptor}
	pushed := func(delivery, branch string, before, after landfall.CommitSHA) {
		t.Helper()
		_, _, err := in.Accept(t.Context(), webhook.Event{
			Delivery: landfall.Delivery{ID: delivery, Event: "push"}, Repository: webhook.Repository{ID: 1, Owner: "harbor",
				Name: "shop"},
			Push: &landfall.Push{Source: landfall.FromWebhook, Ref: landfall.RefName(landfall.BranchPrefix + branch),
				Before: before, After: after, Actor: "ada"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, commits ...landfall.CommitSHA) {
		t.Helper()
		testkit.Equal(t, what+": asked at once", len(testkit.Must(questions.Due(t.Context(), time.Now(), 9))(t)), 0)
		var got []landfall.CommitSHA
		for _, q := range testkit.Must(questions.Due(t.Context(), time.Now().Add(time.Minute), 9))(t) {
			got = append(got, q.Commit)
		}
		testkit.Same(t, what, got, commits)
	}
	zero, one, two, three := s.Commit("zero"), s.Commit("one"), s.Commit("two"), s.Commit("three")
	pushed("a", "main", zero, one)
	pushed("b", "new", "", s.Commit("new"))
	want("production, and a branch that is new")
	pushed("c", "feature", zero, one) // the run of production is its run, too
	want("a commit that has a run")
	pushed("d", "feature", one, two)
	want("a branch that was there before", two)
	pushed("e", "feature", two, three)
	want("the newest commit of the branch", three)
	if _, _, err := in.Accept(t.Context(), s.Opens("opens", three)); err != nil {
		t.Fatal(err)
	}
	want("what was told of meanwhile")
	pushed("f", "feature", three, s.Commit("four"))
	want("the next commit of a known pull request")
	in.Runs.Reporting = false
	pushed("g", "other", zero, s.Commit("five"))
	want("without credentials")
}

// What the forge says of a commit counts as if a delivery had told of it.
func TestAnswersAboutPulls(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in, ctx := s.Hooked(), t.Context()
	questions := accept.PullQuestions{PullQuestions: store.PullQuestions{DB: s.Receiver.DB}, Acceptor: s.Receiver.Acceptor}
	commit := s.Commit("one")
	_, _, err := in.Accept(ctx, webhook.Event{
		Delivery: landfall.Delivery{ID: "a", Event: "push"}, Repository: webhook.Repository{ID: 1, Owner: "harbor",
			Name: "shop"}, Push: &landfall.Push{Source: landfall.FromWebhook, Ref: "refs/heads/feature", Before: commit,
			After: commit, Actor: "ada"}})
	if err != nil {
		t.Fatal(err)
	}
	due := testkit.Must(questions.Due(ctx, time.Now().Add(time.Minute), 9))(t)
	if len(due) != 1 {
		t.Fatalf("got the questions %+v, want one", due)
	}
	pull := landfall.FoundPull{PullRequest: landfall.PullRequest{Number: 12, Base: "main"}, Head: "refs/heads/feature",
		Commit: commit, Author: "ada", At: time.Now().Truncate(time.Second)}
	fork, moved, gone := pull, pull, pull
	fork.Number, fork.Fork = 13, true
	moved.Number, moved.Commit = 14, s.Commit("two")
	gone.Number, gone.Closed, gone.Merged = 15, true, true
	if err := questions.Answer(ctx, due[0], []landfall.FoundPull{pull, fork, moved, gone}); err != nil {
		t.Fatal(err)
	}
	known := testkit.Must(in.DB.PullRequest(ctx, "hooked", 12))(t)
	testkit.Same(t, "the pull request", known, store.PullRequest{Number: 12, Base: "main", HeadRef: "refs/heads/feature",
		HeadSHA: commit, Open: true})
	for _, number := range []int{13, 14, 15} {
		_, err := in.DB.PullRequest(ctx, "hooked", number)
		testkit.Kind(t, "a fork, one at another commit, and one that was merged", err, landfall.NotFound)
	}
	s.WantComments("the pull request that was found", 1)
	testkit.Equal(t, "questions afterwards", len(testkit.Must(questions.Due(ctx, time.Now().Add(time.Minute), 9))(t)), 0)
	runs := testkit.Must(in.DB.RunsOfCommit(ctx, "hooked", commit))(t)
	testkit.Equal(t, "runs", len(runs), 1)
	log := ""
	for _, line := range testkit.Must(in.DB.Log(ctx, runs[0].ID, 0, 100))(t) {
		log += line.Text + "\n"
	}
	testkit.Contains(t, said(log), "no delivery told of pull request 12; GitHub names it for this commit")

	// Its merge, which nobody told of either, closes it; what GitHub said longer ago does not.
	pull.Closed, pull.Merged, pull.At = true, true, pull.At.Add(-time.Hour)
	for _, open := range []bool{true, false} {
		if err := questions.Answer(ctx, due[0], []landfall.FoundPull{pull}); err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, "open", testkit.Must(in.DB.PullRequest(ctx, "hooked", 12))(t).Open, open)
		pull.At = pull.At.Add(2 * time.Hour)
	}
	testkit.Equal(t, "merged", testkit.Must(in.DB.PullRequestMerged(ctx, "hooked", 12))(t), true)
	_, err = in.DB.Tag(ctx, "hooked", deploy.PullTag(12))
	testkit.Kind(t, "its tag", err, landfall.NotFound)
}
