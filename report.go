package landfall

import (
	"strings"
	"time"
	"unicode/utf8"
)

// StatusState is the state of a commit status.
type StatusState string

// The states, as GitHub's API names them.
const (
	StatusPending StatusState = "pending"
	StatusSuccess StatusState = "success"
	StatusFailure StatusState = "failure" // the change is wrong
	StatusError   StatusState = "error"   // our fault
)

// Report is one commit status that must be sent to the forge. Reports of one commit and context are sent in the order
// of their IDs.
type Report struct {
	ID          int64
	App         string
	Run         string
	Repository  GitHubRepository
	Commit      CommitSHA
	Context     string // landfall/APP
	State       StatusState
	Description string // at most MaxStatusDescription characters
	Target      string // the release for success, the run otherwise
	Attempts    int
	NextAt      time.Time
	Sent        time.Time // zero until it is sent
	Problem     string    // why it is not sent yet, or why it never will be
	Dropped     bool      // given up; Problem says why

	// These are for the log, and are set in reports that are due: the app's name, and the webhook delivery and the
	// trace that brought the commit, if there are any.
	AppName  string
	Delivery string
	Trace    string
}

// MaxStatusDescription is GitHub's limit of a status description, in characters.
const MaxStatusDescription = 140

// CutDescription returns s as a status description: one line of characters that can be printed, at most
// MaxStatusDescription of them, cut on a word.
func CutDescription(s string) string {
	s = Printable(strings.Join(strings.Fields(s), " "))
	if utf8.RuneCountInString(s) <= MaxStatusDescription {
		return s
	}
	runes := []rune(s)[:MaxStatusDescription-1]
	cut := string(runes)
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return cut + "…"
}
