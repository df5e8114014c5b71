package versioning

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Reader is what is needed to resolve a reference; a store's database and its transactions are Readers.
type Reader interface { //nolint:interfacebloat // one for each way to name a version
	aliasReader
	namedReader

	UnitInNamespace(ctx context.Context, namespace string, id landfall.UnitID) (store.Unit, error)
	VersionByNumber(ctx context.Context, unit string, number int64) (landfall.Version, error)
	VersionByDigest(ctx context.Context, unit string, digest landfall.Digest) (landfall.Version, error)
	NewestVersions(ctx context.Context, unit string, limit int) ([]landfall.Version, error)
	Group(ctx context.Context, app string, uid landfall.UID) (landfall.Group, error)
}

// aliasReader reads the names of versions that can move from one version to another.
type aliasReader interface {
	LatestNumber(ctx context.Context, unit string) (int64, error)
	LiveNumber(ctx context.Context, unit string) (int64, error)
	Alias(ctx context.Context, unit, name string) (landfall.Alias, error)
	Aliases(ctx context.Context, unit string) ([]landfall.Alias, error)
}

// Find returns the version of a function or package that ref means in a namespace; for an alias with two versions, the
// first. NotFound, with a sentence that names the nearest one, when there is none.
func Find(ctx context.Context, r Reader, namespace string, kind landfall.UnitKind,
	ref landfall.Reference) (landfall.Version, error) {
	namespace = cmp.Or(ref.Namespace, namespace)
	id := landfall.UnitID{Kind: kind, Name: ref.Name}
	row, err := r.UnitInNamespace(ctx, namespace, id)
	if landfall.Is(err, landfall.NotFound) {
		err = missing(id, namespace)
	}
	if err != nil {
		return landfall.Version{}, err
	}
	return Select(ctx, r, row, ref.Selector)
}

// PackageOf returns the package that a version of a function runs, and its version. NotFound when it is gone, or the
// function has none: then the number of the version is 0.
func PackageOf(ctx context.Context, r versionReader, f landfall.Version) (row store.Unit, v landfall.Version,
	err error) {
	content, err := landfall.ReadContent[landfall.FunctionContent](f.Content)
	if err != nil {
		return row, v, err
	}
	name := content.Package.Name
	id := landfall.UnitID{Kind: landfall.PackageUnit, Name: name[:max(strings.LastIndexByte(name, '-'), 0)]} // without uid
	if row, err = r.UnitInNamespace(ctx, f.Namespace, id); err != nil {
		return row, v, err
	}
	number, _ := strconv.ParseInt(content.Package.ResourceVersion, 10, 64) // nothing has the number 0
	v, err = r.VersionByNumber(ctx, row.ID, number)
	return row, v, err
}

type versionReader interface {
	UnitInNamespace(ctx context.Context, namespace string, id landfall.UnitID) (store.Unit, error)
	VersionByNumber(ctx context.Context, unit string, number int64) (landfall.Version, error)
	Group(ctx context.Context, app string, uid landfall.UID) (landfall.Group, error)
}

// CheckWhole fails with Forbidden for a version of a function that only a fork's pull request made, which nothing but
// the releases of that may run, and with NotFound for one whose package is gone. When the unit of a package leaves
// an app, its versions that nothing holds go at once, while a version of a function that only a branch had, and that
// runs one of them, waits for the next collection. Who begins to hold a version asks in its transaction.
func CheckWhole(ctx context.Context, r versionReader, f landfall.Version) error {
	group, err := r.Group(ctx, f.App, f.UID)
	switch {
	case landfall.Ignore(err, landfall.NotFound) != nil:
		return err
	case err == nil && group.Fork != 0 && !f.Production:
		return landfall.Errorf("versioning.CheckWhole", landfall.Forbidden,
			"%s no. %d was made of the fork of pull request %d: merge that first", f.Unit, f.Number, group.Fork)
	}
	content, err := landfall.ReadContent[landfall.FunctionContent](f.Content)
	if err != nil || content.Package.Name == "" {
		return err
	}
	_, _, err = PackageOf(ctx, r, f)
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Wrapf("versioning.CheckWhole", landfall.NotFound, err,
			"%s no. %d cannot run any more: the version of its package was deleted", f.Unit, f.Number)
	}
	return err
}

// Again reads a function or package again, in the transaction that changes it. Conflict when another app owns it by
// now: who may change it was asked before.
func Again(ctx context.Context, r unitReader, row store.Unit) (store.Unit, error) {
	now, err := r.UnitInNamespace(ctx, row.Namespace, row.Unit)
	if err == nil && now.App != row.App {
		err = landfall.Errorf("versioning.Again", landfall.Conflict, "another app owns %s since the request came: look again",
			row.Unit)
	}
	return now, err
}

type unitReader interface {
	UnitInNamespace(ctx context.Context, namespace string, unit landfall.UnitID) (store.Unit, error)
}

func missing(id landfall.UnitID, namespace string) error {
	return landfall.Errorf("versioning.Find", landfall.NotFound, "there is no %s in the namespace %q", id, namespace)
}

// Select returns the version of a unit that a selector means. NotFound, with a sentence that names the nearest one,
// when there is none. It reads as much of a unit with a million versions as of one with three.
func Select(ctx context.Context, r Reader, row store.Unit, selector string) (landfall.Version, error) {
	v, err := selected(ctx, r, row, selector)
	if err == nil || landfall.KindOf(err) != landfall.NotFound {
		return v, err
	}
	const some = 100 // in which the nearest is looked for
	newest, err := r.NewestVersions(ctx, row.ID, some)
	if err != nil {
		return landfall.Version{}, err
	}
	if len(newest) == 0 {
		return landfall.Version{}, missing(row.Unit, row.Namespace)
	}
	slices.Reverse(newest)
	hint, what := nearest(newest, selector), "version"
	if mayBeAlias(row.Unit, selector) {
		aliases, err := r.Aliases(ctx, row.ID)
		if err != nil {
			return landfall.Version{}, err
		}
		hint, what = hint+listAliases(aliases), "version or alias"
	}
	return landfall.Version{}, landfall.Errorf("versioning.Select", landfall.NotFound, "%s has no %s %q%s", row.Unit, what,
		selector, hint)
}

// mayBeAlias reports whether a selector could be an alias of a unit.
func mayBeAlias(unit landfall.UnitID, selector string) bool {
	return unit.Kind == landfall.FunctionUnit && checkAlias(selector) == nil
}

// listAliases returns a sentence about the existing aliases, with the first few names.
func listAliases(aliases []landfall.Alias) string {
	const most = 5
	var names []string
	for _, a := range aliases[:min(most, len(aliases))] {
		names = append(names, a.Name)
	}
	switch more := len(aliases) - len(names); {
	case len(aliases) == 0:
		return "; it has no aliases"
	case more > 0:
		return fmt.Sprintf("; aliases are %s and %d more", strings.Join(names, ", "), more)
	}
	return "; aliases are " + strings.Join(names, ", ")
}

// selected is Select without a sentence.
func selected(ctx context.Context, r Reader, row store.Unit, selector string) (landfall.Version, error) {
	number := func(number int64, err error) (landfall.Version, error) {
		if err != nil {
			return landfall.Version{}, err
		}
		return r.VersionByNumber(ctx, row.ID, number)
	}
	switch {
	case selector == "" || selector == landfall.Latest || selector == "0":
		return number(r.LatestNumber(ctx, row.ID))
	case selector == landfall.LivePointer:
		return number(r.LiveNumber(ctx, row.ID))
	case strings.HasPrefix(selector, "sha256:"):
		return r.VersionByDigest(ctx, row.ID, landfall.Digest(selector)) // the newest, because several may have one digest
	}
	if n, err := strconv.ParseUint(selector, 10, 63); err == nil { // digits only: a label may begin with a sign
		return number(int64(n), nil)
	}
	alias, err := r.Alias(ctx, row.ID, selector)
	switch {
	case err == nil:
		return number(alias.Shares[0].Number, nil)
	case landfall.KindOf(err) != landfall.NotFound:
		return landfall.Version{}, err
	}
	return versionCalled(ctx, r, row, selector)
}

// namedReader finds the version of a unit with a uid or a label.
type namedReader interface {
	VersionNamed(ctx context.Context, unit, name string) (landfall.Version, error)
}

// versionCalled returns the version of a unit with a uid or a label, or the one that lists print so: NAME-UID. NotFound
// when there is none.
func versionCalled(ctx context.Context, r namedReader, row store.Unit, name string) (landfall.Version, error) {
	v, err := r.VersionNamed(ctx, row.ID, name)
	uid, printed := strings.CutPrefix(name, row.Unit.Name+"-")
	if !printed || !landfall.Is(err, landfall.NotFound) {
		return v, err
	}
	of, found := r.VersionNamed(ctx, row.ID, uid)
	if found == nil && string(of.UID) != uid { // it is a label
		return v, err
	}
	return of, found
}

// nearest suggests a version: one whose label or uid contains the selector, or the last one.
func nearest(versions []landfall.Version, selector string) string {
	for _, v := range versions {
		if v.Label != "" && strings.Contains(v.Label, selector) {
			return fmt.Sprintf("; there is %q", v.Label)
		}
		if len(selector) > 2 && strings.HasPrefix(string(v.UID), selector[:3]) {
			return fmt.Sprintf("; there is %q", v.UID)
		}
	}
	if len(versions) > 0 {
		return fmt.Sprintf("; the newest is %q (no. %d)", versions[len(versions)-1].UID, versions[len(versions)-1].Number)
	}
	return ""
}
