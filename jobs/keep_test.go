package jobs_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/jobs"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/test/testkit"
)

// keeps runs what one process does for all, until the test ends.
func (s *shop) keeps() {
	s.T.Helper()
	s.jobs.Scratch, s.jobs.Process = filepath.Join(s.T.TempDir(), "scratch"), "keeper"
	ctx, stop := context.WithCancel(s.T.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.jobs.Run(ctx, jobs.Duties{Keep: true}) }()
	s.T.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.T.Error(err)
		}
	})
}

// unsteady is repositories that can be read as the test says.
type unsteady struct {
	*remote.Repositories
	heads chan error // what the next look at all references comes to
}

func (u unsteady) Heads(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error) {
	select {
	case err := <-u.heads:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return u.Repositories.Heads(ctx, app)
}

func (unsteady) Named(context.Context, string, []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error) {
	return nil, errors.New("no process can be started")
}

// A push that was kept is recorded although its repository could not be read when that was tried first.
func TestKeptPushIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var later atomic.Int64
	s.Receiver.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	repos := unsteady{s.Repos, make(chan error)}
	s.Receiver.Remote = repos
	look := func(outcome error) { // by the clock, which is put forward until somebody looks
		t.Helper()
		tick, late := time.NewTicker(100*time.Millisecond), time.After(testkit.Patience)
		defer tick.Stop()
		for {
			select {
			case repos.heads <- outcome:
				return
			case <-tick.C:
				later.Add(int64(time.Hour))
			case <-late:
				t.Fatal("nobody looked at the repository")
			}
		}
	}
	s.keeps()
	look(nil) // at the start
	commit := s.Commit("kept")
	if _, err := s.Receiver.Accept(t.Context(), remote.Repository{App: accepttest.AppID, Actor: "ada"},
		s.MoveRef(commit)); err == nil {
		t.Fatal("the push was accepted")
	}
	look(errors.New("no process can be started"))
	look(nil)
	tick, late := time.NewTicker(10*time.Millisecond), time.After(testkit.Patience)
	defer tick.Stop()
	for {
		head, err := s.Receiver.DB.Head(t.Context(), accepttest.AppID, s.Ref)
		if err == nil && head.SHA == commit {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("got the head %q and the error %v, want the push that was kept", head.SHA, err)
		}
	}
}

// When jobs cannot be worked, that is told, in place of a server that accepts pushes and never works them.
func TestRunEndsWithItsJobs(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const tooLong = 101 // characters, for the library of the jobs
	s.jobs.Scratch, s.jobs.Process = filepath.Join(t.TempDir(), "scratch"), strings.Repeat("w", tooLong)
	ended := make(chan error, 1)
	go func() { ended <- s.jobs.Run(t.Context(), jobs.Duties{Work: true}) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("got no error")
		}
	case <-time.After(testkit.Patience):
		t.Fatal("it goes on without jobs")
	}
}

// stopped is the built-in remote of a server that is told to stop while it reads.
type stopped struct {
	*remote.Repositories

	stop func()
}

func (s stopped) Heads(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error) {
	s.stop()
	return s.Repositories.Heads(ctx, app)
}

// A stop in the moment of the start is as good as any other.
func TestStopWhileReconciling(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Receiver.Remote = stopped{s.Repos, cancel}
	if err := s.jobs.Run(ctx, jobs.Duties{Keep: true}); err != nil {
		t.Errorf("the pipeline ended with %v, want nothing", err)
	}
}
