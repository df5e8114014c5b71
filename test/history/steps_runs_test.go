package history_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/store"
)

// push pushes a commit to a branch.
func (h *history) push(t *rapid.T) step {
	name := rapid.SampledFrom([]string{branch, branch, "red", "blue"}).Draw(t, "branch")
	of := rapid.IntRange(0, len(h.git.each)-1).Draw(t, "content")
	commit := rapid.SampledFrom(h.git.each[of]).Draw(t, "commit")
	ref := landfall.RefName(landfall.BranchPrefix + name)
	if h.want.heads[ref] == commit {
		t.Skip("git does not push what is there")
	}
	return h.pushing("push", ref, commit)
}

// drop deletes a branch.
func (h *history) drop(t *rapid.T) step {
	ref := some(h, "branch", h.want.heads)
	if ref == "" || ref == landfall.BranchPrefix+branch {
		t.Skip("there is none")
	}
	return h.pushing("delete a branch", ref, "")
}

func (h *history) pushing(name string, ref landfall.RefName, commit landfall.CommitSHA) step {
	var run string
	return step{name: name, about: fmt.Sprintf("%s %s %+v", ref, commit.Short(), h.git.commits[commit]), do: func(ctx context.Context) error {
		before := h.refs.move(h.app.ID, ref, commit)
		runs, err := accept.GitReceiver{Acceptor: h.acceptor}.Accept(ctx, remote.Repository{App: h.app.ID, Actor: actor},
			[]remote.Update{{Ref: ref, Before: before, After: commit}})
		if len(runs) > 0 {
			run = runs[0]
		}
		return err
	}, next: func(s *state) landfall.Kind { return h.accepted(s, ref, commit, run) }}
}

// accepted is what the model says of a push.
func (h *history) accepted(s *state, ref landfall.RefName, commit landfall.CommitSHA, id string) landfall.Kind {
	s.heads[ref] = commit
	for other, r := range s.runs {
		if !r.state.Final() && r.commit != commit && strings.Contains(r.wants, string(ref)+" ") {
			r.wants = strings.ReplaceAll(r.wants, string(ref)+" ", "")
			if r.wants == "" {
				r.state = landfall.RunSuperseded
			}
			s.runs[other] = r
		}
	}
	now := h.clock.Now()
	name := strings.TrimPrefix(string(ref), landfall.BranchPrefix)
	if commit == "" {
		delete(s.heads, ref)
		old := s.tags["branch-"+name].release
		delete(s.tags, "branch-"+name)
		held := s.heldReleases(now)
		s.expireAll(func(uid landfall.UID, r release) bool {
			return r.line == landfall.Preview && !held[uid] && (uid == old || r.branch == name)
		})
		return fine
	}
	r, there := s.runs[id]
	if !there { // a new one, unless an earlier one does
		for _, other := range s.runs {
			if other.commit == commit && !other.state.Final() {
				return landfall.Internal // V7: one run of a commit at a time
			}
		}
		s.runs[id] = run{commit: commit, state: landfall.RunQueued, wants: string(ref) + " "}
		return fine
	}
	r.wants = sorted(r.wants + string(ref))
	s.runs[id] = r
	if !r.state.Final() {
		return fine
	}
	g := s.groups[r.group]
	if r.state != landfall.RunSucceeded || !s.accessible(r.group) || g.units[key()] > 0 && g.units[key()] != s.newestSecret() {
		return landfall.Internal // V7: what ended without a release is not joined
	}
	if refused := s.point(r.group, name, name == branch, true, "branch-"+name, now); refused != fine {
		return refused
	}
	s.settle(g.units, name == branch, now)
	return fine
}

// work takes a run through the pipeline, however often it wants to be tried again.
func (h *history) work(t *rapid.T) step {
	waiting := map[string]run{}
	for id, r := range h.want.runs {
		if !r.state.Final() {
			waiting[id] = r
		}
	}
	id := some(h, "run", waiting)
	if id == "" {
		t.Skip("no run waits")
	}
	return h.working(id)
}

func (h *history) working(id string) step {
	var ended landfall.Run
	work := func(ctx context.Context) (err error) {
		if err = h.pipeline.Work(ctx, id); err == nil {
			ended, err = h.db.Run(ctx, id)
		}
		return err
	}
	return step{name: "work a run", about: id + " of " + h.want.runs[id].commit.Short(), do: work, rest: func(ctx context.Context) error {
		for tries := 0; !ended.State.Final() && tries < 8; tries++ {
			if err := h.due(ctx, ended); err != nil {
				return err
			}
			if err := work(ctx); err != nil {
				return err
			}
		}
		return nil
	}, next: func(s *state) landfall.Kind { return h.worked(s, id, ended) }}
}

// due lets the time come when a run is tried again: also where the database's clock says when that is.
func (h *history) due(ctx context.Context, r landfall.Run) error {
	return h.db.Update(ctx, func(tx *store.Tx) error {
		return landfall.Ignore(tx.GiveBack(ctx, r.ID, r.Attempt, time.Time{}, false, ""), landfall.Conflict)
	})
}

// worked is what the model says of a run: of the units that the commit declares, in the order in which they are
// applied.
func (h *history) worked(s *state, id string, ended landfall.Run) landfall.Kind {
	r := s.runs[id]
	if r.state.Final() { // somebody has ended it before
		return fine
	}
	c := h.git.commits[r.commit]
	r.state = landfall.RunFailed
	words := c.units()
	production := strings.Contains(r.wants, landfall.BranchPrefix+branch+" ")
	if c.route != "" && c.route != landfall.Latest {
		to := s.find(fn("f"), c.route)
		if to == 0 {
			s.runs[id] = r
			return fine
		}
		if c.route != stable {
			words[route()] += " " + string(s.units[fn("f")].versions[to].of)
		}
	}
	if c.secret && r.expect == "" {
		if s.newestSecret() == 0 {
			s.runs[id] = r
			return fine
		}
	}
	if ended.State != landfall.RunSucceeded {
		s.runs[id] = r // the comparison shows whether that is right
		return h.mustSucceed(s, id, ended)
	}
	uid := ended.UID
	made, err := h.db.GroupUnits(h.t.Context(), h.app.ID, uid)
	if err != nil {
		h.t.Fatal(err)
	}
	inForce, known := map[landfall.UnitID]int64{}, map[landfall.UnitID]landfall.Digest{}
	for _, u := range made {
		if word, ok := words[u.Unit]; ok {
			h.learn(u.Unit, word, u.Digest)
		}
		known[u.Unit] = u.Digest
	}
	for _, unit := range slices.SortedFunc(maps.Keys(words), func(a, b landfall.UnitID) int {
		return applyOrder(a.Kind) - applyOrder(b.Kind)
	}) {
		digest, ok := h.digest[madeOf{unit, words[unit]}]
		if !ok || known[unit] != digest {
			h.fatalf("the release %s lacks %s as the commit has it", uid, unit)
		}
		inForce[unit] = s.put(unit, digest, uid, production && r.expect == "", false, inForce)
	}
	if c.secret {
		inForce[key()] = s.newestSecret()
		if r.expect != "" {
			inForce[key()] = s.groups[uid].units[key()]
		}
	}
	same := h.group(uid)
	_, earlier := s.groups[uid]
	for other, g := range s.groups {
		if !earlier && g.commit == r.commit && g.same == same {
			h.fatalf("the commit %s of the same digests is the version %s, and %s", r.commit.Short(), other, uid)
		}
	}
	s.groups[uid] = group{r.commit, inForce, known[pkg()], same}
	r.state, r.group = landfall.RunSucceeded, uid
	s.runs[id] = r
	return h.pointed(s, r, uid, h.branchOf(uid)) // also of one that was made before, and never released
}

// pointed is what the model says of the references that want a run.
func (h *history) pointed(s *state, r run, uid landfall.UID, of string) landfall.Kind {
	now := h.clock.Now()
	production := false
	for ref := range strings.FieldsSeq(r.wants) {
		name := strings.TrimPrefix(ref, landfall.BranchPrefix)
		production = production || name == branch
		if refused := s.point(uid, of, name == branch, true, "branch-"+name, now); refused != fine {
			return refused
		}
	}
	if r.wants == "" {
		line := landfall.Preview
		if slices.Contains(s.applied, uid) {
			line = landfall.Production
		}
		if refused := s.create(uid, line, of, now); refused != fine {
			return refused
		}
	}
	s.settle(s.groups[uid].units, production, now)
	return fine
}

// mustSucceed fails for a run that had no reason to end as it did.
func (h *history) mustSucceed(s *state, id string, ended landfall.Run) landfall.Kind {
	r := s.runs[id]
	if r.expect != "" && ended.State == landfall.RunFailed { // it comes out differently than when it was made
		return fine
	}
	r.state = landfall.RunSucceeded
	s.runs[id] = r
	return fine
}

func applyOrder(kind landfall.UnitKind) int {
	return slices.Index([]landfall.UnitKind{landfall.PackageUnit, landfall.FunctionUnit}, kind) & 3
}

// cancel ends a run.
func (h *history) cancel(t *rapid.T) step {
	id := some(h, "run", h.want.runs)
	if id == "" {
		t.Skip("there is none")
	}
	return step{name: "cancel a run", do: func(ctx context.Context) error {
		_, err := h.runs.Cancel(ctx, id, actor)
		return err
	}, next: func(s *state) landfall.Kind {
		r := s.runs[id]
		if r.state.Final() {
			return landfall.Conflict
		}
		r.state = landfall.RunCancelled
		s.runs[id] = r
		return fine
	}}
}

// retry runs a commit again.
func (h *history) retry(t *rapid.T) step {
	id := some(h, "run", h.want.runs)
	if id == "" {
		t.Skip("there is none")
	}
	var made landfall.Run
	return step{name: "retry a run", do: func(ctx context.Context) (err error) {
		made, err = h.runs.Retry(ctx, id, actor, false)
		return err
	}, next: func(s *state) landfall.Kind {
		commit := s.runs[id].commit
		for _, r := range s.runs {
			if r.commit == commit && !r.state.Final() {
				return landfall.Conflict
			}
		}
		again := run{commit: commit, state: landfall.RunQueued}
		for _, ref := range slices.Sorted(maps.Keys(s.heads)) {
			if s.heads[ref] == commit {
				again.wants += string(ref) + " "
			}
		}
		s.runs[made.ID] = again
		return fine
	}}
}

// reach makes a group version accessible again.
func (h *history) reach(t *rapid.T) step {
	uid := some(h, "group", h.want.groups)
	if uid == "" {
		t.Skip("there is none")
	}
	var made string
	return step{name: "release again", about: string(uid), do: func(ctx context.Context) (err error) {
		made, err = h.runs.MakeReachable(ctx, h.app, uid, actor)
		return err
	}, next: func(s *state) landfall.Kind {
		g := s.groups[uid]
		if !s.whole(g) {
			for _, r := range s.runs {
				if r.commit == g.commit && !r.state.Final() {
					return landfall.Conflict
				}
			}
			s.runs[made] = run{commit: g.commit, state: landfall.RunQueued, expect: uid}
			return fine
		}
		now := h.clock.Now()
		line := landfall.Preview
		if slices.Contains(s.applied, uid) {
			line = landfall.Production
		}
		if refused := s.create(uid, line, h.branchOf(uid), now); refused != fine {
			return refused
		}
		s.expireSurplus(now)
		return fine
	}}
}
