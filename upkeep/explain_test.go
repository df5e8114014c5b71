package upkeep_test

import (
	"errors"
	"slices"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/upkeep"
)

// What a collection would take away is what it takes away then; and of each release it is said what keeps it, and how
// many bytes are its own.
func TestPreviewOfACollection(t *testing.T) {
	t.Parallel()
	s := newHoldings(t)
	ctx := t.Context()
	s.Update(func(tx *store.Tx) error {
		var err error
		for i, name := range []string{"waslive", "live", "tagged", "aliased", "called", "old", "reserved", "shared", "newest"} {
			err = errors.Join(err, tx.SizePrefix(ctx, "pages/"+name+"/", 1<<i), tx.SizePrefix(ctx, "packages/"+name+"/", 1000))
		}
		pages, found := tx.Unit(ctx, s.app(), static) // the old one, which goes, has files of the tagged one, which stays
		return errors.Join(err, found, tx.PointInto(ctx, pages.ID, 6, []string{"pages/tagged/"}))
	})
	kept := testkit.Must(upkeep.Explain(ctx, s.Receiver.DB, s.app(), noon))(t)
	testkit.EqualList(t, "what holds the live one", kept["live"].Holds, []string{"live"})
	testkit.EqualList(t, "what holds the one before", kept["waslive"].Holds, []string{"live before"})
	testkit.EqualList(t, "what holds the tagged one", kept["tagged"].Holds, []string{"tag spare"})
	testkit.Equal(t, "own bytes of the live one", kept["live"].Own, 1002)
	testkit.Equal(t, "shared bytes of the newest", kept["newest"].Shared, 1<<7)
	testkit.Equal(t, "own bytes of the newest", kept["newest"].Own, 1000+1<<8)

	before := s.objects.keys("")
	would := testkit.Must(upkeep.Preview(ctx, s.Receiver.DB, s.app(), noon))(t)
	testkit.EqualList(t, "objects after a dry run", s.objects.keys(""), before)
	if err := s.upkeep.Collect(ctx, accepttest.AppID); err != nil {
		t.Fatal(err)
	}
	after := map[landfall.UID]bool{}
	for _, r := range testkit.Must(s.Receiver.DB.AccessibleReleases(ctx, accepttest.AppID))(t) {
		after[r.ID] = true
	}
	for uid := range kept {
		testkit.Equal(t, "whether "+string(uid)+" went", slices.Contains(would.Releases, uid), !after[uid])
	}
	row := testkit.Must(s.Receiver.DB.Unit(ctx, s.app(), packaged))(t)
	for _, v := range would.Versions {
		if v.Unit == packaged {
			_, err := s.Receiver.DB.VersionByNumber(ctx, row.ID, v.Number)
			testkit.Kind(t, "version "+string(v.UID), err, landfall.NotFound)
		}
	}
	gone := 0
	for _, key := range before {
		if !slices.Contains(s.objects.keys(""), key) {
			gone++
		}
	}
	testkit.Equal(t, "objects of the folders that went: two pages, or an archive", gone > 0, would.Folders > 0)
	testkit.Equal(t, "folders that went", len(testkit.Must(s.Receiver.DB.Prefixes(ctx))(t)), 18-would.Folders)
	again := testkit.Must(upkeep.Preview(ctx, s.Receiver.DB, s.app(), noon))(t)
	testkit.Equal(t, "folders that would go again", again.Folders, 0)
	also := testkit.Must(upkeep.Preview(ctx, s.Receiver.DB, s.app(), noon, "tagged"))(t)
	testkit.EqualList(t, "releases when one had expired", also.Releases, []landfall.UID{"tagged"})
	testkit.Equal(t, "bytes that would go with it", also.Bytes, 4+1000)
}

// Folders of an earlier program are counted by a collection.
func TestSizes(t *testing.T) {
	t.Parallel()
	s := newHoldings(t)
	if err := s.upkeep.Collect(t.Context(), accepttest.AppID); err != nil {
		t.Fatal(err)
	}
	for _, f := range testkit.Must(s.Receiver.DB.FolderUses(t.Context(), accepttest.AppID))(t) {
		if want := map[bool]int64{true: 2, false: 1}[f.Kind == landfall.StaticUnit]; f.Bytes != want {
			t.Errorf("%s has %d bytes, want %d", f.Prefix, f.Bytes, want)
		}
	}
}
