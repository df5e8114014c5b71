package upkeep_test

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/test/testkit"
)

// deleted is a shop with holdings that was deleted at noon, and keeps its content for an hour.
func deleted(t *testing.T) (s *shop, later func(time.Duration)) {
	t.Helper()
	s = newHoldings(t)
	var now atomic.Int64
	later = func(d time.Duration) { now.Store(int64(d)) }
	s.upkeep.Now = func() time.Time { return noon.Add(time.Duration(now.Load())) }
	s.upkeep.KeepDeleted = time.Hour
	for _, key := range s.objects.keys("") { // as of an app, whose objects lie below one folder
		s.objects.put(s.app().Objects + key)
	}
	if err := s.upkeep.DeleteApp(t.Context(), s.app(), true, "ada"); err != nil {
		t.Fatal(err)
	}
	return s, later
}

// wantRemoved fails the test unless the content of the app is gone.
func (s *shop) wantRemoved(what string) {
	s.T.Helper()
	testkit.EqualList(s.T, what+": objects", s.objects.keys(s.app().Objects), nil)
	if _, err := os.Stat(s.Repos.Path(accepttest.AppID)); !errors.Is(err, os.ErrNotExist) {
		s.T.Errorf("%s: the repository is there still (%v)", what, err)
	}
	testkit.Equal(s.T, what+": prefixes that are known", len(testkit.Must(s.Receiver.DB.Prefixes(s.T.Context()))(s.T)), 0)
	testkit.Equal(s.T, what+": when it was removed is known", s.app().Removed.IsZero(), false)
	if s.builds[accepttest.AppID] == 0 {
		s.T.Errorf("%s: what builds made is there still", what)
	}
}

// An app that has releases is deleted only by who says that these go, too.
func TestDeleteUnreleased(t *testing.T) {
	t.Parallel()
	s := newHoldings(t)
	err := s.upkeep.DeleteApp(t.Context(), s.app(), false, "ada")
	testkit.Kind(t, "with releases", err, landfall.Conflict)
	testkit.Equal(t, "the app is there", s.app().Deleted.IsZero(), true)
}

// A deleted app is closed at once, and its content goes when it was kept for as long as it is to be.
func TestDelete(t *testing.T) {
	t.Parallel()
	s, later := deleted(t)
	ctx, db := t.Context(), s.Receiver.DB
	run := testkit.Must(db.Run(ctx, "run"))(t)
	testkit.Equal(t, "state of the run that was at work", run.State, landfall.RunCancelled)
	testkit.Equal(t, "why", run.Reason, "Cancelled: ada deleted the app")
	testkit.Equal(t, "accessible releases", len(testkit.Must(db.AccessibleReleases(ctx, accepttest.AppID))(t)), 0)
	testkit.Equal(t, "live", s.app().Live, "")
	was, there, err := db.Tombstone(ctx, accepttest.AppID)
	if err != nil || !there || was.Live != "live" || len(was.Tags) != 1 || len(was.Aliases) != 1 ||
		len(was.Releases) == 0 {
		t.Errorf("got the record %+v, %t, %v of what was closed, want live, a tag, an alias, and the releases", was,
			there, err)
	}
	testkit.Kind(t, "deleting it again", s.upkeep.DeleteApp(ctx, s.app(), true, "ada"), landfall.NotFound)

	before := len(s.objects.keys(""))
	later(time.Hour - time.Second)
	if err := s.upkeep.Collect(ctx, accepttest.AppID); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "objects while they are kept", len(s.objects.keys("")), before)
	later(time.Hour)
	for range 2 {
		if err := s.upkeep.Collect(ctx, accepttest.AppID); err != nil {
			t.Fatal(err)
		}
		s.wantRemoved("after an hour")
	}
	late := s.app().Objects + "stored by a run that was at work"
	s.objects.put(late)
	later(time.Hour + 30*time.Minute)
	if err := s.upkeep.Collect(ctx, accepttest.AppID); err != nil {
		t.Fatal(err)
	}
	s.wantRemoved("what came late")
}

// Wherever the removal is broken off, it is not told as done, and the next one does the rest.
func TestRemovalIsBrokenOff(t *testing.T) {
	t.Parallel()
	broken := errors.New("the power is gone")
	for _, at := range []int64{1, 2, 10} {
		s, later := deleted(t)
		later(time.Hour)
		var calls atomic.Int64
		s.objects.before = func() error {
			if calls.Add(1) >= at {
				return broken
			}
			return nil
		}
		if err := s.upkeep.Collect(t.Context(), accepttest.AppID); !errors.Is(err, broken) {
			t.Errorf("step %d: got %v, want what broke it off", at, err)
		}
		testkit.Equal(t, "whether it is told as removed", !s.app().Removed.IsZero(), false)
		s.objects.before = func() error { return nil }
		if err := s.upkeep.Collect(t.Context(), accepttest.AppID); err != nil {
			t.Fatal(err)
		}
		s.wantRemoved("in the end")
	}
}
