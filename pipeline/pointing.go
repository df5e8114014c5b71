package pipeline

import (
	"context"
	"fmt"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// pointing lets references point at a group version, and moves what follows them: the log of applies, the release,
// live, tags, retirement, expiry. All in one transaction, and the same for a run that ends and a push that joins one.
type pointing struct {
	p       *Pipeline
	tx      *store.Tx
	app     *landfall.App
	group   landfall.Group
	units   []store.GroupUnit
	release bool // whether the group version is to be reachable

	production bool     // a reference of the production line was among them
	notes      []string // what people should know
	change     int64    // the one that shows all this
}

// line tells which line a push belongs to.
func (pt *pointing) line(push landfall.Push) landfall.Line {
	if push.Apply != nil && (push.Apply.Branch == "" || push.Apply.Branch == pt.app.Branch) {
		return landfall.Production
	}
	if branch, ok := push.Ref.Branch(); ok && branch == pt.app.Branch && push.Apply == nil {
		return landfall.Production
	}
	return landfall.Preview
}

// ref lets one reference point at the group version.
func (pt *pointing) ref(ctx context.Context, push landfall.Push) error {
	line := pt.line(push)
	at := pt.p.Now()
	err := pt.tx.CreateApply(ctx, landfall.Apply{App: pt.app.ID, Group: pt.group.UID, Ref: applyRef(push), Line: line, Actor: push.Actor, Created: at})
	if err != nil {
		return err
	}
	release := pt.release && wantsRelease(push)
	if release {
		if _, err := deploy.Create(ctx, pt.tx, pt.group, line, at); err != nil {
			return err
		}
	}
	by := deploy.Mover{Actor: push.Actor, Reason: "push of " + push.After.Short(), At: at}
	if line == landfall.Production {
		if err := pt.produce(ctx, release, by); err != nil {
			return err
		}
	}
	if !release || push.Apply != nil {
		return nil
	}
	return pt.tags(ctx, push, by)
}

// applyRef is the reference that the log of applies names: for an apply, the branch it belongs to.
func applyRef(push landfall.Push) landfall.RefName {
	if push.Apply != nil && push.Apply.Branch != "" {
		return landfall.RefName(landfall.BranchPrefix + push.Apply.Branch)
	}
	return push.Ref
}

// produce does what only the production line does.
func (pt *pointing) produce(ctx context.Context, release bool, by deploy.Mover) error {
	pt.production = true
	if err := pt.tx.MarkProduction(ctx, pt.app.ID, pt.group.UID); err != nil {
		return err
	}
	pt.app.Policy = landfall.ReleasePolicy{} // where the commit says nothing, the app's own settings count again
	if pt.group.Policy != nil {
		pt.app.Policy = *pt.group.Policy
	}
	if production := pt.app.Policy.Production; production != "" {
		pt.app.Branch = production
	}
	if err := pt.tx.UpdateApp(ctx, *pt.app); err != nil {
		return err
	}
	switch {
	case !release:
		return nil
	case pt.app.Held:
		held := "nothing"
		if pt.app.Live != "" {
			held = string(pt.app.Live)
		}
		pt.notes = append(pt.notes, "live is held at "+held+": release live or release resume ends that")
		return nil
	case pt.app.Policy.Live == landfall.LiveManual:
		pt.notes = append(pt.notes, "live moves by hand only (release.live: manual)")
		return nil
	}
	return deploy.MoveLive(ctx, pt.tx, pt.app, pt.group.UID, by)
}

// tags moves the tags that follow a reference.
func (pt *pointing) tags(ctx context.Context, push landfall.Push, by deploy.Mover) error {
	tag := landfall.Tag{App: pt.app.ID, Release: pt.group.UID, Ref: push.Ref}
	if name, ok := push.Ref.Tag(); ok {
		tag.Name, tag.Kind = name, landfall.GitTag
		pt.notes = append(pt.notes, fmt.Sprintf("tag %s: %s", name, pt.p.ReleaseURL(pt.app.Name, landfall.UID(name))))
		return deploy.SetTag(ctx, pt.tx, tag, by)
	}
	branch, ok := push.Ref.Branch()
	if !ok {
		return nil
	}
	tag.Name, tag.Kind = deploy.BranchTag(branch), landfall.BranchTag
	if branch != pt.app.Branch {
		pt.notes = append(pt.notes, fmt.Sprintf("branch %s: %s", branch, pt.p.ReleaseURL(pt.app.Name, landfall.UID(tag.Name))))
	}
	if err := deploy.SetTag(ctx, pt.tx, tag, by); err != nil {
		return err
	}
	return pt.pullTags(ctx, push, by)
}

// pullTags moves the tags of the open pull requests whose head a branch is.
func (pt *pointing) pullTags(ctx context.Context, push landfall.Push, by deploy.Mover) error {
	tag := landfall.Tag{App: pt.app.ID, Release: pt.group.UID, Ref: push.Ref, Kind: landfall.PullTag}
	pulls, err := pt.tx.OpenPullRequests(ctx, pt.app.ID, push.Ref)
	if err != nil {
		return err
	}
	for _, pull := range pulls {
		tag.Name = deploy.PullTag(pull.Number)
		if err := deploy.SetTag(ctx, pt.tx, tag, by); err != nil {
			return err
		}
	}
	return nil
}

// settle ends what follows from all references together: what left the spec is retired, what is too old expires.
func (pt *pointing) settle(ctx context.Context) error {
	expired, err := deploy.ExpireSurplus(ctx, pt.tx, *pt.app, pt.p.Now())
	if err != nil {
		return err
	}
	var retired []landfall.UnitID
	if pt.production {
		if retired, err = versioning.Retire(ctx, pt.tx, *pt.app, pt.units); err != nil {
			return err
		}
	}
	for _, u := range retired {
		pt.notes = append(pt.notes, "retired "+u.String())
	}
	if len(expired)+len(retired) > 0 {
		pt.p.CollectSoon(pt.tx, pt.app.ID)
	}
	pt.change, err = pt.tx.Changed(ctx, pt.app.ID)
	return err
}
