package main

import (
	"context"
	"io"
	"log/slog"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
)

// tableSource reads the gateway's routing table from the store.
type tableSource struct {
	db      *store.DB
	process string
	logger  *slog.Logger
}

var (
	_ registry.Source = tableSource{}
	_ registry.Peers  = tableSource{}
)

// Changes implements registry.Source.
func (s tableSource) Changes(ctx context.Context) (int64, error) { return s.db.Changes(ctx) }

// ChangesSince implements registry.Source.
func (s tableSource) ChangesSince(ctx context.Context, number int64) ([]registry.Change, error) {
	changes, err := s.db.ChangesSince(ctx, number)
	if err != nil {
		return nil, err
	}
	all := make([]registry.Change, len(changes))
	for i, c := range changes {
		all[i] = registry.Change(c)
	}
	return all, nil
}

// Notices implements registry.Peers.
func (s tableSource) Notices(ctx context.Context, listening func(), changed func(registry.Change)) error {
	return s.db.Notices(ctx, listening, func(c store.Change) { changed(registry.Change(c)) })
}

// Beat implements registry.Peers.
func (s tableSource) Beat(ctx context.Context, seen int64) error {
	return s.db.Beat(ctx, s.process, seen)
}

// Apps implements registry.Source.
func (s tableSource) Apps(ctx context.Context) (all []registry.App, err error) {
	err = s.db.Snapshot(ctx, func(at *store.Snapshot) error {
		apps, err := at.Apps(ctx)
		if err != nil {
			return err
		}
		all = make([]registry.App, 0, len(apps))
		for _, app := range apps {
			a, err := moment{at, s.logger}.read(ctx, app)
			if kind := landfall.KindOf(err); err != nil && (ctx.Err() != nil || kind == landfall.Canceled || kind == landfall.Unavailable) {
				return err
			}
			if err != nil { // its fault alone
				s.logger.ErrorContext(ctx, "an app cannot be read; it is tried again, and the others are served", "app", app.Name, "error", err)
				a = registry.App{ID: app.ID, Name: app.Name, Unread: true}
			}
			all = append(all, a)
		}
		return nil
	})
	return all, err
}

// App implements registry.Source.
func (s tableSource) App(ctx context.Context, id string) (a registry.App, err error) {
	err = s.db.Snapshot(ctx, func(at *store.Snapshot) error {
		app, err := at.App(ctx, id)
		if err == nil {
			a, err = moment{at, s.logger}.read(ctx, app)
		}
		return err
	})
	return a, err
}

// Expired implements registry.Source.
func (s tableSource) Expired(ctx context.Context, app, idOrDigits string) (registry.Release, error) {
	r, err := s.db.ExpiredRelease(ctx, app, idOrDigits)
	return registry.Release{ID: r.ID, Commit: r.Commit}, err
}

// moment is what there was at one moment: a tag that is read later than the releases may be that of one that came meanwhile, and
// would look like one that has expired.
type moment struct {
	*store.Snapshot

	logger *slog.Logger
}

func (m moment) read(ctx context.Context, app landfall.App) (registry.App, error) {
	if !app.Deleted.IsZero() {
		return registry.App{ID: app.ID, Name: app.Name, Deleted: true, Removed: !app.Removed.IsZero(), Changed: app.Changed}, nil
	}
	a := registry.App{ID: app.ID, Name: app.Name, Live: app.Live, Changed: app.Changed,
		SignedIn: app.Previews == landfall.PreviewsSignedIn, KeepFiles: app.KeptFiles().Duration(), Tags: map[string]landfall.UID{}}
	releases, err := m.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return a, err
	}
	if a.Latest, err = m.LatestRelease(ctx, app.ID); err != nil {
		return a, err
	}
	units, err := m.units(ctx, app.ID)
	if err != nil {
		return a, err
	}
	triggers, routes, err := m.triggers(ctx, app)
	if err != nil {
		return a, err
	}
	until, err := m.LiveUntil(ctx, app.ID)
	if err != nil {
		return a, err
	}
	for _, r := range releases {
		a.Releases = append(a.Releases, registry.Release{
			ID: r.ID, Commit: r.Commit, Line: r.Line, Created: r.Created, LiveUntil: until[r.ID], Units: units[r.ID],
			Routes: registry.NewRoutes(routes[r.ID]), Triggers: triggers[r.ID],
		})
	}
	tags, err := m.Tags(ctx, app.ID)
	if err != nil {
		return a, err
	}
	for _, t := range tags {
		a.Tags[t.Name] = t.Release
	}
	return a, nil
}

// units returns the static units of an app's accessible releases.
func (m moment) units(ctx context.Context, app string) (map[landfall.UID][]registry.Unit, error) {
	rows, err := m.ServedUnits(ctx, app, landfall.StaticUnit)
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
		units[row.Release] = append(units[row.Release], registry.Unit{Path: row.Unit.Name, Manifest: assets.RefOf(content).String(), Fallback: spec.Fallback})
	}
	return units, nil
}

// gatewayContent is the object store as the gateway knows it.
type gatewayContent struct {
	objects   assets.Store
	manifests *assets.Manifests
}

var _ gateway.Content = gatewayContent{}

// Manifest implements gateway.Content.
func (c gatewayContent) Manifest(ctx context.Context, ref string) (*gateway.Manifest, error) {
	m, err := c.manifests.Load(ctx, assets.ParseRef(ref))
	if err != nil {
		return nil, err
	}
	files := make(map[string]gateway.File, len(m.Files()))
	for _, f := range m.Files() {
		files[f.Path] = gateway.File{Key: f.Key, SHA256: f.Digest, Size: f.Size, Type: f.Type}
	}
	return &gateway.Manifest{Files: files}, nil
}

// Open implements gateway.Content.
func (c gatewayContent) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	return c.objects.Open(ctx, key)
}
