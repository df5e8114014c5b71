package landfall

import "time"

// ReleaseCanary is a release that a share of the visitors of an app's live address gets whole, in place of the live
// one. The share grows until the release becomes live, unless it fails more often than live.
type ReleaseCanary struct {
	ID        string
	App       string // its id
	Release   UID
	Weight    int           // percent of the visitors
	Step      int           // percent more at each interval
	Interval  time.Duration //
	Threshold int           // percent of failures that the release may have more than live
	Key       string        // signs what visitors keep of the choice; nobody else may know it
	Actor     string        // who started it
	Started   time.Time
	Next      time.Time // when it goes on, if enough is known by then
	Ended     time.Time // zero while it runs
	State     ReleaseCanaryState
	Reason    string // why it is in that state
}

// ReleaseCanaryState is how far a canary of a release came.
type ReleaseCanaryState string

// The states. All but the first are final.
const (
	ReleaseCanaryRunning  ReleaseCanaryState = "running"
	ReleaseCanaryLive     ReleaseCanaryState = "live"     // it became live
	ReleaseCanaryReturned ReleaseCanaryState = "returned" // it failed too often, and visitors are back at the live release
	ReleaseCanaryStopped  ReleaseCanaryState = "stopped"  // by hand
	ReleaseCanaryEnded    ReleaseCanaryState = "ended"    // by what happened to the app: a push, a rollback, a promotion
)

// CanaryFigures count what visitors asked for while a canary runs, and how much of it failed: an error of the server,
// or of a function. Errors of the client are none.
type CanaryFigures struct {
	Requests int64 `json:"requests"`
	Failures int64 `json:"failures"`
}

// ReleaseCanaryStep is one thing that happened to a canary of a release.
type ReleaseCanaryStep struct {
	At     time.Time
	Weight int // from then on
	State  ReleaseCanaryState
	Reason string
	Actor  string // empty: it went by itself
	Canary CanaryFigures
	Live   CanaryFigures
}
