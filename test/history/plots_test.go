package history_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/versioning"
)

// Some faults need several steps one after the other that chance seldom takes. A plot takes them; what was before, and
// what comes after it, is chance again.
func (h *history) plot(t *rapid.T) {
	h.t = t
	plots := map[string]func(*rapid.T){"files": h.sharing, "pinned": h.pinned, "revoked": h.revoked,
		"secret": h.anotherSecret, "again": h.comesOutDifferently, "unheld": h.unheld, "retired": h.retired,
		"surplus": h.surplus}
	plots[rapid.SampledFrom(slices.Sorted(maps.Keys(plots))).Draw(t, "plot")](t)
}

// commits are those of some contents.
func (h *history) commits(which func(content) bool) (all []landfall.CommitSHA) {
	for _, each := range h.git.each {
		if which(h.git.commits[each[0]]) {
			all = append(all, each...)
		}
	}
	return all
}

// sends pushes one of several commits to a branch that has another one, and returns the run that waits for it.
func (h *history) sends(t *rapid.T, to string, commits ...landfall.CommitSHA) (run string) {
	ref := landfall.RefName(landfall.BranchPrefix + to)
	commits = slices.DeleteFunc(commits, func(c landfall.CommitSHA) bool { return h.want.heads[ref] == c })
	if len(commits) == 0 {
		t.Skip("there are none")
	}
	commit := rapid.SampledFrom(commits).Draw(t, "commit")
	h.take(h.pushing("push", ref, commit))
	for id, r := range h.want.runs {
		if r.commit == commit && !r.state.Final() {
			return id
		}
	}
	t.Skip("the branch joins an earlier run")
	return ""
}

// makes sends a commit, and works its run. It returns the app version that the run made.
func (h *history) makes(t *rapid.T, to string, which func(content) bool) landfall.UID {
	run := h.sends(t, to, h.commits(which)...)
	h.take(h.working(run))
	if h.want.runs[run].group == "" {
		t.Skip("the run failed")
	}
	return h.want.runs[run].group
}

func withSecret(c content) bool { return c.secret && c.route == "" }

// pinned collects when only the number in a trigger needs a version.
func (h *history) pinned(t *rapid.T) {
	if h.want.units[fn("f")] != nil {
		t.Skip("the number 1 was given")
	}
	first := h.makes(t, "red", func(c content) bool { return c.f != "" && !c.secret && c.route == "" })
	h.makes(t, "blue", func(c content) bool { return c.route == "1" })
	h.take(h.pushing("delete a branch", landfall.BranchPrefix+"red", ""))
	h.take(h.expiring(first))
	h.take(h.collect(t))
}

// revoked asks for a release whose secret was revoked.
func (h *history) revoked(t *rapid.T) {
	h.take(h.settingSecret("first-value", true))
	old := h.makes(t, branch, withSecret)
	h.take(h.settingSecret("second-value", false))
	h.take(h.revoking(h.want.groups[old].units[key()]))
	h.take(h.promoting(old))
}

// anotherSecret sets a secret while a run is about to release an earlier value.
func (h *history) anotherSecret(t *rapid.T) {
	h.take(h.settingSecret("first-value", true))
	run := h.sends(t, branch, h.commits(withSecret)...)
	h.within(h.working(run), landfall.StepUpload, h.settingSecret("second-value", false))
}

// comesOutDifferently runs a commit again after its secret has got another value.
func (h *history) comesOutDifferently(t *rapid.T) {
	h.take(h.settingSecret("first-value", true))
	uid := h.makes(t, "red", withSecret)
	h.take(h.settingSecret("second-value", true))
	h.take(h.working(h.sends(t, "blue", h.want.groups[uid].commit)))
}

// unheld deletes a version that nothing needs while an alias begins to name it.
func (h *history) unheld(t *rapid.T) {
	id, _ := h.aFunction(t)
	h.take(h.making(id, "", false))
	numbers := slices.DeleteFunc(h.numbers(id), func(n int64) bool { return h.want.held(id, n) })
	if len(numbers) == 0 {
		t.Skip("there are none")
	}
	number := rapid.SampledFrom(numbers).Draw(t, "number")
	name := rapid.SampledFrom([]string{stable, "next", "last"}).Draw(t, "alias")
	_, there := h.want.units[id].aliases[name]
	h.together(h.deleting(id, number), h.aliasing(id, versioning.NewAlias{Name: name, Create: !there},
		[]int64{number}, []int{100}))
}

// retired deletes a package by hand that a function runs which production has no more, and an alias names.
func (h *history) retired(t *rapid.T) {
	uid := h.makes(t, branch, func(c content) bool { return c.f != "" && c.g == "" && !c.secret && c.route == "" })
	number := h.want.groups[uid].units[fn("f")]
	_, there := h.want.units[fn("f")].aliases["next"]
	h.take(h.aliasing(fn("f"), versioning.NewAlias{Name: "next", Create: !there}, []int64{number}, []int{100}))
	h.makes(t, branch, func(c content) bool { return c.f == "" && c.g != "" })
	if v, there := h.want.unitVersion(fn("f"), number); there {
		h.take(h.deleting(pkg(), v.pkg))
	}
}

// surplus changes something without a release when there are more releases than are kept.
func (h *history) surplus(t *rapid.T) {
	plain := func(c content) bool { return c.f != "" && !c.secret && c.route == "" }
	h.take(h.tagging("gold", h.makes(t, branch, plain)))
	for range keep {
		h.makes(t, branch, plain)
	}
	h.take(h.untagging("gold"))
	h.take(h.making(fn("f"), "", false))
}

// sharing collects while a run is about to share what is stored of a release, which has expired.
func (h *history) sharing(t *rapid.T) {
	uid := some(h, "release", h.want.releases)
	if uid == "" {
		t.Skip("there is none")
	}
	page := h.word(site(), h.want.groups[uid].units[site()])
	if page == "" {
		t.Skip("it has no files")
	}
	h.take(h.expiring(uid))
	run := h.sends(t, "red", h.commits(func(c content) bool { return c.page == page && !c.secret && c.route == "" })...)
	c := h.git.commits[h.want.runs[run].commit]
	h.within(h.working(run), landfall.StepUpload, h.collectBeside(c))
}

// collectBeside collects while a run may have reserved what is stored of a content: what it has not is stored again by
// the run, and can go.
func (h *history) collectBeside(c content) step {
	reserved := map[landfall.UnitID]int64{}
	words := c.units()
	for _, id := range []landfall.UnitID{site(), pkg()} {
		if u := h.want.units[id]; u != nil {
			reserved[id] = u.newest(h.digest[madeOf{id, words[id]}])
		}
	}
	s := h.collect(nil)
	next := s.next
	s.next = func(s *state) landfall.Kind {
		s.reserved = maps.Clone(reserved)
		left := h.stored()
		maps.DeleteFunc(s.reserved, func(id landfall.UnitID, number int64) bool {
			v, there := left.unitVersion(id, number)
			return !there || v.empty
		})
		defer func() { s.reserved = nil }()
		return next(s)
	}
	return s
}
