package canary

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Declare lets an app have the canaries that its specs declare: it begins those that are new or changed, leaves the
// others as they are, also those that are over, and deletes what the specs do not have any more. It returns what people
// should know: why one does not begin, which makes nothing else fail.
func Declare(ctx context.Context, tx *store.Tx, app landfall.App, declared []landfall.DeclaredCanary, actor string,
	at time.Time) (notes []string, err error) {
	there, err := tx.Canaries(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	for _, c := range there {
		dropped := !slices.ContainsFunc(declared, func(d landfall.DeclaredCanary) bool { return d.Name == c.Name })
		if c.Declared != "" && dropped {
			if err := tx.DeleteCanary(ctx, c.ID); err != nil {
				return nil, err
			}
		}
	}
	for _, d := range declared {
		text, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(there, func(c landfall.Canary) bool { return c.Name == d.Name }); i >= 0 {
			old := there[i]
			if old.Declared == string(text) {
				continue
			}
			if old.Declared == "" {
				notes = append(notes, fmt.Sprintf("the canary %s does not begin: one of the name was made by hand", d.Name))
				continue
			}
			if err := tx.DeleteCanary(ctx, old.ID); err != nil {
				return nil, err
			}
		}
		_, err = Create(ctx, tx, app, New{Name: d.Name, CanaryRule: d.CanaryRule, Trigger: d.Trigger, Newer: d.Newer,
			Older: d.Older, Declared: string(text), Actor: actor, At: at})
		if kind := landfall.KindOf(err); err != nil && kind != landfall.NotFound && kind != landfall.Conflict &&
			kind != landfall.Invalid {
			return nil, err
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("the canary %s does not begin: %s", d.Name, landfall.MessageOf(err)))
		}
	}
	return notes, nil
}
