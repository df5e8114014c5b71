package canary

import "fmt"

// Figures count the requests that one side answered since the last step, and how many of them failed.
type Figures struct {
	Requests int64 `json:"requests"`
	Failures int64 `json:"failures"`
}

// String returns the figures as people read them: 3 of 100 failed (3.0%).
func (f Figures) String() string {
	if f.Requests == 0 {
		return "no requests"
	}
	return fmt.Sprintf("%d of %d failed (%.1f%%)", f.Failures, f.Requests, f.percent())
}

// percent returns the share of the failures; 0 when there were no requests.
func (f Figures) percent() float64 {
	const percent = 100
	if f.Requests == 0 {
		return 0
	}
	return percent * float64(f.Failures) / float64(f.Requests)
}

// Rule says how a canary goes on.
type Rule struct {
	Step        int   // percent that the new side gets more at each step, from 1 to 100
	Threshold   int   // percent of failures that the new side may have, from 0 to 100
	MinRequests int64 // with fewer requests the new side's figures say nothing; 1 at least
	Relative    bool  // Threshold counts from the old side's share of failures, not from 0
}

// Verdict is what is to be done.
type Verdict string

// The verdicts.
const (
	Hold    Verdict = "hold"    // the weight stays
	Advance Verdict = "advance" // the new side gets more
	Return  Verdict = "return"  // the old side gets all again, and the canary is over
	Done    Verdict = "done"    // the new side gets all, and the canary is over
)

// Decision is a verdict and why.
type Decision struct {
	Verdict Verdict
	Weight  int // percent of the new side from now on
	Reason  string
}

// Decide returns what follows from the figures of both sides while the new one has weight percent. Due says that the
// interval is over: before, a canary can return, but not advance. While the new side has nothing yet, it fails in
// nothing, and the first step needs no figures.
func (r Rule) Decide(weight int, due bool, older, newer Figures) Decision {
	limit := float64(r.Threshold)
	against := ""
	if r.Relative {
		limit += older.percent()
		against = fmt.Sprintf("; of the old %s", older)
	}
	enough := newer.Requests >= max(r.MinRequests, 1)
	figures := fmt.Sprintf("%s%s; the threshold is %d%%", newer, against, r.Threshold)
	switch {
	case enough && newer.percent() > limit:
		return Decision{Return, 0, figures}
	case !due:
		return Decision{Hold, weight, "the interval is not over"}
	case weight > 0 && !enough:
		return Decision{Hold, weight, fmt.Sprintf("%d requests, %d are needed", newer.Requests, max(r.MinRequests, 1))}
	case weight == 0 && newer.Requests == 0:
		figures = "the first step"
	}
	if weight+r.Step >= all {
		return Decision{Done, all, figures}
	}
	return Decision{Advance, weight + r.Step, figures}
}
