package landfall

import "time"

// PushSource says how a push came in.
type PushSource string

// The sources.
const (
	FromRemote  PushSource = "git"     // `git push` to the built-in remote
	FromWebhook PushSource = "webhook" // a forge's push or pull_request event
	FromApply   PushSource = "apply"   // `spec version apply`
)

// Push is one accepted movement of one reference of one app, from whichever source. All pushes go the same way from
// here.
type Push struct {
	ID       int64 // assigned when it is stored, ascending in order of acceptance
	App      string
	Source   PushSource
	Ref      RefName   // refs/heads/…, refs/tags/…, PullRef of a fork's; for an apply, the ref that carried the commit
	Before   CommitSHA // what the reference named before; zero when it is new
	After    CommitSHA // what it names now, peeled to a commit if the receiver can peel; zero when it was deleted
	Forced   bool      // the sender says that history was rewritten
	Actor    string    // who pushed, as far as the receiver knows
	Message  string    // first line of the commit's message, if the receiver knows it
	Accepted time.Time

	Apply       *ApplyRequest // set for FromApply
	PullRequest *PullRequest  // set when the push belongs to a pull request's head
	Delivery    string        // the webhook delivery that brought it
	Trace       string        // the span in which it came, as a traceparent; empty: there is no trace

	// ConcurrentHead is the push that was the head when this one came, if the news did not tell which of the two is
	// newer; 0 otherwise. The forge is asked before the commit is fetched.
	ConcurrentHead int64
}

// Deleted reports whether the push removed its reference.
func (p Push) Deleted() bool { return p.After.IsZero() }

// OfFork reports whether the push moved a pull request whose head is in another repository.
func (p Push) OfFork() bool { return p.PullRequest != nil && p.PullRequest.Fork }

// ApplyRequest is what `spec version apply` sends beside the commit.
type ApplyRequest struct {
	Branch    string `json:"branch,omitempty"` // the branch it belongs to; empty: production
	Clean     bool   `json:"clean"`            // the work tree had no changes
	NoRelease bool   `json:"no_release,omitempty"`
	// Commit is the commit that the work tree stood on. It is After of the push when the tree was clean.
	Commit CommitSHA `json:"commit,omitempty"`
	// Versions are the versions that a person makes by hand. The commit then declares their units alone, and what those
	// need: it takes the place of the units of their names in what production has, and all others stay.
	Versions []NewVersion `json:"versions,omitempty"`
}

// NewVersion is a version that a person makes by hand: there is a new one also when the unit has not changed.
type NewVersion struct {
	Unit        UnitID `json:"unit"`
	UID         UID    `json:"uid,omitempty"` // empty, or one that the unit has already: that of the apply
	Label       string `json:"label,omitempty"`
	Description string `json:"description,omitempty"`
	Tag         string `json:"tag,omitempty"` // a function tag that is to name it
	New         bool   `json:"new,omitempty"` // Conflict when the unit has a version
	// of a function whose code is new; what is empty here is as the latest version has it when the new one is made
	Environment string `json:"environment,omitempty"`
	Entrypoint  string `json:"entrypoint,omitempty"`
}

// PullRequest is what releases need to know of a pull request.
type PullRequest struct {
	Number int    `json:"number"`
	Base   string `json:"base"` // base branch
	Closed bool   `json:"closed,omitempty"`
	Fork   bool   `json:"fork,omitempty"` // its head is in another repository: it waits for approval
}
