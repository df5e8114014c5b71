package deploy

import (
	"context"
	"fmt"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// RefUpdate points references at a group version, and moves everything that follows them: the log of applies, the
// release, live, tags, retirement, expiry. It does so in one transaction, and the same way for a run that ends and for
// a push that joins one.
type RefUpdate struct {
	Tx         *store.Tx
	App        *landfall.App
	Group      landfall.Group
	Units      []store.GroupUnit
	Release    bool // whether the group version must be reachable
	ReleaseURL func(app string, selector landfall.UID) string
	Now        func() time.Time
	Budget     *Budget // from before the update; nil: what it makes is not compared with the plan

	production bool     // one of the references was of the production line
	notes      []string // what people should know
}

// LineOfPush returns the line to which a push to an app belongs.
func LineOfPush(app landfall.App, push landfall.Push) landfall.Line {
	if push.Apply != nil && (push.Apply.Branch == "" || push.Apply.Branch == app.Branch) {
		return landfall.Production
	}
	if branch, ok := push.Ref.Branch(); ok && branch == app.Branch && push.Apply == nil {
		return landfall.Production
	}
	return landfall.Preview
}

// Point points one reference at the group version.
func (u *RefUpdate) Point(ctx context.Context, push landfall.Push) error {
	line := LineOfPush(*u.App, push)
	at := u.Now()
	err := u.Tx.CreateApply(ctx, landfall.Apply{App: u.App.ID, Group: u.Group.UID, Ref: ApplyRef(push), Line: line,
		Actor: push.Actor, Created: at})
	if err != nil {
		return err
	}
	release := u.Release && WantsRelease(push)
	if release {
		if _, err := Create(ctx, u.Tx, u.Group, line, at); err != nil {
			return err
		}
	}
	by := Mover{Actor: push.Actor, Reason: "push of " + push.After.Short(), At: at}
	if line == landfall.Production {
		names := by
		if branch, ok := ApplyRef(push).Branch(); ok {
			names.Reason += " on " + branch
		}
		if err := u.applyProduction(ctx, release, by, names); err != nil {
			return err
		}
	}
	if !release || push.Apply != nil {
		return nil
	}
	return u.tags(ctx, push, by)
}

// ImportPrefix begins the references of the log of applies that name imports.
const ImportPrefix = "refs/landfall/import/"

// Import points at a group version that was made by another installation. On the production line it becomes live, which
// ends a hold; on the other one it is a release that can be made live.
func (u *RefUpdate) Import(ctx context.Context, line landfall.Line, by Mover) error {
	err := u.Tx.CreateApply(ctx, landfall.Apply{App: u.App.ID, Group: u.Group.UID, Line: line, Actor: by.Actor,
		Ref: landfall.RefName(ImportPrefix + string(u.Group.UID)), Created: by.At})
	if err != nil {
		return err
	}
	if _, err := Create(ctx, u.Tx, u.Group, line, by.At); err != nil || line != landfall.Production {
		return err
	}
	if err := u.applyProduction(ctx, false, by, by); err != nil {
		return err
	}
	return Promote(ctx, u.Tx, u.App, u.Group.UID, by)
}

// ApplyRef is the reference that the log of applies names; for an apply it is the branch to which the apply belongs.
func ApplyRef(push landfall.Push) landfall.RefName {
	if push.Apply != nil && push.Apply.Branch != "" {
		return landfall.RefName(landfall.BranchPrefix + push.Apply.Branch)
	}
	return push.Ref
}

// applyProduction does what only the production line does. names moves the declared aliases and function tags.
func (u *RefUpdate) applyProduction(ctx context.Context, release bool, by, names Mover) error {
	u.production = true
	if err := u.Tx.MarkProduction(ctx, u.App.ID, u.Group.UID); err != nil {
		return err
	}
	u.App.Policy = landfall.ReleasePolicy{} // when the commit says nothing, the app's own settings apply again
	if u.Group.Policy != nil {
		u.App.Policy = *u.Group.Policy
	}
	if production := u.App.Policy.Production; production != "" {
		u.App.Branch, u.App.BranchFound = production, false
	}
	if err := u.Tx.UpdateApp(ctx, *u.App); err != nil {
		return err
	}
	if err := u.declare(ctx, names); err != nil {
		return err
	}
	if !release {
		return nil
	}
	if _, err := EndCanary(ctx, u.Tx, u.App.ID, landfall.ReleaseCanaryEnded, by); err != nil {
		return err
	}
	if note := notMoved(*u.App); note != "" {
		u.notes = append(u.notes, note)
		return nil
	}
	if err := MoveLive(ctx, u.Tx, u.App, u.Group.UID, by); err != nil {
		return err
	}
	notes, err := canary.Declare(ctx, u.Tx, *u.App, u.Group.Canaries, by.Actor, by.At)
	u.notes = append(u.notes, notes...)
	return err
}

// notMoved says why a new release of production does not become live; empty when it does.
func notMoved(app landfall.App) string {
	switch {
	case app.Held && app.Live != "":
		return fmt.Sprintf("live is held at %s: release live or release resume ends that", app.Live)
	case app.Held:
		return "live is held at nothing: release live or release resume ends that"
	case app.Policy.Live == landfall.LiveManual:
		return "live moves by hand only (release.live: manual)"
	}
	return ""
}

// tags moves the tags that follow a reference.
func (u *RefUpdate) tags(ctx context.Context, push landfall.Push, by Mover) error {
	tag := landfall.Tag{App: u.App.ID, Release: u.Group.UID, Ref: push.Ref}
	if name, ok := push.Ref.Tag(); ok {
		tag.Name, tag.Kind = name, landfall.GitTag
		u.notes = append(u.notes, fmt.Sprintf("tag %s: %s", name, u.ReleaseURL(u.App.Name, landfall.UID(name))))
		return SetTag(ctx, u.Tx, tag, by)
	}
	if push.OfFork() {
		tag.Name, tag.Kind = PullTag(push.PullRequest.Number), landfall.PullTag
		return SetTag(ctx, u.Tx, tag, by)
	}
	branch, ok := push.Ref.Branch()
	if !ok || push.Ref.OfMergeQueue() {
		return nil
	}
	tag.Name, tag.Kind = BranchTag(branch), landfall.BranchTag
	if branch != u.App.Branch {
		u.notes = append(u.notes, fmt.Sprintf("branch %s: %s", branch, u.ReleaseURL(u.App.Name, landfall.UID(tag.Name))))
	}
	if err := SetTag(ctx, u.Tx, tag, by); err != nil {
		return err
	}
	if branch != u.App.Branch {
		if err := u.Tx.RenewComments(ctx, *u.App, branch, by.At, renewEvery); err != nil {
			return err
		}
	}
	return u.PullTags(ctx, push, by)
}

// PullTags moves the tags of the open pull requests whose head is the branch.
func (u *RefUpdate) PullTags(ctx context.Context, push landfall.Push, by Mover) error {
	tag := landfall.Tag{App: u.App.ID, Release: u.Group.UID, Ref: push.Ref, Kind: landfall.PullTag}
	pulls, err := u.Tx.OpenPullRequests(ctx, u.App.ID, push.Ref)
	if err != nil {
		return err
	}
	for _, pull := range pulls {
		tag.Name = PullTag(pull.Number)
		if err := SetTag(ctx, u.Tx, tag, by); err != nil {
			return err
		}
	}
	return nil
}

// Settle does what follows from all references together: it retires what left the spec, and expires what is too old. It
// returns the change that shows all this, and what people should know.
func (u *RefUpdate) Settle(ctx context.Context) (change int64, notes []string, err error) {
	expired, err := ExpireSurplus(ctx, u.Tx, *u.App, u.Now())
	if err != nil {
		return 0, nil, err
	}
	if err := u.Budget.Check(ctx); err != nil {
		return 0, nil, err
	}
	var retired []landfall.UnitID
	if u.production && !u.App.OfNamespace() { // what is made by hand goes by hand
		pinned, err := Pinned(ctx, u.Tx, *u.App)
		if err != nil {
			return 0, nil, err
		}
		if retired, err = versioning.Retire(ctx, u.Tx, *u.App, u.Units, pinned); err != nil {
			return 0, nil, err
		}
	}
	for _, unit := range retired {
		u.notes = append(u.notes, "retired "+unit.String())
	}
	if len(expired)+len(retired) > 0 {
		CollectSoon(u.Tx, u.App.ID)
	}
	change, err = u.Tx.Changed(ctx, u.App.ID)
	return change, u.notes, err
}
