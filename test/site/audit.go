package site

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// audit reads the data folder of a site that has stopped, and finds what no kill and no race may leave behind.
type audit struct {
	t       testing.TB
	db      *store.DB
	objects Objects
	// collected says that versions may have been deleted, so that numbers may have gaps.
	collected bool
	strays    bool // objects may be left that nothing points at
}

// everything is more than any test makes.
const everything = 100_000

// WantSound stops a site and fails the test unless its data folder is as if every push had come alone and nothing had
// ever been killed. The test must not have rolled back, retried, or pushed a commit again that was superseded.
func WantSound(t testing.TB, s *Site, collected bool) {
	t.Helper()
	s.Stop()
	for _, folder := range []string{"scratch", filepath.Join("objects", ".parts")} {
		left, err := os.ReadDir(filepath.Join(s.Data, folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, entry := range left {
			t.Errorf("%s is left in %s", entry.Name(), folder)
		}
	}
	a := &audit{t: t, collected: collected, strays: s.Strays}
	var err error
	if a.db, err = s.OpenState(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.db.Close() }()
	if a.objects, err = s.OpenObjects(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.objects.Close() }()
	for _, app := range testkit.Must(a.db.Apps(t.Context()))(t) {
		order := a.runs(app)
		a.groups(app)
		a.versions(app)
		a.live(app, order)
		a.content(app)
		a.holders(app, s.In(t).StoredBelow(app.Objects))
	}
	a.deliveries()
}

// runs checks that every commit had exactly one run, which is over and was reported so, and returns for every commit
// the newest push that wanted it.
func (a *audit) runs(app landfall.App) map[landfall.UID]int64 {
	a.t.Helper()
	ctx := a.t.Context()
	commits := map[landfall.CommitSHA]bool{}
	order := map[landfall.UID]int64{}
	for _, run := range testkit.Must(a.db.Runs(ctx, app.ID, landfall.Run{}, everything))(a.t) {
		what := fmt.Sprintf("%s: the run of %s (%s)", app.Name, run.Commit.Short(), run.State)
		if commits[run.Commit] {
			a.t.Errorf("%s is not the commit's only one", what)
		}
		commits[run.Commit] = true
		if !run.State.Final() {
			a.t.Errorf("%s is not over", what)
		}
		succeeded := run.State == landfall.RunSucceeded
		if succeeded != (run.Release != "") {
			a.t.Errorf("%s has the release %q", what, run.Release)
		}
		a.reports(what, run)
		if !succeeded {
			continue
		}
		applies := map[landfall.RefName]int{}
		for _, apply := range testkit.Must(a.db.AppliesOf(ctx, app.ID, run.UID))(a.t) {
			applies[apply.Ref]++
		}
		for _, ref := range testkit.Must(a.db.RunRefs(ctx, run.ID))(a.t) {
			if !ref.Withdrawn {
				applies[ref.Ref]--
				order[run.UID] = max(order[run.UID], ref.Push)
			}
		}
		for ref, n := range applies {
			if n != 0 {
				a.t.Errorf("%s was applied %d times too often for %s", what, n, ref)
			}
		}
	}
	return order
}

// reports checks that the forge was told of a run that it is pending and what it came to, once each, if it was told at
// all.
func (a *audit) reports(what string, run landfall.Run) {
	a.t.Helper()
	var states []landfall.StatusState
	for _, report := range testkit.Must(a.db.ReportsOf(a.t.Context(), run.App, run.Commit))(a.t) {
		states = append(states, report.State)
		if report.Sent.IsZero() || report.Dropped {
			a.t.Errorf("%s: the status %s was not sent: %s", what, report.State, report.Problem)
		}
	}
	final := landfall.StatusError
	switch run.State {
	case landfall.RunSucceeded, landfall.RunSkipped:
		final = landfall.StatusSuccess
	case landfall.RunFailed, landfall.RunDeclined:
		final = landfall.StatusFailure
	case landfall.RunError, landfall.RunSuperseded, landfall.RunCancelled, landfall.RunExpired, landfall.RunQueued,
		landfall.RunRunning, landfall.RunWaiting:
	}
	if len(states) > 0 && !slices.Equal(states, []landfall.StatusState{landfall.StatusPending, final}) {
		a.t.Errorf("%s: the forge was told %v, want pending and %s", what, states, final)
	}
}

// groups checks that no commit came to the same twice, and that what can be reached is whole.
func (a *audit) groups(app landfall.App) {
	a.t.Helper()
	ctx := a.t.Context()
	seen := map[string]bool{}
	for _, g := range testkit.Must(a.db.Groups(ctx, app.ID, time.Time{}, everything))(a.t) {
		if key := string(g.Commit) + string(g.Digest); seen[key] {
			a.t.Errorf("%s: the commit %s has two app versions with the same digest", app.Name, g.Commit.Short())
		} else {
			seen[key] = true
		}
	}
	for _, r := range testkit.Must(a.db.AccessibleReleases(ctx, app.ID))(a.t) {
		if !testkit.Must(a.db.GroupComplete(ctx, app.ID, r.ID))(a.t) {
			a.t.Errorf("%s: the release %s lacks versions", app.Name, r.ID)
		}
	}
}

// versions checks that numbers rise without being used twice, and that no unit has two versions with the same digest.
func (a *audit) versions(app landfall.App) {
	a.t.Helper()
	ctx := a.t.Context()
	for _, unit := range testkit.Must(a.db.UnitsOf(ctx, app.ID))(a.t) {
		digests, uids, last := map[landfall.Digest]bool{}, map[landfall.UID]bool{}, int64(0)
		for _, v := range testkit.Must(a.db.Versions(ctx, unit.ID, true))(a.t) {
			if digests[v.Digest] || uids[v.UID] {
				a.t.Errorf("%s: %s has two versions %s with %s", app.Name, unit.Unit, v.UID, v.Digest)
			}
			digests[v.Digest], uids[v.UID] = true, true
			if v.Number <= last || (v.Number != last+1 && !a.collected) {
				a.t.Errorf("%s: after number %d %s has number %d", app.Name, last, unit.Unit, v.Number)
			}
			last = v.Number
		}
		if last > unit.LastNumber || (last != unit.LastNumber && !a.collected) {
			a.t.Errorf("%s: the last number of %s is %d, and it remembers %d", app.Name, unit.Unit, last, unit.LastNumber)
		}
	}
}

// live checks that live moved from release to release in the order of the pushes, unless somebody went back, and stands
// where it moved last.
func (a *audit) live(app landfall.App, order map[landfall.UID]int64) {
	a.t.Helper()
	var at landfall.UID
	for _, m := range slices.Backward(testkit.Must(a.db.Moves(a.t.Context(), app.ID, "live", everything))(a.t)) {
		if m.From != at || m.To == at {
			a.t.Errorf("%s: live moved from %q to %q, and was at %q", app.Name, m.From, m.To, at)
		}
		if !m.Back && order[m.To] <= order[at] {
			a.t.Errorf("%s: live moved from %q of push %d back to %q of push %d", app.Name, at, order[at], m.To, order[m.To])
		}
		at = m.To
	}
	if at != app.Live {
		a.t.Errorf("%s: live is %q, and moved last to %q", app.Name, app.Live, at)
	}
	if at == "" {
		return
	}
	if r := testkit.Must(a.db.Release(a.t.Context(), app.ID, at))(a.t); !r.Expired.IsZero() {
		a.t.Errorf("%s: the live release %s is expired", app.Name, at)
	}
}

// content checks that every byte of every release that can be reached is stored, and is what its digest says.
func (a *audit) content(app landfall.App) {
	a.t.Helper()
	ctx := a.t.Context()
	for _, unit := range testkit.Must(a.db.ServedUnits(ctx, app.ID, landfall.StaticUnit))(a.t) {
		stored := testkit.Must(landfall.ReadContent[landfall.StaticContent](unit.Content))(a.t)
		manifest, err := assets.Load(ctx, a.objects, assets.RefOf(stored))
		if err != nil {
			a.t.Errorf("%s: the manifest of %s in %s: %v", app.Name, unit.Unit.Name, unit.Release, err)
			continue
		}
		for _, f := range manifest.Files() {
			a.object(f.Key, f.Digest)
		}
	}
	for _, r := range testkit.Must(a.db.AccessibleReleases(ctx, app.ID))(a.t) {
		for _, u := range testkit.Must(a.db.GroupUnits(ctx, app.ID, r.ID))(a.t) {
			if u.Unit.Kind != landfall.PackageUnit {
				continue
			}
			version := testkit.Must(a.db.VersionByNumber(ctx, u.UnitID, u.Number))(a.t)
			stored := testkit.Must(landfall.ReadContent[landfall.PackageContent](version.Content))(a.t)
			if stored.Deployment == nil {
				a.t.Errorf("%s: %s of %s has no deployment", app.Name, u.Unit, r.ID)
				continue
			}
			a.object(stored.Deployment.Key, stored.Deployment.Digest)
		}
	}
}

func (a *audit) object(key string, want landfall.Digest) {
	a.t.Helper()
	object, err := a.objects.Open(a.t.Context(), key)
	if err != nil {
		a.t.Errorf("the object %s: %v", key, err)
		return
	}
	defer func() { _ = object.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, object); err != nil {
		a.t.Error(err)
	}
	if got := landfall.DigestFromSum(hash.Sum(nil)); got != want {
		a.t.Errorf("the object %s has %s, want %s", key, got, want)
	}
}

// holders checks that nothing but releases and versions holds what is stored: without them, all of it could be
// collected.
func (a *audit) holders(app landfall.App, keys []string) {
	a.t.Helper()
	undo := errors.New("this was only a question")
	err := a.db.Update(a.t.Context(), func(tx *store.Tx) error {
		prefixes, err := a.release(tx, app)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if !a.strays && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
				a.t.Errorf("%s: the object %s could never be collected", app.Name, key)
			}
		}
		return undo
	})
	if !errors.Is(err, undo) {
		a.t.Error(err)
	}
}

// release lets go of everything of an app, and returns what can be collected then.
func (a *audit) release(tx *store.Tx, app landfall.App) ([]string, error) {
	ctx := a.t.Context()
	releases, err := tx.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	for _, r := range releases {
		r.Expired = time.Now()
		if err := tx.PutRelease(ctx, r); err != nil {
			return nil, err
		}
	}
	units, err := tx.UnitsOf(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	for _, unit := range units {
		versions, err := tx.Versions(ctx, unit.ID, true)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			if err := tx.DeleteVersion(ctx, unit.ID, v.Number); err != nil {
				return nil, err
			}
		}
	}
	return tx.MarkDeleting(ctx, app.ID)
}

// deliveries checks that every delivery was stored once, with what it caused.
func (a *audit) deliveries() {
	a.t.Helper()
	seen := map[string]bool{}
	for _, d := range testkit.Must(a.db.Deliveries(a.t.Context(), landfall.Delivery{}, everything))(a.t) {
		if seen[d.ID] || len(d.Runs) != 1 {
			a.t.Errorf("the delivery %s was stored with the runs %v, or twice", d.ID, d.Runs)
		}
		seen[d.ID] = true
	}
}
