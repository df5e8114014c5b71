// Package stored reads the routing table from the rows of the store, and finds functions in them by their names.
package stored

import (
	"context"
	"log/slog"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
)

// Source reads apps from the store as the routing table shows them, and finds functions by their names. Its methods may
// be called at the same time.
type Source struct {
	DB      *store.DB
	Process string       // by which others know this process, of which they hear
	Logger  *slog.Logger // is told what cannot be read of an app
}

var (
	_ registry.Source = Source{}
	_ registry.Peers  = Source{}
)

// Changes implements registry.Source.
func (s Source) Changes(ctx context.Context) (int64, error) { return s.DB.Changes(ctx) }

// ChangesSince implements registry.Source.
func (s Source) ChangesSince(ctx context.Context, number int64) ([]landfall.AppChange, error) {
	return s.DB.ChangesSince(ctx, number)
}

// Notices implements registry.Peers.
func (s Source) Notices(ctx context.Context, listening func(), changed func(landfall.AppChange)) error {
	return s.DB.Notices(ctx, listening, changed)
}

// Beat implements registry.Peers.
func (s Source) Beat(ctx context.Context, seen int64) error {
	return s.DB.AcknowledgeChange(ctx, s.Process, seen)
}

// Apps implements registry.Source.
func (s Source) Apps(ctx context.Context) (all []registry.App, err error) {
	err = s.DB.Snapshot(ctx, func(at *store.Snapshot) error {
		apps, err := at.Apps(ctx)
		if err != nil {
			return err
		}
		all = make([]registry.App, 0, len(apps))
		for _, app := range apps {
			a, err := tableReader{at, s.Logger}.app(ctx, app)
			if kind := landfall.KindOf(err); err != nil &&
				(ctx.Err() != nil || kind == landfall.Canceled || kind == landfall.Unavailable) {
				return err
			}
			if err != nil { // its fault alone
				s.Logger.ErrorContext(ctx, "an app cannot be read; it is tried again, and the others are served", "app", app.Name,
					"error", err)
				a = registry.App{ID: app.ID, Name: app.Name, Unread: true}
			}
			all = append(all, a)
		}
		return nil
	})
	return all, err
}

// App implements registry.Source.
func (s Source) App(ctx context.Context, id string) (a registry.App, err error) {
	err = s.DB.Snapshot(ctx, func(at *store.Snapshot) error {
		app, err := at.App(ctx, id)
		if err == nil {
			a, err = tableReader{at, s.Logger}.app(ctx, app)
		}
		return err
	})
	return a, err
}

// Expired implements registry.Source.
func (s Source) Expired(ctx context.Context, app, idOrDigits string) (registry.Release, error) {
	r, err := s.DB.ExpiredRelease(ctx, app, idOrDigits)
	return registry.Release{ID: r.ID, Commit: r.Commit}, err
}

// tableReader reads what the table shows at one moment: a tag that is read later than the releases may be that of one
// that came meanwhile, and would look like one that has expired.
type tableReader struct {
	*store.Snapshot

	logger *slog.Logger
}

// app returns an app as the table shows it.
func (r tableReader) app(ctx context.Context, app landfall.App) (registry.App, error) {
	if !app.Deleted.IsZero() {
		return registry.App{ID: app.ID, Name: app.Name, Deleted: true, Removed: !app.Removed.IsZero(), Changed: app.Changed},
			nil
	}
	a := registry.App{ID: app.ID, Name: app.Name, Live: app.Live, Changed: app.Changed,
		SignedIn: app.Previews == landfall.PreviewsSignedIn, KeepFiles: app.FileRetention().Duration(),
		Tags: map[string]landfall.UID{}}
	releases, err := r.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return a, err
	}
	if a.Latest, err = r.LatestRelease(ctx, app.ID); err != nil {
		return a, err
	}
	units, err := r.staticUnits(ctx, app.ID)
	if err != nil {
		return a, err
	}
	triggers, routes, err := r.triggers(ctx, app)
	if err != nil {
		return a, err
	}
	until, err := r.LiveUntil(ctx, app.ID)
	if err != nil {
		return a, err
	}
	if err := r.canary(ctx, &a, until); err != nil {
		return a, err
	}
	for _, release := range releases {
		a.Releases = append(a.Releases, registry.Release{
			ID: release.ID, Commit: release.Commit, Line: release.Line, Created: release.Created, LiveUntil: until[release.ID],
			Units: units[release.ID], Routes: registry.NewRoutes(routes[release.ID]), Triggers: triggers[release.ID],
		})
	}
	tags, err := r.Tags(ctx, app.ID)
	if err != nil {
		return a, err
	}
	for _, t := range tags {
		a.Tags[t.Name] = t.Release
	}
	return a, nil
}

// canary adds the canary of an app that runs. To the times until when releases were live it adds when canaries of them
// ended: pages of those may be open, too.
func (r tableReader) canary(ctx context.Context, a *registry.App, until map[landfall.UID]time.Time) error {
	ended, err := r.ReleaseCanaryUntil(ctx, a.ID)
	if err != nil {
		return err
	}
	for release, at := range ended {
		if at.After(until[release]) {
			until[release] = at
		}
	}
	c, err := r.RunningReleaseCanary(ctx, a.ID)
	if err == nil {
		a.Canary = &registry.Canary{ID: c.ID, Release: c.Release, Weight: c.Weight, Key: c.Key}
	}
	return landfall.Ignore(err, landfall.NotFound)
}

// staticUnits returns the static units of an app's accessible releases.
func (r tableReader) staticUnits(ctx context.Context, app string) (map[landfall.UID][]registry.Unit, error) {
	rows, err := r.ServedUnits(ctx, app, landfall.StaticUnit)
	if err != nil {
		return nil, err
	}
	units := map[landfall.UID][]registry.Unit{}
	for _, row := range rows {
		content, err := landfall.ReadContent[landfall.StaticContent](row.Content)
		if err != nil {
			return nil, err
		}
		spec, err := landfall.ReadStaticSpec(row.Spec)
		if err != nil {
			return nil, err
		}
		units[row.Release] = append(units[row.Release],
			registry.Unit{Path: row.Unit.Name, Manifest: assets.RefOf(content).String(), Fallback: spec.Fallback})
	}
	return units, nil
}
