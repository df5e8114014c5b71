package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
)

// How much comes at once.
const (
	crowdApps   = 8
	crowdPushes = 200
	crowdGits   = 32 // processes of git at a time
	crowdRivals = 50 // how often a push may find that another was faster
	maxLabel    = 56 // characters of a slug behind "branch-"
)

func crowdBranches() []string { return []string{"main", "beta", "feature/x"} }

// crowdPush is one of many pushes at once.
type crowdPush struct {
	repository *repository
	app, ref   string
	address    string
	commit     landfall.CommitSHA
	page       string
}

// 200 pushes to 3 branches of 8 apps come at once. Several go to the same branch, and several bring functions that another
// brings too. None is lost, none is applied twice (V7), numbers rise without gaps and no version is made twice, every branch
// tag names the branch's last push, and live the last one of main.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	pushes := s.crowd(t)
	var rivals atomic.Int64
	var group errgroup.Group
	group.SetLimit(crowdGits)
	for _, p := range pushes {
		group.Go(func() error {
			for range crowdRivals {
				out, err := p.repository.try("push", "--force", p.address, string(p.commit)+":"+p.ref)
				if err == nil {
					return nil
				}
				if !strings.Contains(out, "remote rejected") {
					return fmt.Errorf("git push: %w\n%s", err, out)
				}
				rivals.Add(1) // another push moved the branch meanwhile
			}
			return fmt.Errorf("%s never got through to %s of %s", p.commit, p.ref, p.app)
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	superseded := 0
	pages := map[landfall.CommitSHA]string{}
	for _, p := range pushes {
		run := s.finished(p.app, p.commit)
		if run.State != landfall.RunSucceeded && run.State != landfall.RunSuperseded {
			t.Errorf("the run of %s (%s of %s) ended as %s: %s", p.commit.Short(), p.ref, p.app, run.State, run.Reason)
		}
		if run.State == landfall.RunSuperseded {
			superseded++
		}
		pages[p.commit] = p.page
	}
	t.Logf("%d pushes, of which a newer one superseded %d; %d times git tried again because another push was faster",
		len(pushes), superseded, rivals.Load())
	for i := range crowdApps {
		s.wantHeads(t, crowdApp(i), pages)
	}
	wantSound(t, s, false)
}

func crowdApp(i int) string { return fmt.Sprintf("crowd-%d", i) }

// crowd makes the apps, with a first release each, and the commits to push: of every branch a line of its own. Neighbours
// go to different apps.
func (s *site) crowd(t *testing.T) []crowdPush {
	t.Helper()
	pushes := make([]crowdPush, crowdPushes)
	branches := crowdBranches()
	for i := range crowdApps {
		name := crowdApp(i)
		app := s.app(name)
		r := s.repository(app)
		r.write("specs/app.yaml", appSpec(name, "release: {keep: 1000}"), "specs/environment.yaml", environmentSpec,
			"specs/function.yaml", functionSpec(name+"-function"), "site/index.html", "first")
		crowdCode(r, name, 0)
		s.pushed(r, name, "first")
		for b, branch := range branches {
			r.git("checkout", "--quiet", "-B", branch, "main")
			for n := range crowdPushes {
				if n%crowdApps != i || n/crowdApps%len(branches) != b {
					continue
				}
				page := fmt.Sprintf("push %d to %s of %s", n, branch, name)
				r.write("site/index.html", page)
				crowdCode(r, name, n/crowdApps/len(branches))
				pushes[n] = crowdPush{r, name, landfall.BranchPrefix + branch, s.remote(app), r.commit(page), page}
			}
		}
	}
	return pushes
}

// crowdCode writes one of three codes of an app's function, which its branches share.
func crowdCode(r *repository, app string, n int) {
	const codes = 3
	r.write(app+"-function/main.py", fmt.Sprintf("def main(): return %d\n", n%codes))
}

// wantHeads fails the test unless the branch tags of an app and its live release are those of the branches' heads.
func (s *site) wantHeads(t *testing.T, app string, pages map[landfall.CommitSHA]string) {
	t.Helper()
	s = s.in(t)
	heads := (&repository{t, t.TempDir()}).git("ls-remote", s.remote(s.showApp(app)), "refs/heads/*")
	tags := s.tagged(app)
	for line := range strings.Lines(heads) {
		sha, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		branch, _ := landfall.RefName(ref).Branch()
		run := s.finished(app, landfall.CommitSHA(sha))
		if run.State != landfall.RunSucceeded {
			t.Errorf("the last push to %s of %s ended as %s: %s", branch, app, run.State, run.Reason)
			continue
		}
		page := pages[run.Commit]
		wantServed(t, s, app+"--"+string(run.Release), "/", page)
		tag := "branch-" + landfall.Slug(branch, maxLabel)
		wantEqual(t, "the tag of "+branch+" of "+app, tags[tag], run.Release)
		wantServed(t, s, app+"--"+tag, "/", page)
		if branch == "main" {
			wantEqual(t, "live of "+app, s.showApp(app).Live, run.Release)
			wantServed(t, s, app, "/", page)
		}
	}
}

// One app whose builds take long holds up no other app, and its own runs all come to their turn.
func TestLongBuildsOfOneApp(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	slow, quick := s.repository(s.app("slow")), s.repository(s.app("quick"))
	const builds, share = 9, 4 // the server has 8 workers
	gates, commits := make([]string, builds), make([]landfall.CommitSHA, builds)
	open := func() {
		for _, gate := range gates {
			openGate(t, gate)
		}
	}
	for i := range builds {
		gates[i] = t.TempDir()
		slow.git("checkout", "--quiet", "--orphan", fmt.Sprintf("branch-%d", i))
		slow.write("specs/app.yaml", gated("slow", gates[i]), "site/index.html", "slow")
		commits[i] = slow.commit("A build that takes its time")
	}
	t.Cleanup(open)
	building := func() (n int) {
		for _, gate := range gates {
			if isThere(filepath.Join(gate, "building")) {
				n++
			}
		}
		return n
	}
	var group errgroup.Group
	group.Go(func() error {
		_, err := slow.try("push", "origin", "--all")
		return err
	})
	s.eventually("the app has its share of the workers", func() bool { return building() >= share })
	quick.write("specs/app.yaml", appSpec("quick"), "site/index.html", "quick")
	quick.commit("No build")
	wantEqual(t, "state of the other app's run", s.applied(quick, "quick", "main", false).State, landfall.RunSucceeded)
	wantServed(t, s, "quick", "/", "quick")
	wantEqual(t, "builds of the slow app at once", building(), share)
	open()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	for _, commit := range commits {
		run := s.finished("slow", commit)
		wantEqual(t, "state of a run that waited", run.State, landfall.RunSucceeded)
		for _, step := range run.Steps {
			wantEqual(t, "attempt of a run that waited", step.Attempt, 1)
		}
	}
}
