package deploy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// EditResult is the result of a change that a person made without the repository.
type EditResult struct {
	Added   bool         // the unit was not in force before
	Release landfall.UID // the release with the change; empty: nothing changed
	Note    string       // what else the person should know
	Tagged  []string     // which versions function tags named until now, in sentences
}

// ResultOf returns what is to be said of an earlier change that made a group version of the app.
func ResultOf(ctx context.Context, db *store.DB, app landfall.App, made landfall.UID) (EditResult, error) {
	_, err := db.Release(ctx, app.ID, made)
	switch {
	case app.OfNamespace():
		return EditResult{}, nil
	case landfall.Is(err, landfall.NotFound):
		return EditResult{Note: unreleased}, nil
	case err == nil && app.Live == made:
		return EditResult{Release: made, Note: live}, nil
	}
	return EditResult{Release: made, Note: notMoved(app)}, err
}

const (
	live       = "it is live"
	unreleased = "no release was made; the next one has it"
)

// Editor makes people's changes of apps, without their repositories.
type Editor struct {
	DB         *store.DB
	Secrets    *secret.Keeper // nil: this process cannot read them
	Specs      spec.Limits    // for triggers that people write by hand
	ReleaseURL func(app string, selector landfall.UID) string
	Rollout    *Rollout
	Now        func() time.Time

	RequireTests bool // whether only functions that have passed a test are released
}

// edit is a person's change of an app: the units that production applied last, with some of them replaced. It becomes a
// version and a release of the app as a push does. Earlier releases stay as they were.
type edit struct {
	by    *Editor
	tx    *store.Tx
	app   landfall.App
	base  landfall.Group
	units []store.GroupUnit // in force, with the changes so far
	hand  []store.GroupUnit // of a namespace's triggers: what else is in force there
	uid   landfall.UID      // of the new version
	actor string

	tagged     []string // see EditResult
	unreleased bool     // no release is made of it
	again      bool     // what is made is new although no unit has changed
}

// edit lets change modify the units of an app, and releases the result with the message that change returns. Conflict
// when nothing of the app was applied yet.
func (editor *Editor) edit(
	ctx context.Context, app landfall.App, actor string,
	change func(ctx context.Context, e *edit) (message string, added bool, err error),
) (made EditResult, err error) {
	err = editor.DB.Update(ctx, func(tx *store.Tx) error {
		e, err := editor.newEdit(ctx, tx, app.ID, actor)
		if err != nil {
			return err
		}
		message, added, err := change(ctx, e)
		if err != nil {
			return err
		}
		made.Added, made.Tagged = added, e.tagged
		made.Release, made.Note, err = e.release(ctx, message)
		return err
	})
	if err == nil { // also without a release: earlier ones may have expired
		editor.Rollout.Show(ctx, app)
	}
	return made, err
}

func (editor *Editor) newEdit(ctx context.Context, tx *store.Tx, appID, actor string) (e *edit, err error) {
	const op landfall.Op = "deploy.edit"
	e = &edit{by: editor, tx: tx, actor: actor}
	if e.app, err = tx.ActiveApp(ctx, appID); err != nil {
		return nil, err
	}
	e.unreleased = e.app.OfNamespace()
	last, err := tx.LastApply(ctx, appID, "", time.Time{})
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Errorf(op, landfall.Conflict,
			"nothing was pushed to production of %s yet, so there is nothing to change by hand: push it first", e.app.Name)
	}
	if err != nil {
		return nil, err
	}
	if e.base, err = tx.Group(ctx, appID, last.Group); err != nil {
		return nil, err
	}
	if e.app.OfNamespace() {
		e.units, err = CarryOver(ctx, tx, e.app)
	} else {
		e.units, err = tx.GroupUnits(ctx, appID, last.Group)
	}
	if err != nil {
		return nil, err
	}
	e.uid, err = RandomUID(ctx, tx, appID)
	return e, err
}

// onTriggers makes the edit one of triggers, with or without a release. A namespace's triggers alone are in its
// release, and what they name is found at each request: Invalid when it is to have none.
func (e *edit) onTriggers(ctx context.Context, unreleased bool) (err error) {
	if !e.app.OfNamespace() {
		e.unreleased = unreleased
		return nil
	}
	if unreleased {
		return landfall.Errorf("deploy.edit", landfall.Invalid, "the triggers of the namespace %s serve at once, as it has "+
			"no releases: only those of an app are made without a release", e.app.Namespace)
	}
	e.hand, e.units, e.unreleased, e.base.Digest = e.units, nil, false, ""
	if e.app.Live == "" {
		return nil
	}
	if e.base, err = e.tx.Group(ctx, e.app.ID, e.app.Live); err == nil {
		e.units, err = e.tx.GroupUnits(ctx, e.app.ID, e.app.Live)
	}
	return err
}

// index returns the index of a unit among those in force; -1 when it is not among them.
func (e *edit) index(id landfall.UnitID) int {
	return slices.IndexFunc(e.units, func(u store.GroupUnit) bool { return u.Unit == id })
}

// put sets a unit to what is declared, in place of the one with its name. It makes a version unless there is one with
// the same digest.
func (e *edit) put(ctx context.Context, d versioning.Declared) (added bool, err error) {
	d.Where = e.app.Name
	unit, err := versioning.ResolveAmong(d, versioning.InForce(e.units))
	if err != nil {
		return false, err
	}
	at := e.index(d.Unit)
	if at >= 0 && e.units[at].Digest == unit.Digest {
		return false, nil
	}
	_, err = e.apply(ctx, unit, e.units, nil)
	return at < 0, err
}

// apply lets a version of a unit be in force, a new one if a person makes it, which refers to versions of others.
func (e *edit) apply(
	ctx context.Context, unit versioning.Unit, beside []store.GroupUnit, made map[landfall.UnitID]landfall.NewVersion,
) (store.GroupUnit, error) {
	apply := versioning.Apply{
		App: e.app, UID: e.uid, Commit: e.base.Commit, Production: true, At: e.by.Now(), Units: []versioning.Unit{unit},
		Beside: beside, New: made,
	}
	applied, err := apply.Versions(ctx, e.tx)
	if err != nil {
		return store.GroupUnit{}, err
	}
	notes, err := TagVersions(ctx, e.tx, applied, made, Mover{Actor: e.actor, At: apply.At})
	if err != nil {
		return store.GroupUnit{}, err
	}
	e.tagged = append(e.tagged, notes...)
	if at := e.index(unit.Unit); at >= 0 {
		e.units[at] = applied[0]
	} else {
		e.units = append(e.units, applied[0])
	}
	return applied[0], nil
}

// annotate sets the annotations of a unit that was put.
func (e *edit) annotate(ctx context.Context, id landfall.UnitID, annotations string) error {
	row, err := e.tx.Unit(ctx, e.app, id)
	if err != nil {
		return err
	}
	return e.tx.AnnotateUnit(ctx, row.ID, annotations)
}

// version returns the version of a unit that is in force.
func (e *edit) version(ctx context.Context, u store.GroupUnit) (landfall.Version, error) {
	return e.tx.VersionByNumber(ctx, u.UnitID, u.Number)
}

// release makes a version and a release of the app from the units, with the current secrets, and points production at
// it. It does nothing when the units have not changed.
func (e *edit) release(ctx context.Context, message string) (landfall.UID, string, error) {
	const op landfall.Op = "deploy.edit"
	if err := e.pinSecrets(ctx); err != nil {
		return "", "", err
	}
	digest := versioning.GroupDigest(versioning.InForce(e.units))
	if digest == e.base.Digest && !e.again {
		// with a value that was revoked and set again it is the same, and can be released again
		err := checkSecrets(ctx, e.tx, e.app.ID, e.base.UID)
		if err == nil || !landfall.Is(err, landfall.Conflict) {
			return "", "", err
		}
	}
	g, err := e.group(ctx, digest, message)
	if err != nil {
		return "", "", err
	}
	complete, err := isComplete(ctx, e.tx, g)
	if err != nil {
		return "", "", err
	}
	if !complete && !e.unreleased {
		return "", "", landfall.Errorf(op, landfall.Conflict,
			"what production applied last is not stored any more, so no release can be made of it: push or retry its run")
	}
	note, err := e.point(ctx, g, message)
	switch {
	case e.app.OfNamespace():
		return "", note, err
	case e.unreleased:
		return "", unreleased, err
	}
	return g.UID, note, err
}

// pinSecrets takes the newest version of each secret.
func (e *edit) pinSecrets(ctx context.Context) (err error) {
	for i, u := range e.units {
		if u.Unit.Kind != landfall.SecretUnit {
			continue
		}
		if e.units[i], err = Pin(ctx, e.tx, e.app, u.Unit.Name, landfall.Production); err != nil {
			return &landfall.Error{Op: "deploy.edit", Kind: landfall.Conflict, Err: err,
				Message: "a release needs " + landfall.MessageOf(err)}
		}
	}
	return nil
}

// group returns the group version with the units: an earlier one, or a new one.
func (e *edit) group(ctx context.Context, digest landfall.Digest, message string) (landfall.Group, error) {
	earlier, err := e.tx.GroupsOfCommit(ctx, e.base.App, string(e.base.Commit))
	if err != nil {
		return landfall.Group{}, err
	}
	for _, g := range earlier {
		if g.Commit == e.base.Commit && g.Digest == digest && !e.again {
			return g, e.tx.ReplaceGroupUnits(ctx, g, e.units)
		}
	}
	g := e.base
	g.UID, g.Digest, g.Actor, g.Message, g.Created = e.uid, digest, e.actor, message, e.by.Now()
	return g, e.tx.CreateGroup(ctx, g, e.units)
}

// point points production at a group version, and returns what the person should know.
func (e *edit) point(ctx context.Context, g landfall.Group, message string) (string, error) {
	at := e.by.Now()
	budget, err := NewBudget(ctx, e.tx, e.app)
	if err != nil {
		return "", err
	}
	ofTriggers := e.app.OfNamespace() && !e.unreleased
	if ref := landfall.RefName(landfall.BranchPrefix + e.app.Branch); !ofTriggers {
		err = e.tx.CreateApply(ctx, landfall.Apply{App: e.app.ID, Group: g.UID, Ref: ref, Line: landfall.Production,
			Actor: e.actor, Created: at})
		if err != nil {
			return "", err
		}
	}
	if !e.unreleased {
		if _, err := Create(ctx, e.tx, g, landfall.Production, at); err != nil {
			return "", err
		}
	}
	u := RefUpdate{Tx: e.tx, App: &e.app, Group: g, Units: e.units, Release: !e.unreleased, ReleaseURL: e.by.ReleaseURL,
		Now: e.by.Now, Budget: budget}
	reason := strings.ToLower(message[:1]) + message[1:]
	by := Mover{Actor: e.actor, Reason: reason, At: at}
	if err := u.applyProduction(ctx, !e.unreleased, by, by); err != nil {
		return "", err
	}
	_, notes, err := u.Settle(ctx)
	if !e.app.OfNamespace() && e.app.Live == g.UID {
		notes = append([]string{live}, notes...)
	}
	return strings.Join(notes, "; "), err
}

// NewTrigger describes a trigger that is set by hand.
type NewTrigger struct {
	ID          landfall.UnitID
	Fields      map[string]any // the spec of a document of its kind; nil: it does not have the field
	Annotations string         // JSON, or empty
	Add         bool           // there must be no trigger with its name
	Unreleased  bool           // a version of the app is made, and no release
}

// PutTrigger sets a trigger and releases the app with it. Fields of its spec that are not named stay as they were.
// Conflict when a trigger of another kind has the name; with Add, when any trigger has it.
func (editor *Editor) PutTrigger(ctx context.Context, app landfall.App, trigger NewTrigger,
	actor string) (EditResult, error) {
	id := trigger.ID
	return editor.edit(ctx, app, actor, func(ctx context.Context, e *edit) (string, bool, error) {
		const op landfall.Op = "deploy.PutTrigger"
		if err := e.onTriggers(ctx, trigger.Unreleased); err != nil {
			return "", false, err
		}
		others, err := e.triggers(ctx)
		if err != nil {
			return "", false, err
		}
		var earlier json.RawMessage
		for i, other := range others {
			if other.Name != id.Name {
				continue
			}
			if trigger.Add || other.Kind != id.Kind {
				return "", false, landfall.Errorf(op, landfall.Conflict,
					"%s has a trigger %s already, of the kind %s: choose another name, change it in the specs of %[1]s and push, or "+
						"delete it first (landfall trigger delete %[1]s %[2]s)", app.Name, id.Name, other.Kind)
			}
			earlier = other.Spec
			others = slices.Delete(others, i, i+1)
			break
		}
		fields, err := spec.WithFields(earlier, trigger.Fields)
		if err != nil {
			return "", false, err
		}
		t, err := spec.ReadTrigger(id.Kind, id.Name, fields, others, editor.Specs)
		if err != nil {
			return "", false, err
		}
		d := versioning.Declared{Unit: id, Spec: t.Spec}
		if err := e.checkFunctions(t); err != nil {
			return "", false, err
		}
		if err := CheckTriggerTag(ctx, e.tx, e.app, t); err != nil {
			return "", false, err
		}
		if d.Pinned, err = PinnedDigests(ctx, e.tx, e.app, t, nil); err != nil {
			return "", false, err
		}
		added, err := e.put(ctx, d)
		if err == nil {
			err = e.annotate(ctx, id, trigger.Annotations)
		}
		return fmt.Sprintf("Set the trigger %s", id.Name), added, err
	})
}

// checkFunctions fails with NotFound unless the app has the functions that a trigger names.
func (e *edit) checkFunctions(t spec.Trigger) error {
	for _, ref := range t.References() {
		function := landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name}
		byHand := slices.ContainsFunc(e.hand, func(u store.GroupUnit) bool { return u.Unit == function })
		if !byHand && e.index(function) < 0 {
			return landfall.Errorf("deploy.PutTrigger", landfall.NotFound,
				"%s has no function %q; a trigger leads to a function of its own app", e.app.Name, ref.Name)
		}
	}
	return nil
}

// triggers returns the triggers in force.
func (e *edit) triggers(ctx context.Context) ([]spec.Trigger, error) {
	var all []spec.Trigger
	for _, u := range e.units {
		if !u.Unit.Kind.IsTrigger() {
			continue
		}
		v, err := e.version(ctx, u)
		if err != nil {
			return nil, err
		}
		t, err := spec.ReadTriggerVersion(u.Unit, v.Spec)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// DropTrigger releases an app without a trigger, or makes only a version of it. NotFound, with a sentence, when it has
// no trigger with the name; Conflict when it has several.
func (editor *Editor) DropTrigger(ctx context.Context, app landfall.App, name, actor string,
	unreleased bool) (EditResult, error) {
	return editor.edit(ctx, app, actor, func(ctx context.Context, e *edit) (string, bool, error) {
		if err := e.onTriggers(ctx, unreleased); err != nil {
			return "", false, err
		}
		named := func(u store.GroupUnit) bool { return u.Unit.Kind.IsTrigger() && u.Unit.Name == name }
		before := len(e.units)
		e.units = slices.DeleteFunc(e.units, named)
		switch before - len(e.units) {
		case 0:
			return "", false, landfall.Errorf("deploy.DropTrigger", landfall.NotFound,
				"%s has no trigger %q; there are: landfall trigger list %[1]s", app.Name, name)
		case 1:
			return "Deleted the trigger " + name, false, nil
		}
		return "", false, landfall.Errorf("deploy.DropTrigger", landfall.Conflict,
			"%s has triggers of several kinds that are called %s: take the one out of the spec that is to go", app.Name, name)
	})
}

// NewFunction describes a function that is set by hand.
type NewFunction struct {
	Name        string
	Like        landfall.Reference // a version in force from which a new function is made; zero for an existing function
	Resources   landfall.Resources // zero fields change nothing
	Annotations string             // JSON, or empty
}

// ErrUntested is for a function that would be released without its tests, where they are required.
var ErrUntested = landfall.Errorf("deploy.Editor", landfall.Conflict, "this installation releases only functions that "+
	"pass their tests (LANDFALL_REQUIRE_TESTS), which a push runs: push it")

// PutFunction gives a function other resources, or makes a copy of another function, and releases the app with it. For
// an existing function, Like may only name the version in force; else Conflict.
func (editor *Editor) PutFunction(ctx context.Context, app landfall.App, f NewFunction,
	actor string) (EditResult, error) {
	return editor.edit(ctx, app, actor, func(ctx context.Context, e *edit) (string, bool, error) {
		const op landfall.Op = "deploy.PutFunction"
		if err := spec.CheckName(f.Name); err != nil {
			return "", false, err
		}
		id := landfall.UnitID{Kind: landfall.FunctionUnit, Name: f.Name}
		there := e.index(id) >= 0
		from := landfall.UnitID{Kind: id.Kind, Name: cmp.Or(f.Like.Name, f.Name)}
		if there && from != id || e.index(from) < 0 {
			return "", false, landfall.Errorf(op, landfall.Conflict, "%s cannot become what %s is: a function takes its code "+
				"from a push; PUT changes its resources, or makes a new one like one that %s has", id, from, app.Name)
		}
		v, err := e.version(ctx, e.units[e.index(from)])
		if err != nil {
			return "", false, err
		}
		if err := e.checkCurrent(ctx, v, f.Like); err != nil {
			return "", false, err
		}
		if editor.RequireTests {
			return "", false, ErrUntested
		}
		d := versioning.Declared{Unit: id}
		if d.Spec, err = spec.WithResources(v.Spec, f.Resources); err != nil {
			return "", false, err
		}
		stored, err := spec.ReadFunctionVersion(d.Spec)
		if err != nil {
			return "", false, err
		}
		d.Refs = []landfall.UnitID{{Kind: landfall.PackageUnit, Name: spec.ReadPackage(d.Spec)},
			{Kind: landfall.EnvironmentUnit, Name: stored.Environment.Name}}
		added, err := e.put(ctx, d)
		if err == nil {
			err = e.annotate(ctx, id, f.Annotations)
		}
		return "Set the function " + f.Name, added, err
	})
}

// checkCurrent fails with Conflict unless a reference means a version that is in force.
func (e *edit) checkCurrent(ctx context.Context, v landfall.Version, ref landfall.Reference) error {
	if ref.Name == "" {
		return nil
	}
	meant, err := versioning.Find(ctx, e.tx, e.app.Namespace, landfall.FunctionUnit, ref)
	if err == nil && meant.Number != v.Number {
		err = landfall.Errorf("deploy.PutFunction", landfall.Conflict, "%s is not the version that production has, which is "+
			"%s:%s: an alias or a trigger names an older one, and a rollback goes back to it", ref, ref.Name, v.UID)
	}
	return err
}

// DropFunction releases an app without a function. Its versions stay while releases hold them. NotFound when there is
// no function with the name. Conflict, with the trigger, job, webhook, tag or alias, while any of them names it.
func (editor *Editor) DropFunction(ctx context.Context, app landfall.App, name, actor string) (EditResult, error) {
	return editor.edit(ctx, app, actor, func(ctx context.Context, e *edit) (string, bool, error) {
		at := e.index(landfall.UnitID{Kind: landfall.FunctionUnit, Name: name})
		if at < 0 {
			return "", false, landfall.Errorf("deploy.DropFunction", landfall.NotFound, "%s has no function %q", app.Name, name)
		}
		if err := e.checkUnused(ctx, e.units[at]); err != nil {
			return "", false, err
		}
		e.units = slices.Delete(e.units, at, at+1)
		return "Deleted the function " + name, false, e.dropSecrets(ctx)
	})
}

// checkUnused fails with Conflict while anything names a function.
func (e *edit) checkUnused(ctx context.Context, f store.GroupUnit) error {
	inUse := func(format string, args ...any) error {
		return landfall.Errorf("deploy.DropFunction", landfall.Conflict, "%s %s", f.Unit.String(),
			fmt.Sprintf(format, args...))
	}
	triggers, err := e.triggers(ctx)
	if err != nil {
		return err
	}
	for _, t := range triggers {
		if slices.ContainsFunc(t.References(), func(r landfall.Reference) bool { return r.Name == f.Unit.Name }) {
			return inUse("is what the trigger %[2]s of %[1]s leads to: delete that first (landfall trigger delete %[1]s %[2]s)",
				e.app.Name, t.Name)
		}
	}
	uses, err := e.tx.FunctionUses(ctx, f.UnitID)
	if err != nil {
		return err
	}
	if len(uses) > 0 {
		return inUse("is what the %s %s calls: delete that first (landfall %[1]s delete %[2]s)", uses[0].Kind, uses[0].Name)
	}
	tags, err := e.tx.TagsOfUnit(ctx, f.UnitID)
	if err != nil {
		return err
	}
	if len(tags) > 0 {
		return inUse("is named by the function tag %[1]s: let that name others first (landfall tag update %[1]s)", tags[0])
	}
	aliases, err := e.tx.Aliases(ctx, f.UnitID)
	if err != nil || len(aliases) == 0 {
		return err
	}
	return inUse("has the alias %[2]s: delete that first (landfall function alias delete %[1]s %[2]s)", f.Unit.Name,
		aliases[0].Name)
}

// dropSecrets removes the secrets that no function names any more.
func (e *edit) dropSecrets(ctx context.Context) error {
	var named []string
	for _, u := range e.units {
		if u.Unit.Kind != landfall.FunctionUnit {
			continue
		}
		v, err := e.version(ctx, u)
		if err != nil {
			return err
		}
		f, err := spec.ReadFunctionVersion(v.Spec)
		if err != nil {
			return err
		}
		for _, s := range f.Secrets {
			named = append(named, s.Name)
		}
	}
	e.units = slices.DeleteFunc(e.units, func(u store.GroupUnit) bool {
		return u.Unit.Kind == landfall.SecretUnit && !slices.Contains(named, u.Unit.Name)
	})
	return nil
}

// PutConfig sets the configuration of an app, the canonical JSON of an object, and releases it. Without config the app
// has no configuration. The annotations are the app's.
func (editor *Editor) PutConfig(ctx context.Context, app landfall.App, config []byte, annotations,
	actor string) (EditResult, error) {
	return editor.edit(ctx, app, actor, func(ctx context.Context, e *edit) (string, bool, error) {
		const message = "Set the configuration"
		id := landfall.UnitID{Kind: landfall.ConfigUnit, Name: landfall.ConfigName}
		if err := e.tx.AnnotateApp(ctx, app.ID, annotations); err != nil {
			return "", false, err
		}
		if config == nil {
			e.units = slices.DeleteFunc(e.units, func(u store.GroupUnit) bool { return u.Unit == id })
			return message, false, nil
		}
		added, err := e.put(ctx, versioning.Declared{Unit: id, Spec: config})
		return message, added, err
	})
}
