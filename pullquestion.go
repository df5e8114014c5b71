package landfall

import "time"

// PullQuestion asks the forge which pull requests a commit belongs to, because no delivery has named one.
type PullQuestion struct {
	App        string
	Repository GitHubRepository
	Commit     CommitSHA
	Ref        RefName // the branch that was pushed
	Run        string  // of the commit
	Attempts   int     // failed attempts in a row
	NextAt     time.Time
}

// FoundPull is a pull request that the forge names for a commit.
type FoundPull struct {
	PullRequest // Closed and Fork are set, too

	Head   RefName   // its branch, in its own repository
	Commit CommitSHA // at the head of that branch
	Merged bool      // its base branch has it
	Author string
	At     time.Time // of its last change
}
