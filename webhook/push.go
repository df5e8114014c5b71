package webhook

import (
	"cmp"
	"fmt"
	"strings"

	"landfall.dev/landfall"
)

// maxMessage is how much of a commit message's first line is kept, in characters.
const maxMessage = 200

// pushPayload is the part that we read of https://docs.github.com/webhooks/webhook-events-and-payloads#push. We do not
// use go-github's types: they refuse a whole payload for fields that we never read.
type pushPayload struct {
	Ref        string             `json:"ref"`
	Before     string             `json:"before"`
	After      string             `json:"after"`
	Forced     bool               `json:"forced"`
	HeadCommit *headCommit        `json:"head_commit"`
	Repository *repositoryPayload `json:"repository"`
	Pusher     pusher             `json:"pusher"`
	Sender     sender             `json:"sender"`
}

type headCommit struct {
	ID      string `json:"id"`
	Message string `json:"message"`
}

type pusher struct {
	Name string `json:"name"`
}

type sender struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Type  string `json:"type"` // User, Bot, Organization
}

func parsePush(payload []byte) (Event, error) {
	const event = "push"
	var p pushPayload
	if err := decode(event, payload, &p); err != nil {
		return Event{}, err
	}
	repository, err := p.Repository.parse(event)
	if err != nil {
		return Event{}, err
	}
	intake := Event{Repository: repository}
	push := &landfall.Push{Source: landfall.FromWebhook, Forced: p.Forced, Actor: cmp.Or(p.Sender.Login, p.Pusher.Name)}
	if push.Ref, err = landfall.ParseRefName(p.Ref); err != nil {
		return Event{}, invalid(event, "ref", err)
	}
	if push.Before, err = landfall.ParseCommitSHA(p.Before); err != nil {
		return Event{}, invalid(event, "before", err)
	}
	if push.After, err = landfall.ParseCommitSHA(p.After); err != nil {
		return Event{}, invalid(event, "after", err)
	}
	branch, isBranch := push.Ref.Branch()
	tag, isTag := push.Ref.Tag()
	if !isBranch && !isTag {
		intake.Delivery.Decision = fmt.Sprintf("%s is neither a branch nor a tag.", push.Ref)
		return intake, nil
	}
	if !push.Deleted() && p.HeadCommit != nil {
		push.Message = firstLine(p.HeadCommit.Message)
		// For an annotated tag, "after" is the tag object, and the head commit is the commit to which it points.
		if isTag {
			if push.After, err = landfall.ParseCommitSHA(p.HeadCommit.ID); err != nil {
				return Event{}, invalid(event, "head_commit.id", err)
			}
		}
	}
	intake.Push = push
	name := "Branch " + branch
	if isTag {
		name = "Tag " + tag
	}
	intake.Delivery.Decision = fmt.Sprintf("%s is now at %s.", name, push.After.Short())
	if push.Deleted() {
		intake.Delivery.Decision = name + " was deleted."
	}
	return intake, nil
}

// firstLine returns the first line of a commit message, cut to a length for lists.
func firstLine(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	line = strings.TrimSpace(line)
	if runes := []rune(line[:min(len(line), 4*(maxMessage+1))]); len(runes) > maxMessage {
		return string(runes[:maxMessage-1]) + "…"
	}
	return line
}
