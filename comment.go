package landfall

import "time"

// Comment is the one comment of a pull request: what the forge has of it, and what it is owed.
type Comment struct {
	Repository GitHubRepository // with the number, what tells it from others
	Number     int              // of the pull request
	ID         int64            // the forge's; 0 while it is not known
	Wanted     int64            // how much has happened that it is to say
	Reported   int64            // how much of that the forge was told; it is owed while this is less than Wanted
	Body       Digest           // of the text that the forge was told last; empty while there is none
	Attempts   int              // that failed, one after the other
	NextAt     time.Time
	Problem    string // why it is not told yet, or why it never will be
	Dropped    bool   // given up until something happens again; Problem says why

	Report PullRequestReport // set where it is about to be told
}

// PullRequestReport is what a comment says.
type PullRequestReport struct {
	Closed bool
	Apps   []AppReport // in the order of their names
}

// AppReport is what a comment says of one app.
type AppReport struct {
	App           string
	State         RunState  // of the newest run of Commit; empty when there is none
	Reason        string    // of that run
	Commit        CommitSHA // the pull request's head
	Run           string    // address of the run
	Release       string    // address of its release; empty while there is none, and when it has expired
	Preview       string    // address that follows the pull request; empty while there is none
	PreviewCommit CommitSHA // the commit whose release answers there
	Took          time.Duration
	Stats         RunStats

	Base    string       // the branch that Changes compares with
	Changes []UnitChange // what is other than what Base serves, and what is the same
}
