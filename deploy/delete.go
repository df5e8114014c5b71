package deploy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// functionTag is the kind of the holders that are function tags.
const functionTag = "function tag"

// AllVersions is the selector that names every version of a unit.
const AllVersions = "all"

// Deletion is what a person deletes, with what goes along.
type Deletion struct {
	Versions []landfall.Version   // of a package those of its functions first
	Aliases  []landfall.Reference // of the function that is deleted
	Tags     []string             // function tags that named it
	Releases []landfall.UID       // that expire first
	Triggers []landfall.UnitID    // of accessible releases, which named the function and lead nowhere from now on
}

// deletion is the work on a Deletion within a transaction.
type deletion struct {
	Deletion

	read    deletionReader
	row     store.Unit // whose versions are to go
	actor   string
	force   bool // releases that hold them expire
	whole   bool // the function goes with its aliases
	app     landfall.App
	refusal []string // a line for each version that is held
}

// deletionReader reads what a deletion takes along, and what holds any of it.
type deletionReader interface { //nolint:interfacebloat // one for each kind of thing that a deletion reaches
	versioning.Reader
	UnitInNamespace(ctx context.Context, namespace string, unit landfall.UnitID) (store.Unit, error)
	App(ctx context.Context, id string) (landfall.App, error)
	Aliases(ctx context.Context, unit string) ([]landfall.Alias, error)
	TagsOfUnit(ctx context.Context, unit string) ([]string, error)
	FunctionUses(ctx context.Context, unit string) ([]store.Holder, error)
	Versions(ctx context.Context, unit string, retired bool) ([]landfall.Version, error)
	FunctionsWithVersions(ctx context.Context, namespace string) ([]store.Unit, error)
	VersionHolders(ctx context.Context, unit string, number int64) ([]store.Holder, error)
	ServedUnits(ctx context.Context, app string, kind landfall.UnitKind) ([]store.ServedUnit, error)
}

// DeleteVersions deletes the version of a function or package that a selector names, or AllVersions of it, and returns
// what went. The versions of functions that use a deleted version of a package go with it; a function's package stays.
// Conflict, with all that holds one of them, when something does, or jobs and webhooks would call a function that has
// none left: then nothing is deleted. With dry nothing is deleted either.
func (editor *Editor) DeleteVersions(ctx context.Context, row store.Unit, selector string, dry bool) (Deletion, error) {
	return editor.delete(ctx, deletion{row: row}, dry, func(ctx context.Context, d *deletion) error {
		if err := d.addSelected(ctx, selector); err != nil || d.row.Unit.Kind != landfall.FunctionUnit {
			return err
		}
		versions, err := d.read.Versions(ctx, d.row.ID, true)
		if err != nil || len(versions) > len(d.Versions) {
			return err
		}
		return d.refuseUses(ctx)
	})
}

// DeleteFunction deletes a function: its aliases, and all its versions. Its packages stay. Conflict, with all that
// holds a version, when an accessible release or an execution does, or when it has a webhook or a job that is not over;
// force lets such releases expire first, but never a live one or one that a tag holds. With dry nothing is deleted.
func (editor *Editor) DeleteFunction(ctx context.Context, row store.Unit, actor string, force,
	dry bool) (Deletion, error) {
	return editor.delete(ctx, deletion{row: row, actor: actor, force: force, whole: true}, dry,
		func(ctx context.Context, d *deletion) error {
			aliases, err := d.read.Aliases(ctx, d.row.ID)
			if err != nil {
				return err
			}
			if d.Tags, err = d.read.TagsOfUnit(ctx, d.row.ID); err != nil {
				return err
			}
			for _, a := range aliases {
				d.Aliases = append(d.Aliases, landfall.Reference{Name: d.row.Unit.Name, Selector: a.Name})
			}
			if err := d.refuseUses(ctx); err != nil {
				return err
			}
			return d.addSelected(ctx, AllVersions)
		})
}

// refuseUses adds a line to the refusal that names the jobs and webhooks of the function of which nothing is left.
func (d *deletion) refuseUses(ctx context.Context) error {
	uses, err := d.read.FunctionUses(ctx, d.row.ID)
	if err != nil || len(uses) == 0 {
		return err
	}
	var named []string
	for _, h := range uses {
		named = append(named, fmt.Sprintf("the %s %s (landfall %[1]s delete %[2]s)", h.Kind, h.Name))
	}
	d.refusal = append(d.refusal, fmt.Sprintf("%s is in use by %s", d.row.Unit, strings.Join(named, ", ")))
	return nil
}

// delete finds out what is to go, and deletes it unless something holds it. With dry it only reads, and waits for
// nobody who writes.
func (editor *Editor) delete(
	ctx context.Context, d deletion, dry bool, find func(ctx context.Context, d *deletion) error,
) (Deletion, error) {
	if dry {
		err := editor.DB.Snapshot(ctx, func(s *store.Snapshot) error { return d.find(ctx, s, find) })
		return d.Deletion, err
	}
	err := editor.DB.Update(ctx, func(tx *store.Tx) error {
		if err := d.find(ctx, tx, find); err != nil {
			return err
		}
		return editor.carryOut(ctx, tx, d)
	})
	if err == nil && d.row.App != "" {
		editor.Rollout.Show(ctx, landfall.App{ID: d.row.App})
	}
	return d.Deletion, err
}

// find finds out what is to go. Conflict when something holds it.
func (d *deletion) find(
	ctx context.Context, r deletionReader, find func(ctx context.Context, d *deletion) error,
) (err error) {
	d.read = r
	if d.row, err = versioning.Again(ctx, r, d.row); err != nil {
		return err
	}
	if d.row.App != "" {
		if d.app, err = r.App(ctx, d.row.App); err != nil {
			return err
		}
	}
	if err := find(ctx, d); err != nil {
		return err
	}
	if len(d.refusal) > 0 {
		return landfall.Errorf("deploy.delete", landfall.Conflict, "%s; nothing was deleted", strings.Join(d.refusal, "; "))
	}
	return nil
}

// carryOut deletes what was found.
func (editor *Editor) carryOut(ctx context.Context, tx *store.Tx, d deletion) error {
	now := editor.Now()
	by := store.AliasMove{Actor: d.actor, Reason: "the function was deleted", At: now}
	for _, release := range d.Releases {
		if err := Expire(ctx, tx, d.app, release, now); err != nil {
			return err
		}
	}
	for _, a := range d.Aliases {
		if err := versioning.RemoveAlias(ctx, tx, d.row, a.Selector, by); err != nil {
			return err
		}
	}
	if d.whole {
		if _, err := versioning.Untag(ctx, tx, d.row, by); err != nil {
			return err
		}
		if _, err := ShowFunctionTags(ctx, tx, d.row.Namespace, d.Tags...); err != nil {
			return err
		}
	}
	for _, v := range d.Versions {
		row, err := tx.UnitInNamespace(ctx, v.Namespace, v.Unit)
		if err != nil {
			return err
		}
		if err := tx.DeleteVersion(ctx, row.ID, v.Number); err != nil {
			return err
		}
	}
	if d.row.App == "" {
		return nil
	}
	CollectSoon(tx, d.row.App)
	_, err := tx.Changed(ctx, d.row.App)
	return err
}

// selected returns the versions that a selector names. NotFound when there is none.
func (d *deletion) selected(ctx context.Context, selector string) ([]landfall.Version, error) {
	if selector != AllVersions {
		if err := saysWhich(d.row.Unit, selector); err != nil {
			return nil, err
		}
		v, err := versioning.Select(ctx, d.read, d.row, selector)
		return []landfall.Version{v}, err
	}
	versions, err := d.read.Versions(ctx, d.row.ID, true)
	if err == nil && len(versions) == 0 {
		err = landfall.Errorf("deploy.delete", landfall.NotFound, "%s has no version", d.row.Unit)
	}
	return versions, err
}

// saysWhich fails with Invalid for the selectors that mean the latest version without a word: they are for reading and
// running. What is destroyed is named.
func saysWhich(unit landfall.UnitID, selector string) error {
	if selector != "" && selector != "0" {
		return nil
	}
	return landfall.Errorf("deploy.saysWhich", landfall.Invalid,
		"%q names no version of %s to take away; right would be a number from 1, a uid, or latest", selector, unit)
}

// addSelected adds the versions that a selector names; of a package those of its functions first.
func (d *deletion) addSelected(ctx context.Context, selector string) error {
	versions, err := d.selected(ctx, selector)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if d.row.Unit.Kind == landfall.PackageUnit {
			if err := d.addUsers(ctx, v); err != nil {
				return err
			}
		}
		if err := d.add(ctx, d.row, v); err != nil {
			return err
		}
	}
	return nil
}

// addUsers adds the versions of functions that use a version of a package.
func (d *deletion) addUsers(ctx context.Context, v landfall.Version) error {
	if d.row.App == "" {
		return nil
	}
	units, err := d.read.FunctionsWithVersions(ctx, d.row.Namespace) // also of an app that took one over
	if err != nil {
		return err
	}
	for _, row := range units {
		versions, err := d.read.Versions(ctx, row.ID, true)
		if err != nil {
			return err
		}
		for _, user := range versions {
			content, err := landfall.ReadContent[landfall.FunctionContent](user.Content)
			if err != nil {
				return err
			}
			if content.Package.Name != v.ObjectName() || content.Package.ResourceVersion != strconv.FormatInt(v.Number, 10) {
				continue
			}
			if row.App != d.row.App { // it was taken over, and is not this caller's to delete
				d.refusal = append(d.refusal, fmt.Sprintf("%s no. %d (%s) is run by %s no. %d of an app",
					v.Unit, v.Number, v.ObjectName(), user.Unit, user.Number))
				continue
			}
			if err := d.add(ctx, row, user); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds a version to what is to go, or a line to the refusal that says what holds it.
func (d *deletion) add(ctx context.Context, row store.Unit, v landfall.Version) error {
	holders, err := d.read.VersionHolders(ctx, row.ID, v.Number)
	if err != nil {
		return err
	}
	var held []string
	in := versioning.InNamespace(row.Namespace)
	for _, h := range holders {
		release := landfall.UID(h.Name)
		switch {
		case (h.Kind == "alias" || h.Kind == functionTag) && d.whole:
		case h.Kind == functionTag:
			held = append(held, fmt.Sprintf("the function tag %s (landfall tag update %[1]s%[3]s --function %[2]s:VERSION, "+
				"with a --function for each other one that landfall tag show %[1]s%[3]s has)", h.Name, row.Unit.Name, in))
		case h.Kind == "alias":
			held = append(held, fmt.Sprintf("the alias %s (landfall function alias update %s %[1]s VERSION%[3]s)", h.Name,
				row.Unit.Name, in))
		case h.Kind == "canary":
			held = append(held, fmt.Sprintf("the canary of the release %s (landfall release canary %s --stop)", h.Name,
				d.app.Name))
		case h.Kind == "release" && release == d.app.Live:
			held = append(held, fmt.Sprintf("the release %s, which is live (take the %s out of the specs of %s and push, "+
				"or let another release be live)", h.Name, v.Unit.Kind, d.app.Name))
		case h.Kind == "release" && d.force:
			if !slices.Contains(d.Releases, release) {
				d.Releases = append(d.Releases, release)
			}
		case h.Kind == "release":
			held = append(held, fmt.Sprintf("the release %s (landfall release expire %s %[1]s)", h.Name, d.app.Name))
		case (h.Kind == "job" || h.Kind == "webhook") && d.whole: // all of the function are named by refuseUses
		case h.Kind == "job" || h.Kind == "webhook":
			held = append(held, fmt.Sprintf("the %s %s (landfall %[1]s delete %[2]s)", h.Kind, h.Name))
		default:
			held = append(held, "the running execution "+h.Name)
		}
	}
	triggers, err := d.triggersOf(ctx, v)
	if err != nil {
		return err
	}
	for _, t := range triggers {
		switch {
		case !d.whole:
			named := fmt.Sprintf("the %s, which names it", t)
			if d.app.OfNamespace() {
				named += fmt.Sprintf(" (landfall trigger delete %s %s)", d.app.Name, t.Name)
			} else {
				named += fmt.Sprintf(" (let it name another version in the specs of %s and push, and let the releases before "+
					"expire)", d.app.Name)
			}
			held = append(held, named)
		case !slices.Contains(d.Triggers, t):
			d.Triggers = append(d.Triggers, t)
		}
	}
	if len(held) > 0 {
		d.refusal = append(d.refusal, fmt.Sprintf("%s no. %d (%s) is in use by %s", v.Unit, v.Number, v.ObjectName(),
			strings.Join(held, ", ")))
		return nil
	}
	d.Versions = append(d.Versions, v)
	return nil
}

// triggersOf returns the triggers of accessible releases that name a version of a function, or when the whole function
// goes, the function by any selector. A trigger that goes by an alias, by latest or by live names no version: it moves.
func (d *deletion) triggersOf(ctx context.Context, v landfall.Version) ([]landfall.UnitID, error) {
	if v.Unit.Kind != landfall.FunctionUnit || v.App == "" {
		return nil, nil
	}
	var named []landfall.UnitID
	for _, kind := range landfall.TriggerKinds() {
		served, err := d.read.ServedUnits(ctx, v.App, kind)
		if err != nil {
			return nil, err
		}
		for _, s := range served {
			if slices.Contains(named, s.Unit) || slices.Contains(d.Releases, s.Release) {
				continue
			}
			t, err := spec.ReadTriggerVersion(s.Unit, s.Spec)
			if err != nil {
				return nil, err
			}
			leads, err := d.leads(ctx, t, v)
			if err != nil {
				return nil, err
			}
			if leads {
				named = append(named, s.Unit)
			}
		}
	}
	return named, nil
}

// leads reports whether a trigger names a version, or the function that goes whole.
func (d *deletion) leads(ctx context.Context, t spec.Trigger, v landfall.Version) (bool, error) {
	for _, ref := range t.References() {
		switch {
		case ref.Name != v.Unit.Name:
			continue
		case d.whole:
			return true, nil
		case ref.MeansRelease():
			continue
		}
		_, err := versioning.FindAlias(ctx, d.read, v.Namespace, ref)
		if err == nil {
			continue
		}
		meant, err := versioning.Find(ctx, d.read, v.Namespace, landfall.FunctionUnit, ref)
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return false, err
		}
		if err == nil && meant.Number == v.Number {
			return true, nil
		}
	}
	return false, nil
}
