package webhook_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// line is a branch of many commits, each with a page that says which one it is.
type line struct {
	branch  string
	commits []landfall.CommitSHA
	pushes  []forge.Delivery // one for each commit
}

// lines makes branches of a repository, all at once, and what the forge has to tell of each commit on them.
func lines(t *testing.T, h *forge.Hosted, branches, commits int) []line {
	t.Helper()
	var stream strings.Builder
	for b := range branches {
		for c := range commits {
			page := fmt.Sprintf("branch %d, commit %d", b, c)
			fmt.Fprintf(&stream, "commit refs/heads/line-%d\ncommitter T <t@example.com> %d +0000\ndata 1\nx", b, 1700000000+c)
			fmt.Fprintf(&stream, "\nM 644 inline index.html\ndata %d\n%s\n\n", len(page), page)
		}
	}
	if out, err := h.TryWith(strings.NewReader(stream.String()), "fast-import", "--quiet"); err != nil {
		t.Fatal(out, err)
	}
	all := make([]line, branches)
	for b := range branches {
		l := &all[b]
		l.branch = fmt.Sprint("line-", b)
		h.Git("push", "--quiet", "origin", l.branch)
		before := strings.Repeat("0", 40)
		for sha := range strings.FieldsSeq(h.Git("rev-list", "--reverse", l.branch)) {
			l.commits = append(l.commits, landfall.CommitSHA(sha))
			l.pushes = append(l.pushes, h.Delivery("push", "push_branch_update", func(payload map[string]any) {
				maps.Copy(payload, map[string]any{"ref": landfall.BranchPrefix + l.branch, "before": before, "after": sha,
					"created": strings.Trim(before, "0") == "", "forced": false})
				forge.Object(t, payload, "head_commit")["id"] = sha
			}))
			before = sha
		}
	}
	return all
}

// dose returns how much of something is done: what an environment variable says, or the part that is enough each time.
func dose(t *testing.T, variable string, usual int) int {
	t.Helper()
	if n := os.Getenv(variable); n != "" {
		return testkit.Must(strconv.Atoi(n))(t)
	}
	return usual
}

// Deliveries come once or several times, in any order, and eight at a time. Each commit has one run, each branch ends at
// its head, and what is delivered again afterwards changes nothing.
func TestDeliveriesAgainAndAgain(t *testing.T) {
	t.Parallel()
	const branches, copies = 5, 3
	commits := dose(t, "LANDFALL_DELIVERIES", 1000) / branches / copies
	w := forge.NewReportingWorld(t)
	h, _ := w.Follow("shop")
	all := lines(t, h, branches, commits)
	random := rand.New(rand.NewPCG(4, 4))
	var deliveries []forge.Delivery
	for _, l := range all {
		for _, push := range l.pushes {
			for range 1 + random.IntN(2*copies-1) {
				deliveries = append(deliveries, push)
			}
		}
	}
	random.Shuffle(len(deliveries), func(i, j int) { deliveries[i], deliveries[j] = deliveries[j], deliveries[i] })
	var mu sync.Mutex
	runs := map[string][]string{} // by delivery
	eight(deliveries, func(d forge.Delivery) {
		got, err := forge.TryPost(w.Installation().URL, d, forge.Signature(forge.WebhookSecret, d.Body))
		mu.Lock()
		defer mu.Unlock()
		if err != nil || got.Status != http.StatusAccepted && got.Status != http.StatusOK || len(got.Runs) != 1 {
			t.Errorf("a delivery got %+v, %v; want 202 or 200 with one run", got, err)
			return
		}
		runs[d.ID] = append(runs[d.ID], got.Runs[0])
	})
	distinct := map[string]bool{}
	for id, of := range runs {
		distinct[of[0]] = true
		// N-003: a repeated delivery has the run of the first one
		if slices.ContainsFunc(of, func(run string) bool { return run != of[0] }) {
			t.Errorf("the delivery %s got the runs %v, want one", id, of)
		}
	}
	for _, l := range all {
		w.Ends("shop", l.commits[commits-1], landfall.RunSucceeded)
		site.WantServed(t, w.Site, "shop--branch-"+l.branch, "/", fmt.Sprintf("branch %s, commit %d", l.branch[5:], commits-1))
	}
	// R4: one run for each commit, in whatever order and however often it was told
	testkit.Equal(t, "runs", len(distinct), branches*commits)
	stored := func() string {
		return fmt.Sprint(len(slices.Collect(site.Pages[client.Run](w.Site, "/runs?app=shop&limit=1000"))),
			slices.Collect(site.Pages[client.Move](w.Site, "/apps/shop/moves?limit=1000")))
	}
	before := stored()
	eight(deliveries, func(d forge.Delivery) {
		got, err := forge.TryPost(w.Installation().URL, d, forge.Signature(forge.WebhookSecret, d.Body))
		if err != nil || got.Status != http.StatusOK {
			t.Errorf("a delivery that comes again got %+v, %v; want 200", got, err)
		}
	})
	// S7: what is replayed makes no run and moves no pointer
	testkit.Equal(t, "runs and moves after all was delivered again", stored(), before)
}

// eight does something with each delivery, eight at a time, in their order.
func eight(deliveries []forge.Delivery, do func(forge.Delivery)) {
	next := make(chan forge.Delivery)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for d := range next {
				do(d)
			}
		})
	}
	for _, d := range deliveries {
		next <- d
	}
	close(next)
	workers.Wait()
}

// A hundred pushes to one repository come at once. GitHub refuses nothing of what is reported, and knows in the end what
// became of each commit.
func TestStormOfPushes(t *testing.T) {
	t.Parallel()
	const branches, commits = 10, 10
	w := forge.NewReportingWorld(t)
	w.API.EnforceLimits()
	h, _ := w.Follow("shop")
	all := lines(t, h, branches, commits)
	for c := range commits {
		for b, l := range all {
			w.Hears(l.pushes[c])
			if c == commits-1 {
				w.Hears(h.Pull("opened", b+1, l.branch))
			}
		}
	}
	for b, l := range all {
		for c, sha := range l.commits {
			run := w.Finished("shop", sha)
			told := w.Told(sha)
			want := landfall.StatusSuccess
			if run.State == landfall.RunSuperseded {
				want = landfall.StatusError
			}
			if last := told[len(told)-1]; last.State != string(want) || c == commits-1 && want != landfall.StatusSuccess {
				t.Errorf("commit %d of %s ended as %s, and GitHub heard %+v", c, l.branch, run.State, told)
			}
		}
		w.Says(h, b+1, l.commits[commits-1].Short())
	}
	// L-023: nothing that was reported was too much
	testkit.Equal(t, "requests beyond the limits", w.API.Refused(), 0)
}
