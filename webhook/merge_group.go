package webhook

import (
	"fmt"
	"strings"

	"landfall.dev/landfall"
)

// mergeGroupPayload is the part that we read of
// https://docs.github.com/webhooks/webhook-events-and-payloads#merge_group.
type mergeGroupPayload struct {
	Action     string `json:"action"`
	Reason     string `json:"reason"` // of destroyed
	MergeGroup struct {
		HeadSHA    string      `json:"head_sha"`
		HeadRef    string      `json:"head_ref"`
		HeadCommit *headCommit `json:"head_commit"`
	} `json:"merge_group"`
	Repository *repositoryPayload `json:"repository"`
	Sender     sender             `json:"sender"`
}

// parseMergeGroup returns the push of a group's branch for which checks are requested, and its deletion when the group
// ends. GitHub tells of the same by events of pushes, in any order.
func parseMergeGroup(payload []byte) (Event, error) {
	const event = "merge_group"
	var p mergeGroupPayload
	if err := decode(event, payload, &p); err != nil {
		return Event{}, err
	}
	repository, err := p.Repository.parse(event)
	if err != nil {
		return Event{}, err
	}
	intake, group := Event{Repository: repository}, p.MergeGroup
	ref, err := landfall.ParseRefName(group.HeadRef)
	if err != nil || !ref.OfMergeQueue() {
		return Event{}, invalid(event, "merge_group.head_ref", err)
	}
	commit, err := landfall.ParseCommitSHA(group.HeadSHA)
	if err != nil || commit.IsZero() {
		return Event{}, invalid(event, "merge_group.head_sha", err)
	}
	none := landfall.CommitSHA(strings.Repeat("0", len(commit)))
	push := &landfall.Push{Source: landfall.FromWebhook, Ref: ref, Before: none, After: none, Actor: p.Sender.Login}
	branch, _ := ref.Branch()
	base, _ := landfall.QueueBase(branch)
	switch p.Action {
	case "checks_requested":
		push.After = commit
		if group.HeadCommit != nil {
			push.Message = firstLine(group.HeadCommit.Message)
		}
		intake.Delivery.Decision = fmt.Sprintf("The merge queue of %s tries %s.", base, commit.Short())
	case "destroyed":
		push.Before = commit
		intake.Delivery.Decision = fmt.Sprintf("The merge queue of %s is done with %s: %.40s.", base, commit.Short(),
			p.Reason)
	case "":
		return Event{}, invalid(event, "action", nil)
	default:
		intake.Delivery.Decision = fmt.Sprintf("Action %.100s of a merge group is not one that Landfall acts on.", p.Action)
		return intake, nil
	}
	intake.Push = push
	return intake, nil
}
