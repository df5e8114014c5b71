package upkeep

import (
	"context"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// Kept says why a release is accessible, for how long, and what of the object store is its own.
type Kept struct {
	Holds  []string // empty: nothing holds it, and it goes when enough newer ones are made
	After  int      // how many more of its line can be made; for what nothing holds
	Own    int64    // bytes of folders that no other accessible release uses
	Shared int64    // bytes of folders that others use, too
}

// Collection is what a collection would take away.
type Collection struct {
	Releases []landfall.UID // that expire
	Versions []landfall.GroupUnit
	Folders  int   // of the object store
	Bytes    int64 // in them, as far as they were counted
}

// Explain says of each accessible release why it is kept. It only reads.
func Explain(ctx context.Context, db *store.DB, app landfall.App, now time.Time) (map[landfall.UID]Kept, error) {
	releases, err := db.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	holds, err := deploy.Holds(ctx, db, app, now)
	if err != nil {
		return nil, err
	}
	uses, err := db.FolderUses(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	users, bytes := map[string][]landfall.UID{}, map[string]int64{}
	for _, f := range uses {
		bytes[f.Prefix] = max(f.Bytes, 0)
		if f.Release != "" && !slices.Contains(users[f.Prefix], f.Release) {
			users[f.Prefix] = append(users[f.Prefix], f.Release)
		}
	}
	after := deploy.ExpiresAfter(releases, holds, app.Policy.KeepOrDefault())
	all := make(map[landfall.UID]Kept, len(releases))
	for _, r := range releases {
		k := Kept{Holds: holds[r.ID], After: after[r.ID]}
		if _, goes := after[r.ID]; !goes && len(k.Holds) == 0 {
			k.Holds = []string{"the newest"}
		}
		all[r.ID] = k
	}
	for prefix, with := range users {
		for _, uid := range with {
			k := all[uid]
			if len(with) == 1 {
				k.Own += bytes[prefix]
			} else {
				k.Shared += bytes[prefix]
			}
			all[uid] = k
		}
	}
	return all, nil
}

// Preview says what a collection of an app would take away now, also when some releases had expired before. It only
// reads, so a push meanwhile may hold more.
func Preview(ctx context.Context, db *store.DB, app landfall.App, now time.Time,
	expired ...landfall.UID) (c Collection, err error) {
	releases, err := db.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return c, err
	}
	releases = slices.DeleteFunc(releases, func(r landfall.Release) bool { return slices.Contains(expired, r.ID) })
	holds, err := deploy.Holds(ctx, db, app, now)
	if err != nil {
		return c, err
	}
	held := map[landfall.UID]bool{}
	for uid := range holds {
		held[uid] = true
	}
	c.Releases = slices.Clone(expired)
	for _, r := range deploy.Surplus(releases, held, app.Policy.KeepOrDefault()) {
		c.Releases = append(c.Releases, r.ID)
	}
	stays := func(release landfall.UID) bool { return release != "" && !slices.Contains(c.Releases, release) }
	gone, err := looseBeside(ctx, db, app, stays, &c)
	if err != nil {
		return c, err
	}
	uses, err := db.FolderUses(ctx, app.ID)
	if err != nil {
		return c, err
	}
	needed, sizes := map[string]bool{}, map[string]int64{}
	for _, f := range uses {
		sizes[f.Prefix] = max(f.Bytes, 0)
		needed[f.Prefix] = needed[f.Prefix] || stays(f.Release) ||
			f.Unit != "" && f.Kind != landfall.StaticUnit && !gone[f.UnitNumber]
	}
	for prefix, is := range needed {
		if !is {
			c.Folders++
			c.Bytes += sizes[prefix]
		}
	}
	return c, nil
}

// looseBeside adds the versions that go when only some releases stay, and returns them.
func looseBeside(ctx context.Context, db *store.DB, app landfall.App, stays func(landfall.UID) bool,
	c *Collection) (map[store.UnitNumber]bool, error) {
	loose, err := db.LooseVersions(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	pinned, err := deploy.Pinned(ctx, db, app)
	if err != nil {
		return nil, err
	}
	gone := map[store.UnitNumber]bool{}
	for _, v := range loose {
		if was, known := gone[v.UnitNumber]; !known || was {
			gone[v.UnitNumber] = !stays(v.Release) && !pinned[v.UnitNumber]
		}
	}
	added := map[store.UnitNumber]bool{}
	for _, v := range loose {
		if gone[v.UnitNumber] && !added[v.UnitNumber] {
			added[v.UnitNumber] = true
			c.Versions = append(c.Versions, landfall.GroupUnit{Unit: v.ID, UID: v.UID, Number: v.Number})
		}
	}
	return gone, nil
}
