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
)

// DeleteEnvironment deletes all versions of an environment of an app. Conflict, with all that holds it, while the specs
// of production declare it, and while an accessible release, an execution or a version of a function needs it: then
// nothing is deleted. NotFound when there is none. Its numbers continue when it is made again.
func (editor *Editor) DeleteEnvironment(ctx context.Context, row store.Unit) error {
	return editor.DB.Update(ctx, func(tx *store.Tx) error {
		app, err := tx.ActiveApp(ctx, row.App)
		if err != nil {
			return err
		}
		_, there, err := tx.HasVersions(ctx, row.ID)
		if err == nil && !there {
			err = landfall.Errorf("deploy.DeleteEnvironment", landfall.NotFound, "%s has no %s any more", app.Name, row.Unit)
		}
		if err != nil {
			return err
		}
		held, err := environmentHolders(ctx, tx, app, row)
		if err != nil {
			return err
		}
		if len(held) > 0 {
			return landfall.Errorf("deploy.DeleteEnvironment", landfall.Conflict,
				"%s of %s is in use by %s; nothing was deleted", row.Unit, app.Name, strings.Join(held, ", "))
		}
		return dropVersions(ctx, tx, row)
	})
}

// environmentHolders says what needs an environment.
func environmentHolders(ctx context.Context, tx *store.Tx, app landfall.App,
	row store.Unit) (held []string, err error) {
	last, err := tx.LastApply(ctx, app.ID, "", time.Time{})
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return nil, err
	}
	declared, err := tx.GroupUnits(ctx, app.ID, last.Group)
	if err != nil {
		return nil, err
	}
	if slices.Contains(idsOf(declared), row.Unit) {
		held = append(held, fmt.Sprintf("the specs of %s, which declare it", app.Name))
	}
	versions, err := tx.Versions(ctx, row.ID, true)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		holders, err := tx.VersionHolders(ctx, row.ID, v.Number)
		if err != nil {
			return nil, err
		}
		for _, h := range holders {
			if named := fmt.Sprintf("the %s %s", h.Kind, h.Name); !slices.Contains(held, named) {
				held = append(held, named)
			}
		}
	}
	functions, err := tx.FunctionsMadeWith(ctx, row.ID)
	if err != nil {
		return nil, err
	}
	for _, v := range functions {
		f, err := spec.ReadFunctionVersion(v.Spec)
		if err != nil {
			return nil, err
		}
		if f.Environment.Name == row.Unit.Name {
			held = append(held, fmt.Sprintf("%s no. %d (%s)", v.Unit, v.Number, v.ObjectName()))
		}
	}
	return held, nil
}
