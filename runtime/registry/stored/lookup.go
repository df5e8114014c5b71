package stored

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/images"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Function returns the function that a reference means, as it runs in the release that is live when that is asked for,
// and else in what production applied last, or in the group version that made it. NotFound, with a sentence, when there
// is none.
func (s Source) Function(ctx context.Context, ref landfall.Reference) (*landfall.Function, error) {
	return s.FunctionInGroup(ctx, ref, "")
}

// FunctionInGroup is Function for a function as it runs in a group version, or, for an empty one, where Function finds
// it.
func (s Source) FunctionInGroup(ctx context.Context, ref landfall.Reference,
	group landfall.UID) (*landfall.Function, error) {
	f, err := s.find(ctx, ref, group)
	return f.Function, err
}

// find is FunctionInGroup, with the commit that made the version.
func (s Source) find(ctx context.Context, ref landfall.Reference, group landfall.UID) (found images.Function,
	err error) {
	err = s.DB.Snapshot(ctx, func(at *store.Snapshot) error {
		namespace := cmp.Or(ref.Namespace, landfall.DefaultNamespace)
		shares, err := versioning.FindShares(ctx, at, namespace, ref)
		if err != nil {
			return err
		}
		v := drawVersion(shares)
		f, err := tableReader{at, s.Logger}.readerOf(ctx, v)
		if err != nil {
			return err
		}
		group := group
		switch {
		case group != "":
		case ref.Selector == landfall.LivePointer:
			group = f.app.Live
		default:
			if group, err = f.groupOf(ctx, v); err != nil {
				return err
			}
		}
		found.Commit = v.Commit
		found.Function, err = f.runIn(ctx, cmp.Or(group, v.UID), v)
		if err == nil && len(shares) > 1 {
			found.Alias = ref.Selector
		}
		return err
	})
	return found, err
}

// Hook returns the webhook whose address ends in a key, as a trigger that belongs to no release. NotFound when there is
// none, or its function is gone.
func (s Source) Hook(ctx context.Context, key string) (*registry.Trigger, error) {
	h, err := s.DB.FunctionHookOf(ctx, key)
	if err != nil {
		return nil, err
	}
	app, err := s.DB.App(ctx, h.App)
	if err != nil {
		return nil, err
	}
	f, err := s.Function(ctx, landfall.Reference{Namespace: h.Namespace, Name: h.Function,
		Selector: strconv.FormatInt(h.Number, 10)})
	return &registry.Trigger{
		Trigger: landfall.Trigger{Kind: landfall.HTTPTrigger, HTTP: landfall.HTTPSource{Trim: landfall.HookPath + key}},
		App:     h.App, AppName: app.Name, Namespace: h.Namespace, Name: h.ID, Function: f, Webhook: true,
	}, err
}

// readerOf returns a reader of the functions of the app that has a version.
func (r tableReader) readerOf(ctx context.Context, v landfall.Version) (f functionReader, err error) {
	f = newFunctionReader(r, landfall.App{Namespace: v.Namespace})
	if v.App != "" {
		f.app, err = r.App(ctx, v.App)
	}
	return f, err
}

// runIn returns a function's version with what a group version has for it to run.
func (f *functionReader) runIn(ctx context.Context, group landfall.UID,
	v landfall.Version) (*landfall.Function, error) {
	units, err := f.RunningUnits(ctx, v.App, group)
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		f.units[unitOfRelease{group, u.Unit}] = u
	}
	return f.assemble(ctx, group, v)
}

// Owner returns the id of the app whose function has a name; empty for one made by hand. NotFound when there is none.
func (s Source) Owner(ctx context.Context, ref landfall.Reference) (string, error) {
	row, err := s.DB.UnitInNamespace(ctx, cmp.Or(ref.Namespace, landfall.DefaultNamespace),
		landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name})
	return row.App, err
}

// Image returns a function as its image has it, with the commit that made the version. A name must mean the same image
// again and again: of an alias with weights it is the first version. Its errors are those of Function.
func (s Source) Image(ctx context.Context, ref landfall.Reference) (images.Function, error) {
	alias, err := versioning.FindAlias(ctx, s.DB, cmp.Or(ref.Namespace, landfall.DefaultNamespace), ref)
	if err == nil {
		ref.Selector = string(alias.Shares[0].UID)
	}
	return s.find(ctx, ref, "")
}

// ImageNames returns what the versions of a function are called. NotFound when there is no such function.
func (s Source) ImageNames(ctx context.Context, namespace, name string) (images.Names, error) {
	var names images.Names
	err := s.DB.Snapshot(ctx, func(at *store.Snapshot) error {
		row, err := at.UnitInNamespace(ctx, namespace, landfall.UnitID{Kind: landfall.FunctionUnit, Name: name})
		if err != nil {
			return err
		}
		versions, err := at.Versions(ctx, row.ID, true)
		if err != nil {
			return err
		}
		names.App = row.App
		for _, v := range slices.Backward(versions) {
			names.UIDs = append(names.UIDs, v.UID)
			if !v.Retired {
				names.Tags = append(names.Tags, string(v.UID), strconv.FormatInt(v.Number, 10), v.Label)
			}
		}
		aliases, err := at.Aliases(ctx, row.ID)
		if err != nil {
			return err
		}
		for _, alias := range aliases {
			names.Tags = append(names.Tags, alias.Name)
		}
		for pointer, number := range map[string]func(context.Context, string) (int64, error){
			landfall.Latest: at.LatestNumber, landfall.LivePointer: at.LiveNumber,
		} {
			_, err := number(ctx, row.ID)
			if err == nil {
				names.Tags = append(names.Tags, pointer)
			} else if landfall.KindOf(err) != landfall.NotFound {
				return fmt.Errorf("the %s version: %w", pointer, err)
			}
		}
		return nil
	})
	return names, err
}

// groupOf returns the group version with which a function's version is called by its name: the one that production
// applied last if that has it, since secrets and configuration move on without it; else the one that made it.
func (f *functionReader) groupOf(ctx context.Context, v landfall.Version) (landfall.UID, error) {
	last, err := f.LastApply(ctx, v.App, "", time.Time{})
	if err != nil {
		return v.UID, landfall.Ignore(err, landfall.NotFound)
	}
	units, err := f.GroupUnits(ctx, v.App, last.Group)
	if slices.ContainsFunc(units, func(u store.GroupUnit) bool { return u.Unit == v.Unit && u.Number == v.Number }) {
		return last.Group, err
	}
	return v.UID, err
}

// drawVersion returns one of the versions that a reference means, as often as its weight says.
func drawVersion(shares []versioning.Share) landfall.Version {
	const percent = 100
	drawn := rand.IntN(percent)
	for _, s := range shares {
		if drawn < s.Percent {
			return s.Version
		}
		drawn -= s.Percent
	}
	return shares[0].Version
}
