package landfall

import "time"

// CommandLife is how long a command waits for GitHub's answer. Later, it could be about something that has changed.
const CommandLife = time.Hour

// Command is what a person asked for at GitHub. Landfall obeys it once GitHub has said what that person may do with the
// repository at this moment, and at most once.
type Command struct {
	ID         int64
	Kind       CommandKind
	Repository GitHubRepository
	Apps       []CommandApp // that must still obey or refuse it
	Number     int          // of the pull request; 0: none
	Sender     GitHubUser
	Data       string    // of the kind, what else it needs: JSON
	Comment    int64     // the comment that holds it, and gets the reaction; 0: none
	Delivery   string    // that brought it
	Received   time.Time // when it came

	Attempts int // failed attempts in a row
	NextAt   time.Time
	Problem  string // why GitHub has not answered yet

	Obeyed   bool     // every app obeyed or refused it
	Reaction Reaction // that the comment must get; empty: none
	Answer   string   // what became of it, for people: a line for each app; may be empty
}

// CommandApp is an app that a command concerns.
type CommandApp struct {
	ID   string    `json:"app"`
	Head CommitSHA `json:"head"` // of the pull request when the command came; empty: not known, or there is none
	// of the pull request as its last event said; it may differ from Head while the order of pushes is not known
	Told CommitSHA `json:"told,omitempty"`
}

// CommandKind says how a command came, and what its Data is.
type CommandKind string

// CommentCommand is a command in a comment on a pull request. Its Data is the JSON array of its words.
const CommentCommand CommandKind = "comment"

// The commands by a label of a pull request from a fork. The Data of both is a commit.
const (
	// LabelCommand approves the commit, which was the head when ApprovalLabel was put there.
	LabelCommand CommandKind = "approve"
	// UnlabelCommand takes ApprovalLabel away, because the pull request is at the commit since.
	UnlabelCommand CommandKind = "unlabel"
)

// Reaction is a small sign on a comment, by its name in GitHub's API.
type Reaction string

// The reactions.
const (
	ReactionDone    Reaction = "+1"
	ReactionRefused Reaction = "-1"
	ReactionUnclear Reaction = "confused"
)
