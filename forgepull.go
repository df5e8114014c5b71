package landfall

import "time"

// ForgePull is a pull request as a forge has it.
type ForgePull struct {
	PullRequest

	Repository GitHubRepository // into which it goes
	Head       RefName          // its branch, in its own repository
	Commit     CommitSHA        // at the head of that branch
	Author     string
	Merged     bool
	Labels     []string
	Created    time.Time
	Updated    time.Time // when something happened to it last
}
