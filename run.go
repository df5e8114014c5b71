package landfall

import "time"

// RunState is where a run stands.
type RunState string

// The states. A run is queued, then running (and waiting while it needs approval), and ends in exactly one of the
// final states.
const (
	RunQueued     RunState = "queued"
	RunRunning    RunState = "running"
	RunWaiting    RunState = "waiting"
	RunSucceeded  RunState = "succeeded"
	RunFailed     RunState = "failed" // the change is wrong
	RunError      RunState = "error"  // we are
	RunSuperseded RunState = "superseded"
	RunSkipped    RunState = "skipped"
	RunCancelled  RunState = "cancelled"
)

// Final reports whether a run in this state is over.
func (s RunState) Final() bool {
	switch s {
	case RunQueued, RunRunning, RunWaiting:
		return false
	case RunSucceeded, RunFailed, RunError, RunSuperseded, RunSkipped, RunCancelled:
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
	Branch   string // of the push that made the run, for people
	State    RunState
	Step     Step   // the step it is in, or was in when it ended
	Reason   string // why it ended so, or why it waits: one sentence for the person who pushed
	UID      UID    // reserved when the run is made: its release's address is known before the build
	Release  UID    // the release it made or joined; empty when none
	Rebuild  bool   // build again although the commit was built before
	Expect   UID    // set when the run makes this group version reachable again: other digests are a conflict
	Attempt  int64  // fencing token: every write of a worker names the attempt that it leased
	Created  time.Time
	Started  time.Time
	Finished time.Time
	Stats    RunStats
	Change   int64 // the change (App.Changed) that shows the run's release; 0: none
}

// RunStats is what a run did, for people.
type RunStats struct {
	Files         int   `json:"files"`          // static files of the release
	FilesUploaded int   `json:"files_uploaded"` // of these, how many travelled
	Bytes         int64 `json:"bytes"`
	BytesUploaded int64 `json:"bytes_uploaded"`
	UnitsChanged  int   `json:"units_changed"`
	UnitsTotal    int   `json:"units_total"`
	Built         int   `json:"built"`  // build commands that ran
	Cached        int   `json:"cached"` // builds whose output was at hand
	New           bool  `json:"new"`    // its release was not there before: it is no repetition
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
	Text string    `json:"text"` // without the newline; control bytes are the reader's to escape
}
