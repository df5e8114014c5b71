package webhook

import (
	"fmt"
	"slices"

	"landfall.dev/landfall"
)

// PullRequest is what a pull_request event says.
type PullRequest struct {
	landfall.PullRequest
	Head   landfall.RefName   // its branch, in its own repository
	Commit landfall.CommitSHA // at the head of that branch
	Before landfall.CommitSHA // where the branch was before, if the event says so
	Actor  string             // who opened, moved or closed it
	// it was pushed to while it had the label that approves, which was for another commit
	Labelled bool
}

// pullRequestPayload is the part that we read of
// https://docs.github.com/webhooks/webhook-events-and-payloads#pull_request.
type pullRequestPayload struct {
	Action      string             `json:"action"`
	Before      string             `json:"before"` // of synchronize
	PullRequest pullRequestObject  `json:"pull_request"`
	Label       label              `json:"label"` // of labeled
	Repository  *repositoryPayload `json:"repository"`
	Sender      sender             `json:"sender"`
}

type label struct {
	Name string `json:"name"`
}

type pullRequestObject struct {
	Number int     `json:"number"`
	Labels []label `json:"labels"`
	Head   struct {
		Ref  string `json:"ref"`
		SHA  string `json:"sha"`
		Repo *struct {
			ID int64 `json:"id"`
		} `json:"repo"` // null when it was deleted
	} `json:"head"`
	Base struct {
		Ref string `json:"ref"`
	} `json:"base"`
}

func parsePullRequest(payload []byte) (Event, error) {
	const event = "pull_request"
	var p pullRequestPayload
	if err := decode(event, payload, &p); err != nil {
		return Event{}, err
	}
	repository, err := p.Repository.parse(event)
	if err != nil {
		return Event{}, err
	}
	intake := Event{Repository: repository}
	switch p.Action {
	case "opened", "reopened", "synchronize", "closed":
	case "labeled":
		return p.labeled(intake)
	case "":
		return Event{}, invalid(event, "action", nil)
	default:
		intake.Delivery.Decision = fmt.Sprintf("Action %.100s of a pull request is not one that Landfall acts on.", p.Action)
		return intake, nil
	}
	o := p.PullRequest
	pull := &PullRequest{
		PullRequest: landfall.PullRequest{
			Number: o.Number, Base: o.Base.Ref, Closed: p.Action == "closed",
			Fork: o.Head.Repo == nil || o.Head.Repo.ID != repository.ID,
		},
		Actor: p.Sender.Login, Labelled: p.Action != "closed" && slices.Contains(o.Labels, label{landfall.ApprovalLabel}),
	}
	if o.Number <= 0 {
		return Event{}, invalid(event, "pull_request.number", nil)
	}
	if _, err := landfall.ParseRefName(landfall.BranchPrefix + o.Base.Ref); err != nil {
		return Event{}, invalid(event, "pull_request.base.ref", err)
	}
	if pull.Head, err = landfall.ParseRefName(landfall.BranchPrefix + o.Head.Ref); err != nil {
		return Event{}, invalid(event, "pull_request.head.ref", err)
	}
	if pull.Commit, err = landfall.ParseCommitSHA(o.Head.SHA); err != nil {
		return Event{}, invalid(event, "pull_request.head.sha", err)
	}
	if before, err := landfall.ParseCommitSHA(p.Before); err == nil && !before.IsZero() {
		pull.Before = before
	}
	intake.PullRequest = pull
	intake.Delivery.Decision = pull.decision(p.Action, o.Head.Ref)
	return intake, nil
}

// labeled returns the command that a label is: an approval of the commit at the head of a fork.
func (p pullRequestPayload) labeled(intake Event) (Event, error) {
	const event = "pull_request"
	head := p.PullRequest.Head
	if p.Label.Name != landfall.ApprovalLabel {
		intake.Delivery.Decision = fmt.Sprintf("The label %.100s means nothing to Landfall.", p.Label.Name)
		return intake, nil
	}
	if head.Repo != nil && head.Repo.ID == intake.Repository.ID {
		intake.Delivery.Decision = "The pull request is of the repository itself, and needs no approval."
		return intake, nil
	}
	if p.PullRequest.Number <= 0 {
		return Event{}, invalid(event, "pull_request.number", nil)
	}
	commit, err := landfall.ParseCommitSHA(head.SHA)
	if err != nil {
		return Event{}, invalid(event, "pull_request.head.sha", err)
	}
	who, err := p.Sender.user(event)
	if err != nil {
		return Event{}, err
	}
	intake.Command = &landfall.Command{Kind: landfall.LabelCommand, Number: p.PullRequest.Number, Sender: who,
		Data: string(commit)}
	intake.Delivery.Decision = fmt.Sprintf("%s put the label %s on pull request %d at %s.", who.Login,
		landfall.ApprovalLabel, p.PullRequest.Number, commit.Short())
	return intake, nil
}

// decision returns for people what a pull_request event leads to.
func (p *PullRequest) decision(action, branch string) string {
	switch {
	case p.Closed:
		return fmt.Sprintf("Pull request %d was closed.", p.Number)
	case p.Fork:
		return fmt.Sprintf("Pull request %d comes from another repository, and is at %s: nothing of it is fetched before a "+
			"person with write access approves that commit.", p.Number, p.Commit.Short())
	case action == "synchronize":
		return fmt.Sprintf("Pull request %d (%s into %s) is now at %s.", p.Number, branch, p.Base, p.Commit.Short())
	default:
		return fmt.Sprintf("Pull request %d (%s into %s) was %s at %s.", p.Number, branch, p.Base, action, p.Commit.Short())
	}
}
