package history_test

import (
	"fmt"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/versioning"
)

// check holds the invariants against what the store, the object store and the table of gateways have, unless all that
// was done since the last time was refused.
func (h *history) check() {
	if !h.changed {
		return
	}
	h.changed = false
	for id, u := range h.want.units {
		h.checkUnit(id, u)
	}
	for uid, g := range h.want.groups {
		if was, ok := h.uids[uid]; ok && was != g.same {
			h.fatalf("the uid %s was given to two versions of the app", uid) // V3
		}
		h.uids[uid] = g.same
	}
	for uid := range h.want.releases {
		if h.want.accessible(uid) {
			h.checkRelease(uid)
		}
	}
	// V2: live and tags point at what can be reached; a branch's tag lets go of what is old
	if h.want.live != "" && !h.want.accessible(h.want.live) {
		h.fatalf("live is %s, which is expired", h.want.live)
	}
	for name, t := range h.want.tags {
		if t.kind == landfall.HandTag && !h.want.accessible(t.release) {
			h.fatalf("the tag %s is at %s, which is expired", name, t.release)
		}
	}
	for id, x := range h.want.executions {
		if _, ok := h.want.units[x.function].versions[x.number]; !ok && !x.late {
			h.fatalf("the execution %s runs %s no. %d, which is deleted", id, x.function, x.number) // V2
		}
	}
	for _, to := range h.want.named() {
		if _, ok := h.want.units[to.function].versions[to.number]; !ok {
			h.fatalf("%s no. %d is named by an alias, a function tag, a job or a webhook, and is deleted", to.function, to.number) // V2
		}
	}
	h.checkTable()
	h.checkReports()
}

func (h *history) checkUnit(id landfall.UnitID, u *unitState) {
	if id.Kind.InNamespace() {
		v, err := versioning.Find(h.t.Context(), h.db, h.app.Namespace, id.Kind,
			landfall.Reference{Name: id.Name, Selector: landfall.Latest})
		if want := h.want.latest(id); v.Number != want || landfall.Ignore(err, landfall.NotFound) != nil {
			h.fatalf("the latest %s is no. %d (%v), want %d", id, v.Number, err, want) // V2
		}
	}
	uids := map[landfall.UID]int64{}
	for number, v := range u.versions {
		if other, taken := uids[v.uid]; taken || number > u.last {
			h.fatalf("%s: the uid %s is that of no. %d and no. %d, of %d", id, v.uid, number, other, u.last) // V3
		}
		uids[v.uid] = number
	}
	for name, a := range u.aliases {
		first, ok := u.versions[a.first]
		_, other := u.versions[a.other]
		if !ok || !other && a.other != 0 {
			h.fatalf("the alias %s of %s points at %+v, which is deleted", name, id, a) // V2
		}
		if a.percent < 1 || a.percent > 100 || (a.other == 0) != (a.percent == 100) {
			h.fatalf("the alias %s of %s has the weights %+v", name, id, a) // V5
		}
		if p := h.want.units[pkg()]; p == nil || p.versions[first.pkg].uid == "" {
			h.fatalf("the alias %s of %s runs the package no. %d, which is deleted", name, id, first.pkg) // V2
		}
	}
}

// checkRelease fails when something of an accessible release is not there.
func (h *history) checkRelease(uid landfall.UID) {
	units, err := h.db.GroupUnits(h.t.Context(), h.app.ID, uid)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, u := range units {
		known, ok := h.want.units[u.Unit].versions[u.Number]
		if !ok {
			h.fatalf("the release %s has %s no. %d, which is deleted", uid, u.Unit, u.Number) // V2
		}
		if known.of != u.Digest || known.uid != u.UID {
			h.fatalf("the release %s has %s no. %d as %s, which is %s", uid, u.Unit, u.Number, u.Digest, known.of) // V1
		}
		if u.Unit.Kind != landfall.StaticUnit && u.Unit.Kind != landfall.PackageUnit {
			continue
		}
		v, err := h.db.VersionByNumber(h.t.Context(), u.UnitID, u.Number)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, key := range h.objectsOf(v) {
			if _, err := h.objects.Open(h.t.Context(), key); err != nil {
				h.fatalf("the release %s needs an object of %s: %v", uid, u.Unit, err) // V2
			}
		}
	}
}

// objectsOf returns what a version has in the object store.
func (h *history) objectsOf(v landfall.Version) (keys []string) {
	switch v.Unit.Kind {
	case landfall.StaticUnit:
		manifest, err := assets.Load(h.t.Context(), h.objects, assets.RefIn(v.Content))
		if err != nil {
			h.fatalf("%s no. %d: %v", v.Unit, v.Number, err)
		}
		for _, f := range manifest.Files() {
			keys = append(keys, f.Key)
		}
	case landfall.PackageUnit:
		content, err := landfall.ReadContent[landfall.PackageContent](v.Content)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, a := range content.Archives() {
			keys = append(keys, a.Key)
		}
	case landfall.ConfigUnit, landfall.EnvironmentUnit, landfall.FunctionUnit, landfall.HTTPTrigger, landfall.TimeTrigger,
		landfall.QueueTrigger, landfall.SecretUnit, landfall.AliasUnit, landfall.FunctionTagUnit:
	}
	return keys
}

// checkTable fails unless the table of gateways shows what the store has, and each release whole: all that it serves is
// of one version of the app.
func (h *history) checkTable() {
	table := h.registry.Table()
	live := table.Resolve(h.app.Name, "", false)
	if (live.Outcome == registry.Found) != (h.want.live != "") || live.Release != nil && live.Release.ID != h.want.live {
		h.fatalf("gateways show %+v as live, want %s", live, h.want.live) // V6
	}
	var shared canary
	if live.Canary != nil && live.Other != nil {
		shared = canary{live.Other.ID, live.Canary.Weight}
	}
	if shared != h.want.canary {
		h.fatalf("gateways show the canary %+v, want %+v", shared, h.want.canary) // V5, V6
	}
	for uid := range h.want.releases {
		shown := table.Resolve(h.app.Name, string(uid), false)
		if (shown.Outcome == registry.Found) != h.want.accessible(uid) {
			h.fatalf("gateways show %+v for %s, want that it is accessible: %t", shown, uid, h.want.accessible(uid)) // V6
		}
		if shown.Outcome == registry.Found {
			h.checkShown(shown.Release)
		}
	}
	for name, t := range h.want.tags {
		if shown := table.Resolve(h.app.Name, name, false); shown.Release == nil || shown.Release.ID != t.release {
			h.fatalf("gateways show %+v for the tag %s, want %s", shown, name, t.release) // V6
		}
	}
}

// checkShown fails unless a release is shown with its own versions.
func (h *history) checkShown(r *registry.Release) {
	g := h.want.groups[r.ID]
	if number, ok := g.units[site()]; ok || len(r.Units) > 0 {
		row, err := h.db.Unit(h.t.Context(), h.app, site())
		if err != nil {
			h.t.Fatal(err)
		}
		v, err := h.db.VersionByNumber(h.t.Context(), row.ID, number)
		if err != nil || len(r.Units) != 1 || r.Units[0].Manifest != assets.RefIn(v.Content).String() {
			h.fatalf("gateways show the files %+v of %s, want those of no. %d (%v)", r.Units, r.ID, number, err) // V6
		}
	}
	trigger, ok := g.units[route()]
	if ok != (len(r.Triggers) == 1) {
		h.fatalf("gateways show %d triggers of %s", len(r.Triggers), r.ID) // V6
	}
	if !ok {
		return
	}
	selector, _, _ := strings.Cut(h.word(route(), trigger), " ")
	want := map[int64]int{}
	switch a, named := h.want.units[fn("f")].aliases[selector]; {
	case selector == landfall.Latest:
		want[g.units[fn("f")]] = 100
	case named && a.other > 0:
		want[a.first], want[a.other] = a.percent, 100-a.percent
	default:
		want[h.want.find(fn("f"), selector)] = 100
	}
	delete(want, 0)
	got := map[int64]int{}
	for _, s := range r.Triggers[0].Shares {
		if s.Function != nil {
			got[s.Function.Number] = s.Percent // V5
		}
	}
	if f := r.Triggers[0].Function; f != nil {
		got[f.Number] = 100
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		h.fatalf("the trigger of %s that leads to %s runs %v, want %v", r.ID, selector, got, want) // V6
	}
	for _, f := range r.Triggers[0].Functions() {
		colour := h.word(config(), g.units[config()])
		if f.Config["colour"] != colour || f.Package.Key == "" {
			// V6: it has the configuration of its own release
			h.fatalf("the trigger of %s runs %+v, want the configuration %s and its code", r.ID, f, colour)
		}
	}
}

// checkReports fails unless each run is reported as pending once, and once as what it came to when it is over.
func (h *history) checkReports() {
	reports := map[landfall.CommitSHA][]landfall.Report{}
	for id, r := range h.want.runs {
		if _, ok := reports[r.commit]; !ok {
			all, err := h.db.ReportsOf(h.t.Context(), h.app.ID, r.commit)
			if err != nil {
				h.t.Fatal(err)
			}
			reports[r.commit] = all
		}
		var states []landfall.StatusState
		for _, report := range reports[r.commit] {
			if report.Run == id {
				states = append(states, report.State)
			}
		}
		want := []landfall.StatusState{landfall.StatusPending}
		switch {
		case r.state == landfall.RunSucceeded:
			want = append(want, landfall.StatusSuccess)
		case r.state == landfall.RunFailed:
			want = append(want, landfall.StatusFailure)
		case r.state.Final():
			want = append(want, landfall.StatusError)
		}
		if !slices.Equal(states, want) {
			h.fatalf("the run %s, which is %s, was reported as %v, want %v", id, r.state, states, want) // V8
		}
	}
	// V7: what a reference names is what a run made of it, is making, or failed at
	for ref, commit := range h.want.heads {
		known := false
		for _, r := range h.want.runs {
			known = known || r.commit == commit
		}
		if !known {
			h.fatalf("the push of %s to %s has no run", commit.Short(), ref)
		}
	}
}
