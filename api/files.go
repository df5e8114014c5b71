package api

import (
	"context"
	"path"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/inspect"
)

func (a *api) registerFiles(h huma.API) {
	registerOn(a, h, reading("list-files", "/apps/{app}/groups/{uid}/files",
		"The static files of an app version, by path"), a.files)
	registerOn(a, h, reading("diff-files", "/apps/{app}/diff/files", "The files that differ between two app versions"),
		a.diffFiles)
	registerOn(a, h, reading("run-files", "/runs/{id}/files", "The files that differ in a run's diff"), a.runFiles)
}

func (a *api) files(ctx context.Context, app landfall.App, in *struct {
	GroupPath
	Paging
}) (*body[page[client.File]], error) {
	uid, err := a.find(ctx, app, in.UID)
	if err != nil {
		return nil, err
	}
	units, err := a.DB.GroupUnits(ctx, app.ID, uid)
	if err != nil {
		return nil, err
	}
	all, err := a.Contents.Files(ctx, units)
	if err != nil {
		return nil, err
	}
	return answer(pageAt(all, in.Paging, func(f inspect.ServedFile) client.File {
		return client.File{
			Path: f.Path, Unit: f.Unit, Size: f.Size, Type: f.Type, Digest: f.Digest, Stored: landfall.UID(path.Base(f.Prefix))}
	}))
}

func (a *api) diffFiles(ctx context.Context, app landfall.App, in *struct {
	DiffPath
	Paging
}) (*body[page[client.ChangedFile]], error) {
	changes, err := a.changes(ctx, app, &in.DiffPath)
	if err != nil {
		return nil, err
	}
	return a.changedFiles(ctx, app, changes, in.Paging)
}

func (a *api) runFiles(ctx context.Context, run ownRun, in *struct {
	RunPath
	Paging
}) (*body[page[client.ChangedFile]], error) {
	changes, err := a.DB.RunChanges(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	return a.changedFiles(ctx, run.app, changes, in.Paging)
}

func (a *api) changedFiles(ctx context.Context, app landfall.App, changes []client.Change,
	paging Paging) (*body[page[client.ChangedFile]], error) {
	all, err := a.Contents.ChangedFiles(ctx, app, changes)
	if err != nil {
		return nil, err
	}
	return answer(pageAt(all, paging, func(f client.ChangedFile) client.ChangedFile { return f }))
}

// pageAt makes a page of a list that is whole and does not change: its cursor is a place in it.
func pageAt[T, S any](all []T, paging Paging, show func(T) S) (page[S], error) {
	at := 0
	if paging.Cursor != "" {
		var err error
		if at, err = strconv.Atoi(paging.Cursor); err != nil || at < 0 || at > len(all) {
			return page[S]{}, wrongCursor()
		}
	}
	end := min(len(all), at+paging.Limit)
	p := listOf(all[at:end], show)
	if end < len(all) {
		p.Next = strconv.Itoa(end)
	}
	return p, nil
}
