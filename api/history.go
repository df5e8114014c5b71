package api

import (
	"context"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
)

// registerHistory adds what an app was, what differs, and where its pointers went.
func (a *api) registerHistory(h huma.API) {
	registerOn(a, h, reading("app-history", "/apps/{app}/groups", "The app's versions, newest first"), a.history)
	registerOn(a, h, reading("show-group", "/apps/{app}/groups/{uid}", "One app version as a GroupVersionTracker"),
		a.showGroup)
	registerOn(a, h, reading("app-state", "/apps/{app}/state", "What was in force at a commit or time"), a.state)
	registerOn(a, h, reading("diff-groups", "/apps/{app}/diff", "What differs between two app versions"), a.diff)
	registerOn(a, h, reading("diff-commits", "/apps/{app}/diff/commits",
		"The commits between two app versions, newest first"), a.diffCommits)
	registerOn(a, h, reading("list-moves", "/apps/{app}/moves", "Every move of live and of tags, newest first"), a.moves)
}

func (a *api) history(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Paging
}) (*body[page[client.Group]], error) {
	before, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	groups, err := a.DB.Groups(ctx, app.ID, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	names, err := a.releaseNames(ctx, app)
	if err != nil {
		return nil, err
	}
	return answer(pageOf(listOf(groups, names.group).Items, in.Limit, func(g client.Group) string {
		return g.Created.Format(time.RFC3339Nano)
	}), nil)
}

func parseCursor(cursor string) (time.Time, error) {
	if cursor == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, cursor)
	if err != nil {
		return t, wrongCursor()
	}
	return t, nil
}

// numberCursor reads a cursor that is a number from 1; of none it is 0.
func numberCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	before, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || before < 1 {
		return 0, wrongCursor()
	}
	return before, nil
}

func wrongCursor() error {
	return landfall.Errorf("api", landfall.Invalid, "the cursor is not one that this API gave")
}

// GroupPath names an app version.
type GroupPath struct {
	AppPath
	UID string `path:"uid" doc:"uid of an app version, a commit, a tag, live or latest"`
}

func (a *api) showGroup(ctx context.Context, app landfall.App, in *GroupPath) (*body[client.GroupTracker], error) {
	uid, err := a.find(ctx, app, in.UID)
	if err != nil {
		return nil, err
	}
	return answer(a.tracker(ctx, app, uid))
}

func (a *api) tracker(ctx context.Context, app landfall.App, uid landfall.UID) (client.GroupTracker, error) {
	g, err := a.DB.Group(ctx, app.ID, uid)
	if err != nil {
		return client.GroupTracker{}, err
	}
	units, err := a.DB.GroupUnits(ctx, app.ID, uid)
	if err != nil {
		return client.GroupTracker{}, err
	}
	t := client.GroupTracker{Kind: "GroupVersionTracker", Metadata: client.Metadata{Name: string(uid)}}
	t.Spec.Git = client.Git{Commit: g.Commit, Branch: g.Branch, Clean: "no"}
	if g.Clean {
		t.Spec.Git.Clean = "yes"
	}
	t.Spec.Objects = listOf(units, func(u store.GroupUnit) client.GroupObject {
		return client.GroupObject{Type: string(u.Unit.Kind), Name: u.Unit.Name, Version: u.UID}
	}).Items
	return t, nil
}

func (a *api) state(ctx context.Context, app landfall.App, in *struct {
	AppPath
	At string `query:"at" required:"true" doc:"a commit, or a time as RFC 3339"`
}) (*body[client.State], error) {
	if at, err := time.Parse(time.RFC3339, in.At); err == nil {
		apply, err := a.DB.LastApply(ctx, app.ID, "", at)
		if landfall.Is(err, landfall.NotFound) {
			err = landfall.Errorf("api", landfall.NotFound, "nothing was applied to production before %s", in.At)
		}
		if err != nil {
			return nil, err
		}
		t, err := a.tracker(ctx, app, apply.Group)
		if err != nil {
			return nil, err
		}
		live, err := a.DB.LiveAt(ctx, app.ID, at)
		return answer(client.State{GroupTracker: t, At: apply.Created, Live: live}, err)
	}
	uid, err := a.find(ctx, app, in.At)
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Wrapf("api", landfall.NotFound, err,
			"%s; a time is written as 2030-01-02T03:04:05Z", landfall.MessageOf(err))
	}
	if err != nil {
		return nil, err
	}
	g, err := a.DB.Group(ctx, app.ID, uid)
	if err != nil {
		return nil, err
	}
	t, err := a.tracker(ctx, app, uid)
	return answer(client.State{GroupTracker: t, At: g.Created}, err)
}

// DiffPath names two app versions.
type DiffPath struct {
	AppPath
	From string `query:"from" required:"true"`
	To   string `query:"to" required:"true"`
}

func (a *api) diff(ctx context.Context, app landfall.App, in *DiffPath) (*body[page[client.Change]], error) {
	changes, err := a.changes(ctx, app, in)
	return answer(page[client.Change]{Items: changes}, err)
}

func (a *api) changes(ctx context.Context, app landfall.App, in *DiffPath) ([]client.Change, error) {
	var sides [2][]store.GroupUnit
	for i, name := range []string{in.From, in.To} {
		uid, err := a.find(ctx, app, name)
		if err != nil {
			return nil, err
		}
		if sides[i], err = a.DB.GroupUnits(ctx, app.ID, uid); err != nil {
			return nil, err
		}
	}
	return a.Contents.Diff(ctx, sides[0], sides[1])
}

func (a *api) diffCommits(ctx context.Context, app landfall.App, in *struct {
	DiffPath
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"commits of each side"`
}) (*body[page[client.Commit]], error) {
	var sides [2]landfall.CommitSHA
	for i, name := range []string{in.From, in.To} {
		uid, err := a.find(ctx, app, name)
		if err != nil {
			return nil, err
		}
		if sides[i], err = a.DB.CommitOf(ctx, app.ID, uid); err != nil {
			return nil, err
		}
	}
	if a.Acceptor == nil {
		return nil, landfall.Errorf("api", landfall.NotFound, "this process has no repositories")
	}
	origin, err := a.Acceptor.Origin(ctx, app, nil)
	if err != nil {
		return nil, err
	}
	all := page[client.Commit]{Items: []client.Commit{}}
	for i, change := range []landfall.ChangeKind{landfall.Added, landfall.Removed} {
		between, err := a.Acceptor.Mirrors.Log(ctx, origin, sides[i], sides[1-i], in.Limit)
		if err != nil {
			return nil, err
		}
		for _, c := range between {
			all.Items = append(all.Items,
				client.Commit{SHA: c.SHA, Change: change, Message: c.Message, Author: c.Author, Time: c.Time.UTC()})
		}
	}
	return answer(all, nil)
}

func (a *api) moves(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Paging

	Pointer string `query:"pointer" doc:"live, or tag NAME; empty: all"`
}) (*body[page[client.Move]], error) {
	before, err := numberCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	moves, err := a.DB.MovesBefore(ctx, app.ID, in.Pointer, before, in.Limit+1)
	return answer(pageOf(moves, in.Limit, func(m client.Move) string { return strconv.FormatInt(m.ID, 10) }), err)
}
