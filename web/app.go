package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// appPage is an app with its history.
type appPage struct {
	client.App
	May       bool                  // the token may change it
	LiveGroup *client.Group         // nil when nothing is live, or not on this page
	LiveMove  *client.Move          // how it became live
	Newer     *client.Group         // a release that production applied later than the live one
	Canary    *client.ReleaseCanary // that runs, or ended lately; nil: none
	Charts    []chart
	Tags      []tagLine
	Days      []day
	Older     string // cursor of the next page of the timeline
	First     bool   // this is its first page
}

// tagLine is a tag and what it names.
type tagLine struct {
	Name    string
	Release landfall.UID
	URL     string
	Moved   *client.Move
}

// day is the events of one day, newest first.
type day struct {
	Date   string
	Events []event
}

// event is one thing that happened: a version was made, a pointer moved, or a run came to no release. The others are
// nil.
type event struct {
	At    time.Time
	Group *client.Group
	Live  bool          // of a group: it is live
	Tags  []string      // of a group: what names it now, without live
	Moves []client.Move // of a group: the pointers that moved with it
	Made  *client.Run   // of a group: the run that made it
	Move  *client.Move
	Run   *client.Run
}

// How much of an app's history one page shows, and how much the charts look at.
const (
	pageGroups = 40
	pageRuns   = 200
	pageMoves  = 1000
)

// appHistory is what the timeline is made of, newest first each.
type appHistory struct {
	groups listed[client.Group]
	runs   []client.Run
	moves  []client.Move
}

// app shows an app.
func app(r *request) (*view, error) {
	p := appPage{}
	path := appPath(r)
	if err := r.get(path, &p.App); err != nil {
		return nil, err
	}
	before := r.URL.Query().Get("before")
	h, err := history(r, path, p.Name, before)
	if err != nil {
		return nil, err
	}
	p.May, p.First, p.Older = r.may(p.App), before == "", h.groups.Next
	for _, g := range h.groups.Items {
		if g.UID == p.Live {
			p.LiveGroup = &g
		}
	}
	if latest := slices.IndexFunc(h.groups.Items, func(g client.Group) bool {
		return g.Latest && g.UID != p.Live && !g.Expired
	}); latest >= 0 {
		p.Newer = &h.groups.Items[latest]
	}
	if i := slices.IndexFunc(h.moves, func(m client.Move) bool {
		return m.Pointer == landfall.LivePointer && m.To == p.Live
	}); i >= 0 {
		p.LiveMove = &h.moves[i]
	}
	if p.First {
		if p.Canary, err = canary(r, path); err != nil {
			return nil, err
		}
		p.Charts = charts(h.runs, p.Branch, r.now)
		if p.Tags, err = tags(r, path, h.moves); err != nil {
			return nil, err
		}
	}
	p.Days = days(h.events(before))
	v := &view{page: "app", title: p.Name, crumbs: appCrumbs(p.Name), data: p}
	if p.First { // older pages do not change
		v.follow = later
	}
	return v, nil
}

func appURL(name string) string { return "/apps/" + url.PathEscape(name) }

func history(r *request, path, name, before string) (h appHistory, err error) {
	if h.groups, err = list[client.Group](r, path+"/groups?"+query("limit", pageGroups, "cursor", before)); err != nil {
		return h, err
	}
	if h.runs, err = items[client.Run](r, "/runs?"+query("app", name, "limit", pageRuns, "cursor", before)); err != nil {
		return h, err
	}
	h.moves, err = items[client.Move](r, path+"/moves?"+query("limit", pageMoves))
	return h, err
}

// tags lists the tags of the app, live left out: what names nothing else.
func tags(r *request, path string, moves []client.Move) ([]tagLine, error) {
	releases, err := everything[client.Release](r, path+"/releases")
	if err != nil {
		return nil, err
	}
	var all []tagLine
	for _, release := range releases {
		for _, name := range release.Tags {
			if name == landfall.LivePointer {
				continue
			}
			t := tagLine{Name: name, Release: release.ID, URL: tagURL(release, name)}
			if i := slices.IndexFunc(moves, func(m client.Move) bool { return m.Pointer == "tag "+name }); i >= 0 {
				t.Moved = &moves[i]
			}
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b tagLine) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// tagURL is where a tag of a release answers: at the release's own address, with the tag in its place.
func tagURL(release client.Release, tag string) string {
	u, err := url.Parse(release.URL)
	if err != nil {
		return release.URL
	}
	u.Host = strings.Replace(u.Host, landfall.JoinedLabel(release.App, string(release.ID)),
		landfall.JoinedLabel(release.App, tag), 1)
	return u.String()
}

// events puts in one line what happened, newest first, as far back as the groups go.
func (h *appHistory) events(before string) []event {
	all := []event{}
	with := map[landfall.UID]*client.Run{}
	for i, run := range h.runs {
		if run.Release != "" && with[run.Release] == nil {
			with[run.Release] = &h.runs[i]
		}
		if run.State != landfall.RunSucceeded {
			all = append(all, event{At: run.Created, Run: &h.runs[i]})
		}
	}
	folded := map[int64]bool{}
	for i, g := range h.groups.Items {
		e := event{At: g.Created, Group: &h.groups.Items[i], Made: with[g.UID]}
		for _, tag := range g.Tags {
			if tag == landfall.LivePointer {
				e.Live = true
			} else {
				e.Tags = append(e.Tags, tag)
			}
		}
		for _, m := range h.moves {
			if cameWith(m, g) {
				folded[m.ID] = true
				e.Moves = append(e.Moves, m)
			}
		}
		all = append(all, e)
	}
	for i, m := range h.moves {
		if !folded[m.ID] {
			all = append(all, event{At: m.At, Move: &h.moves[i]})
		}
	}
	all = h.within(all, before)
	slices.SortStableFunc(all, func(a, b event) int { return b.At.Compare(a.At) })
	return all
}

// cameWith reports whether a pointer moved to a version when it was made, because of the same push.
func cameWith(m client.Move, g client.Group) bool {
	const together = 10 * time.Second
	return m.To == g.UID && m.Reason == "push of "+g.Commit.Short() && m.At.Sub(g.Created).Abs() < together
}

// within leaves out what belongs to the pages before and after.
func (h *appHistory) within(all []event, before string) []event {
	until, err := time.Parse(time.RFC3339Nano, before)
	var from time.Time
	if n := len(h.groups.Items); h.groups.Next != "" && n > 0 {
		from = h.groups.Items[n-1].Created
	}
	return slices.DeleteFunc(all, func(e event) bool { return e.At.Before(from) || (err == nil && !e.At.Before(until)) })
}

// days puts events, newest first, under their days.
func days(events []event) []day {
	var all []day
	for _, e := range events {
		date := e.At.UTC().Format("2 January 2006")
		if n := len(all); n == 0 || all[n-1].Date != date {
			all = append(all, day{Date: date})
		}
		last := &all[len(all)-1]
		last.Events = append(last.Events, e)
	}
	return all
}
