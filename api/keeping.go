package api

import (
	"context"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall/store"
)

// Keeper does what goes over everything that there is.
type Keeper interface {
	// Backup writes an archive of it, with or without the objects. What was written tells by itself when it is not whole.
	Backup(ctx context.Context, w io.Writer, objects bool) error
}

func (a *api) registerKeeping(h huma.API) {
	register(h, administering("backup", "GET", "/backup", "All that is not made again, as one archive: what landfall restore reads"), a.backup)
}

func (a *api) backup(ctx context.Context, in *struct {
	Objects bool `query:"objects" default:"true" doc:"false: without the objects, which their bucket keeps"`
}) (*huma.StreamResponse, error) {
	if err := installation(ctx, store.ScopeAdmin); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "application/zstd")
		hctx.SetHeader("Cache-Control", "no-store")
		hctx.SetHeader("Content-Disposition", `attachment; filename="landfall.tar.zst"`)
		if err := a.Keeper.Backup(ctx, hctx.BodyWriter(), in.Objects); err != nil {
			a.Logger.ErrorContext(ctx, "a backup was broken off", "error", err)
			return
		}
		a.Logger.InfoContext(ctx, "a backup was made", "token", caller(ctx).Name)
	}}, nil
}
