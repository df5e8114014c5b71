package webhook

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"landfall.dev/landfall"
)

// CommandWord begins a comment that holds a command.
const CommandWord = "/landfall"

// maxCommand is how much of a command is read, in bytes; none is longer.
const maxCommand = 300

// CommentChange is the end of a comment on a pull request as its author wrote it: somebody else edited it, or somebody
// deleted it.
type CommentChange struct {
	Number  int // of the pull request
	Comment int64
}

// issueCommentPayload is the part that we read of
// https://docs.github.com/webhooks/webhook-events-and-payloads#issue_comment.
type issueCommentPayload struct {
	Action string `json:"action"`
	Issue  struct {
		Number      int       `json:"number"`
		PullRequest *struct{} `json:"pull_request"` // null for an issue
	} `json:"issue"`
	Comment struct {
		ID   int64  `json:"id"`
		Body string `json:"body"`
		User sender `json:"user"`
	} `json:"comment"`
	Repository *repositoryPayload `json:"repository"`
	Sender     sender             `json:"sender"`
}

func parseIssueComment(payload []byte) (Event, error) {
	const event = "issue_comment"
	var p issueCommentPayload
	if err := decode(event, payload, &p); err != nil {
		return Event{}, err
	}
	repository, err := p.Repository.parse(event)
	if err != nil {
		return Event{}, err
	}
	intake := Event{Repository: repository}
	words := commandOf(p.Comment.Body)
	byAuthor := p.Sender.ID == p.Comment.User.ID
	switch {
	case p.Action == "":
		return Event{}, invalid(event, "action", nil)
	case p.Issue.PullRequest == nil:
		intake.Delivery.Decision = "The comment is on no pull request."
		return intake, nil
	case p.Issue.Number <= 0:
		return Event{}, invalid(event, "issue.number", nil)
	case p.Comment.ID <= 0:
		return Event{}, invalid(event, "comment.id", nil)
	case p.Action == "deleted" || p.Action == "edited" && !byAuthor:
		intake.CommentChange = &CommentChange{Number: p.Issue.Number, Comment: p.Comment.ID}
		intake.Delivery.Decision = fmt.Sprintf("A comment on pull request %d was %s.", p.Issue.Number, p.Action)
		return intake, nil
	case p.Action != "created":
		intake.Delivery.Decision = fmt.Sprintf("Action %.100s of a comment is not one that Landfall acts on.", p.Action)
		return intake, nil
	case words == nil || !byAuthor || p.Sender.Type == "Bot":
		intake.Delivery.Decision = "The comment holds no command of a person."
		return intake, nil
	}
	who, err := p.Sender.user(event)
	if err != nil {
		return Event{}, err
	}
	data, err := json.Marshal(words)
	if err != nil {
		return Event{}, invalid(event, "comment.body", err)
	}
	intake.Command = &landfall.Command{
		Kind: landfall.CommentCommand, Number: p.Issue.Number, Sender: who, Comment: p.Comment.ID, Data: string(data),
	}
	intake.Delivery.Decision = fmt.Sprintf("%s commented on pull request %d: %s %s.", who.Login, p.Issue.Number,
		CommandWord, strings.Join(words, " "))
	return intake, nil
}

// commandOf returns the words of the command in a comment's first line, after CommandWord; nil when there is none.
func commandOf(body string) []string {
	body = strings.TrimSpace(body[:min(len(body), maxCommand)])
	line, _, _ := strings.Cut(body, "\n")
	words := strings.Fields(strings.ToValidUTF8(line, ""))
	if len(words) == 0 || words[0] != CommandWord {
		return nil
	}
	return words[1:]
}

// login matches the names of users, also of those that are apps.
var login = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}(\[bot\])?$`)

// user returns the sender of an event, or an Invalid error.
func (s sender) user(event string) (landfall.GitHubUser, error) {
	if s.ID <= 0 {
		return landfall.GitHubUser{}, invalid(event, "sender.id", nil)
	}
	if !login.MatchString(s.Login) {
		return landfall.GitHubUser{}, invalid(event, "sender.login", nil)
	}
	return landfall.GitHubUser{ID: s.ID, Login: s.Login}, nil
}
