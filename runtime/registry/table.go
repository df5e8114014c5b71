// Package registry holds what can be reached by an address now: an immutable table that is swapped whole.
package registry

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
)

// App is one app as the Source knows it. A table keeps its maps and slices: nobody changes them afterwards.
type App struct {
	ID       string
	Name     string                  // its host name
	Deleted  bool                    // every address answers that it is gone
	Removed  bool                    // it was deleted, and its content is gone, too
	Live     landfall.UID            // empty while nothing is live
	Latest   landfall.UID            // the accessible release that production applied last; empty when there is none
	Releases []Release               // those that are accessible
	Tags     map[string]landfall.UID // tag name to release
	SignedIn bool                    // releases that are not live are only for those who signed in
	// for how long files of releases that were live are served where the live one has none
	KeepFiles time.Duration
	Canary    *Canary // nil: none runs
	Unread    bool    // nothing but ID and Name is known: it is read again until it can be
	Changed   int64   // number of the newest change that the Source made to the app
}

// Canary is a release that a share of the visitors of an app's live address gets in place of the live one.
type Canary struct {
	ID      string
	Release landfall.UID
	Weight  int    // of 100 visitors, so many get it
	Key     string // signs what visitors keep of the choice; nobody else may know it
}

// Release is one release of an app.
type Release struct {
	ID        landfall.UID
	Commit    landfall.CommitSHA
	Line      landfall.Line
	Created   time.Time
	LiveUntil time.Time  // when visitors of the live address got it last; zero when they never did, or still do
	Units     []Unit     // the static units, in any order; a table orders them, the most specific path first
	Routes    *Routes    // nil: it has none
	Triggers  []*Trigger // of all kinds, those of Routes, too

	expired bool
}

// Unit is one static unit of a release.
type Unit struct {
	Path     string // where it is mounted: "/" or "/static/js"
	Manifest string // what the gateway asks for its manifest by: never that of another one
	Fallback string // path of the page for addresses that only the page's own script knows; absolute, or empty
}

// Outcome says what an address leads to.
type Outcome uint8

// The outcomes.
const (
	UnknownApp Outcome = iota
	DeletedApp
	UnreadApp
	NoLive // the app has no live release yet
	UnknownRelease
	AmbiguousCommit // the digits begin several commits
	ExpiredRelease
	Found
)

// Resolution is what an address leads to.
type Resolution struct {
	Outcome Outcome
	Release *Release // set when Found or ExpiredRelease
	App     string   // name of the app that Release is of, when Found
	Past    Past     // only where the address is the live release's

	// Canary and Other are set while a canary runs, where the address is the app's own, which has no label: the canary,
	// and the release of which a visitor may still have a page open. Until Choose, that is the canary's.
	Canary *Canary
	Other  *Release

	SignedIn bool // Release is only for those who signed in
}

// Past are the releases of an app that were live before, and what holds for their files.
type Past struct {
	Releases  []*Release    // the one that was live last is the first
	KeepFiles time.Duration // for how long after they were live their files are served; 0: never
	SignedIn  bool          // they are only for those who signed in
}

// Choose returns what a visitor gets while a canary runs: the canary's release whole, or the live one whole.
func (r Resolution) Choose(canary bool) Resolution {
	if canary {
		r.Release, r.Other = r.Other, r.Release
	}
	return r
}

// Table is an immutable picture of all apps. Any number of requests read it without locks.
type Table struct {
	names map[string]*site
	ids   map[string]*site
}

// site is an app prepared for lookups.
type site struct {
	app     App
	live    *Release
	canary  *Release            // nil: no canary runs
	labels  map[string]*Release // RELEASE of APP.RELEASE.DOMAIN
	joined  map[string]*Release // RELEASE of APP--RELEASE.DOMAIN
	commits []*Release          // the newest release of each commit, ascending by commit
	past    []*Release
}

// New returns the table of apps. Names and IDs are each unique among apps.
func New(apps []App) *Table {
	t := &Table{names: make(map[string]*site, len(apps)), ids: make(map[string]*site, len(apps))}
	for _, app := range apps {
		t.put(app)
	}
	return t
}

// Resolve returns what the label selector means for the app with that name: nothing or "live" the live release, else a
// release id, a tag, "latest" or the beginning of a commit, in this order. Expired releases are known by their tags
// alone; Registry.Expired finds the others. joined tells the label of APP--RELEASE.DOMAIN, where a long one is cut
// earlier, from that of APP.RELEASE.DOMAIN.
func (t *Table) Resolve(app, selector string, joined bool) Resolution {
	s, ok := t.names[app]
	switch {
	case !ok:
		return Resolution{Outcome: UnknownApp}
	case s.app.Deleted:
		return Resolution{Outcome: DeletedApp}
	case s.app.Unread:
		return Resolution{Outcome: UnreadApp}
	case selector == "" || selector == landfall.LivePointer:
		if s.live == nil {
			return Resolution{Outcome: NoLive}
		}
		r := s.found(s.live)
		r.Past = Past{Releases: s.past, KeepFiles: s.app.KeepFiles, SignedIn: s.app.SignedIn}
		if s.canary != nil && selector == "" {
			r.Canary, r.Other = s.app.Canary, s.canary
		}
		return r
	}
	labels := s.labels
	if joined {
		labels = s.joined
	}
	if release, ok := labels[selector]; ok {
		return s.found(release)
	}
	return s.commit(selector)
}

// Manifests returns the manifests of all releases that can be reached.
func (t *Table) Manifests() map[string]bool {
	all := map[string]bool{}
	for _, s := range t.ids {
		if s.app.Deleted {
			continue
		}
		for _, r := range s.app.Releases {
			for _, unit := range r.Units {
				all[unit.Manifest] = true
			}
		}
	}
	return all
}

// unread returns the IDs of the apps that could not be read.
func (t *Table) unread() (ids []string) {
	for id, s := range t.ids {
		if s.app.Unread {
			ids = append(ids, id)
		}
	}
	return ids
}

// Functions returns every function of a release that can be reached, by its ID.
func (t *Table) Functions() map[string]*landfall.Function {
	all := map[string]*landfall.Function{}
	for _, s := range t.ids {
		if s.app.Deleted {
			continue
		}
		for _, r := range s.app.Releases {
			for _, trigger := range r.Triggers {
				for _, f := range trigger.Functions() {
					all[f.ID] = f
				}
			}
		}
	}
	return all
}

// Live returns every function of a release that visitors of a live address get, by its ID, with the resources that a
// trigger of the release gives it. Those of the live release come before those of a canary.
func (t *Table) Live() map[string]*landfall.Function {
	all := map[string]*landfall.Function{}
	for _, s := range t.ids {
		if s.app.Deleted || s.live == nil {
			continue
		}
		triggers := s.live.Triggers
		if s.canary != nil {
			triggers = slices.Concat(triggers, s.canary.Triggers)
		}
		for _, trigger := range triggers {
			for _, f := range trigger.Functions() {
				if all[f.ID] == nil {
					function := *f
					function.Resources = trigger.Resources.Or(f.Resources)
					all[f.ID] = &function
				}
			}
		}
	}
	return all
}

func (s *site) found(r *Release) Resolution {
	if r.expired {
		return Resolution{Outcome: ExpiredRelease, Release: r}
	}
	return Resolution{Outcome: Found, Release: r, App: s.app.Name, SignedIn: s.app.SignedIn && r != s.live}
}

// isCommit reports whether a selector can be the first digits of a commit.
func isCommit(digits string) bool {
	const fewest, most = 7, 40
	return len(digits) >= fewest && len(digits) <= most && strings.Trim(digits, "0123456789abcdef") == ""
}

// commit resolves the first digits of a commit.
func (s *site) commit(digits string) Resolution {
	if !isCommit(digits) {
		return Resolution{Outcome: UnknownRelease}
	}
	begins := func(i int) bool { return i < len(s.commits) && strings.HasPrefix(string(s.commits[i].Commit), digits) }
	i, _ := slices.BinarySearchFunc(s.commits, landfall.CommitSHA(digits), func(r *Release, c landfall.CommitSHA) int {
		return cmp.Compare(r.Commit, c)
	})
	switch {
	case !begins(i):
		return Resolution{Outcome: UnknownRelease}
	case begins(i + 1):
		return Resolution{Outcome: AmbiguousCommit}
	}
	return s.found(s.commits[i])
}

// with returns a table in which app is as given and all else as in t.
func (t *Table) with(app App) *Table {
	next := t.without(app.ID)
	next.put(app)
	return next
}

// without returns a table without the app of that ID.
func (t *Table) without(id string) *Table {
	next := &Table{names: maps.Clone(t.names), ids: maps.Clone(t.ids)}
	if old, ok := next.ids[id]; ok {
		delete(next.ids, id)
		delete(next.names, old.app.Name)
	}
	return next
}

// put adds app while the table is being made.
func (t *Table) put(app App) {
	s := &site{
		app:    app,
		labels: make(map[string]*Release, len(app.Releases)+len(app.Tags)+1),
		joined: make(map[string]*Release, len(app.Releases)+len(app.Tags)+1),
	}
	ids := make(map[landfall.UID]*Release, len(app.Releases))
	for _, r := range app.Releases {
		r.Units = ordered(r.Units)
		ids[r.ID] = &r
		s.name(string(r.ID), &r)
	}
	for _, tag := range slices.Sorted(maps.Keys(app.Tags)) {
		r, ok := ids[app.Tags[tag]]
		if !ok {
			r = &Release{ID: app.Tags[tag], expired: true}
		}
		s.name(tag, r)
	}
	s.name(landfall.Latest, ids[app.Latest])
	s.live = ids[app.Live]
	if app.Canary != nil && s.live != nil {
		s.canary = ids[app.Canary.Release]
	}
	s.commits = newest(ids)
	for _, r := range s.commits {
		s.name(string(r.Commit), r) // a commit that does not fit into its label has a slug as a tag has
	}
	s.past = past(ids, s.live)
	t.names[app.Name] = s
	t.ids[app.ID] = s
}

// past returns the releases that were live before, the one that was live last first.
func past(releases map[landfall.UID]*Release, live *Release) (all []*Release) {
	for _, r := range releases {
		if r != live && !r.LiveUntil.IsZero() {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Release) int {
		return cmp.Or(b.LiveUntil.Compare(a.LiveUntil), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// name gives r the labels of selector, unless they are taken.
func (s *site) name(selector string, r *Release) {
	if r == nil {
		return
	}
	if label := s.label(selector, false); s.labels[label] == nil {
		s.labels[label] = r
	}
	if label := s.label(selector, true); s.joined[label] == nil {
		s.joined[label] = r
	}
}

// label returns what stands for selector in addresses of the app.
func (s *site) label(selector string, joined bool) string {
	if joined {
		return strings.TrimPrefix(landfall.JoinedLabel(s.app.Name, selector), s.app.Name+"--")
	}
	return landfall.ReleaseLabel(selector)
}

// newest returns the newest release of each commit, ascending by commit.
func newest(releases map[landfall.UID]*Release) []*Release {
	all := slices.SortedFunc(maps.Values(releases), func(a, b *Release) int {
		return cmp.Or(cmp.Compare(a.Commit, b.Commit), b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	all = slices.CompactFunc(all, func(a, b *Release) bool { return a.Commit == b.Commit })
	return slices.DeleteFunc(all, func(r *Release) bool { return r.Commit.IsZero() })
}

// ordered returns units with clean paths, the most specific first.
func ordered(units []Unit) []Unit {
	units = slices.Clone(units)
	for i := range units {
		units[i].Path = path.Clean("/" + units[i].Path)
	}
	slices.SortStableFunc(units, func(a, b Unit) int { return cmp.Compare(len(b.Path), len(a.Path)) })
	return units
}
