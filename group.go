package landfall

import "time"

// Line separates production from all other branches. Each line is counted and kept for itself.
type Line string

// The lines.
const (
	Production Line = "production"
	Preview    Line = "preview"
)

// Group is a group version: all unit versions that an apply left in force, with its git information. The first seed
// calls it GroupVersionTracker; Skygear calls it an app version.
type Group struct {
	UID     UID
	App     string
	Digest  Digest    // over the digests of its units
	Commit  CommitSHA //
	Branch  string    // of the first apply
	Clean   bool      // the work tree had no changes beside the commit
	Message string    // what people read in the history: the commit's first line, or what was done
	Actor   string
	// Policy is what the commit says about releasing; nil when it says nothing. It takes effect when production applies
	// the commit. With nil the app's own settings apply again.
	Policy *ReleasePolicy
	// Canaries are those that the commit declares. They begin when a release of it becomes live by a push.
	Canaries []DeclaredCanary
	Created  time.Time
	Fork     int         // the number of the pull request from another repository whose run made it; 0: none
	Units    []GroupUnit // in the order of UnitKinds, then by name; nil in lists that did not ask for them
}

// GroupUnit is one unit version in force.
type GroupUnit struct {
	Unit   UnitID `json:"unit"`
	UID    UID    `json:"version"`
	Number int64  `json:"number"`
	Digest Digest `json:"digest"`
}

// Apply is one entry in the log of applies. `latest`, retirement and `app state` read it.
type Apply struct {
	ID      int64
	App     string
	Group   UID
	Ref     RefName
	Line    Line
	Actor   string
	Created time.Time
}
