package landfall

import "time"

// Comment is the one comment on a pull request: what the forge has of it, and what must still be sent.
type Comment struct {
	Owed

	Repository GitHubRepository // with the number, it identifies the comment
	Number     int              // of the pull request
	ID         int64            // given by the forge; 0 while it is not known
	Body       Digest           // of the text that was sent last; empty while there is none

	Report PullRequestReport // set when the comment is about to be sent
}

// PullRequestReport is what a comment says.
type PullRequestReport struct {
	Closed bool
	Apps   []AppReport // in the order of their names
	// what became of the last commands on the pull request, the oldest first: a line for each app that was to obey
	Answers []string
}

// AppReport is what a comment says of one app.
type AppReport struct {
	App           string
	State         RunState  // of the newest run of Commit; empty when there is none
	Reason        string    // of that run
	Commit        CommitSHA // the pull request's head
	Deleted       bool      // the app was deleted
	Merged        bool      // the pull request was closed because its base branch has it
	Run           string    // address of the run
	RunID         string
	Release       string    // address of its release; empty while there is none, and when it has expired
	Preview       string    // address that follows the pull request; empty while there is none
	PreviewCommit CommitSHA // the commit whose release answers there
	Took          time.Duration
	Stats         RunStats

	Base    string       // the branch that Changes compares with
	Changes []UnitChange // the units that differ from what Base serves, and those that do not
}
