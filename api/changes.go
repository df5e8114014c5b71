package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// VersionPath names a version of a function or package.
type VersionPath struct {
	UnitPath
	Version string `path:"version" doc:"uid, number, label, alias, latest, live or digest"`
}

// registerVersion adds what is done with one version of the kind.
func (u units) registerVersion(h huma.API, path string) {
	one := "/" + path + "/{name}/versions/{version}"
	registerOn(u, h, reading("show-version-of-"+path, one,
		"One version, or its package's archive").content(orArchive[client.Version](h)), u.version)
	register(h, deploying("make-version-of-"+path, http.MethodPost, "/"+path+"/{name}/versions",
		"Make a version: at once, or by a run").
		answering(http.StatusAccepted).making("{version.number}"), u.makeVersion)
	alsoCreated(h.OpenAPI().Paths[base+"/"+path+"/{name}/versions"].Post.Responses, http.StatusAccepted)
	registerOn(u, h, deploying("describe-version-of-"+path, http.MethodPut, one,
		"Change the description of a version, which is all that can change"), u.describe)
	registerOn(u, h, deploying("delete-versions-of-"+path, http.MethodDelete, one,
		"Delete a version, or all, unless something holds one"), u.deleteVersions)
}

const zipType = "application/zip"

// orArchive are the types of an answer that is a T, or an archive.
func orArchive[T any](h huma.API) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{
		"application/json": {Schema: h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")},
		zipType:            {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}
}

// selected returns the version of a function or package that a request names.
func (u units) selected(ctx context.Context, row store.Unit, version string) (landfall.Version, error) {
	if version == "0" { // as Qinling calls the latest
		version = landfall.Latest
	}
	return versioning.Select(ctx, u.DB, row, version)
}

// shown is a version as clients see it.
func (u units) shown(ctx context.Context, row store.Unit, v landfall.Version) (client.Version, error) {
	names, err := u.names(ctx, row)
	if err != nil {
		return client.Version{}, err
	}
	return u.versionOf(names, v)
}

// version answers with a version, or with the archive that it runs.
func (u units) version(ctx context.Context, row store.Unit, in *struct {
	VersionPath
	Download bool   `query:"download" doc:"the zip archive of its package in place of its description"`
	Archive  string `query:"archive" enum:"deployment,source" default:"deployment" doc:"which archive to download"`
}) (*huma.StreamResponse, error) {
	v, err := u.selected(ctx, row, in.Version)
	if err != nil {
		return nil, err
	}
	if in.Download {
		return u.download(ctx, v, in.Archive)
	}
	c, err := u.shown(ctx, row, v)
	if err != nil {
		return nil, err
	}
	return inJSON(c), nil
}

// inJSON is an answer in JSON of an operation that may also answer with a file.
func inJSON(v any) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "application/json")
		encoder := json.NewEncoder(hctx.BodyWriter())
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(v) // the client may be gone
	}}
}

// download answers with an archive of a version's package. NotFound when it has none of the name.
func (u units) download(ctx context.Context, v landfall.Version, which string) (*huma.StreamResponse, error) {
	archive, err := u.archive(ctx, v, which)
	if err != nil {
		return nil, err
	}
	object, err := u.Contents.Objects.Open(ctx, archive.Key)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer object.Close()
		for name, value := range map[string]string{
			"Content-Type": zipType, "Content-Length": strconv.FormatInt(object.Size(), 10),
			"ETag":                    strconv.Quote(string(archive.Digest)),
			"Content-Disposition":     fmt.Sprintf("attachment; filename=%q", v.ObjectName()+".zip"),
			"Content-Security-Policy": "sandbox; default-src 'none'", "Cross-Origin-Resource-Policy": "same-origin",
			"X-Content-Type-Options": "nosniff",
		} {
			hctx.SetHeader(name, value)
		}
		w := whileRead(hctx.BodyWriter(), u.StallTimeout)
		defer w.done()
		if _, err := io.Copy(w, object); err != nil {
			u.Logger.DebugContext(ctx, "a download was broken off", "key", archive.Key, "error", err)
		}
	}}, nil
}

// archive returns an archive of a package's version, or of the package of a function's version.
func (u units) archive(ctx context.Context, v landfall.Version, which string) (landfall.Archive, error) {
	none := landfall.Errorf("api", landfall.NotFound, "%s no. %d has no %s archive", v.Unit, v.Number, which)
	if u.kind == landfall.FunctionUnit {
		var err error
		if v, err = u.packageOf(ctx, v); landfall.Is(err, landfall.NotFound) {
			err = none
		}
		if err != nil {
			return landfall.Archive{}, err
		}
	}
	content, err := landfall.ReadContent[landfall.PackageContent](v.Content)
	if err != nil {
		return landfall.Archive{}, err
	}
	archive := content.Deployment
	if which == "source" {
		archive = content.Source
	}
	if archive == nil {
		return landfall.Archive{}, none
	}
	return *archive, nil
}

// packageOf returns the version of a package that a function's version runs. NotFound when it has no package.
func (u units) packageOf(ctx context.Context, f landfall.Version) (landfall.Version, error) {
	row, v, err := versioning.PackageOf(ctx, u.DB, f)
	if err != nil {
		return v, err
	}
	if !caller(ctx).Allows(landfall.ScopeRead, row.App) {
		return landfall.Version{}, forbidden(landfall.ScopeRead, row.Unit.String())
	}
	return v, nil
}

func (u units) describe(ctx context.Context, row store.Unit, in *struct {
	VersionPath
	Body struct {
		Description string `json:"description" maxLength:"1000"`
	}
}) (*body[client.Version], error) {
	v, err := u.selected(ctx, row, in.Version)
	if err != nil {
		return nil, err
	}
	v.Description = in.Body.Description
	err = u.DB.Update(ctx, func(tx *store.Tx) error {
		if row, err = versioning.Again(ctx, tx, row); err != nil {
			return err
		}
		return tx.DescribeVersion(ctx, row.ID, v)
	})
	if err != nil {
		return nil, err
	}
	return answer(u.shown(ctx, row, v))
}

// Dry is the parameter by which nothing is deleted.
type Dry struct {
	DryRun bool `query:"dry_run" doc:"only tell what would go"`
}

func (u units) deleteVersions(ctx context.Context, row store.Unit, in *struct {
	UnitPath
	Dry

	Version string `path:"version" doc:"uid, number, label, alias, latest, live, digest, or all"`
}) (*body[client.Deletion], error) {
	u.flush(ctx) // executions that run hold a version, and those that are over do not
	return answer(deletionOf(u.Editor.DeleteVersions(ctx, row, in.Version, in.DryRun)))
}

func (u units) deleteFunction(ctx context.Context, row store.Unit, in *struct {
	UnitPath
	Dry
	Force bool `query:"force" doc:"releases that hold it expire first, but never the live one"`
}) (*body[client.Deletion], error) {
	u.flush(ctx)
	return answer(deletionOf(u.Editor.DeleteFunction(ctx, row, caller(ctx).Name, in.Force, in.DryRun)))
}

func deletionOf(d deploy.Deletion, err error) (client.Deletion, error) {
	c := client.Deletion{Versions: []client.DeletedVersion{}, Aliases: []string{}, Tags: []string{},
		Releases: []landfall.UID{}, Triggers: []landfall.UnitID{}}
	for _, v := range d.Versions {
		c.Versions = append(c.Versions, client.DeletedVersion{Kind: v.Unit.Kind, Name: v.ObjectName(), Number: v.Number})
	}
	for _, a := range d.Aliases {
		c.Aliases = append(c.Aliases, a.String())
	}
	c.Tags = append(c.Tags, d.Tags...)
	c.Releases, c.Triggers = append(c.Releases, d.Releases...), append(c.Triggers, d.Triggers...)
	return c, err
}

// master is what a function is called, and its versions: the FunctionMaster of Fission's document.
func (u units) master(ctx context.Context, row store.Unit, in *struct {
	UnitPath
	Download bool `query:"download" doc:"the zip archive of the latest version's package in place of this"`
}) (*huma.StreamResponse, error) {
	if in.Download {
		v, err := u.selected(ctx, row, landfall.Latest)
		if err != nil {
			return nil, err
		}
		return u.download(ctx, v, "deployment")
	}
	m, err := u.readMaster(ctx, row)
	if err != nil {
		return nil, err
	}
	return inJSON(m), nil
}

// masterAlone is master under its own address, for whoever reads the document.
func (u units) masterAlone(ctx context.Context, row store.Unit, _ *UnitPath) (*body[client.FunctionMaster], error) {
	return answer(u.readMaster(ctx, row))
}

// readMaster returns what a function is called, and its versions.
func (u units) readMaster(ctx context.Context, row store.Unit) (m client.FunctionMaster, err error) {
	versions, err := u.DB.Versions(ctx, row.ID, false)
	if err != nil {
		return m, err
	}
	aliases, err := u.DB.Aliases(ctx, row.ID)
	if err != nil {
		return m, err
	}
	latest, err := u.number(u.DB.LatestNumber(ctx, row.ID))
	return masterOf(row, versions, aliases, latest), err
}

func masterOf(row store.Unit, versions []landfall.Version, aliases []landfall.Alias,
	latest int64) client.FunctionMaster {
	name := func(suffix string) string { return row.Unit.Name + "_" + suffix }
	m := client.FunctionMaster{Kind: "FunctionMaster",
		Metadata: client.Metadata{Name: name("master"), Namespace: row.Namespace}, Name: row.Unit.Name}
	refs := map[int64]client.FunctionRef{}
	for _, v := range versions {
		refs[v.Number] = client.FunctionRef{Name: name(cmp.Or(v.Label, string(v.UID)))}
		m.Versions = append(m.Versions, refs[v.Number])
	}
	for _, a := range append([]landfall.Alias{{Name: landfall.Latest, Shares: []landfall.AliasShare{{Number: latest}}}},
		aliases...) {
		for _, share := range a.Shares {
			if ref, ok := refs[share.Number]; ok {
				ref.Weight = share.Percent
				m.Alias = append(m.Alias, client.FunctionAlias{Name: name(a.Name), FunctionRef: ref})
			}
		}
	}
	return m
}
