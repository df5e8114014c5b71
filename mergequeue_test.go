package landfall_test

import (
	"testing"

	"landfall.dev/landfall"
)

// The branches that GitHub makes for merge queues are known by their form, with the branch that they are for.
func TestMergeQueues(t *testing.T) {
	t.Parallel()
	for branch, want := range map[string]string{
		"gh-readonly-queue/main/pr-104-929f8209d40f77f4abc622a499c93a83babdbe64":     "main",
		"gh-readonly-queue/release/1.x/pr-1-929f8209d40f77f4abc622a499c93a83babdbe6": "release/1.x",
		"gh-readonly-queue/main": "", "gh-readonly-queue//x": "", "main": "", "x/gh-readonly-queue/main/pr-1-a": "", "": "",
	} {
		if got, ok := landfall.QueueBase(branch); got != want || ok != (want != "") {
			t.Errorf("%q: got %q and %t, want %q", branch, got, ok, want)
		}
		if got := landfall.RefName(landfall.BranchPrefix + branch).OfMergeQueue(); got != (want != "") {
			t.Errorf("%q: is it of a merge queue: got %t", branch, got)
		}
	}
	if landfall.RefName("refs/tags/gh-readonly-queue/main/pr-1-a").OfMergeQueue() {
		t.Error("a tag is of a merge queue")
	}
}
