package landfall

import "strings"

// queuePrefix begins the branches that GitHub makes for merge queues: gh-readonly-queue/BASE/pr-NUMBER-COMMIT.
const queuePrefix = "gh-readonly-queue/"

// QueueBase returns the branch into which a branch of a merge queue is merged; false for any other branch.
func QueueBase(branch string) (base string, ok bool) {
	rest, ok := strings.CutPrefix(branch, queuePrefix)
	last := strings.LastIndexByte(rest, '/')
	if !ok || last <= 0 {
		return "", false
	}
	return rest[:last], true
}

// OfMergeQueue reports whether a reference is a branch of a merge queue. It has no tag, and ends with its group.
func (r RefName) OfMergeQueue() bool {
	branch, _ := r.Branch()
	_, ok := QueueBase(branch)
	return ok
}
