package webhook

import (
	"fmt"
	"slices"
	"time"

	"landfall.dev/landfall"
)

// PullRequest is what a pull_request event says.
type PullRequest struct {
	landfall.PullRequest
	Head   landfall.RefName   // its branch, in its own repository
	Commit landfall.CommitSHA // at the head of that branch
	Before landfall.CommitSHA // where the branch was before, if the event says so
	Actor  string             // who opened, moved or closed it
	Merged bool               // it was closed because its base branch has it
	At     time.Time          // of the change, to the second; events arrive in any order
	// it was pushed to while it had the label that approves, which was for another commit
	Labelled bool
}

// pullRequestPayload is the part that we read of
// https://docs.github.com/webhooks/webhook-events-and-payloads#pull_request.
type pullRequestPayload struct {
	Action  string `json:"action"`
	Before  string `json:"before"` // of synchronize
	Changes struct {
		Base *struct{} `json:"base"`
	} `json:"changes"` // of edited
	PullRequest pullRequestObject  `json:"pull_request"`
	Label       label              `json:"label"` // of labeled
	Repository  *repositoryPayload `json:"repository"`
	Sender      sender             `json:"sender"`
}

type label struct {
	Name string `json:"name"`
}

type pullRequestObject struct {
	Number    int     `json:"number"`
	Labels    []label `json:"labels"`
	Merged    bool    `json:"merged"`
	UpdatedAt string  `json:"updated_at"`
	Head      struct {
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
	intake, o := Event{Repository: repository}, p.PullRequest
	switch p.Action {
	case "labeled":
		return p.labeled(intake)
	case "":
		return Event{}, invalid(event, "action", nil)
	}
	if intake.Delivery.Decision = p.ignored(); intake.Delivery.Decision != "" {
		return intake, nil
	}
	pull := &PullRequest{
		PullRequest: landfall.PullRequest{
			Number: o.Number, Base: o.Base.Ref, Closed: p.Action == "closed",
			Fork: o.Head.Repo == nil || o.Head.Repo.ID != repository.ID,
		},
		Actor: p.Sender.Login, Merged: p.Action == "closed" && o.Merged,
		Labelled: p.Action != "closed" && slices.Contains(o.Labels, label{landfall.ApprovalLabel}),
	}
	pull.At, _ = time.Parse(time.RFC3339, o.UpdatedAt) // without it, the event counts as the newest
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

// ignored returns for people why a pull_request event changes nothing; empty when it does.
func (p pullRequestPayload) ignored() string {
	number := p.PullRequest.Number
	switch p.Action {
	case "opened", "reopened", "synchronize", "closed":
		return ""
	case "edited":
		if p.Changes.Base != nil {
			return ""
		}
		return fmt.Sprintf("Pull request %d has another title or text, which changes nothing.", number)
	case "converted_to_draft":
		return fmt.Sprintf("Pull request %d is a draft now: it keeps its preview, as drafts have one.", number)
	case "ready_for_review":
		return fmt.Sprintf("Pull request %d is no draft any more: it had a preview as a draft, too.", number)
	}
	return fmt.Sprintf("Action %.100s of a pull request is not one that Landfall acts on.", p.Action)
}

// decision returns for people what a pull_request event leads to.
func (p *PullRequest) decision(action, branch string) string {
	switch {
	case p.Merged:
		return fmt.Sprintf("Pull request %d was merged into %s.", p.Number, p.Base)
	case p.Closed:
		return fmt.Sprintf("Pull request %d was closed.", p.Number)
	case p.Fork:
		return fmt.Sprintf("Pull request %d comes from another repository, and is at %s: nothing of it is fetched before a "+
			"person with write access approves that commit.", p.Number, p.Commit.Short())
	case action == "edited":
		return fmt.Sprintf("Pull request %d goes into %s now.", p.Number, p.Base)
	case action == "synchronize":
		return fmt.Sprintf("Pull request %d (%s into %s) is now at %s.", p.Number, branch, p.Base, p.Commit.Short())
	default:
		return fmt.Sprintf("Pull request %d (%s into %s) was %s at %s.", p.Number, branch, p.Base, action, p.Commit.Short())
	}
}
