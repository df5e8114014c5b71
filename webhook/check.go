package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// checkPayload is the part that we read of https://docs.github.com/webhooks/webhook-events-and-payloads#check_run and
// #check_suite.
type checkPayload struct {
	Action   string `json:"action"`
	CheckRun struct {
		Name    string `json:"name"`
		HeadSHA string `json:"head_sha"`
	} `json:"check_run"`
	CheckSuite struct {
		HeadSHA string `json:"head_sha"`
	} `json:"check_suite"`
	RequestedAction struct {
		Identifier string `json:"identifier"`
	} `json:"requested_action"`
	Repository *repositoryPayload `json:"repository"`
	Sender     sender             `json:"sender"`
}

// checkPrefix begins the names of our check runs; the name of the app follows.
const checkPrefix = "landfall/"

// parseCheck reads an event about a check run, or about all those of a commit.
func parseCheck(event string, payload []byte) (Event, error) {
	var p checkPayload
	if err := decode(event, payload, &p); err != nil {
		return Event{}, err
	}
	repository, err := p.Repository.parse(event)
	if err != nil {
		return Event{}, err
	}
	if p.Action == "" {
		return Event{}, invalid(event, "action", nil)
	}
	intake, request, head := Event{Repository: repository}, landfall.CheckRequest{}, p.CheckSuite.HeadSHA
	request.Action = landfall.RetryAction
	if event == "check_run" {
		name, ours := strings.CutPrefix(p.CheckRun.Name, checkPrefix)
		if !ours {
			intake.Delivery.Decision = "The check run is not one of Landfall."
			return intake, nil
		}
		request.App, head = name, p.CheckRun.HeadSHA
	}
	known := []landfall.CheckAction{landfall.RetryAction, landfall.PromoteAction, landfall.ApproveAction}
	switch asked := landfall.CheckAction(p.RequestedAction.Identifier); {
	case event == "check_run" && p.Action == "requested_action" && slices.Contains(known, asked):
		request.Action = asked
	case p.Action != "rerequested":
		intake.Delivery.Decision = fmt.Sprintf("Action %.100s of a check is not one that Landfall acts on.", p.Action)
		return intake, nil
	}
	if request.Commit, err = landfall.ParseCommitSHA(head); err != nil {
		return Event{}, invalid(event, "head_sha", err)
	}
	who, err := p.Sender.user(event)
	if err != nil {
		return Event{}, err
	}
	data, err := json.Marshal(request)
	if err != nil {
		return Event{}, invalid(event, "check_run.name", err)
	}
	intake.Command = &landfall.Command{Kind: landfall.CheckCommand, Sender: who, Data: string(data)}
	intake.Delivery.Decision = fmt.Sprintf("%s asked for %s of the check of %s.", who.Login, request.Action,
		request.Commit.Short())
	return intake, nil
}
