package upkeep

import (
	"context"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// Collect deletes what nothing of an app holds any more: versions that only other branches had, and objects that no
// accessible release reaches. For a deleted app it deletes all content, see remove. The transaction that marks or
// deletes a thing checks whether something holds it. Only one collection may run at a time, because a prefix that comes
// back into use must not be on the list of another one. Collect waits for callers of WithoutCollection. Only the leader
// collects: in another process Collect fails at once, and it ends when another process becomes the leader meanwhile.
func (u *Upkeep) Collect(ctx context.Context, appID string) error {
	if err := waitFor(ctx, u.collecting.TryLock); err != nil {
		return err
	}
	defer u.collecting.Unlock()
	return u.collect(ctx, appID)
}

func (u *Upkeep) collect(ctx context.Context, appID string) error {
	leader, err := u.DB.Leader(ctx)
	if err != nil {
		return err
	}
	var app landfall.App
	var expired []landfall.Release
	var prefixes []string
	err = leader.Update(ctx, func(tx *store.Tx) (err error) {
		if app, err = tx.App(ctx, appID); err != nil || !app.Deleted.IsZero() {
			return err
		}
		expired, err = u.expire(ctx, tx, app)
		return err
	})
	if err == nil && app.Deleted.IsZero() {
		prefixes, err = u.markUnheld(ctx, leader, app)
	}
	if err != nil {
		return err
	}
	if !app.Deleted.IsZero() {
		return u.remove(ctx, leader, app)
	}
	crashpoint.Here("collect.marked")
	if len(expired) > 0 {
		u.Rollout.Show(ctx, app) // before their files are deleted
	}
	// Objects are deleted outside of transactions. A transaction before each batch checks that the list still belongs
	// to this process. One case remains: the process may stop between the check and the end of the batch for so long
	// that another one wins, deletes the same objects, and lets the prefix be used again. Then the first process
	// deletes objects that are needed. It would have to stop for longer than the database keeps a dead connection, and
	// a run would have to store the same content under the same uid right then. fsck finds this, and landfall run retry
	// --rebuild stores the content again.
	collector := assets.Collector{Check: func(ctx context.Context) error {
		return leader.Update(ctx, func(*store.Tx) error { return nil })
	}}
	for _, prefix := range prefixes {
		if err := collector.DeletePrefix(ctx, u.Objects, prefix); err != nil {
			return err
		}
		crashpoint.Here("collect.deleted")
		if err := leader.Update(ctx, func(tx *store.Tx) error { return tx.DropPrefix(ctx, prefix) }); err != nil {
			return err
		}
	}
	if err := u.dropApplies(ctx, app); err != nil {
		return err
	}
	if err := u.repack(ctx, app); err != nil {
		return err
	}
	if err := u.size(ctx, leader, app); err != nil {
		return err
	}
	if len(prefixes) > 0 {
		u.Logger.With(app.LogAttrs()...).InfoContext(ctx, "collected", "prefixes", len(prefixes))
	}
	return nil
}

// collectBatch bounds one transaction: everybody else who writes waits for it.
const collectBatch = 500

// markUnheld deletes the versions that nothing holds, in several transactions, and marks the folders that nothing needs
// then. It returns those.
func (u *Upkeep) markUnheld(ctx context.Context, leader store.Leader, app landfall.App) (prefixes []string,
	err error) {
	var last store.UnitNumber
	for more := true; more; {
		next := last
		err := leader.Update(ctx, func(tx *store.Tx) error {
			unheld, err := tx.UnheldVersions(ctx, app.ID, last, collectBatch)
			if err != nil {
				return err
			}
			pinned, err := deploy.Pinned(ctx, tx, app)
			if err != nil {
				return err
			}
			for _, v := range unheld {
				next = v
				if pinned[v] {
					continue
				}
				if err := tx.DeleteVersion(ctx, v.Unit, v.Number); err != nil {
					return err
				}
			}
			if more = len(unheld) == collectBatch; !more {
				prefixes, err = tx.MarkDeleting(ctx, app.ID)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		last = next
	}
	return prefixes, nil
}

// size counts the bytes of folders that an earlier program stored: some of them in each collection.
func (u *Upkeep) size(ctx context.Context, leader store.Leader, app landfall.App) error {
	unsized, err := u.DB.Unsized(ctx, app.ID, collectBatch)
	if err != nil {
		return err
	}
	for _, prefix := range unsized {
		bytes := int64(0)
		for key, err := range u.Objects.List(ctx, prefix) {
			if err != nil {
				return err
			}
			object, err := u.Objects.Open(ctx, key)
			if landfall.Is(err, landfall.NotFound) { // it is damaged, which fsck says
				continue
			}
			if err != nil {
				return err
			}
			bytes += object.Size()
			if err := object.Close(); err != nil {
				return err
			}
		}
		if err := leader.Update(ctx, func(tx *store.Tx) error { return tx.SizePrefix(ctx, prefix, bytes) }); err != nil {
			return err
		}
	}
	return nil
}

// expire expires releases that time alone has freed since the last push: those of branches without a push for a long
// time.
func (u *Upkeep) expire(ctx context.Context, tx *store.Tx, app landfall.App) ([]landfall.Release, error) {
	expired, err := deploy.ExpireSurplus(ctx, tx, app, u.Now())
	if err != nil || len(expired) == 0 {
		return nil, err
	}
	_, err = tx.Changed(ctx, app.ID)
	return expired, err
}

// WithoutCollection runs f while nothing is collected. It waits for a running collection, and for no other caller.
func (u *Upkeep) WithoutCollection(ctx context.Context, f func() error) error {
	if err := waitFor(ctx, u.collecting.TryRLock); err != nil {
		return err
	}
	defer u.collecting.RUnlock()
	return f()
}

// waitFor returns when a lock was taken. Canceled when ctx ends before.
func waitFor(ctx context.Context, taken func() bool) error {
	tick := time.NewTicker(collectionPoll)
	defer tick.Stop()
	for !taken() {
		select {
		case <-ctx.Done():
			return &landfall.Error{Op: "upkeep.waitFor", Kind: landfall.Canceled, Err: ctx.Err()}
		case <-tick.C:
		}
	}
	return nil
}

const collectionPoll = 20 * time.Millisecond

// appliesEvery is how often the references of an app's applies are looked at.
const appliesEvery = 24 * time.Hour

// dropApplies removes the references of applies that came to nothing: neither a run on record nor a group version, from
// which a release can be made again, is of the commit.
func (u *Upkeep) dropApplies(ctx context.Context, app landfall.App) error {
	if u.Now().Sub(u.applies[app.ID]) < appliesEvery {
		return nil
	}
	old, err := u.Repositories.OldApplies(ctx, app.ID)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	var unneeded []landfall.RefName
	for ref, commit := range old {
		needed, err := u.DB.NeedsCommit(ctx, app.ID, commit)
		if err != nil {
			return err
		}
		if !needed {
			unneeded = append(unneeded, ref)
		}
	}
	if len(unneeded) > 0 {
		if err := u.Repositories.DropApplies(ctx, app.ID, unneeded); err != nil {
			return err
		}
	}
	if u.applies == nil {
		u.applies = map[string]time.Time{}
	}
	u.applies[app.ID] = u.Now()
	return nil
}

// repack joins the packs of an app's built-in repository. Git is not allowed to do that by itself.
func (u *Upkeep) repack(ctx context.Context, app landfall.App) error {
	local := builder.Remote{Namespace: app.Namespace, URL: app.Repository, Local: u.Repositories.Path(app.ID)}
	if local.Local == "" {
		return nil
	}
	return u.Mirrors.Exclusive(ctx, local, func() error { return u.Repositories.Repack(ctx, app.ID) })
}
