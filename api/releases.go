package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/upkeep"
)

func (a *api) registerReleases(h huma.API) {
	registerOn(a, h, reading("list-releases", "/apps/{app}/releases", "The releases, newest first"), a.listReleases)
	registerOn(a, h, reading("show-release", "/apps/{app}/releases/{uid}", "One release with its units"), a.showRelease)
	registerOn(a, h, deploying("reach-release", http.MethodPost, "/apps/{app}/releases",
		"Make an app version reachable (again)"), a.reach)
	registerOn(a, h, deploying("expire-release", http.MethodDelete, "/apps/{app}/releases/{uid}",
		"Expire a release: it answers 410"), a.expire)
	registerOn(a, h, reading("preview-collection", "/apps/{app}/collection",
		"What a collection would take away now"), a.previewCollection)
	registerOn(a, h, deploying("collect", http.MethodPost, "/apps/{app}/collection",
		"Take away what nothing holds any more"), a.collect)
	registerOn(a, h, deploying("promote", http.MethodPost, "/apps/{app}/live", "Make a release live, and end a hold"),
		a.promote)
	registerOn(a, h, deploying("rollback", http.MethodPost, "/apps/{app}/rollback",
		"Make live what was live before, or the release named, and hold it"), a.rollback)
	registerOn(a, h, deploying("hold", http.MethodPut, "/apps/{app}/hold",
		"Hold live where it is, or let it follow pushes again"), a.hold)
	registerOn(a, h, deploying("tag-release", http.MethodPut, "/apps/{app}/tags/{tag}", "Make a tag name a release"),
		a.tag)
	registerOn(a, h, deploying("untag-release", http.MethodDelete, "/apps/{app}/tags/{tag}", "Remove a tag"), a.untag)
}

// names tells what the releases of an app are called.
type names struct {
	a      *api
	app    landfall.App
	tags   map[landfall.UID][]string
	latest landfall.UID
}

// releaseNames returns the names of an app's releases, of which group knows those that are given.
func (a *api) releaseNames(ctx context.Context, app landfall.App) (n *names, err error) {
	n = &names{a: a, app: app, tags: map[landfall.UID][]string{}}
	if n.latest, err = a.DB.LatestRelease(ctx, app.ID); err != nil {
		return nil, err
	}
	tags, err := a.DB.Tags(ctx, app.ID)
	if err != nil {
		return nil, err
	}
	if app.Live != "" {
		n.tags[app.Live] = []string{landfall.LivePointer}
	}
	for _, t := range tags {
		n.tags[t.Release] = append(n.tags[t.Release], t.Name)
	}
	return n, nil
}

func (n *names) group(g store.GroupEntry) client.Group {
	return client.Group{
		UID: g.UID, Created: g.Created, Commit: g.Commit, Branch: g.Branch, Clean: g.Clean, Message: g.Message,
		Actor: g.Actor, Digest: g.Digest, Release: g.Released, Expired: g.Expired, Latest: g.UID == n.latest,
		Tags: n.tagsOf(g.UID),
	}
}

func (n *names) tagsOf(uid landfall.UID) []string {
	if tags := n.tags[uid]; tags != nil {
		return tags
	}
	return []string{}
}

func (n *names) release(r landfall.Release) client.Release {
	return client.Release{
		ID: r.ID, App: n.app.Name, Line: r.Line, Commit: r.Commit, Branch: r.Branch, Digest: r.Digest, Created: r.Created,
		Expired: r.Expired, Live: r.ID == n.app.Live, Latest: r.ID == n.latest, Tags: n.tagsOf(r.ID),
		URL: n.a.ReleaseURL(n.app.Name, r.ID),
	}
}

// find returns the group version that a name means: a uid, a tag, live, latest, or a commit by its first digits.
func (a *api) find(ctx context.Context, app landfall.App, name string) (landfall.UID, error) {
	n, err := a.releaseNames(ctx, app)
	if err != nil {
		return "", err
	}
	switch {
	case name == landfall.LivePointer && app.Live != "":
		return app.Live, nil
	case name == landfall.Latest && n.latest != "":
		return n.latest, nil
	}
	if g, err := a.DB.Group(ctx, app.ID, landfall.UID(name)); err == nil {
		return g.UID, nil
	}
	for uid, tags := range n.tags {
		if slices.Contains(tags, name) {
			return uid, nil
		}
	}
	const shortest = 7
	if len(name) >= shortest && strings.Trim(name, "0123456789abcdef") == "" {
		groups, err := a.DB.GroupsOfCommit(ctx, app.ID, name)
		if err != nil {
			return "", err
		}
		for _, g := range groups {
			if g.Commit != groups[0].Commit {
				return "", landfall.Errorf("api", landfall.Invalid, "%s begins several commits; give more digits", name)
			}
		}
		if len(groups) > 0 {
			return a.pushed(ctx, app, groups)
		}
	}
	return "", landfall.Errorf("api", landfall.NotFound,
		"%s has no release, tag or commit %q; there are: landfall release list %s", app.Name, name, app.Name)
}

// pushed returns the one of the group versions of a commit that its newest run made, and not one that people made
// beside it by hand; when no run of it is on record any more, the first.
func (a *api) pushed(ctx context.Context, app landfall.App, groups []landfall.Group) (landfall.UID, error) {
	runs, err := a.DB.RunsOfCommit(ctx, app.ID, groups[0].Commit)
	for _, run := range runs {
		if slices.ContainsFunc(groups, func(g landfall.Group) bool { return g.UID == run.UID }) {
			return run.UID, err
		}
	}
	return groups[len(groups)-1].UID, err
}

func (a *api) listReleases(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Paging
}) (*body[page[client.Release]], error) {
	var before landfall.Release
	created, uid, err := readCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	before.Created, before.ID = created, landfall.UID(uid)
	n, err := a.releaseNames(ctx, app)
	if err != nil {
		return nil, err
	}
	releases, err := a.DB.ReleasesBefore(ctx, app.ID, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	kept, err := upkeep.Explain(ctx, a.DB, app, a.Now())
	shown := listOf(releases, func(r landfall.Release) client.Release {
		shown := n.release(r)
		if k, accessible := kept[r.ID]; accessible {
			shown.Kept = &client.Kept{By: append([]string{}, k.Holds...), Own: k.Own, Shared: k.Shared}
			if len(k.Holds) == 0 {
				shown.Kept.After = &k.After
			}
		}
		return shown
	})
	return answer(pageOf(shown.Items, in.Limit, func(r client.Release) string {
		return cursorOf(r.Created, string(r.ID))
	}), err)
}

func collectionOf(c upkeep.Collection, err error) (*body[client.Collection], error) {
	return answer(client.Collection{Releases: append([]landfall.UID{}, c.Releases...),
		Versions: append([]landfall.GroupUnit{}, c.Versions...), Folders: c.Folders, Bytes: c.Bytes}, err)
}

// previewCollection tells what a collection would take away, when a release had expired before if one is named.
func (a *api) previewCollection(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Expired string `query:"expired" doc:"a release: what would go if it had expired"`
}) (*body[client.Collection], error) {
	if in.Expired == "" {
		return collectionOf(upkeep.Preview(ctx, a.DB, app, a.Now()))
	}
	uid, err := a.find(ctx, app, in.Expired)
	if err == nil {
		err = deploy.CheckExpire(ctx, a.DB, app, uid)
	}
	if err != nil {
		return nil, err
	}
	return collectionOf(upkeep.Preview(ctx, a.DB, app, a.Now(), uid))
}

// collect takes away what nothing holds, and answers with what that was when it began.
func (a *api) collect(ctx context.Context, app landfall.App, _ *AppPath) (*body[client.Collection], error) {
	c, err := upkeep.Preview(ctx, a.DB, app, a.Now())
	if err == nil {
		err = a.Upkeep.Collect(ctx, app.ID)
	}
	return collectionOf(c, err)
}

func (a *api) showRelease(ctx context.Context, app landfall.App, in *GroupPath) (*body[client.Release], error) {
	uid, err := a.find(ctx, app, in.UID)
	if err != nil {
		return nil, err
	}
	return answer(a.oneRelease(ctx, app, uid))
}

func (a *api) oneRelease(ctx context.Context, app landfall.App, uid landfall.UID) (client.Release, error) {
	r, err := a.DB.Release(ctx, app.ID, uid)
	if err != nil {
		return client.Release{}, err
	}
	n, err := a.releaseNames(ctx, app)
	if err != nil {
		return client.Release{}, err
	}
	group, err := a.DB.Group(ctx, app.ID, uid)
	if err != nil {
		return client.Release{}, err
	}
	units, err := a.DB.GroupUnits(ctx, app.ID, uid)
	c := n.release(r)
	c.Message, c.Actor = group.Message, group.Actor
	for _, u := range units {
		c.Units = append(c.Units, u.GroupUnit)
	}
	return c, err
}

func (a *api) reach(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body struct {
		Version string `json:"version" doc:"uid of an app version"`
	}
}) (*body[client.Reached], error) {
	uid, err := a.find(ctx, app, in.Body.Version)
	if err != nil {
		return nil, err
	}
	id, err := a.Runs.MakeReachable(ctx, app, uid, caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	if id != "" {
		run, err := a.DB.Run(ctx, id)
		c := a.runOf(ctx, run, app.Name)
		return answer(client.Reached{Run: &c}, err)
	}
	r, err := a.oneRelease(ctx, app, uid)
	return answer(client.Reached{Release: &r}, err)
}

// moveLive is move, and answers with what of the live release leads nowhere, too.
func (a *api) moveLive(ctx context.Context, app landfall.App,
	f func(tx *store.Tx, app *landfall.App) error) (*body[client.App], error) {
	var notes []string
	moved, err := a.move(ctx, app, func(tx *store.Tx, app *landfall.App) (err error) {
		if err = f(tx, app); err == nil {
			notes, err = deploy.LeadsNowhere(ctx, tx, *app)
		}
		return err
	})
	if err == nil {
		moved.Body.Notes = notes
	}
	return moved, err
}

// move changes an app, or its pointers, in one transaction, gives gateways the result, and answers with the app.
func (a *api) move(ctx context.Context, app landfall.App,
	f func(tx *store.Tx, app *landfall.App) error) (*body[client.App], error) {
	err := a.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if app, err = tx.ActiveApp(ctx, app.ID); err != nil {
			return err
		}
		if err := f(tx, &app); err != nil {
			return err
		}
		_, err = tx.Changed(ctx, app.ID)
		return err
	})
	if err == nil {
		a.Rollout.Show(ctx, app)
	}
	return answer(a.appOf(app), err)
}

type pointerBody struct {
	Release string `json:"release,omitempty" doc:"release id, tag, latest, or commit"`
	Reason  string `json:"reason,omitempty" maxLength:"500" doc:"kept in the history"`
}

func (a *api) mover(ctx context.Context, reason, otherwise string) deploy.Mover {
	if reason == "" {
		reason = otherwise
	}
	return deploy.Mover{Actor: caller(ctx).Name, Reason: reason, At: a.Now()}
}

func (a *api) promote(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body pointerBody
}) (*body[client.App], error) {
	uid, err := a.find(ctx, app, in.Body.Release)
	if err != nil {
		return nil, err
	}
	return a.moveLive(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		return deploy.Promote(ctx, tx, app, uid, a.mover(ctx, in.Body.Reason, "promoted"))
	})
}

func (a *api) rollback(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body struct {
		Release string `json:"release,omitempty" doc:"release id, tag, latest, or commit"`
		Reason  string `json:"reason,omitempty" maxLength:"500" doc:"kept in the history"`
		Group   string `json:"group,omitempty" doc:"uid of an app version: its release is made accessible before, if it has expired"`
	}
}) (*body[client.App], error) {
	var uid landfall.UID
	switch {
	case in.Body.Group != "" && in.Body.Release != "":
		return nil, landfall.Errorf("api", landfall.Invalid, "a release and a group were named: leave one of them out")
	case in.Body.Group != "":
		group, err := a.find(ctx, app, in.Body.Group)
		if err != nil {
			return nil, err
		}
		return a.moveLive(ctx, app, func(tx *store.Tx, app *landfall.App) error {
			return deploy.RollbackGroup(ctx, tx, app, group, a.mover(ctx, in.Body.Reason, "rolled back"))
		})
	case in.Body.Release != "":
		var err error
		if uid, err = a.find(ctx, app, in.Body.Release); err != nil {
			return nil, err
		}
	}
	return a.moveLive(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		return deploy.Rollback(ctx, tx, app, uid, a.mover(ctx, in.Body.Reason, "rolled back"))
	})
}

func (a *api) hold(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body struct {
		Held bool `json:"held"`
	}
}) (*body[client.App], error) {
	return a.move(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		return deploy.Hold(ctx, tx, app, in.Body.Held)
	})
}

// maxTag is how long a tag may be that is made by hand: people read it in tables. A pushed git tag may be longer.
const maxTag = 100

// TagPath names a tag.
type TagPath struct {
	AppPath
	Tag string `path:"tag"`
}

func (a *api) tag(ctx context.Context, app landfall.App, in *struct {
	TagPath
	Body pointerBody
}) (*body[client.App], error) {
	if n := utf8.RuneCountInString(in.Tag); n > maxTag {
		return nil, landfall.Errorf("api", landfall.Invalid, "a tag has at most %d characters, not %d", maxTag, n)
	}
	uid, err := a.find(ctx, app, in.Body.Release)
	if err != nil {
		return nil, err
	}
	return a.move(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		if err := deploy.CheckTag(in.Tag, deploy.TakenUID(ctx, tx, app.ID)); err != nil {
			return err
		}
		return deploy.SetTag(ctx, tx, landfall.Tag{App: app.ID, Name: in.Tag, Kind: landfall.HandTag, Release: uid},
			a.mover(ctx, in.Body.Reason, "tagged"))
	})
}

func (a *api) untag(ctx context.Context, app landfall.App, in *struct {
	TagPath
	MoveReason
}) (*body[client.App], error) {
	return a.move(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		if in.Tag == landfall.LivePointer {
			return landfall.Errorf("api", landfall.Conflict, "live cannot be removed; make another release live")
		}
		removed, err := deploy.RemoveTag(ctx, tx, app.ID, in.Tag, a.mover(ctx, in.Reason, "untagged"))
		if err == nil && !removed {
			return landfall.Errorf("api", landfall.NotFound, "there is no tag %q", in.Tag)
		}
		return err
	})
}

func (a *api) expire(ctx context.Context, app landfall.App, in *GroupPath) (*body[client.App], error) {
	uid, err := a.find(ctx, app, in.UID)
	if err != nil {
		return nil, err
	}
	return a.move(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		if err := deploy.Expire(ctx, tx, *app, uid, a.Now()); err != nil {
			return err
		}
		deploy.CollectSoon(tx, app.ID)
		return nil
	})
}
