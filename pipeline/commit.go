package pipeline

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// commit makes everything visible in one transaction: versions, group version, release, tags, live, and the report. It
// returns the UID of the run.
func (k storedPlan) commit(ctx context.Context) (landfall.UID, error) {
	pushes, err := k.pushes(ctx, k.DB)
	if err != nil {
		return "", err
	}
	if err := k.place(ctx, pushes); err != nil { // for pushes that joined since the commit was fetched
		return "", err
	}
	if err := k.mirror.Keep(k.run.UID, k.run.Commit); err != nil {
		return "", err
	}
	crashpoint.Here("commit.kept")
	err = k.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Fence(ctx, k.run.ID, k.run.Attempt); err != nil {
			return err
		}
		return k.commitTx(ctx, tx)
	})
	if err != nil {
		return "", err
	}
	took := k.Now().Sub(k.run.Ready())
	k.meter().Released(took)
	k.logger.InfoContext(ctx, "release made", "release", k.run.UID, "seconds", took.Seconds())
	return k.run.UID, nil
}

func (k storedPlan) commitTx(ctx context.Context, tx *store.Tx) error {
	app, err := tx.App(ctx, k.app.ID)
	if err != nil {
		return err
	}
	if !app.Deleted.IsZero() {
		return landfall.Errorf("pipeline.commit", landfall.Conflict, "the app was deleted")
	}
	pushes, err := k.pushes(ctx, tx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(pushes, func(p landfall.Push) bool { return p.ConcurrentHead != 0 }) {
		return landfall.Errorf("pipeline.commit", landfall.Canceled, "a push that waits for its place has joined")
	}
	production := slices.ContainsFunc(pushes, func(p landfall.Push) bool {
		return deploy.LineOfPush(app, p) == landfall.Production
	})
	budget, err := deploy.NewBudget(ctx, tx, app)
	if err != nil {
		return err
	}
	if err := k.checkPinned(ctx, tx, app, pushes); err != nil {
		return err
	}
	if production && len(k.byHand) == 0 {
		if err := deploy.CheckDeclared(ctx, tx, app, k.units); err != nil {
			return err
		}
	}
	group, units, err := k.group(ctx, tx, app, pushes, production)
	if err != nil {
		return err
	}
	tagged, err := deploy.TagVersions(ctx, tx, units, k.byHand, deploy.Mover{Actor: actorOf(pushes), At: k.Now()})
	if err != nil {
		return err
	}
	crashpoint.Here("commit.grouped")
	u := deploy.RefUpdate{
		Tx: tx, App: &app, Group: group, Units: units, Release: !wantNoRelease(pushes), ReleaseURL: k.Runs.ReleaseURL,
		Now: k.Now, Budget: budget}
	if u.Release {
		if k.stats.New, err = isNew(ctx, tx, group); err != nil {
			return err
		}
	}
	for _, push := range pushes {
		if err := u.Point(ctx, push); err != nil {
			return err
		}
	}
	if len(pushes) == 0 { // a commit that is no head moves no pointer, but can be reached
		line, err := deploy.LineOf(ctx, tx, group)
		if err != nil {
			return err
		}
		if _, err := deploy.Create(ctx, tx, group, line, k.Now()); err != nil {
			return err
		}
	}
	change, notes, err := u.Settle(ctx)
	if err != nil {
		return err
	}
	crashpoint.Here("commit.pointed")
	return k.succeed(ctx, u, change, append(tagged, notes...))
}

// isNew reports whether a group version was never a release.
func isNew(ctx context.Context, tx *store.Tx, g landfall.Group) (bool, error) {
	_, err := tx.Release(ctx, g.App, g.UID)
	return landfall.Is(err, landfall.NotFound), landfall.Ignore(err, landfall.NotFound)
}

// wantNoRelease reports whether none of the pushes of a run wants a release.
func wantNoRelease(pushes []landfall.Push) bool {
	return len(pushes) > 0 && !slices.ContainsFunc(pushes, deploy.WantsRelease)
}

// succeed ends the run in the transaction that made its release.
func (k storedPlan) succeed(ctx context.Context, u deploy.RefUpdate, change int64, notes []string) error {
	run := k.run
	run.State, run.Stats, run.UID, run.Change = landfall.RunSucceeded, k.stats, u.Group.UID, change
	run.Reason = "Released " + string(u.Group.UID)
	if u.Release {
		run.Release = u.Group.UID
	} else {
		run.Reason = "Applied " + string(u.Group.UID) + " without a release"
	}
	pull, err := k.pullOf(ctx, u)
	if err != nil {
		return err
	}
	switch {
	case k.stats.UnitsChanged == 0 && len(k.base) > 0:
		run.Reason = "Unchanged: " + run.Reason
	case pull.Number != 0:
		run.Reason += fmt.Sprintf(", unchanged since %s (%s)", deploy.PullTag(pull.Number), pull.Commit.Short())
		notes = append([]string{fmt.Sprintf("the content is that of pull request %d at %s: nothing of it was made anew",
			pull.Number, pull.Commit.Short())}, notes...)
	}
	now := k.Now()
	if err := u.Tx.SetChanges(ctx, run.ID, withNumbers(k.changes, u.Units)); err != nil {
		return err
	}
	if err := u.Tx.AppendLog(ctx, run.ID, run.Step, now, append(k.takeLog(), notes...)...); err != nil {
		return err
	}
	if err := u.Tx.EndStep(ctx, run.ID, run.Attempt, run.Step, now, ""); err != nil {
		return err
	}
	return k.Runs.End(ctx, u.Tx, *u.App, run)
}

// pullOf returns the pull request into one of the branches that the run is for whose head has the same content, so that
// no unit has a new version; none when there is none. It looks at those to which something happened last.
func (k storedPlan) pullOf(ctx context.Context, u deploy.RefUpdate) (store.PullGroup, error) {
	const recent = 10
	none := store.PullGroup{}
	pushes, err := k.pushes(ctx, u.Tx)
	if err != nil || len(k.byHand) > 0 || slices.ContainsFunc(k.units, func(unit versioning.Unit) bool {
		return k.current[unit.Unit].Number == 0
	}) {
		return none, err
	}
	own := versioning.GroupDigest(groupUnits(k.units))
	for _, push := range pushes {
		branch, ok := push.Ref.Branch()
		if !ok {
			continue
		}
		pulls, err := u.Tx.PullGroups(ctx, k.app.ID, branch, recent)
		if err != nil {
			return none, err
		}
		for _, pull := range pulls {
			units, err := u.Tx.GroupUnits(ctx, k.app.ID, pull.Group)
			if err != nil {
				return none, err
			}
			units = slices.DeleteFunc(units, func(unit store.GroupUnit) bool { return unit.Unit.Kind == landfall.SecretUnit })
			if pull.Group != u.Group.UID && versioning.GroupDigest(versioning.InForce(units)) == own {
				return pull, nil
			}
		}
	}
	return none, nil
}

// withNumbers fills in the versions that the apply made or found.
func withNumbers(changes []landfall.UnitChange, units []store.GroupUnit) []landfall.UnitChange {
	byID := make(map[landfall.UnitID]store.GroupUnit, len(units))
	for _, u := range units {
		byID[u.Unit] = u
	}
	all := slices.Clone(changes)
	for i, c := range all {
		if u, ok := byID[c.Unit]; ok {
			all[i].After, all[i].Number = u.UID, u.Number
		}
	}
	return all
}

// group returns the group version of the commit: the earlier one if the digests are the same, else a new one.
func (k storedPlan) group(
	ctx context.Context, tx *store.Tx, app landfall.App, pushes []landfall.Push, production bool,
) (landfall.Group, []store.GroupUnit, error) {
	var base []store.GroupUnit // stay in force beside what a person makes by hand
	var err error
	if len(k.byHand) > 0 {
		if base, err = deploy.CarryOver(ctx, tx, app); err == nil {
			k.units, err = k.onLatest(ctx, tx, base)
		}
		if err != nil {
			return landfall.Group{}, nil, err
		}
	}
	digest := versioning.GroupDigest(versioning.InForce(over(base, groupUnitsOf(groupUnits(k.units)), k.secrets)))
	uid := k.run.UID
	clean := !slices.ContainsFunc(pushes, func(p landfall.Push) bool { return p.Apply != nil && !p.Apply.Clean })
	earlier, err := tx.GroupsOfCommit(ctx, app.ID, string(k.run.Commit))
	if err != nil {
		return landfall.Group{}, nil, err
	}
	if k.run.Expect != "" {
		return k.expectedGroup(ctx, tx, app)
	}
	earlier = slices.DeleteFunc(earlier, func(g landfall.Group) bool { return g.Fork != k.run.Fork })
	var same *landfall.Group
	for i, g := range earlier {
		if g.Digest == digest {
			same = &earlier[i]
		}
		if g.UID == uid && g.Digest != digest { // the commit's own address stays with the content that it named first
			if uid, err = deploy.RandomUID(ctx, tx, app.ID); err != nil {
				return landfall.Group{}, nil, err
			}
		}
	}
	if same != nil {
		uid = same.UID
	}
	apply := versioning.Apply{
		App: app, UID: uid, Commit: k.run.Commit, Production: production, Units: k.units, Stored: k.stored, At: k.Now(),
		Unreleased: wantNoRelease(pushes), StoreAgain: k.run.Rebuild, New: k.byHand}
	units, err := apply.Versions(ctx, tx)
	if err != nil {
		return landfall.Group{}, nil, err
	}
	units = over(base, units, k.secrets)
	crashpoint.Here("commit.versioned")
	if same != nil {
		return *same, units, tx.ReplaceGroupUnits(ctx, *same, units)
	}
	g := landfall.Group{
		UID: uid, App: app.ID, Digest: digest, Commit: k.run.Commit, Branch: k.run.Branch, Clean: clean,
		Message: k.message(pushes), Actor: actorOf(pushes), Policy: policyOf(k.spec), Canaries: canariesOf(k.spec),
		Created: k.Now(), Fork: k.run.Fork,
	}
	if last := pushes[max(len(pushes)-1, 0):]; !clean && last[0].Apply != nil {
		g.Commit = last[0].Apply.Commit
	}
	return g, units, tx.CreateGroup(ctx, g, units)
}

// expectedGroup returns the recorded group version that the run makes reachable again.
func (k storedPlan) expectedGroup(ctx context.Context, tx *store.Tx, app landfall.App) (landfall.Group,
	[]store.GroupUnit, error) {
	g, err := tx.Group(ctx, app.ID, k.run.Expect)
	if err != nil {
		return g, nil, err
	}
	recorded, err := tx.GroupUnits(ctx, app.ID, g.UID)
	if err != nil {
		return g, nil, err
	}
	if err := checkRecorded(recorded, k.units); err != nil {
		return g, nil, err
	}
	apply := versioning.Apply{App: app, UID: g.UID, Commit: g.Commit, Units: k.units, Stored: k.stored, At: k.Now()}
	units, err := apply.Versions(ctx, tx)
	if err != nil {
		return g, nil, err
	}
	units = append(units, k.secrets...)
	return g, units, tx.ReplaceGroupUnits(ctx, g, units)
}

// checkRecorded fails when a commit whose release was recorded now has other digests, because its builds gave another
// result.
func checkRecorded(recorded []store.GroupUnit, units []versioning.Unit) error {
	was := make(map[landfall.UnitID]landfall.Digest, len(recorded))
	for _, u := range recorded {
		was[u.Unit] = u.Digest
	}
	for _, u := range units {
		if was[u.Unit] != u.Digest {
			return landfall.Errorf("pipeline.commit", landfall.Conflict,
				"%s comes out differently than when this release was made; push a new commit, or run retry --rebuild", u.Unit)
		}
	}
	return nil
}

func groupUnits(units []versioning.Unit) []landfall.GroupUnit {
	all := make([]landfall.GroupUnit, 0, len(units))
	for _, u := range units {
		all = append(all, landfall.GroupUnit{Unit: u.Unit, Digest: u.Digest})
	}
	return all
}

// message returns the text that people read in the history.
func (c checkout) message(pushes []landfall.Push) string {
	for _, push := range slices.Backward(pushes) {
		if push.Message != "" {
			return push.Message
		}
	}
	return c.info.Message
}

func actorOf(pushes []landfall.Push) string {
	if len(pushes) == 0 {
		return ""
	}
	return pushes[len(pushes)-1].Actor
}

// canariesOf returns the canaries that a spec declares.
func canariesOf(s *spec.Spec) []landfall.DeclaredCanary {
	var all []landfall.DeclaredCanary
	for _, c := range s.Canaries {
		all = append(all, c.Declared)
	}
	return all
}

// policyOf returns what a commit says about releasing; nil when it says nothing.
func policyOf(s *spec.Spec) *landfall.ReleasePolicy {
	if s.App == nil || isZeroPolicy(s.App.Release) {
		return nil
	}
	return &s.App.Release
}

func isZeroPolicy(p landfall.ReleasePolicy) bool {
	return p.Production == "" && p.Live == "" && p.Keep == 0 && p.Branches == nil && p.SkipPaths == nil &&
		p.KeepFiles == ""
}

// digestFile returns the digest of all bytes of r.
func digestFile(r io.ReadSeeker) (landfall.Digest, error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return landfall.DigestFromSum(h.Sum(nil)), nil
}
