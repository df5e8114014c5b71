package landfall

import "time"

// Check is the check run of the newest run of a commit of an app: what the forge has of it, and what must still be
// sent.
type Check struct {
	Owed

	App        string
	Commit     CommitSHA
	Repository int64  // the id of the repository that has it; 0 while there is none
	Run        string // of which ID is; another text while the run waits for approval
	ID         int64  // given by the forge; 0 while there is none
	Body       Digest // of what was sent last

	Report CheckReport // set when the forge is about to be told
}

// CheckReport is what a check run says.
type CheckReport struct {
	AppReport

	Repository GitHubRepository
	Log        []string // the end of the run's log
	Started    time.Time
	Finished   time.Time // zero while the run is not over
	Live       bool      // the release is what visitors see
	WasLive    bool      // it was what visitors saw, and is not any more
	Promotable bool      // the release can be made live, and is not
	Answers    []string  // what became of the last presses of buttons, the oldest first
}

// CheckAction is a button of a check run.
type CheckAction string

// The buttons.
const (
	RetryAction   CheckAction = "retry"
	PromoteAction CheckAction = "promote"
	ApproveAction CheckAction = "approve"
)

// CheckCommand is a button of a check run, or GitHub's own button that runs it again. Its Data is a CheckRequest.
const CheckCommand CommandKind = "check"

// CheckRequest is what somebody asks for at a check run, or at all those of a commit.
type CheckRequest struct {
	Action CheckAction `json:"action"`
	Commit CommitSHA   `json:"commit"`
	App    string      `json:"app,omitempty"` // its name; empty: all of the repository
}
