package upkeep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// told is gateways that note what they were given to read.
type told struct {
	accepttest.NoGateways

	apps []string
}

func (g *told) RefreshApp(_ context.Context, app string) error {
	g.apps = append(g.apps, app)
	return nil
}

// A branch that nobody pushes to for long lets its release go, by time alone: gateways hear of that before its files
// are deleted.
func TestReleasesThatTimeLetsGo(t *testing.T) {
	t.Parallel()
	l := newLitter(t, storetest.Open(t, storetest.SQLite(t)))
	gateways := &told{}
	l.Receiver.Rollout.Gateways = gateways
	ctx, db := t.Context(), l.Receiver.DB
	const many = 12 // more than are kept
	longAgo := time.Now().Add(-100 * 24 * time.Hour)
	err := db.Update(ctx, func(tx *store.Tx) error {
		for n := range many {
			id := landfall.UID(fmt.Sprintf("aaaaaa%02d", n))
			release := landfall.Release{App: accepttest.AppID, ID: id, Line: landfall.Preview,
				Digest: landfall.DigestOf([]byte(id)), Created: longAgo.Add(time.Duration(n))}
			if err := tx.PutRelease(ctx, release); err != nil {
				return err
			}
			tag := landfall.Tag{App: accepttest.AppID, Name: "branch-" + string(id), Kind: landfall.BranchTag, Release: id,
				Ref: "refs/heads/old", Moved: longAgo}
			if err := tx.PutTag(ctx, tag); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before, err := db.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to tell
		if err := l.upkeep.Collect(ctx, accepttest.AppID); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := db.Release(ctx, accepttest.AppID, "aaaaaa00"); err != nil || r.Expired.IsZero() {
		t.Errorf("got the oldest release %+v (%v), want it expired", r, err)
	}
	if after, err := db.Changes(ctx); err != nil || after != before+1 {
		t.Errorf("the newest change was %d and is %d (%v), want one more", before, after, err)
	}
	if len(gateways.apps) != 1 {
		t.Errorf("gateways were told of %v, want the app, once", gateways.apps)
	}
}
