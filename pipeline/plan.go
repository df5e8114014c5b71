package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// plan computes the digests of what the commit declares. The digests of files that a build command makes are computed
// after the build.
func (s source) plan(ctx context.Context) (plan, error) {
	if reason, err := s.skipReason(ctx); err != nil || reason != "" {
		if err != nil {
			return plan{}, err
		}
		return plan{}, &skipError{reason}
	}
	pushes, err := s.pushes(ctx, s.DB)
	if err != nil {
		return plan{}, err
	}
	d, err := s.draft(ctx, pushes)
	if err == nil {
		d.fetched, err = d.fetchArchives(ctx)
	}
	if err != nil || s.hasBuild() { // the files that the build makes are not known yet
		return plan{draft: d}, err
	}
	return d.planUnits(ctx, s.files)
}

// draft finds the secrets that the commit uses, and what it is compared with, for the pushes that want it. It fails
// when another app owns a unit.
func (s source) draft(ctx context.Context, pushes []landfall.Push) (draft, error) {
	d := draft{source: s}
	if err := s.checkOwners(ctx); err != nil {
		return d, err
	}
	line, err := s.lineOf(ctx, s.DB, s.app, pushes)
	if err != nil {
		return d, err
	}
	if d.buildSecrets, err = s.findBuildSecrets(ctx, line); err != nil {
		return d, err
	}
	if d.secrets, err = s.pinSecrets(ctx, line); err != nil {
		return d, err
	}
	d.byHand, d.released = newVersions(pushes), !wantNoRelease(pushes)
	d.baseGroup, d.baseUnits, err = s.baseOf(ctx, pushes)
	d.base = versioning.InForce(d.baseUnits)
	return d, err
}

// checkOwners fails when the spec declares a unit that another app owns. The commit's transaction checks again, because
// another app may be faster.
func (s source) checkOwners(ctx context.Context) error {
	own, err := s.ownUnits(ctx)
	if err != nil {
		return err
	}
	check := func(kind landfall.UnitKind, o spec.Object) error {
		id := landfall.UnitID{Kind: kind, Name: o.Name}
		if _, ok := own[id]; ok {
			return nil
		}
		return versioning.CheckOwner(ctx, s.DB, s.app, id, o.Pos.String(), true, s.declaresFunction)
	}
	for _, p := range s.spec.Packages {
		if err := check(landfall.PackageUnit, p.Object); err != nil {
			return err
		}
	}
	for _, f := range s.spec.Functions {
		if err := check(landfall.FunctionUnit, f.Object); err != nil {
			return err
		}
	}
	return nil
}

func (s source) declaresFunction(id landfall.UnitID) bool {
	return id.Kind == landfall.FunctionUnit &&
		slices.ContainsFunc(s.spec.Functions, func(f spec.Function) bool { return f.Name == id.Name })
}

// ownUnits returns the units that the app owns, including retired ones.
func (a *attempt) ownUnits(ctx context.Context) (map[landfall.UnitID]store.Unit, error) {
	owned, err := a.DB.UnitsOf(ctx, a.app.ID)
	rows := make(map[landfall.UnitID]store.Unit, len(owned))
	for _, row := range owned {
		rows[row.Unit] = row
	}
	return rows, err
}

// skipError ends a run as skipped.
type skipError struct{ reason string }

// Error implements error.
func (e *skipError) Error() string { return "skipped: " + e.reason }

// planUnits compares what the commit declares with what is stored.
func (d draft) planUnits(ctx context.Context, files []landfall.File) (plan, error) {
	p := plan{
		draft: d, statics: map[landfall.UnitID]assets.Unit{}, packages: map[landfall.UnitID]packagePlan{},
		images: map[string]string{}, manifests: map[landfall.UnitID]earlierManifests{},
		current: map[landfall.UnitID]storedVersion{},
	}
	var err error
	if p.spec, err = p.pinImages(ctx); err != nil {
		return plan{}, err
	}
	if p.units, err = p.declare(ctx, files); err != nil {
		return plan{}, err
	}
	if err := p.findStored(ctx); err != nil {
		return plan{}, err
	}
	if err := p.fetchPointers(ctx); err != nil {
		return plan{}, err
	}
	after := make([]landfall.GroupUnit, 0, len(p.units))
	for _, u := range p.units {
		g := landfall.GroupUnit{Unit: u.Unit, UID: p.run.UID, Digest: u.Digest}
		if v, ok := p.current[u.Unit]; ok {
			g.UID, g.Number = v.UID, v.Number
		}
		after = append(after, g)
	}
	after = append(after, versioning.InForce(p.secrets)...)
	if len(p.byHand) > 0 {
		after = versioning.InForce(over(p.baseUnits, groupUnitsOf(after)))
	}
	p.changes = versioning.Diff(p.base, after)
	if err := inspect.NoteFunctions(p.changes, inspect.Stored(ctx, p.DB, p.baseUnits),
		inspect.Declared(p.units)); err != nil {
		return plan{}, err
	}
	if err := p.checkBudget(ctx); err != nil {
		return plan{}, err
	}
	changed := 0
	for _, c := range p.changes {
		if c.Change != landfall.Unchanged {
			changed++
		}
	}
	p.stats.UnitsChanged, p.stats.UnitsTotal = changed, len(p.changes) // removed units are among them
	p.logf("%d of %s changed", changed, landfall.Count(p.stats.UnitsTotal, "unit"))
	return p, nil
}

// checkBudget fails when the functions ask for more than the plan of the namespace has, before anything is built. The
// commit's transaction checks again, also what a person made by hand, whose commit does not have all functions.
func (p plan) checkBudget(ctx context.Context) error {
	if !p.released || len(p.byHand) > 0 {
		return nil
	}
	var specs []json.RawMessage
	for _, u := range p.units {
		if u.Unit.Kind == landfall.FunctionUnit {
			specs = append(specs, u.Spec)
		}
	}
	return deploy.CheckFunctions(ctx, p.DB, p.app, "the commit", specs)
}

// baseOf returns what the diff compares with: the branch's previous group version, else production's.
func (s source) baseOf(ctx context.Context, pushes []landfall.Push) (landfall.UID, []store.GroupUnit, error) {
	refs := []landfall.RefName{""} // production
	for _, push := range pushes {
		refs = append([]landfall.RefName{deploy.ApplyRef(push)}, refs...)
	}
	for _, ref := range refs {
		apply, err := s.DB.LastApply(ctx, s.app.ID, ref, time.Time{})
		if err != nil {
			if landfall.KindOf(err) == landfall.NotFound {
				continue
			}
			return "", nil, err
		}
		units, err := s.DB.GroupUnits(ctx, s.app.ID, apply.Group)
		return apply.Group, units, err
	}
	return "", nil, nil
}

// storedVersion is an existing version of a declared unit.
type storedVersion struct {
	landfall.Version

	prefixes   []string
	storeAgain bool // its stored content cannot be used and must be stored again
}

// content returns the stored content of the version; nil when it must be stored again.
func (v storedVersion) content() json.RawMessage {
	if v.storeAgain {
		return nil
	}
	return v.Content
}

// findStored finds the existing versions of the declared units.
func (p plan) findStored(ctx context.Context) error {
	inBase := make(map[landfall.UnitID]landfall.GroupUnit, len(p.base))
	for _, u := range p.base {
		inBase[u.Unit] = u
	}
	rows, err := p.ownUnits(ctx)
	if err != nil {
		return err
	}
	for _, u := range p.units {
		row, ok := rows[u.Unit]
		if !ok {
			continue
		}
		if b, ok := inBase[u.Unit]; ok && u.Content == nil && b.Digest == u.Digest {
			p.current[u.Unit] = storedVersion{Version: landfall.Version{Unit: u.Unit, UID: b.UID, Number: b.Number,
				Digest: b.Digest}}
			continue
		}
		v, err := p.DB.VersionByDigest(ctx, row.ID, u.Digest)
		if err != nil {
			if landfall.KindOf(err) == landfall.NotFound {
				continue
			}
			return err
		}
		s := storedVersion{Version: v}
		if u.Content != nil {
			if s.prefixes, err = p.DB.PrefixesOf(ctx, row.ID, v.Number); err != nil {
				return err
			}
			if err := p.verifyStored(ctx, &s); err != nil {
				return err
			}
		}
		p.current[u.Unit] = s
	}
	return nil
}

// skipReason says why the commit gets no release: it changed only paths that do not count.
func (s source) skipReason(ctx context.Context) (string, error) {
	globs := s.app.Policy.SkipPaths
	if len(globs) == 0 || s.run.Rebuild {
		return "", nil
	}
	apply, err := s.DB.LastApply(ctx, s.app.ID, landfall.RefName(landfall.BranchPrefix+s.run.Branch), time.Time{})
	if err != nil {
		return "", landfall.Ignore(err, landfall.NotFound)
	}
	group, err := s.DB.Group(ctx, s.app.ID, apply.Group)
	if err != nil {
		return "", err
	}
	before, err := s.filesOf(ctx, group.Commit)
	if err != nil {
		return "", landfall.Ignore(err, landfall.NotFound)
	}
	changed := changedPaths(before, s.files)
	counts := slices.ContainsFunc(changed, func(p string) bool {
		return !slices.ContainsFunc(globs, func(g string) bool { return doublestar.MatchUnvalidated(g, p) })
	})
	if counts || len(changed) == 0 {
		return "", nil
	}
	return fmt.Sprintf("only paths of release.skip_paths changed (%d files)", len(changed)), nil
}

// changedPaths returns the paths at which two trees differ.
func changedPaths(before, after []landfall.File) []string {
	old := make(map[string]landfall.File, len(before))
	for _, f := range before {
		old[f.Path] = f
	}
	var changed []string
	for _, f := range after {
		if o, ok := old[f.Path]; !ok || o.Blob != f.Blob || o.Mode != f.Mode {
			changed = append(changed, f.Path)
		}
		delete(old, f.Path)
	}
	for p := range old {
		changed = append(changed, p)
	}
	return changed
}
