package landfall

import "time"

// RunState is where a run stands.
type RunState string

// A run is queued, then running, and ends in exactly one of the final states. A run of a fork's commit waits for
// approval before it is queued.
const (
	RunQueued     RunState = "queued"
	RunRunning    RunState = "running"
	RunWaiting    RunState = "waiting"
	RunSucceeded  RunState = "succeeded"
	RunFailed     RunState = "failed" // the change is wrong
	RunError      RunState = "error"  // our fault
	RunSuperseded RunState = "superseded"
	RunSkipped    RunState = "skipped"
	RunCancelled  RunState = "cancelled"
	RunDeclined   RunState = "declined" // a person decided that the fork's commit is not built
	RunExpired    RunState = "expired"  // nobody approved the fork's commit in time
)

// Final reports whether a run in this state is over.
func (s RunState) Final() bool {
	switch s {
	case RunQueued, RunRunning, RunWaiting:
		return false
	case RunSucceeded, RunFailed, RunError, RunSuperseded, RunSkipped, RunCancelled, RunDeclined,
		RunExpired:
		return true
	}
	return false
}

// Step is one step of the pipeline.
type Step string

// The steps, in order.
const (
	StepAccept Step = "accept"
	StepFetch  Step = "fetch"
	StepRead   Step = "read"
	StepPlan   Step = "plan"
	StepBuild  Step = "build"
	StepUpload Step = "upload"
	StepCommit Step = "commit"
	StepSwap   Step = "swap"
	StepReport Step = "report"
)

// Steps lists the steps in order.
func Steps() []Step {
	return []Step{StepAccept, StepFetch, StepRead, StepPlan, StepBuild, StepUpload, StepCommit, StepSwap, StepReport}
}

// Run is one passage of one commit of one app through the pipeline.
type Run struct {
	ID       string
	App      string
	Commit   CommitSHA
	Branch   string // of the push that made the run
	State    RunState
	Step     Step   // the step it is in, or was in when it ended
	Reason   string // why it ended like this, or why it waits: one sentence for the person who pushed
	UID      UID    // reserved when the run is made, so its release's address is known before the build
	Release  UID    // the release it made or joined; empty when none
	Rebuild  bool   // build again although the commit was built before
	Expect   UID    // set when the run makes this group version reachable again: other digests are then a conflict
	Attempt  int64  // fencing token: every write of a worker names the attempt for which it has the lease
	Created  time.Time
	Started  time.Time
	Finished time.Time
	Stats    RunStats
	Change   int64     // the change (App.Changed) after which the run's release is shown; 0: none
	Fork     int       // the number of the pull request from another repository to which the commit belongs; 0: none
	Approval *Approval // of a fork's commit; nil: it was not approved
}

// Ready returns when the run could be worked on first: when it was made, or approved.
func (r Run) Ready() time.Time {
	if r.Approval != nil && r.Approval.At.After(r.Created) {
		return r.Approval.At
	}
	return r.Created
}

// RunStats is what a run did, for people.
type RunStats struct {
	Files         int   `json:"files"`          // static files of the release
	FilesUploaded int   `json:"files_uploaded"` // files of these that were uploaded
	Bytes         int64 `json:"bytes"`
	BytesUploaded int64 `json:"bytes_uploaded"`
	UnitsChanged  int   `json:"units_changed"`
	UnitsTotal    int   `json:"units_total"`
	Built         int   `json:"built"`  // build commands that ran
	Cached        int   `json:"cached"` // builds whose output was already stored
	New           bool  `json:"new"`    // the release is new: it is not a repetition
	OverPlan      bool  `json:"over_plan,omitempty" doc:"it failed because the plan of its namespace has no room for what it asks for"`
}

// StepRecord is one execution of one step.
type StepRecord struct {
	Step     Step
	Attempt  int64
	Started  time.Time
	Finished time.Time // zero while it runs, or when the worker died in it
	Message  string    // what went wrong, for people
}

// LogLine is one line of a run's log.
type LogLine struct {
	Seq  int64     `json:"seq"` // ascending within the run, from 1
	Time time.Time `json:"time"`
	Step Step      `json:"step"`
	Text string    `json:"text"` // without the newline; the reader escapes control bytes
}
