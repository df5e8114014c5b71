package versioning_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// counting is a reader that counts what is asked of the store, and how many versions come back.
type counting struct {
	*store.DB
	asked, versions int
}

func (c *counting) one(v landfall.Version, err error) (landfall.Version, error) {
	c.asked++
	if err == nil {
		c.versions++
	}
	return v, err
}

// VersionByNumber implements versioning.Reader.
func (c *counting) VersionByNumber(ctx context.Context, unit string, number int64) (landfall.Version, error) {
	return c.one(c.DB.VersionByNumber(ctx, unit, number))
}

// VersionByDigest implements versioning.Reader.
func (c *counting) VersionByDigest(ctx context.Context, unit string, digest landfall.Digest) (landfall.Version, error) {
	return c.one(c.DB.VersionByDigest(ctx, unit, digest))
}

// VersionNamed implements versioning.Reader.
func (c *counting) VersionNamed(ctx context.Context, unit, name string) (landfall.Version, error) {
	return c.one(c.DB.VersionNamed(ctx, unit, name))
}

// NewestVersions implements versioning.Reader.
func (c *counting) NewestVersions(ctx context.Context, unit string, limit int) ([]landfall.Version, error) {
	all, err := c.DB.NewestVersions(ctx, unit, limit)
	c.asked, c.versions = c.asked+1, c.versions+len(all)
	return all, err
}

// To find the version that a call means, one version is read, however many the function has.
func TestFindReadsOne(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.must(t, change{uid: uid, units: without("1")})
	first := s.versions(t, fn("bar"))[0]
	s.update(t, func(tx *store.Tx) error {
		row, err := tx.Unit(t.Context(), s.app, fn("bar"))
		if err != nil {
			return err
		}
		_, err = versioning.SetAlias(t.Context(), tx, row, versioning.NewAlias{Name: "prod", Create: true,
			To: []versioning.Weight{{Selector: "1", Percent: 100}}, At: time.Now()})
		return err
	})
	selectors := []string{"", "0", "latest", "1", string(uid), "prod", string(first.Digest)}
	read := func() string {
		t.Helper()
		var all []string
		for _, selector := range append(selectors, "nosuch") {
			c := &counting{DB: s.db}
			found, err := versioning.FindShares(t.Context(), c, "default", landfall.Reference{Name: "bar", Selector: selector})
			if (err == nil) != (selector != "nosuch") || err == nil && found[0].Version.Number != 1 {
				t.Errorf("%q: got %+v, %v, want no. 1", selector, found, err)
			}
			all = append(all, fmt.Sprintf("%q: %d of %d", selector, c.versions, c.asked))
			if selector != "nosuch" && c.versions != 1 {
				t.Errorf("%q: read %d versions, want one", selector, c.versions)
			}
			if c.versions > 100 {
				t.Errorf("%q: read %d versions, want a few", selector, c.versions)
			}
		}
		return strings.Join(all[:len(selectors)], "\n")
	}
	few := read()
	s.addVersions(t, first, 300)
	// C-033: a function with 300 versions is found with as many questions, and as much read, as one with a single version
	testkit.Same(t, "versions that are read", read(), few)
}

// addVersions adds versions of the function bar up to a number.
func (s *shop) addVersions(t testing.TB, first landfall.Version, last int64) {
	t.Helper()
	err := s.db.Update(t.Context(), func(tx *store.Tx) error {
		row, err := tx.Unit(t.Context(), s.app, fn("bar"))
		for number := int64(2); err == nil && number <= last; number++ {
			v := first
			v.Number, v.UID, v.Label = number, landfall.NewUID(), fmt.Sprintf("v0.%d", number)
			v.Digest, v.Spec = landfall.DigestOf([]byte(v.Label)), json.RawMessage(`{}`)
			err = tx.CreateVersion(t.Context(), row.ID, v)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkFind finds the version that a call means, of a function with one version and of one with 10,000.
func BenchmarkFind(b *testing.B) {
	for _, versions := range []int64{1, 10_000} {
		s := openShop(b, storetest.Open(b, storetest.SQLite(b)), "shop")
		s.must(b, change{uid: uid, units: without("1")})
		row, err := s.db.Unit(b.Context(), s.app, fn("bar"))
		if err != nil {
			b.Fatal(err)
		}
		s.addVersions(b, testkit.Must(s.db.VersionByNumber(b.Context(), row.ID, 1))(b), versions)
		for _, selector := range []string{"latest", "1", string(uid)} {
			b.Run(fmt.Sprintf("%s of %d", selector, versions), func(b *testing.B) {
				for b.Loop() {
					_, err := versioning.FindShares(b.Context(), s.db, "default", landfall.Reference{Name: "bar", Selector: selector})
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
