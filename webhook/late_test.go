package webhook_test

import (
	"testing"

	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/webhook"
)

// What is found by looking at the repository, or may be out of date, is not asked for when it could not be delivered.
func TestWhatMattersLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		event, action string
		want          bool
	}{
		{"push", "", true},
		{"pull_request", "opened", true},
		{"pull_request", "assigned", false},
		{"repository", "privatized", true},
		// L-019: an old default branch is never the production branch again
		{"repository", "edited", false},
		{"issue_comment", "created", false},
	} {
		testkit.Equal(t, c.event+" "+c.action, webhook.MattersLate(c.event, c.action), c.want)
	}
}
