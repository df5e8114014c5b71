package github

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// What two apps of one name say of a commit arrives in order: the one that was deleted, and the one that was made after
// it.
func TestOneContextIsNotBesideItself(t *testing.T) {
	t.Parallel()
	s := Sender{Now: time.Now, beside: mostBeside}
	report := func(app string, commit landfall.CommitSHA, name string) landfall.Report {
		return landfall.Report{App: app, Commit: commit, Context: name, State: landfall.StatusSuccess}
	}
	due := []landfall.Report{report("1", "a", "landfall/shop"), report("2", "a", "landfall/docs"),
		report("3", "b", "landfall/shop"), report("4", "a", "landfall/shop"), report("5", "c", "landfall/shop")}
	testkit.Equal(t, "reports beside each other", len(s.besideEachOther(due)), 3)
}
