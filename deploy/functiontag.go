package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Allowed says whether somebody may change the functions of an app.
type Allowed func(app string) error

// over fails unless all functions that a tag names may be changed: who moves the tag decides what is called in their
// place.
func (allowed Allowed) over(t landfall.FunctionTag) error {
	for _, f := range t.Functions {
		if err := allowed(f.App); err != nil {
			return err
		}
	}
	return nil
}

// SetFunctionTag makes a function tag, or lets it name other versions. Its errors are those of
// versioning.SetFunctionTag, and of allowed, for the functions that it named and those that it is to name.
func (editor *Editor) SetFunctionTag(ctx context.Context, n versioning.NewFunctionTag,
	allowed Allowed) (set landfall.FunctionTag, err error) {
	n.At = editor.Now().UTC().Truncate(time.Microsecond) // as it is read again
	err = editor.changeFunctionTag(ctx, n.Namespace, n.Name, func(tx *store.Tx) error {
		var was landfall.FunctionTag
		if was, set, err = versioning.SetFunctionTag(ctx, tx, n); err != nil {
			return err
		}
		if err := allowed.over(was); err != nil {
			return err
		}
		return allowed.over(set)
	})
	return set, err
}

// DeleteFunctionTag removes a function tag. The versions stay. NotFound when there is none; Conflict when a spec
// declares it, or while a trigger of a live release leads to it; and the errors of allowed, for what it names. by says
// who removes it, and why.
func (editor *Editor) DeleteFunctionTag(ctx context.Context, namespace, name string, by Mover,
	allowed Allowed) error {
	return editor.changeFunctionTag(ctx, namespace, name, func(tx *store.Tx) error {
		t, err := versioning.FunctionTagOf(ctx, tx, namespace, name)
		if err != nil {
			return err
		}
		if err := allowed.over(t); err != nil {
			return err
		}
		if err := versioning.CheckUndeclared(t); err != nil {
			return err
		}
		if err := checkNotLive(ctx, tx, namespace, name); err != nil {
			return err
		}
		return tx.DeleteFunctionTag(ctx, namespace, name, by.ofName())
	})
}

// checkNotLive fails with Conflict while a trigger of a live release leads to a function tag.
func checkNotLive(ctx context.Context, tx *store.Tx, namespace, tag string) error {
	led, err := ledBy(ctx, tx, namespace, tag)
	if err != nil {
		return err
	}
	for _, s := range led {
		live, err := tx.IsLive(ctx, s.App, s.Release)
		if err != nil {
			return err
		}
		if !live {
			continue
		}
		app, err := tx.App(ctx, s.App)
		if err != nil {
			return err
		}
		return landfall.Errorf("deploy.DeleteFunctionTag", landfall.Conflict,
			"the %s of the live release %s runs the function tag %s: let it name something else first, in the specs of %[4]s "+
				"and with a push, or take it away (landfall trigger delete %[4]s %[5]s)", s.Unit, s.Release, tag, app.Name,
			s.Unit.Name)
	}
	return nil
}

// ledBy returns the triggers of accessible releases that lead to a function tag.
func ledBy(ctx context.Context, tx *store.Tx, namespace, tag string) ([]store.ServedTrigger, error) {
	served, err := tx.TimeTriggers(ctx, namespace)
	return slices.DeleteFunc(served, func(s store.ServedTrigger) bool {
		t, _ := spec.ReadTriggerVersion(s.Unit, s.Spec) // what cannot be read leads nowhere
		return t.Tag != tag
	}), err
}

// changeFunctionTag changes a function tag in a transaction, and gives gateways the result.
func (editor *Editor) changeFunctionTag(ctx context.Context, namespace, name string,
	change func(tx *store.Tx) error) error {
	var apps []string
	err := editor.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if err := change(tx); err != nil {
			return err
		}
		apps, err = ShowFunctionTags(ctx, tx, namespace, name)
		return err
	})
	if err != nil {
		return err
	}
	for _, app := range apps {
		editor.Rollout.Show(ctx, landfall.App{ID: app})
	}
	return nil
}

// ShowFunctionTags notes that the apps changed whose triggers lead to function tags, and returns them.
func ShowFunctionTags(ctx context.Context, tx *store.Tx, namespace string, names ...string) ([]string, error) {
	var apps []string
	for _, name := range names {
		led, err := ledBy(ctx, tx, namespace, name)
		if err != nil {
			return nil, err
		}
		for _, s := range led {
			apps = append(apps, s.App)
		}
	}
	slices.SortFunc(apps, strings.Compare)
	apps = slices.Compact(apps)
	for _, app := range apps {
		if _, err := tx.Changed(ctx, app); err != nil {
			return nil, err
		}
	}
	return apps, nil
}

// TagVersions lets function tags name the versions that a person has made, where the person said so. It returns what
// they named until now, as notes.
func TagVersions(ctx context.Context, tx *store.Tx, units []store.GroupUnit,
	made map[landfall.UnitID]landfall.NewVersion, by Mover) (notes []string, err error) {
	for _, u := range units {
		tag := made[u.Unit].Tag
		if tag == "" {
			continue
		}
		v, err := tx.VersionByNumber(ctx, u.UnitID, u.Number)
		if err != nil {
			return nil, err
		}
		row := store.Unit{ID: u.UnitID, Unit: u.Unit, Namespace: v.Namespace, App: v.App}
		was, err := versioning.AddToFunctionTag(ctx, tx, row, v, tag, by.ofName())
		if err == nil {
			_, err = ShowFunctionTags(ctx, tx, v.Namespace, tag)
		}
		if err != nil {
			return nil, err
		}
		if was.Number > 0 {
			notes = append(notes, fmt.Sprintf("the function tag %s names %s:%d now, in place of %[2]s:%[4]d", tag, u.Unit.Name,
				u.Number, was.Number))
		}
	}
	return notes, nil
}
