package accept_test

import (
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// catchesUp looks at the repository, and returns what the log of the newest run says.
func (l *listener) catchesUp() string {
	l.T.Helper()
	if err := l.Receiver.CatchUp(l.T.Context(), l.app); err != nil {
		l.T.Fatal(err)
	}
	runs, err := l.Receiver.DB.UnfinishedOfApp(l.T.Context(), l.app)
	if err != nil || len(runs) == 0 {
		return ""
	}
	lines := testkit.Must(l.Receiver.DB.Log(l.T.Context(), runs[0].ID, 0, 100))(l.T)
	var log strings.Builder
	for _, line := range lines {
		log.WriteString(line.Text + "\n")
	}
	return log.String()
}

// at returns where the app sees a reference; empty where it sees none.
func (l *listener) at(ref landfall.RefName) landfall.CommitSHA {
	l.T.Helper()
	head, err := l.Receiver.DB.Head(l.T.Context(), l.app, ref)
	if err := landfall.Ignore(err, landfall.NotFound); err != nil {
		l.T.Fatal(err)
	}
	return head.SHA
}

// Pushes of which no delivery told are found in the repository: those after the first look, whether something was told
// of the reference before or not.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	c := f.line(4)
	l := f.listener()
	now := time.Now()
	l.Receiver.Now = func() time.Time { return now }
	const other, tag = landfall.RefName("refs/heads/other"), landfall.RefName("refs/tags/v1")
	l.pushes(c[0])
	l.Git("update-ref", string(other), string(c[0]))
	l.catchesUp()
	// L-018: what was there before the app is no push
	testkit.Equal(t, "runs after the first look", len(l.unfinished()), 0)

	one := l.pushes(c[1])
	l.hears(one...)
	two := l.pushes(c[2])
	log := l.catchesUp()
	// L-018: a push of which no delivery told becomes a run, which says so
	testkit.Equal(t, "the branch", l.at(l.Ref), c[2])
	if !strings.Contains(log, "recovered: no delivery told of this push") {
		t.Errorf("the log is %q", log)
	}
	l.worked()
	l.hears(two...)
	l.catchesUp()
	// L-018: a delivery that comes later, and another look, find it made
	testkit.Equal(t, "runs that are not over", len(l.unfinished()), 0)

	l.Git("update-ref", string(other), string(c[3]))
	l.Git("update-ref", string(tag), string(c[1]))
	l.catchesUp()
	// L-018: so do a branch and a tag of which none ever told
	testkit.Equal(t, "the other branch", l.at(other), c[3])
	testkit.Equal(t, "the tag", l.at(tag), c[1])
	l.worked()

	l.pushes(c[1])
	l.Git("update-ref", "-d", string(other))
	l.catchesUp()
	// P-009: a forge that shows the time before the last push moves nothing back
	testkit.Equal(t, "the branch, shown where it was", l.at(l.Ref), c[2])
	testkit.Equal(t, "the other branch, not shown", l.at(other), c[3])
	now = now.Add(2 * time.Minute)
	l.catchesUp()
	// L-018: what it still shows later has happened
	testkit.Equal(t, "the branch that was set back", l.at(l.Ref), c[1])
	testkit.Equal(t, "the branch that was deleted", l.at(other), "")
}
