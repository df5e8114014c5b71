package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/parcel"
)

const tarType = "application/x-tar"

func (a *api) registerParcels(h huma.API) {
	binary := map[string]*huma.MediaType{tarType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	const imports = "/apps/{app}/imports"
	registerOn(a, h, reading("export-release", "/apps/{app}/releases/{uid}/export",
		"A release as one archive: the tar of an OCI image layout").content(binary), a.exportRelease)
	register(h, deploying("import-release", http.MethodPost, imports,
		"Make a release of an archive").answering(http.StatusCreated), a.importRelease)
	h.OpenAPI().Paths[base+imports].Post.RequestBody = &huma.RequestBody{Required: true, Content: binary}
}

// exportRelease answers with the archive. One that breaks off is shorter than was said, and its reader notices.
func (a *api) exportRelease(ctx context.Context, app landfall.App, in *GroupPath) (*huma.StreamResponse, error) {
	uid, err := a.find(ctx, app, in.UID)
	if err != nil {
		return nil, err
	}
	export, err := a.Exporter.Prepare(ctx, app, uid)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		for name, value := range map[string]string{
			"Content-Type": tarType, "Content-Length": strconv.FormatInt(export.Size(), 10), "Cache-Control": "no-store",
			"Content-Disposition":     fmt.Sprintf("attachment; filename=%q", app.Name+"-"+string(uid)+".tar"),
			"Content-Security-Policy": "sandbox; default-src 'none'", "Cross-Origin-Resource-Policy": "same-origin",
			"X-Content-Type-Options": "nosniff",
		} {
			hctx.SetHeader(name, value)
		}
		w := whileRead(hctx.BodyWriter(), a.StallTimeout)
		defer w.done()
		if err := export.Write(ctx, w); err != nil {
			a.Logger.WarnContext(ctx, "an export was broken off", "app", app.Name, "release", uid, "error", err)
		}
	}}, nil
}

// Archive is a request whose body is an archive, which is read as it comes.
type Archive struct {
	AppPath
	Live      bool   `query:"live" doc:"the release becomes live, which ends a hold"`
	Create    bool   `query:"create" doc:"make the app if it is not there, once the archive is known to be right"`
	Namespace string `query:"namespace" doc:"of the app; default for one that is made"`

	body io.Reader
}

// Resolve implements huma.Resolver.
func (in *Archive) Resolve(ctx huma.Context) []error {
	in.body = ctx.BodyReader()
	return nil
}

func (a *api) importRelease(ctx context.Context, in *Archive) (*body[client.Imported], error) {
	to, err := a.destination(ctx, in)
	if err != nil {
		return nil, err
	}
	file, err := a.Importer.Receive(in.body)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p, err := parcel.Open(ctx, file)
	if err != nil {
		return nil, err
	}
	uid, notes, err := a.Importer.Install(ctx, to, p, caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	app, err := a.DB.AppByName(ctx, in.App)
	if err != nil {
		return nil, err
	}
	r, err := a.oneRelease(ctx, app, uid)
	return answer(client.Imported{Release: r, From: p.Document.App, Notes: append([]string{}, notes...)}, err)
}

// destination returns the app that gets a release, or how it is made. Conflict when it is in another namespace than the
// one that was said.
func (a *api) destination(ctx context.Context, in *Archive) (to parcel.Destination, err error) {
	to.Live = in.Live
	to.App, err = a.app(ctx, in.App, landfall.ScopeDeploy)
	if err == nil && in.Namespace != "" && in.Namespace != to.App.Namespace {
		err = landfall.Errorf("api", landfall.Conflict, "the app %s is in the namespace %s", in.App, to.App.Namespace)
	}
	if !in.Create || !landfall.Is(err, landfall.NotFound) {
		return to, err
	}
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return to, err
	}
	n := client.NewApp{Name: in.App, Namespace: in.Namespace}
	if to.App, err = a.newApp(ctx, n); err != nil {
		return to, err
	}
	to.App.ID = ""
	to.Make = func(ctx context.Context) (landfall.App, error) {
		if _, err := a.makeApp(ctx, n, "", false); err != nil {
			return landfall.App{}, err
		}
		return a.DB.AppByName(ctx, in.App)
	}
	return to, nil
}
