package landfall

import (
	"encoding/json"
	"time"
)

// JobState says whether a job goes on.
type JobState string

// The states. The last two are final: such a job holds no version.
const (
	JobRunning   JobState = "running"
	JobPaused    JobState = "paused" // until somebody lets it run again
	JobDone      JobState = "done"   // all its runs were started
	JobCancelled JobState = "cancelled"
)

// Final reports whether a job in the state never runs again.
func (s JobState) Final() bool { return s == JobDone || s == JobCancelled }

// FunctionUse is what a person makes of a function, apart from its app's releases: a Job or a FunctionHook.
type FunctionUse struct {
	ID        string
	Unit      string // id of the function's row
	App       string // id of the app that owns the function
	Namespace string
	Function  string
	Number    int64 // of the version; 0: the latest, whenever that is asked for
	Created   time.Time
	Updated   time.Time
}

// Job has a function run at times: once, or as a cron expression says. Each run is an execution.
type Job struct {
	FunctionUse

	Name    string
	Input   json.RawMessage // data of each event; nil: none
	Pattern string          // cron expression; empty: it runs once
	First   time.Time       // the first run; zero: when the pattern says
	Next    time.Time       // the next run; zero: there is none
	Count   int64           // runs that are left; 0: no end, unless the state is final
	State   JobState
	Problem string // why the last run could not be started; empty: it was
}

// FunctionHook is an address by which anybody who knows it calls a function, without a token.
type FunctionHook struct {
	FunctionUse

	Key         string // the end of the address
	Description string
}
