package push_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
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
	repository *site.Repository
	app, ref   string
	address    string
	commit     landfall.CommitSHA
	page       string
}

// 200 pushes to 3 branches of 8 apps come at once. Several go to the same branch, and several bring functions that
// another brings too. None is lost, none is applied twice (V7), numbers rise without gaps and no version is made twice,
// every branch tag names the branch's last push, and live the last one of main.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	pushes := crowd(s, t)
	var rivals atomic.Int64
	var group errgroup.Group
	group.SetLimit(crowdGits)
	for _, p := range pushes {
		group.Go(func() error {
			for range crowdRivals {
				out, err := p.repository.Try("push", "--force", p.address, string(p.commit)+":"+p.ref)
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
		run := s.Finished(p.app, p.commit)
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
		wantHeads(s, t, crowdApp(i), pages)
	}
	site.WantSound(t, s, false)
}

func crowdApp(i int) string { return fmt.Sprintf("crowd-%d", i) }

// crowd makes the apps, with a first release each, and the commits to push: of every branch a line of its own.
// Neighbours go to different apps.
func crowd(s *site.Site, t *testing.T) []crowdPush {
	t.Helper()
	pushes := make([]crowdPush, crowdPushes)
	branches := crowdBranches()
	for i := range crowdApps {
		name := crowdApp(i)
		app := s.App(name)
		r := s.Repository(app)
		r.Write("specs/app.yaml", site.AppSpec(name, "release: {keep: 1000}"), "specs/environment.yaml", site.EnvironmentSpec,
			"specs/function.yaml", site.FunctionSpec(name+"-function"), "site/index.html", "first")
		crowdCode(r, name, 0)
		s.Pushed(r, name, "first")
		for b, branch := range branches {
			r.Git("checkout", "--quiet", "-B", branch, "main")
			for n := range crowdPushes {
				if n%crowdApps != i || n/crowdApps%len(branches) != b {
					continue
				}
				page := fmt.Sprintf("push %d to %s of %s", n, branch, name)
				r.Write("site/index.html", page)
				crowdCode(r, name, n/crowdApps/len(branches))
				pushes[n] = crowdPush{r, name, landfall.BranchPrefix + branch, s.Remote(app), r.Commit(page), page}
			}
		}
	}
	return pushes
}

// crowdCode writes one of three codes of an app's function, which its branches share.
func crowdCode(r *site.Repository, app string, n int) {
	const codes = 3
	r.Write(app+"-function/main.py", fmt.Sprintf("def main(): return %d\n", n%codes))
}

// wantHeads fails the test unless the branch tags of an app and its live release are those of the branches' heads.
func wantHeads(s *site.Site, t *testing.T, app string, pages map[landfall.CommitSHA]string) {
	t.Helper()
	s = s.In(t)
	heads := (&site.Repository{T: t, Dir: t.TempDir()}).Git("ls-remote", s.Remote(s.ShowApp(app)), "refs/heads/*")
	tags := s.Tagged(app)
	for line := range strings.Lines(heads) {
		sha, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		branch, _ := landfall.RefName(ref).Branch()
		run := s.Finished(app, landfall.CommitSHA(sha))
		if run.State != landfall.RunSucceeded {
			t.Errorf("the last push to %s of %s ended as %s: %s", branch, app, run.State, run.Reason)
			continue
		}
		page := pages[run.Commit]
		site.WantServed(t, s, app+"--"+string(run.Release), "/", page)
		tag := "branch-" + landfall.Slug(branch, maxLabel)
		testkit.Equal(t, "the tag of "+branch+" of "+app, tags[tag], run.Release)
		site.WantServed(t, s, app+"--"+tag, "/", page)
		if branch == "main" {
			testkit.Equal(t, "live of "+app, s.ShowApp(app).Live, run.Release)
			site.WantServed(t, s, app, "/", page)
		}
	}
}

// One app whose builds take long holds up no other app, and its own runs all come to their turn.
func TestLongBuildsOfOneApp(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	slow, quick := s.Repository(s.App("slow")), s.Repository(s.App("quick"))
	const builds, share = 9, 4 // the server has 8 workers
	gates, commits := make([]string, builds), make([]landfall.CommitSHA, builds)
	open := func() {
		for _, gate := range gates {
			site.OpenGate(t, gate)
		}
	}
	for i := range builds {
		gates[i] = t.TempDir()
		slow.Git("checkout", "--quiet", "--orphan", fmt.Sprintf("branch-%d", i))
		slow.Write("specs/app.yaml", site.Gated("slow", gates[i]), "site/index.html", "slow")
		commits[i] = slow.Commit("A build that takes its time")
	}
	t.Cleanup(open)
	building := func() (n int) {
		for _, gate := range gates {
			if site.IsThere(filepath.Join(gate, "building")) {
				n++
			}
		}
		return n
	}
	var group errgroup.Group
	group.Go(func() error {
		_, err := slow.Try("push", "origin", "--all")
		return err
	})
	s.Eventually("the app has its share of the workers", func() bool { return building() >= share })
	quick.Write("specs/app.yaml", site.AppSpec("quick"), "site/index.html", "quick")
	quick.Commit("No build")
	testkit.Equal(t, "state of the other app's run", s.Applied(quick, "quick", "main", false).State, landfall.RunSucceeded)
	site.WantServed(t, s, "quick", "/", "quick")
	testkit.Equal(t, "builds of the slow app at once", building(), share)
	open()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	for _, commit := range commits {
		run := s.Finished("slow", commit)
		testkit.Equal(t, "state of a run that waited", run.State, landfall.RunSucceeded)
		for _, step := range run.Steps {
			testkit.Equal(t, "attempt of a run that waited", step.Attempt, 1)
		}
	}
}
