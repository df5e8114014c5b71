package landfall

import "time"

// CanaryState says how far a canary is.
type CanaryState string

// The states. All but the first are final.
const (
	CanaryRunning   CanaryState = "running"
	CanarySucceeded CanaryState = "succeeded" // the new version gets all calls
	CanaryReturned  CanaryState = "returned"  // too many of its calls failed: the old version gets all again
	CanaryStopped   CanaryState = "stopped"   // somebody moved what it moves
)

// Canary moves the calls of an alias, or of an HTTP trigger with weights, from an old version to a new one.
type Canary struct {
	CanaryRule

	ID        string      `json:"-"`
	AppID     string      `json:"-"`
	App       string      `json:"app"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Alias     string      `json:"alias,omitempty" doc:"of the function; absent: of a trigger"`
	Trigger   string      `json:"trigger,omitempty" doc:"the HTTP trigger"`
	State     CanaryState `json:"state" enum:"running,succeeded,returned,stopped"`
	Weight    int         `json:"weight" doc:"percent of the calls that the new version gets"`
	Older     CanarySide  `json:"old"`
	Newer     CanarySide  `json:"new"`
	Reason    string      `json:"reason,omitempty" doc:"of the last decision"`
	Declared  string      `json:"-"` // what the specs say; empty: it was made by hand
	Actor     string      `json:"actor"`
	Created   time.Time   `json:"created"`
	Since     time.Time   `json:"since" doc:"since when the figures count"`
	Next      time.Time   `json:"next,omitzero" doc:"when is decided next"`
	Finished  time.Time   `json:"finished,omitzero"`

	TriggerVersion UID `json:"-"`
}

// CanaryRule says how a canary goes on.
type CanaryRule struct {
	Step        int           `json:"step"`
	Interval    time.Duration `json:"interval"`
	Threshold   int           `json:"threshold"`
	MinRequests int64         `json:"min_requests"`
}

// DefaultCanaryRule is what a canary goes by that says nothing else: the defaults of Fission's command line.
func DefaultCanaryRule() CanaryRule {
	const step, interval, threshold = 20, 2 * time.Minute, 10
	return CanaryRule{Step: step, Interval: interval, Threshold: threshold, MinRequests: 1}
}

// CheckCanaryRule returns an Invalid error unless a canary can go by a rule.
func CheckCanaryRule(r CanaryRule) error {
	const all, shortest, longest = 100, time.Second, 30 * 24 * time.Hour
	switch {
	case r.Step < 1 || r.Step > all:
		return Errorf("landfall.CheckCanaryRule", Invalid, "the step is %d percent; right would be 1 to 100", r.Step)
	case r.Interval < shortest || r.Interval > longest:
		return Errorf("landfall.CheckCanaryRule", Invalid, "the interval is %s; right would be 1s to 720h", r.Interval)
	case r.Threshold < 0 || r.Threshold > all:
		return Errorf("landfall.CheckCanaryRule", Invalid, "the threshold of failures is %d percent; right would be 0 to 100",
			r.Threshold)
	case r.MinRequests < 1:
		return Errorf("landfall.CheckCanaryRule", Invalid, "%d requests say nothing; right would be 1 or more", r.MinRequests)
	}
	return nil
}

// DeclaredCanary is a canary as the specs of an app have it.
type DeclaredCanary struct {
	CanaryRule

	Name    string `json:"name"`
	Trigger string `json:"trigger"`
	Newer   string `json:"newer"` // functions, as the trigger names them
	Older   string `json:"older"`
}

// CanarySide is one of the two versions between which calls are shared.
type CanarySide struct {
	Ref      string        `json:"ref" doc:"the version, as the alias or the trigger names it"`
	Function string        `json:"function"`
	Number   int64         `json:"number" doc:"of the version that it means"`
	Total    CanaryFigures `json:"-"`
	Before   CanaryFigures `json:"-"` // what of Total was counted before the step
}

// Figures returns what was counted since the step.
func (s CanarySide) Figures() CanaryFigures {
	return CanaryFigures{s.Total.Requests - s.Before.Requests, s.Total.Failures - s.Before.Failures}
}

// CanaryStep is one decision of a canary, with the figures that decided.
type CanaryStep struct {
	At      time.Time     `json:"at"`
	Verdict string        `json:"verdict" enum:"start,hold,advance,return,done,stop"`
	Weight  int           `json:"weight" doc:"percent of the new version from then on"`
	Older   CanaryFigures `json:"old"`
	Newer   CanaryFigures `json:"new"`
	Reason  string        `json:"reason"`
}
