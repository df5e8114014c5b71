package api

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/handmade"
)

func (a *api) registerUploads(h huma.API) {
	const one = "/uploads/{upload}"
	register(h, deploying("begin-upload", http.MethodPost, "/uploads",
		"Begin to send a file, in parts").answering(http.StatusCreated).making("{id}"), a.beginUpload)
	register(h, deploying("show-upload", http.MethodGet, one, "How much of a file is here"), a.upload)
	register(h, deploying("send-part", http.MethodPatch, one, "Add a part to a file").taking(maxPart), a.sendPart)
}

// maxPart is how many bytes a part of an upload may have.
const maxPart = 8 << 20

func (a *api) beginUpload(ctx context.Context, in *body[client.NewUpload]) (*body[client.Upload], error) {
	id := identityOf(ctx)
	if id != "" {
		id = strings.ToLower(idOf(id, "upload"))
	}
	by := caller(ctx)
	share := cmp.Or(by.App, by.Namespace)
	return answer(uploadOf(a.Maker.Uploads.Begin(id, by.Hash, share, in.Body.Size, in.Body.Digest)))
}

// UploadPath names an upload.
type UploadPath struct {
	Upload string `path:"upload"`
}

func (a *api) upload(ctx context.Context, in *UploadPath) (*body[client.Upload], error) {
	return answer(uploadOf(a.Maker.Uploads.Find(ownerOf(ctx), in.Upload)))
}

func (a *api) sendPart(ctx context.Context, in *struct {
	UploadPath
	Offset  int64 `query:"offset" minimum:"0" doc:"where the part begins in the file"`
	RawBody []byte
}) (*body[client.Upload], error) {
	return answer(uploadOf(a.Maker.Uploads.Append(ownerOf(ctx), in.Upload, in.Offset, in.RawBody)))
}

// ownerOf is whose uploads the request's token sees: its own, and an administrator's everybody's.
func ownerOf(ctx context.Context) landfall.Digest {
	if caller(ctx).Allows(landfall.ScopeAdmin, "") {
		return ""
	}
	return caller(ctx).Hash
}

func uploadOf(u handmade.Upload, err error) (client.Upload, error) {
	return client.Upload{ID: u.ID, Size: u.Size, Offset: u.Offset}, err
}

// makeLimit is how long a version may take until its run is accepted: what is at an address is fetched before.
const makeLimit = 10 * time.Minute

// makeVersion makes a version of a function or package.
func (u units) makeVersion(ctx context.Context, in *struct {
	UnitPath
	Body client.NewVersion
}) (*put[client.MadeVersion], error) {
	n := in.Body
	if err := n.Check(); err != nil {
		return nil, err
	}
	var pkg landfall.Reference
	if n.Package != "" {
		var err error
		if pkg, err = landfall.ParseReference(n.Package); err != nil {
			return nil, err
		}
		if n.PackageVersion != "" {
			pkg.Selector = n.PackageVersion
		}
	}
	key := ""
	if id := identityOf(ctx); id != "" {
		key = idOf(id, "version")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeLimit)
	defer cancel()
	made, err := u.Maker.Make(ctx, handmade.Version{
		Namespace: in.Namespace, Unit: landfall.UnitID{Kind: u.kind, Name: in.Name}, Label: n.Label, Tag: n.Tag,
		Description: n.Description, Environment: n.Environment, Entrypoint: n.Entrypoint, Build: n.Build, Package: pkg,
		Code: (*handmade.Content)(n.Code), Source: (*handmade.Content)(n.Source),
		Deployment: (*handmade.Content)(n.Deployment),
		Key:        strings.ToLower(key), New: n.New, Update: n.Update, NoRelease: n.NoRelease, Actor: caller(ctx).Name,
		Owner: ownerOf(ctx), Caller: caller(ctx).Hash,
		Allowed: func(app string) error {
			allowed := caller(ctx).Allows(landfall.ScopeDeploy, app)
			if app == "" {
				allowed = caller(ctx).AllowsNamespace(landfall.ScopeDeploy, in.Namespace)
			}
			if !allowed {
				return forbidden(landfall.ScopeDeploy, landfall.UnitID{Kind: u.kind, Name: in.Name}.String())
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if made.Run != "" {
		c, err := u.accepted(ctx, made.Run)
		return &put[client.MadeVersion]{Status: http.StatusAccepted, Body: client.MadeVersion{Run: &c}}, err
	}
	row, err := u.DB.UnitInNamespace(ctx, in.Namespace, made.Version.Unit)
	if err != nil {
		return nil, err
	}
	shown, err := u.shown(ctx, row, made.Version)
	result := client.Made{Release: made.Result.Release, Note: made.Result.Note}
	answered := client.MadeVersion{Version: &shown, Made: result}
	return &put[client.MadeVersion]{Status: http.StatusCreated, Body: answered}, err
}

// accepted shows a run that the request made. Its app may be younger than what is known of the request's token.
func (u units) accepted(ctx context.Context, id string) (client.Run, error) {
	run, err := u.DB.Run(ctx, id)
	if err != nil {
		return client.Run{}, err
	}
	app, err := u.DB.App(ctx, run.App)
	return u.runOf(ctx, run, app.Name), err
}
