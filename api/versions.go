package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
)

// UnitPath names a function or package.
type UnitPath struct {
	Name      string `path:"name"`
	Namespace string `query:"namespace" default:"default"`
}

// find returns the row of a function or package.
func (p UnitPath) find(ctx context.Context, u units, scope landfall.Scope) (store.Unit, error) {
	row, _, err := u.row(ctx, p.Namespace, p.Name)
	if err == nil && !caller(ctx).Allows(scope, row.App) {
		err = forbidden(scope, row.Unit.String())
	}
	return row, err
}

// units is the read side of functions or of packages, which have the same operations.
type units struct {
	*api
	kind landfall.UnitKind
}

func (a *api) registerVersions(h huma.API) {
	for _, k := range []struct {
		kind landfall.UnitKind
		path string
	}{{landfall.FunctionUnit, "functions"}, {landfall.PackageUnit, "packages"}} {
		u := units{a, k.kind}
		register(h, reading("list-"+k.path, "/"+k.path, "The "+k.path+" in force"), u.list)
		register(h, reading("list-versions-of-"+k.path, "/"+k.path+"/{name}/versions", "The versions, oldest first"),
			u.versions)
		u.registerVersion(h, k.path)
		register(h, reading("tracker-of-"+k.path, "/"+k.path+"/{name}/tracker", "The ordered list of versions"), u.tracker)
	}
	f := units{a, landfall.FunctionUnit}
	registerOn(f, h, reading("show-function", "/functions/{name}",
		"A function's aliases and versions, or its package's archive").content(orArchive[client.FunctionMaster](h)), f.master)
	registerOn(f, h, reading("master-of-function", "/functions/{name}/master", "A function's aliases and versions: its "+
		"FunctionMaster"), f.masterAlone)
	registerOn(f, h, deploying("delete-function", http.MethodDelete, "/functions/{name}",
		"Delete a function with its aliases and versions, unless something holds one"), f.deleteFunction)
}

// row returns the unit's row for a token that may read it, and whether it has a tracker. A unit without versions, also
// without ones that are only held, is not there.
func (u units) row(ctx context.Context, namespace, name string) (row store.Unit, tracked bool, err error) {
	id := landfall.UnitID{Kind: u.kind, Name: name}
	missing := landfall.Errorf("api", landfall.NotFound, "there is no %s in the namespace %q", id, namespace)
	if row, err = u.DB.UnitInNamespace(ctx, namespace, id); err != nil {
		if landfall.Is(err, landfall.NotFound) {
			return row, false, missing
		}
		return row, false, err
	}
	if !caller(ctx).Allows(landfall.ScopeRead, row.App) {
		return row, false, missing
	}
	tracked, held, err := u.DB.HasVersions(ctx, row.ID)
	if err == nil && !held {
		err = missing
	}
	return row, tracked, err
}

func (u units) list(ctx context.Context, in *struct {
	Paging
	Namespace string `query:"namespace" default:"default"`
}) (*body[page[client.Unit]], error) {
	rows, err := u.DB.UnitsInNamespace(ctx, in.Namespace, u.kind)
	if err != nil {
		return nil, err
	}
	return paged(in.Paging, rows, func(row store.Unit) string { return row.Unit.Name },
		func(row store.Unit) (client.Unit, bool, error) {
			if !caller(ctx).Allows(landfall.ScopeRead, row.App) {
				return client.Unit{}, false, nil
			}
			return u.unitOf(ctx, row)
		})
}

// unitOf shows a function or package, and says whether it has versions.
func (u units) unitOf(ctx context.Context, row store.Unit) (c client.Unit, there bool, err error) {
	count, err := u.DB.CountVersions(ctx, row.ID)
	if err != nil || count == 0 {
		return c, false, err
	}
	app, err := u.DB.App(ctx, row.App)
	if err != nil {
		return c, false, err
	}
	c = client.Unit{Name: row.Unit.Name, Namespace: row.Namespace, Versions: count}
	if !app.OfNamespace() {
		c.App = app.Name
	}
	latest, err := u.number(u.DB.LatestNumber(ctx, row.ID))
	if err != nil || latest == 0 {
		return c, true, err
	}
	v, err := u.DB.VersionByNumber(ctx, row.ID, latest)
	c.Latest = v.UID
	return c, true, err
}

// number is a version's number, or 0 when there is none.
func (u units) number(n int64, err error) (int64, error) {
	if landfall.Is(err, landfall.NotFound) {
		return 0, nil
	}
	return n, err
}

// VersionsPath names the versions of a function or package, a page of them.
type VersionsPath struct {
	UnitPath
	Paging
}

func (u units) versions(ctx context.Context, in *VersionsPath) (*body[page[client.Version]], error) {
	row, tracked, err := u.row(ctx, in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	if !tracked {
		return nil, landfall.Errorf("api", landfall.NotFound,
			"%s left the spec; releases still hold some of its versions, which answer by their uid", row.Unit)
	}
	after, err := numberCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	versions, err := u.DB.VersionsAfter(ctx, row.ID, after, in.Limit+1)
	if err != nil {
		return nil, err
	}
	names, err := u.names(ctx, row)
	if err != nil {
		return nil, err
	}
	items := make([]client.Version, 0, len(versions))
	for _, v := range versions {
		c, err := u.versionOf(names, v)
		if err != nil {
			return nil, err
		}
		items = append(items, c)
	}
	return answer(pageOf(items, in.Limit, func(v client.Version) string { return strconv.FormatInt(v.Number, 10) }), nil)
}

func (u units) tracker(ctx context.Context, in *UnitPath) (*body[client.Tracker], error) {
	row, tracked, err := u.row(ctx, in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	if !tracked {
		return nil, landfall.Errorf("api", landfall.NotFound, "%s left the spec: it has no tracker", row.Unit)
	}
	versions, err := u.DB.Versions(ctx, row.ID, false)
	if err != nil {
		return nil, err
	}
	t := client.Tracker{Kind: "FunctionVersionTracker", Metadata: client.Metadata{Name: in.Name}}
	if u.kind == landfall.PackageUnit {
		t.Kind = "PackageVersionTracker"
	}
	for _, v := range versions {
		t.Spec.Versions = append(t.Spec.Versions, v.UID)
	}
	return answer(t, nil)
}

// versionNames are the numbers of the versions of a unit that have a name; 0 where there is none.
type versionNames struct {
	latest, live int64
	aliases      map[int64][]string
}

func (u units) names(ctx context.Context, row store.Unit) (n versionNames, err error) {
	if n.latest, err = u.number(u.DB.LatestNumber(ctx, row.ID)); err != nil {
		return n, err
	}
	if n.live, err = u.number(u.DB.LiveNumber(ctx, row.ID)); err != nil {
		return n, err
	}
	aliases, err := u.DB.Aliases(ctx, row.ID)
	n.aliases = map[int64][]string{}
	for _, a := range aliases {
		for _, s := range a.Shares {
			n.aliases[s.Number] = append(n.aliases[s.Number], a.Name)
		}
	}
	return n, err
}

// versionOf shows a version as the object that Fission's documents show.
func (u units) versionOf(names versionNames, v landfall.Version) (client.Version, error) {
	c := client.Version{
		Kind: "Function", Spec: v.Spec, UID: v.UID, Number: v.Number, Label: v.Label, Description: v.Description,
		Digest: v.Digest, Commit: v.Commit, Created: v.Created, Latest: v.Number == names.latest,
		Live: v.Number == names.live, Aliases: names.aliases[v.Number], Metadata: client.Metadata{Name: v.ObjectName(),
			Namespace: v.Namespace, Annotations: map[string]bool{"versioned": true}},
	}
	if u.kind == landfall.PackageUnit {
		c.Kind = "Package"
		c.Metadata.Version = strconv.FormatInt(v.Number, 10)
		err := packageObject(&c, v)
		return c, err
	}
	spec, err := withPackageRef(v)
	c.Spec = spec
	return c, err
}

// withPackageRef is a function's spec with the version of its package in place of the package's name. All else stays as
// it is, and unread: a page shows many.
func withPackageRef(v landfall.Version) (json.RawMessage, error) {
	if v.Content == nil {
		return v.Spec, nil
	}
	var content struct {
		Package jsontext.Value `json:"packageref"` // as of landfall.FunctionContent
	}
	if err := jsonv2.Unmarshal(v.Content, &content, asStored()); err != nil || content.Package == nil {
		return v.Spec, err
	}
	begin, end, err := memberAt(v.Spec, "package", "packageref")
	if err != nil || begin == end {
		return v.Spec, err
	}
	return slices.Concat(v.Spec[:begin], json.RawMessage(content.Package), v.Spec[end:]), nil
}

// asStored reads JSON that was checked before it was stored: no name is looked for twice.
func asStored() jsontext.Options { return jsontext.AllowDuplicateNames(true) }

// memberAt returns where the value of a member of a member ... of an object lies; an empty place when there is none.
func memberAt(object json.RawMessage, path ...string) (begin, end int64, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), asStored())
	for _, name := range path {
		if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
			return 0, 0, err
		}
		for {
			token, err := d.ReadToken()
			if err != nil || token.Kind() != '"' {
				return 0, 0, err
			}
			if token.String() == name {
				break
			}
			if err := d.SkipValue(); err != nil {
				return 0, 0, err
			}
		}
	}
	value, err := d.ReadValue()
	end = d.InputOffset()
	return end - int64(len(value)), end, err
}

// packageObject adds where a package's archives are, as Fission's snapshots show them.
func packageObject(c *client.Version, v landfall.Version) error {
	var spec map[string]any
	if err := json.Unmarshal(v.Spec, &spec); err != nil {
		return err
	}
	content, err := landfall.ReadContent[landfall.PackageContent](v.Content)
	if err != nil {
		return err
	}
	c.Status = &client.VersionStatus{BuildStatus: "none"}
	_, commanded := spec["buildcmd"]
	given, _ := spec["deployment"].(map[string]any)
	byBuilder := content.Source != nil && given["url"] == nil && given["literal"] == nil // its environment's
	if content.Deployment != nil && (commanded || byBuilder && content.Deployment.Key != content.Source.Key) {
		c.Status.BuildStatus = "succeeded"
	}
	for name, archive := range map[string]*landfall.Archive{"source": content.Source, "deployment": content.Deployment} {
		shown := map[string]any{"checksum": map[string]any{}}
		if archive != nil {
			shown = map[string]any{
				"type": "url", "url": archive.Key, "checksum": map[string]any{"type": "sha256", "sum": archive.Digest.Hex()}}
		}
		spec[name] = shown
	}
	data, err := json.Marshal(spec)
	c.Spec = data
	return err
}
