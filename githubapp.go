package landfall

import "time"

// GitHubApp is the GitHub App by which an installation speaks to GitHub.
type GitHubApp struct {
	ID      int64  // GitHub's
	Slug    string // its name in addresses
	Name    string
	Owner   string // the account that it belongs to
	URL     string // its page; the repositories are on the same server
	API     string // base address of the API of GitHub where it was made
	Sealed  []byte // its key and its secrets
	Created time.Time
	Changed time.Time // when GitHub last told that one of its installations changed
	Heard   time.Time // what GitHub delivered before needs nothing any more; zero: it was not looked yet
}

// GitHubConnection is a GitHub App that somebody is about to make. It waits while it has neither an App nor a problem.
type GitHubConnection struct {
	ID           string
	State        string // what GitHub must send back with the person
	Organization string // that will own the App; empty: the person will
	Name         string // of the App
	App          int64  // the App that was made; 0 while there is none
	Problem      string // why none was made
	Created      time.Time
}

// GitHubProblem is what hinders the App in a repository.
type GitHubProblem struct {
	Repository string // owner/name
	Problem    string
	Since      time.Time
}
