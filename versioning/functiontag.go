package versioning

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// NewFunctionTag says how a function tag is set.
type NewFunctionTag struct {
	Namespace string
	Name      string
	Functions []landfall.Reference // of the namespace; at most one version of each function
	Create    bool                 // Conflict when it exists; without Create, NotFound when it does not
	Actor     string
	Reason    string
	At        time.Time
}

const (
	// MaxTagged is how many functions a tag may name: a trigger calls all of them at once.
	MaxTagged = 100
	// MaxTagsOf is how many tags may name a function, because each holds a version.
	MaxTagsOf = 100
)

const tagOp landfall.Op = "versioning.SetFunctionTag"

// FunctionTagOf returns a function tag of a namespace. NotFound, with the command that lists the existing ones, when
// there is none with the name.
func FunctionTagOf(ctx context.Context, r tagReader, namespace, name string) (landfall.FunctionTag, error) {
	t, err := r.FunctionTag(ctx, namespace, name)
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Wrapf("versioning.FunctionTagOf", landfall.NotFound, err,
			"there is no function tag %q in the namespace %q; landfall tag list shows those that there are", name, namespace)
	}
	return t, err
}

type tagReader interface {
	FunctionTag(ctx context.Context, namespace, name string) (landfall.FunctionTag, error)
}

// CheckFunctionTag returns an Invalid error unless name may be a function tag.
func CheckFunctionTag(name string) error {
	if why := landfall.UnfitName(name); why != "" {
		return landfall.Errorf(tagOp, landfall.Invalid, "%q cannot be a function tag: %s", name, why)
	}
	return nil
}

// SetFunctionTag makes a function tag, or lets it name other versions, and returns what it was before, too. Invalid
// when the name or the functions are wrong; NotFound when there is no such version.
func SetFunctionTag(ctx context.Context, tx *store.Tx, n NewFunctionTag) (was, now landfall.FunctionTag, err error) {
	was, err = FunctionTagOf(ctx, tx, n.Namespace, n.Name)
	switch {
	case err == nil && n.Create:
		return was, was, landfall.Errorf(tagOp, landfall.Conflict,
			"there is the function tag %q already: landfall tag update says what else it names", n.Name)
	case err != nil && (landfall.KindOf(err) != landfall.NotFound || !n.Create):
		return was, was, err
	}
	if err := cmp.Or(CheckUndeclared(was), CheckFunctionTag(n.Name)); err != nil {
		return was, was, err
	}
	now = landfall.FunctionTag{Namespace: n.Namespace, Name: n.Name, Moved: n.At, Actor: n.Actor,
		Reason: n.Reason}
	for _, ref := range n.Functions {
		f, err := tagged(ctx, tx, n.Namespace, ref)
		if err != nil {
			return was, now, err
		}
		if slices.ContainsFunc(now.Functions, func(o landfall.TaggedFunction) bool { return o.Unit == f.Unit }) {
			return was, now, landfall.Errorf(tagOp, landfall.Invalid,
				"the function %s is named twice; a function tag names one version of it", f.Name)
		}
		now.Functions = append(now.Functions, f)
	}
	return was, now, putFunctionTag(ctx, tx, now)
}

// tagged returns the version that a reference means, as a function tag names it.
func tagged(ctx context.Context, tx *store.Tx, namespace string,
	ref landfall.Reference) (f landfall.TaggedFunction, err error) {
	if ref.Namespace != "" && ref.Namespace != namespace {
		return f, landfall.Errorf(tagOp, landfall.Invalid,
			"%s is in another namespace; a function tag names functions of its own, which is %q", ref, namespace)
	}
	shares, err := FindShares(ctx, tx, namespace, ref)
	if err != nil {
		return f, err
	}
	if len(shares) > 1 {
		return f, landfall.Errorf(tagOp, landfall.Invalid, "%s is two versions by weights; a function tag names one of each "+
			"function", ref)
	}
	if err := CheckWhole(ctx, tx, shares[0].Version); err != nil {
		return f, err
	}
	row, err := tx.UnitInNamespace(ctx, namespace, shares[0].Version.Unit)
	return entry(row, shares[0].Version), err
}

func entry(row store.Unit, v landfall.Version) landfall.TaggedFunction {
	return landfall.TaggedFunction{Name: row.Unit.Name, UID: v.UID, Number: v.Number, Label: v.Label, Unit: row.ID,
		App: row.App}
}

// putFunctionTag stores a function tag unless it names too much.
func putFunctionTag(ctx context.Context, tx *store.Tx, t landfall.FunctionTag) error {
	if len(t.Functions) == 0 || len(t.Functions) > MaxTagged {
		return landfall.Errorf(tagOp, landfall.Invalid, "the function tag %s would name %s; it names from 1 to %d", t.Name,
			landfall.Count(len(t.Functions), "function"), MaxTagged)
	}
	slices.SortFunc(t.Functions, func(a, b landfall.TaggedFunction) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range t.Functions {
		tags, err := tx.TagsOfUnit(ctx, f.Unit)
		if err != nil {
			return err
		}
		if len(tags) >= MaxTagsOf && !slices.Contains(tags, t.Name) {
			return landfall.Errorf(tagOp, landfall.Conflict,
				"%d function tags name the function %s, which is as many as may be: delete one first", len(tags), f.Name)
		}
	}
	return tx.PutFunctionTag(ctx, t)
}

// AddToFunctionTag lets a function tag name a version in place of what it named of the function, which it returns; its
// number is 0 for nothing. It makes the tag if it is not there. Conflict, with the place, when a spec declares the tag.
// by says who, why and when.
func AddToFunctionTag(ctx context.Context, tx *store.Tx, row store.Unit, v landfall.Version, name string,
	by store.AliasMove) (was landfall.TaggedFunction, err error) {
	if err := CheckFunctionTag(name); err != nil {
		return was, err
	}
	t, err := tx.FunctionTag(ctx, row.Namespace, name)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return was, err
	}
	if err := CheckUndeclared(t); err != nil {
		return was, err
	}
	t.Namespace, t.Name, t.Moved, t.Actor, t.Reason = row.Namespace, name, by.At, by.Actor, by.Reason
	named := func(f landfall.TaggedFunction) bool { return f.Unit == row.ID }
	if i := slices.IndexFunc(t.Functions, named); i >= 0 {
		was = t.Functions[i]
	}
	t.Functions = append(slices.DeleteFunc(t.Functions, named), entry(row, v))
	return was, putFunctionTag(ctx, tx, t)
}

// CheckUndeclared returns a Conflict, with the place, for a function tag that a spec declares: its pushes alone change
// it.
func CheckUndeclared(t landfall.FunctionTag) error {
	if t.Declared == "" {
		return nil
	}
	return landfall.Errorf(tagOp, landfall.Conflict,
		"the function tag %s is declared %s", t.Name, changedAt(t.Declared))
}

// Untag takes a function out of all function tags, and returns what they named. The tags stay. by says who does, why
// and when.
func Untag(ctx context.Context, tx *store.Tx, row store.Unit, by store.AliasMove) ([]store.DeletedEntry, error) {
	tags, err := tx.TagsOfUnit(ctx, row.ID)
	if err != nil || len(tags) == 0 {
		return nil, err
	}
	var was []store.DeletedEntry
	for _, name := range tags {
		t, err := tx.FunctionTag(ctx, row.Namespace, name)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(t.Functions, func(f landfall.TaggedFunction) bool { return f.Unit == row.ID })
		was = append(was, store.DeletedEntry{Tag: name, Unit: row.ID, Number: t.Functions[at].Number})
		if err := tx.UntagUnit(ctx, row.Namespace, name, row.ID, by); err != nil {
			return nil, err
		}
	}
	return was, nil
}
