package landfall

import (
	"fmt"
	"time"
)

// ApprovalWait is how long a commit of a fork may be approved, from when it came.
const ApprovalWait = 7 * 24 * time.Hour

// ApprovalLabel is the label on a pull request that approves the commit at its head, when a person who may write to the
// repository puts it there.
const ApprovalLabel = "landfall:approve"

// Approval says that one commit of a fork may be built and released. It is never of another commit.
type Approval struct {
	By  string    `json:"by"`
	Via string    `json:"via"` // the way in which it was given: "landfall run approve", "the run's page" …
	At  time.Time `json:"at"`
}

// String returns the approval as people read it.
func (a Approval) String() string {
	return fmt.Sprintf("by %s, %s, with: %s", a.By, a.At.UTC().Format(time.RFC3339), a.Via)
}

// PullRef is the reference of the base repository that names the head of a pull request, wherever that comes from.
func PullRef(number int) RefName { return RefName(fmt.Sprintf("refs/pull/%d/head", number)) }

// ForkBranch is the name that stands where a run or a release names its branch, for a pull request of a fork. No branch
// can have it.
func ForkBranch(number int) string { return fmt.Sprintf("pull:%d", number) }
