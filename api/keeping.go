package api

import (
	"context"
	"encoding/json"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// Keeper does what goes over everything that there is.
type Keeper interface {
	// Backup writes an archive of it, with or without the objects. What was written tells by itself when it is not whole.
	Backup(ctx context.Context, w io.Writer, objects bool) error
	// Check calls found with each damage, and returns how much was gone over.
	Check(ctx context.Context, found func(landfall.Finding) error) (landfall.Checked, error)
}

func (a *api) registerKeeping(h huma.API) {
	register(h, administering("backup", "GET", "/backup",
		"All that is not made again, as one archive: what landfall restore reads"), a.backup)
	register(h, administering("check", "GET", "/check",
		"Goes over everything, and names what is damaged: lines of JSON, the last with done"), a.check)
}

func (a *api) backup(ctx context.Context, in *struct {
	Objects bool `query:"objects" default:"true" doc:"false: without the objects, which their bucket keeps"`
}) (*huma.StreamResponse, error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "application/zstd")
		hctx.SetHeader("Cache-Control", "no-store")
		hctx.SetHeader("Content-Disposition", `attachment; filename="landfall.tar.zst"`)
		w := whileRead(hctx.BodyWriter(), a.StallTimeout)
		defer w.done()
		if err := a.Keeper.Backup(ctx, w, in.Objects); err != nil {
			a.Logger.ErrorContext(ctx, "a backup was broken off", "error", err)
			return
		}
		a.Logger.InfoContext(ctx, "a backup was made", "token", caller(ctx).Name)
	}}, nil
}

// check answers in lines: each damage when it is found, and the totals when all was gone over.
func (a *api) check(ctx context.Context, _ *struct{}) (*huma.StreamResponse, error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "application/jsonl")
		hctx.SetHeader("Cache-Control", "no-store")
		w := whileRead(hctx.BodyWriter(), a.StallTimeout)
		defer w.done()
		lines := json.NewEncoder(w)
		done, err := a.Keeper.Check(ctx, func(f landfall.Finding) error {
			a.Logger.ErrorContext(ctx, "damage was found", "what", f.What, "app", f.App, "unit", f.Unit, "key", f.Key,
				"problem", f.Problem)
			return lines.Encode(client.CheckLine{Finding: &f})
		})
		line := client.CheckLine{Done: &done}
		if err != nil {
			a.Logger.ErrorContext(ctx, "a check was broken off", "error", err)
			line = client.CheckLine{Problem: landfall.MessageOf(err)}
		}
		_ = lines.Encode(line) // the client may be gone
	}}, nil
}
