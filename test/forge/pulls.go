package forge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github/githubtest"
)

// Merging is a way in which GitHub merges a pull request.
type Merging string

// The ways of merging.
const (
	MergeCommit Merging = "merge"
	Squash      Merging = "squash"
	Rebase      Merging = "rebase"
)

// Merge merges a branch into main as GitHub does, and returns the new head of main, with what GitHub then delivers of
// main and of the pull request. main is checked out then.
func (h *Hosted) Merge(number int, branch string, by Merging) (landfall.CommitSHA, Delivery, Delivery) {
	h.T.Helper()
	h.Git("switch", "--quiet", "main")
	switch by {
	case MergeCommit:
		h.Git("merge", "--quiet", "--no-ff", "-m", "Merge pull request from "+branch, branch)
	case Squash:
		h.Git("merge", "--quiet", "--squash", branch)
		h.Git("commit", "--quiet", "-m", "All of "+branch)
	case Rebase:
		for commit := range strings.FieldsSeq(h.Git("rev-list", "--reverse", "main.."+branch)) {
			h.Git("cherry-pick", commit)
			h.Git("commit", "--quiet", "--amend", "--no-edit", "--date", "2030-01-01T00:00:00Z") // each commit is made anew
		}
	}
	push := h.Send("main")
	return landfall.CommitSHA(strings.TrimSpace(h.Git("rev-parse", "main"))), push, h.Pull("closed_merged", number, branch)
}

// Commented has a user comment on a pull request, and returns the comment, with what GitHub then delivers.
func (w *World) Commented(h *Hosted, number int, user int64, body string) (int64, Delivery) {
	w.T.Helper()
	id := w.API.Comment(h.Name, number, user, body)
	return id, h.comment("created_command", number, githubtest.Comment{ID: id, Author: user, Body: body}, user)
}

// CommentDeleted has a user delete a comment, and returns what GitHub then delivers.
func (w *World) CommentDeleted(h *Hosted, c githubtest.Comment, user int64) Delivery {
	w.T.Helper()
	w.API.DeleteComment(c.ID)
	return h.comment("deleted", c.Number, c, user)
}

// CommentEdited has another user edit a comment, and returns what GitHub then delivers.
func (w *World) CommentEdited(h *Hosted, c githubtest.Comment, user int64, body string) Delivery {
	w.T.Helper()
	w.API.EditComment(c.ID, body)
	c.Body = body
	return h.comment("edited_by_other", c.Number, c, user)
}

func (h *Hosted) comment(action string, number int, c githubtest.Comment, sender int64) Delivery {
	return h.Delivery("issue_comment", "issue_comment_"+action, func(payload map[string]any) {
		Object(h.T, payload, "issue")["number"] = number
		comment := Object(h.T, payload, "comment")
		comment["id"], comment["body"] = c.ID, c.Body
		maps.Copy(Object(h.T, comment, "user"), map[string]any{"id": c.Author, "login": githubtest.Login(c.Author)})
		maps.Copy(Object(h.T, payload, "sender"), map[string]any{"id": sender, "login": githubtest.Login(sender)})
	})
}

// WantReaction fails the test unless a comment gets exactly this reaction from us.
func (w *World) WantReaction(comment int64, want landfall.Reaction) {
	w.T.Helper()
	var got []githubtest.Reaction
	w.Eventually("the comment has a reaction", func() bool {
		got = w.API.Reactions(comment)
		return len(got) > 0
	})
	if !slices.Equal(got, []githubtest.Reaction{{Comment: comment, Author: githubtest.Self, Content: string(want)}}) {
		w.T.Errorf("the comment has the reactions %+v, want %s", got, want)
	}
}

// Queued is a group of a merge queue.
type Queued struct {
	*Hosted
	Branch string
	Commit landfall.CommitSHA
}

// Queue puts a pull request's branch into the merge queue of main, as GitHub does, and returns the group, with what
// GitHub then delivers of its branch and of the group. main is checked out then.
func (h *Hosted) Queue(number int, branch string) (q Queued, push, requested Delivery) {
	h.T.Helper()
	base := strings.TrimSpace(h.Git("rev-parse", "main"))
	q = Queued{Hosted: h, Branch: fmt.Sprintf("gh-readonly-queue/main/pr-%d-%s", number, base)}
	h.Git("switch", "--quiet", "-C", q.Branch, "main")
	h.Git("merge", "--quiet", "--no-ff", "-m", "Merge pull request from "+branch, branch)
	q.Commit = landfall.CommitSHA(strings.TrimSpace(h.Git("rev-parse", "HEAD")))
	push = h.Send(q.Branch)
	h.Git("switch", "--quiet", "main")
	return q, push, q.group("checks_requested", "")
}

// End ends the group, and returns what GitHub then delivers of its branch and of the group.
func (q Queued) End(reason string) (removed, destroyed Delivery) {
	q.T.Helper()
	return q.Remove(q.Branch), q.group("destroyed", reason)
}

// Land brings the group's commit to main, and returns what GitHub then delivers of main.
func (q Queued) Land() Delivery {
	q.T.Helper()
	q.Git("merge", "--quiet", "--ff-only", string(q.Commit))
	return q.Send("main")
}

func (q Queued) group(action, reason string) Delivery {
	return q.Delivery("merge_group", "merge_group_"+action, func(payload map[string]any) {
		payload["reason"] = reason
		group := Object(q.T, payload, "merge_group")
		group["head_sha"], group["head_ref"] = string(q.Commit), landfall.BranchPrefix+q.Branch
	})
}
