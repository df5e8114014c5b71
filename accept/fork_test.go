package accept_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// forked is an app of a repository elsewhere, and pull request 12 of a fork of that.
type forked struct {
	*shop

	in    accept.WebhookReceiver
	told  int
	clock time.Time
}

func newForked(t *testing.T) *forked {
	t.Helper()
	f := &forked{shop: newShop(t), clock: time.Now()}
	f.in = f.Hooked()
	f.in.Now, f.in.Runs.Now = f.now, f.now
	return f
}

func (f *forked) now() time.Time { return f.clock }

// commit returns a commit that no repository has: nothing of a fork is fetched.
func (f *forked) commit(n int) landfall.CommitSHA {
	return landfall.CommitSHA(fmt.Sprintf("%040x", 0xabc0000+n))
}

// hears tells of the pull request, and returns the run of the delivery; empty when there is none.
func (f *forked) hears(commit, before landfall.CommitSHA, change func(*landfall.PullRequest)) string {
	f.T.Helper()
	f.told++
	event := f.Opens(fmt.Sprint("d", f.told), commit)
	event.PullRequest.Fork, event.PullRequest.Before = true, before
	if change != nil {
		change(&event.PullRequest.PullRequest)
	}
	stored, _, err := f.in.Accept(f.T.Context(), event)
	if err != nil {
		f.T.Fatal(err)
	}
	return strings.Join(stored.Runs, " ")
}

func closed(p *landfall.PullRequest) { p.Closed = true }

// want fails the test unless a run is in a state, and the last thing that the forge is told of it begins with a text.
func (f *forked) want(what, id string, state landfall.RunState, told landfall.StatusState, text string) landfall.Run {
	f.T.Helper()
	run := testkit.Must(f.in.DB.Run(f.T.Context(), id))(f.T)
	testkit.Equal(f.T, what+": state", run.State, state)
	var last landfall.Report
	for _, report := range testkit.Must(f.in.DB.ReportsOf(f.T.Context(), run.App, run.Commit))(f.T) {
		if report.Run == id {
			last = report
		}
	}
	if last.State != told || !strings.HasPrefix(last.Description, text) || last.Target != id {
		f.T.Errorf("%s: the forge is told %+v, want %s %q, leading to the run", what, last, told, text)
	}
	return run
}

func (f *forked) approve(id string) error {
	return f.in.DB.Update(f.T.Context(), func(tx *store.Tx) error {
		return f.in.Runs.Approve(f.T.Context(), tx, id, landfall.Approval{By: "mira", Via: "a test"})
	})
}

// due returns the runs that somebody may work on.
func (f *forked) due() (ids []string) {
	f.T.Helper()
	for _, run := range testkit.Must(f.in.DB.DueRuns(f.T.Context(), "", f.clock.Add(time.Hour), 4, 10))(f.T) {
		ids = append(ids, run.ID)
	}
	return ids
}

// The commit of a fork waits, and says how it is approved. The next commit takes its place, and a closed pull request
// ends what waited.
func TestForkWaits(t *testing.T) {
	t.Parallel()
	f := newForked(t)
	one := f.hears(f.commit(1), "", nil)
	// L-009: the status says how to approve L-006: what needs approval has a text of its own
	run := f.want("opened", one, landfall.RunWaiting, landfall.StatusPending,
		"Waits for approval by a person with write access: landfall run approve "+one)
	testkit.Equal(t, "branch", run.Branch, "pull:12")
	// L-021: a fork is not run by itself L-022: it stands in a state of its own
	testkit.EqualList(t, "runs that may be worked on", f.due(), nil)
	testkit.Equal(t, "run of the same delivery again", f.hears(f.commit(1), "", nil), one)

	two := f.hears(f.commit(2), f.commit(1), nil)
	// L-010: a push supersedes a run that waits
	f.want("after a push", one, landfall.RunSuperseded, landfall.StatusError, "Superseded by "+f.commit(2).Short())
	f.want("the push", two, landfall.RunWaiting, landfall.StatusPending, "Waits for approval")
	testkit.Kind(t, "to approve the old commit", f.approve(one), landfall.Conflict, "does not wait for approval",
		"superseded")
	testkit.Equal(t, "run of the first push, told late", f.hears(f.commit(1), "", nil), one)
	f.want("after late news", two, landfall.RunWaiting, landfall.StatusPending, "Waits for approval")

	three := f.hears(f.commit(2), "", func(p *landfall.PullRequest) { p.Base = "next" })
	f.want("for another base", two, landfall.RunSuperseded, landfall.StatusError, "Superseded: the base branch is next now")
	testkit.Equal(t, "run of a closed pull request", f.hears(f.commit(2), "", closed), "")
	f.want("closed", three, landfall.RunExpired, landfall.StatusError, "Expired: the pull request was closed")
	four := f.hears(f.commit(2), "", nil)
	f.want("opened again", four, landfall.RunWaiting, landfall.StatusPending, "Waits for approval")
	if four == three {
		t.Error("a closed pull request is opened with the run that ended")
	}
}

// An approval is for one commit: whoever gave it stands in the run, and what is pushed afterwards waits again.
func TestForkIsApproved(t *testing.T) {
	t.Parallel()
	f := newForked(t)
	one := f.hears(f.commit(1), "", nil)
	if err := f.approve(one); err != nil {
		t.Fatal(err)
	}
	// L-006: what is approved is queued, with a text of its own
	run := f.want("approved", one, landfall.RunQueued, landfall.StatusPending, "Queued: approved by mira")
	if run.Approval == nil || run.Approval.By != "mira" || run.Approval.Via != "a test" || run.Approval.At.IsZero() {
		t.Errorf("got the approval %+v, want who gave it, when and how", run.Approval)
	}
	log := testkit.Must(f.in.DB.Log(t.Context(), one, 0, 10))(t)
	if text := log[len(log)-1].Text; !strings.HasPrefix(text, "approved by mira, ") || !strings.HasSuffix(text, "with: a test") {
		t.Errorf("the log says %q, want the same", text)
	}
	testkit.EqualList(t, "runs that may be worked on", f.due(), []string{one})
	testkit.Kind(t, "to approve it again", f.approve(one), landfall.Conflict, "is queued, and was approved by mira")

	two := f.hears(f.commit(2), f.commit(1), nil)
	f.want("after a push", one, landfall.RunSuperseded, landfall.StatusError, "Superseded by ")
	// S18: the approval is not of the next commit
	f.want("the push", two, landfall.RunWaiting, landfall.StatusPending, "Waits for approval")
	testkit.Equal(t, "of a closed pull request", f.hears(f.commit(2), "", closed), "")
	testkit.Kind(t, "to approve a closed one", f.approve(two), landfall.Conflict, "expired")
	three := f.hears(f.commit(3), "", nil)
	if err := f.approve(three); err != nil {
		t.Fatal(err)
	}
	f.hears(f.commit(3), "", closed)
	// L-007: a run that was approved and is not over ends with the pull request, and says so
	f.want("closed after the approval", three, landfall.RunCancelled, landfall.StatusError,
		"Cancelled: the pull request was closed")
}

// What was declined is over, and says why. Somebody may ask again.
func TestForkIsDeclined(t *testing.T) {
	t.Parallel()
	f := newForked(t)
	one := f.hears(f.commit(1), "", nil)
	f.Update(func(tx *store.Tx) error {
		return f.in.Runs.Decline(t.Context(), tx, one, "mira", "it sends files away")
	})
	// L-006: what was declined has a text of its own
	f.want("declined", one, landfall.RunDeclined, landfall.StatusFailure, "Declined by mira: it sends files away")
	again := testkit.Must(f.in.Runs.Retry(t.Context(), one, "mira", false))(t)
	// S18: a retry is no approval
	f.want("tried again", again.ID, landfall.RunWaiting, landfall.StatusPending, "Waits for approval")
	if err := f.approve(again.ID); err != nil {
		t.Fatal(err)
	}
	testkit.Must(f.in.Runs.Cancel(t.Context(), again.ID, "mira"))(t)
	// L-007: what was cancelled has a text of its own
	f.want("cancelled", again.ID, landfall.RunCancelled, landfall.StatusError, "Cancelled by mira")
	third := testkit.Must(f.in.Runs.Retry(t.Context(), again.ID, "bob", false))(t)
	f.want("tried after an approval", third.ID, landfall.RunQueued, landfall.StatusPending, "Queued again by bob")
	testkit.Equal(t, "who approved it", third.Approval.By, "mira")
	f.hears(f.commit(2), f.commit(1), nil)
	_, err := f.in.Runs.Retry(t.Context(), third.ID, "bob", false)
	testkit.Kind(t, "to try an older commit", err, landfall.Conflict, "only the commit at its head runs")
}

// Who is not approved within a week has expired.
func TestForkExpires(t *testing.T) {
	t.Parallel()
	f := newForked(t)
	one := f.hears(f.commit(1), "", nil)
	f.clock = f.clock.Add(landfall.ApprovalWait - time.Minute)
	expire := func() {
		t.Helper()
		if err := f.in.Runs.ExpireWaiting(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expire()
	f.want("before a week is over", one, landfall.RunWaiting, landfall.StatusPending, "Waits for approval")
	f.clock = f.clock.Add(2 * time.Minute)
	expire()
	f.want("after it", one, landfall.RunExpired, landfall.StatusError, "Expired: nobody approved it within 7 days")
	expire()
}

// Nothing of a fork is joined with what comes to a branch, in either direction.
func TestForkIsNobodysRun(t *testing.T) {
	t.Parallel()
	f := newForked(t)
	one := f.hears(f.commit(1), "", nil)
	push := landfall.Push{App: "hooked", Source: landfall.FromWebhook, Ref: "refs/heads/main", After: f.commit(1)}
	var merged string
	f.Update(func(tx *store.Tx) (err error) {
		merged, err = f.in.Acceptor.Accept(t.Context(), tx, push)
		return err
	})
	own := testkit.Must(f.in.DB.Run(t.Context(), merged))(t)
	waits := f.want("the fork's", one, landfall.RunWaiting, landfall.StatusPending, "Waits for approval")
	// S18: the same commit on a branch has a run and an address of its own
	if merged == one || own.Fork != 0 || own.State != landfall.RunQueued || own.UID == waits.UID {
		t.Errorf("got %+v for the branch and %+v for the fork, want two runs with an address each", own, waits)
	}
	testkit.Equal(t, "the fork's run, told again", f.hears(f.commit(1), "", nil), one)
	heads := testkit.Must(f.in.DB.Heads(t.Context(), "hooked"))(t)
	testkit.Equal(t, "references that count as the app's", fmt.Sprint(len(heads), " ", heads[0].Ref), "1 refs/heads/main")
}

// A run that waits is found by the digits of its commit.
func TestWaiting(t *testing.T) {
	t.Parallel()
	f := newForked(t)
	one := f.hears(f.commit(1), "", nil)
	other := f.hears(f.commit(1), "", func(p *landfall.PullRequest) { p.Number = 13 })
	find := func(ctx context.Context, commit string, number int) (string, error) {
		run, err := runs.Waiting(ctx, f.in.DB, "hooked", commit, number)
		return run.ID, err
	}
	got, err := find(t.Context(), string(f.commit(1)), 12)
	testkit.Equal(t, "of one pull request", fmt.Sprint(got, err), fmt.Sprint(one, nil))
	got, err = find(t.Context(), string(f.commit(1)[:7]), 13)
	testkit.Equal(t, "by some digits", fmt.Sprint(got, err), fmt.Sprint(other, nil))
	_, err = find(t.Context(), string(f.commit(1)), 0)
	testkit.Kind(t, "of any", err, landfall.Conflict, "landfall run list --state waiting")
	_, err = find(t.Context(), string(f.commit(1)[:6]), 0)
	testkit.Kind(t, "by too few digits", err, landfall.Invalid, "7 or more")
	_, err = find(t.Context(), string(f.commit(2)), 0)
	testkit.Kind(t, "of another commit", err, landfall.NotFound, "waits for approval")
}

// The digits that somebody read at one commit approve no other one, which may have been searched for.
func TestWaitingBehindTheSameDigits(t *testing.T) {
	t.Parallel()
	f := newForked(t)
	read := landfall.CommitSHA("abcdef0" + strings.Repeat("1", 33))
	pushed := landfall.CommitSHA("abcdef0" + strings.Repeat("2", 33))
	f.hears(read, "", nil)
	two := f.hears(pushed, read, nil)
	// S18: an approval is for the commit that was looked at
	_, err := runs.Waiting(t.Context(), f.in.DB, "hooked", "abcdef0", 12)
	testkit.Kind(t, "by the digits of both", err, landfall.Conflict, "2 commits of pull request 12 begin with abcdef0")
	_, err = runs.Waiting(t.Context(), f.in.DB, "hooked", "abcdef0", 0)
	testkit.Kind(t, "of any pull request", err, landfall.Conflict, "give all digits")
	run, err := runs.Waiting(t.Context(), f.in.DB, "hooked", string(pushed), 12)
	testkit.Equal(t, "by all digits", fmt.Sprint(run.ID, err), fmt.Sprint(two, nil))
}
