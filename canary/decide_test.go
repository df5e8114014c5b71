package canary_test

import (
	"testing"

	"landfall.dev/landfall/canary"
)

// What a canary does next follows from the figures alone.
func TestDecide(t *testing.T) {
	t.Parallel()
	fission := canary.Rule{Step: 30, Threshold: 10, MinRequests: 1}
	release := canary.Rule{Step: 20, Threshold: 1, MinRequests: 100, Relative: true}
	for name, c := range map[string]struct {
		rule         canary.Rule
		weight       int
		early        bool
		older, newer canary.Figures
		want         canary.Verdict
		to           int
	}{
		"the first step needs no figures":  {rule: fission, want: canary.Advance, to: 30},
		"not before the interval is over":  {rule: fission, early: true, want: canary.Hold},
		"nobody asked":                     {rule: fission, weight: 30, older: figures(50, 0), want: canary.Hold, to: 30},
		"all is well":                      {rule: fission, weight: 30, newer: figures(1, 0), want: canary.Advance, to: 60},
		"the last step":                    {rule: fission, weight: 90, newer: figures(9, 0), want: canary.Done, to: 100},
		"exactly all":                      {rule: fission, weight: 70, newer: figures(9, 0), want: canary.Done, to: 100},
		"just short of all":                {rule: fission, weight: 69, newer: figures(9, 0), want: canary.Advance, to: 99},
		"failures at the threshold":        {rule: fission, weight: 30, newer: figures(100, 10), want: canary.Advance, to: 60},
		"failures above the threshold":     {rule: fission, weight: 30, newer: figures(1000, 101), want: canary.Return},
		"failures where it should be done": {rule: fission, weight: 90, newer: figures(10, 2), want: canary.Return},
		"a bad old version does not excuse": {rule: fission, weight: 30, older: figures(10, 9), newer: figures(10, 2),
			want: canary.Return},
		"a bad old release does": {rule: release, weight: 10, older: figures(1000, 90), newer: figures(1000, 100),
			want: canary.Advance, to: 30},
		"one per cent above the old": {rule: release, weight: 10, older: figures(1000, 90), newer: figures(1000, 101),
			want: canary.Return},
		"early":         {rule: release, weight: 10, early: true, newer: figures(100, 2), want: canary.Return},
		"too early":     {rule: release, weight: 10, early: true, newer: figures(99, 99), want: canary.Hold, to: 10},
		"too few":       {rule: release, weight: 10, newer: figures(99, 99), want: canary.Hold, to: 10},
		"enough":        {rule: release, weight: 10, newer: figures(100, 1), want: canary.Advance, to: 30},
		"called at 0 %": {rule: fission, newer: figures(2, 1), want: canary.Return},
		"threshold 0":   {rule: canary.Rule{Step: 1}, weight: 1, newer: figures(10000, 1), want: canary.Return},
		"threshold 100": {rule: canary.Rule{Step: 1, Threshold: 100}, weight: 1, newer: figures(9, 9), want: canary.Advance, to: 2},
		"no minimum":    {rule: canary.Rule{Step: 1}, weight: 1, want: canary.Hold, to: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// by the threshold of failures, each interval by a step
			got := c.rule.Decide(c.weight, !c.early, c.older, c.newer)
			if got.Verdict != c.want || got.Weight != c.to || got.Reason == "" {
				t.Errorf("it decided %+v, want %s with %d%% and a reason", got, c.want, c.to)
			}
		})
	}
}

// The reason says the figures that decided.
func TestReason(t *testing.T) {
	t.Parallel()
	got := canary.Rule{Step: 20, Threshold: 1, MinRequests: 100, Relative: true}.Decide(10, true, figures(1000, 90), figures(200, 30))
	const want = "30 of 200 failed (15.0%); of the old 90 of 1000 failed (9.0%); the threshold is 1%"
	if got.Reason != want {
		t.Errorf("the reason is %q, want %q", got.Reason, want)
	}
}

func figures(requests, failures int64) canary.Figures {
	return canary.Figures{Requests: requests, Failures: failures}
}
