package stored

import (
	"context"
	"fmt"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// fillSecrets gives the secrets that a function's version names their sealed values, as a group version has them, and
// returns what tells them apart from others. Where the group version does not have one, because the function is of
// another one, it is as that one has it.
func (f *functionReader) fillSecrets(ctx context.Context, group landfall.UID, v landfall.Version,
	named []landfall.SealedSecret) (key string, err error) {
	var told strings.Builder
	for i := range named {
		s := &named[i]
		unit := unitOfRelease{group, landfall.UnitID{Kind: landfall.SecretUnit, Name: s.Name}}
		u, pinned := f.units[unit]
		if !pinned && group != v.UID {
			if u, err = f.ownUnit(ctx, v.UID, unit.unit); err != nil {
				return "", err
			}
		}
		s.Number = u.Number
		if len(u.Content) > 0 {
			content, err := secret.ReadContent(u.Content)
			if err != nil {
				return "", err
			}
			s.Sealed = content.Sealed
		}
		fmt.Fprintf(&told, " %s %d %s %t", s.Name, u.Number, u.Digest, s.Sealed != nil)
	}
	if told.Len() == 0 {
		return "", nil
	}
	return " " + landfall.DigestOf([]byte(told.String())).Hex(), nil
}

// ownUnit returns a unit as the group version that made a function's version has it; nothing when that does not.
func (f *functionReader) ownUnit(ctx context.Context, group landfall.UID,
	id landfall.UnitID) (store.ServedUnit, error) {
	units, err := f.RunningUnits(ctx, f.app.ID, group)
	for _, u := range units {
		if u.Unit == id {
			return u, nil
		}
	}
	return store.ServedUnit{}, err
}
