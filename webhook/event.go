package webhook

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"landfall.dev/landfall"
)

// Event is a verified delivery and what it asks for. At most one of Push, PullRequest, Command, CommentChange and
// RepositoryChange is set; without them, the delivery is only recorded.
type Event struct {
	Delivery    landfall.Delivery
	Secret      string         // of the hook: the secret with which the delivery was verified
	ReplayedBy  string         // who wants it judged again, for apps that came since; empty: it comes from the forge
	Trace       string         // the span in which it came, as a traceparent; empty: there is no trace
	Payload     []byte         // what was delivered; it belongs to the sender once the event is accepted
	Repository  Repository     // zero when the event names none
	Push        *landfall.Push // without App and ID
	PullRequest *PullRequest

	Command       *landfall.Command // without ID, Repository, Apps, Delivery and Received
	CommentChange *CommentChange

	RepositoryChange *RepositoryChange

	// Installation says that an installation of the GitHub App changed: what the App may do, or where.
	Installation bool
}

// Parse returns what a payload asks for, with Event and Decision of its delivery set, and only Repository where the
// event is only recorded. It returns Invalid when the payload is malformed. The payload must be verified.
func Parse(event string, payload []byte) (Event, error) {
	var (
		intake Event
		err    error
	)
	switch event {
	case "push":
		intake, err = parsePush(payload)
	case "pull_request":
		intake, err = parsePullRequest(payload)
	case "merge_group":
		intake, err = parseMergeGroup(payload)
	case "issue_comment":
		intake, err = parseIssueComment(payload)
	case "check_run", "check_suite":
		intake, err = parseCheck(event, payload)
	case "repository":
		intake, err = parseRepository(payload)
	case "ping":
		intake, err = parsePing(payload)
	case "installation", "installation_repositories":
		intake, err = parseInstallation(event, payload)
	default:
		intake.Delivery.Repository, err = repositoryOf(event, payload)
		intake.Delivery.Decision = fmt.Sprintf("Event %s is not one that Landfall acts on.", event)
	}
	intake.Delivery.Event = event
	if err != nil {
		return Event{}, err
	}
	return intake, nil
}

// EventOf returns what a verified payload of a delivery asks for, as Parse does, with the delivery as it is to be
// recorded.
func EventOf(delivery landfall.Delivery, payload []byte) (Event, error) {
	intake, err := Parse(delivery.Event, payload)
	if err != nil {
		return Event{}, err
	}
	delivery.Decision, delivery.Unmatched, delivery.Runs = intake.Delivery.Decision, false, nil
	delivery.Repository = cmp.Or(intake.Repository.ID, intake.Delivery.Repository)
	intake.Delivery, intake.Payload = delivery, payload
	if intake.Push != nil {
		intake.Push.Accepted, intake.Push.Delivery = delivery.Received, delivery.ID
	}
	return intake, nil
}

// Events returns the events that Parse acts on and that a webhook of a repository may have.
func Events() []string { return []string{"push", "pull_request", "merge_group", "issue_comment"} }

// MattersLate reports whether an event with an action, empty where it has none, leads to something also when it comes
// late. A command in a comment does not: who wrote it may not want it any more. Nor does another default branch: the
// next look at the repository finds the one that it has by then.
func MattersLate(event, action string) bool {
	late := map[string][]string{
		"pull_request": {"opened", "reopened", "synchronize", "edited", "closed"},
		"repository":   {"privatized", "deleted", "renamed", "transferred"},
	}
	return event == "push" || slices.Contains(late[event], action)
}

// repositoryOf returns the id of the repository in the payload of any event; 0 when it has none in the usual place.
func repositoryOf(event string, payload []byte) (int64, error) {
	var p struct {
		Repository struct {
			ID int64 `json:"id"`
		} `json:"repository"`
	}
	if json.Unmarshal(payload, &p, lenient()) == nil { // it makes no copy
		return p.Repository.ID, nil
	}
	return 0, decode(event, payload, new(jsontext.Value))
}

// lenient returns the options for payloads, which are read as most readers do.
func lenient() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// decode reads the payload of an event.
func decode(event string, payload []byte, into any) error {
	if err := json.Unmarshal(payload, into, lenient()); err != nil {
		return landfall.Wrapf("webhook.Parse", landfall.Invalid, err,
			"the payload is not JSON in the form of event %s", event)
	}
	return nil
}

// invalid says which field of an event's payload differs from what GitHub sends.
func invalid(event, field string, cause error) error {
	return landfall.Wrapf("webhook.Parse", landfall.Invalid, cause, "the payload of event %s has no usable %q",
		event, field)
}
