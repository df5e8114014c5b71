package history_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

const actor = "ada"

// by is somebody who moves pointers now.
func (h *history) by() deploy.Mover {
	return deploy.Mover{Actor: actor, Reason: "by hand", At: h.clock.Now()}
}

// move moves pointers as the API does it: in one transaction, and then the gateways are shown.
func (h *history) move(ctx context.Context, f func(tx *store.Tx, app *landfall.App) error) error {
	app := h.app
	err := h.db.Update(ctx, func(tx *store.Tx) (err error) {
		if app, err = tx.ActiveApp(ctx, h.app.ID); err != nil {
			return err
		}
		if err := f(tx, &app); err != nil {
			return err
		}
		_, err = tx.Changed(ctx, app.ID)
		return err
	})
	if err == nil {
		h.rollout.Show(ctx, app)
	}
	return err
}

// some draws one of several, in an order that does not depend on chance otherwise.
func some[K ~string, V any](t *rapid.T, what string, all map[K]V) K {
	keys := slices.Sorted(maps.Keys(all))
	if len(keys) == 0 {
		return ""
	}
	return keys[rapid.IntRange(0, len(keys)-1).Draw(t, what)]
}

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
	ref := some(t, "branch", h.want.heads)
	if ref == "" || ref == landfall.BranchPrefix+branch {
		t.Skip("there is none")
	}
	return h.pushing("delete a branch", ref, "")
}

func (h *history) pushing(name string, ref landfall.RefName, commit landfall.CommitSHA) step {
	var run string
	return step{name: name, do: func(ctx context.Context) error {
		before := h.refs.move(h.app.ID, ref, commit)
		runs, err := accept.GitReceiver{Acceptor: h.acceptor}.Accept(ctx, remote.Repository{App: h.app.ID, Actor: actor},
			[]remote.Update{{Ref: ref, Before: before, After: commit}})
		if len(runs) > 0 {
			run = runs[0]
		}
		return err
	}, next: func(s *state) landfall.Kind { return h.accepted(s, ref, commit, run) }}
}

// sorted returns words in their order, each with a space behind it.
func sorted(words string) string {
	var all strings.Builder
	for _, word := range slices.Sorted(strings.FieldsSeq(words)) {
		all.WriteString(word + " ")
	}
	return all.String()
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
	id := some(t, "run", waiting)
	if id == "" {
		t.Skip("no run waits")
	}
	var ended landfall.Run
	work := func(ctx context.Context) (err error) {
		if err = h.pipeline.Work(ctx, id); err == nil {
			ended, err = h.db.Run(ctx, id)
		}
		return err
	}
	return step{name: "work a run", do: work, rest: func(ctx context.Context) error {
		for tries := 0; !ended.State.Final() && tries < 8; tries++ {
			h.clock.pass(time.Minute)
			if err := work(ctx); err != nil {
				return err
			}
		}
		return nil
	}, next: func(s *state) landfall.Kind { return h.worked(s, id, ended) }}
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
	made, err := h.db.GroupUnits(h.ctx, h.app.ID, uid)
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
			h.t.Fatalf("the release %s lacks %s as the commit has it", uid, unit)
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
			h.t.Fatalf("the commit %s of the same digests is the version %s, and %s", r.commit.Short(), other, uid)
		}
	}
	s.groups[uid] = group{r.commit, inForce, same}
	r.state, r.group = landfall.RunSucceeded, uid
	s.runs[id] = r
	return h.pointed(s, r, uid, ended.Branch)
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

// group returns the digest of a group version.
func (h *history) group(uid landfall.UID) string {
	g, err := h.db.Group(h.ctx, h.app.ID, uid)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(g.Digest)
}

// cancel ends a run.
func (h *history) cancel(t *rapid.T) step {
	id := some(t, "run", h.want.runs)
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
	id := some(t, "run", h.want.runs)
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
	uid := some(t, "group", h.want.groups)
	if uid == "" {
		t.Skip("there is none")
	}
	var made string
	return step{name: "release again", do: func(ctx context.Context) (err error) {
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

func (h *history) branchOf(uid landfall.UID) string {
	g, err := h.db.Group(h.ctx, h.app.ID, uid)
	if err != nil {
		h.t.Fatal(err)
	}
	return g.Branch
}

// promote makes a release live.
func (h *history) promote(t *rapid.T) step {
	uid := some(t, "release", h.want.releases)
	if uid == "" {
		t.Skip("there is none")
	}
	return step{name: "promote", do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error { return deploy.Promote(ctx, tx, app, uid, h.by()) })
	}, next: func(s *state) landfall.Kind {
		s.heldLive = false
		return s.moveLive(uid, false)
	}}
}

// rollBack makes an earlier release live.
func (h *history) rollBack(t *rapid.T) step {
	uid := landfall.UID("")
	if rapid.Bool().Draw(t, "named") {
		uid = some(t, "release", h.want.releases)
	}
	return step{name: "roll back", do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error { return deploy.Rollback(ctx, tx, app, uid, h.by()) })
	}, next: func(s *state) landfall.Kind {
		to := uid
		if to == "" {
			if to = s.previous(); to == "" {
				return landfall.Conflict
			}
		}
		s.heldLive = true
		return s.moveLive(to, true)
	}}
}

// hold holds live, or lets go of it.
func (h *history) hold(t *rapid.T) step {
	held := rapid.Bool().Draw(t, "held")
	return step{name: "hold", do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error { return deploy.Hold(ctx, tx, app, held) })
	}, next: func(s *state) landfall.Kind {
		s.heldLive = held
		return fine
	}}
}

// tag tags a release.
func (h *history) tag(t *rapid.T) step {
	uid := some(t, "release", h.want.releases)
	if uid == "" {
		t.Skip("there is none")
	}
	name := rapid.SampledFrom([]string{"beta", "gold"}).Draw(t, "tag")
	return step{name: "tag", do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
			return deploy.SetTag(ctx, tx, landfall.Tag{App: app.ID, Name: name, Kind: landfall.HandTag, Release: uid}, h.by())
		})
	}, next: func(s *state) landfall.Kind {
		if !s.accessible(uid) {
			return landfall.Conflict
		}
		s.tags[name] = tag{uid, landfall.HandTag, h.clock.Now()}
		return fine
	}}
}

// untag removes a tag.
func (h *history) untag(t *rapid.T) step {
	name := some(t, "tag", h.want.tags)
	if name == "" {
		t.Skip("there is none")
	}
	return step{name: "untag", do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
			_, err := deploy.RemoveTag(ctx, tx, app.ID, name, h.by())
			return err
		})
	}, next: func(s *state) landfall.Kind {
		delete(s.tags, name)
		return fine
	}}
}

// expire lets go of a release.
func (h *history) expire(t *rapid.T) step {
	uid := some(t, "release", h.want.releases)
	if uid == "" {
		t.Skip("there is none")
	}
	return step{name: "expire", do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
			return deploy.Expire(ctx, tx, *app, uid, h.clock.Now())
		})
	}, next: func(s *state) landfall.Kind {
		if !s.accessible(uid) {
			return fine
		}
		if s.live == uid {
			return landfall.Conflict
		}
		for _, t := range s.tags {
			if t.release == uid {
				return landfall.Conflict
			}
		}
		s.expireAll(func(other landfall.UID, _ release) bool { return other == uid })
		return fine
	}}
}

// pass lets a branch's tag become old.
func (h *history) pass(*rapid.T) step {
	const long = 91 * 24 * time.Hour
	return step{name: "91 days pass", do: func(context.Context) error {
		h.clock.pass(long)
		return nil
	}, next: func(*state) landfall.Kind { return fine }}
}

// collect collects.
func (h *history) collect(*rapid.T) step {
	return step{name: "collect", do: func(ctx context.Context) error { return h.upkeep.Collect(ctx, h.app.ID) },
		next: func(s *state) landfall.Kind {
			s.collect(h.clock.Now())
			return fine
		}}
}

// aFunction draws a function that there is, with its numbers.
func (h *history) aFunction(t *rapid.T) (landfall.UnitID, []int64) {
	id := fn(rapid.SampledFrom([]string{"f", "f", "g"}).Draw(t, "function"))
	u := h.want.units[id]
	if u == nil || len(u.versions) == 0 {
		t.Skip("there is no such function")
	}
	return id, slices.Sorted(maps.Keys(u.versions))
}

// setAlias makes or moves an alias.
func (h *history) setAlias(t *rapid.T) step {
	id, numbers := h.aFunction(t)
	name := rapid.SampledFrom([]string{stable, stable, "next"}).Draw(t, "alias")
	p := versioning.NewAlias{Name: name, Create: rapid.Bool().Draw(t, "create"), Actor: actor}
	percents := rapid.SampledFrom([][]int{{100}, {100}, {70, 30}, {1, 99}, {70, 40}, {50}}).Draw(t, "percents")
	to := make([]int64, len(percents))
	sum := 0
	for i, percent := range percents {
		to[i] = rapid.SampledFrom(numbers).Draw(t, "number")
		p.To = append(p.To, versioning.Weight{Selector: strconv.FormatInt(to[i], 10), Percent: percent})
		sum += percent
	}
	return step{name: "set an alias", do: func(ctx context.Context) error {
		p.At = h.clock.Now()
		return h.moveAlias(ctx, id, func(tx *store.Tx, row store.Unit) error {
			_, err := versioning.SetAlias(ctx, tx, row, p)
			return err
		})
	}, next: func(s *state) landfall.Kind {
		u := s.units[id]
		_, there := u.aliases[name]
		switch {
		case there && p.Create:
			return landfall.Conflict
		case !there && !p.Create:
			return landfall.NotFound
		}
		for _, v := range u.versions {
			if p.Create && v.label == name {
				return landfall.Invalid
			}
		}
		for _, number := range to {
			if _, ok := u.versions[number]; !ok {
				return landfall.NotFound
			}
		}
		if sum != 100 || len(to) > 1 && to[0] == to[1] { // V5: weights sum to 100
			return landfall.Invalid
		}
		a := alias{first: to[0], percent: percents[0]}
		if len(to) > 1 {
			a.other = to[1]
		}
		u.aliases[name] = a
		return fine
	}}
}

// dropAlias removes an alias.
func (h *history) dropAlias(t *rapid.T) step {
	id, _ := h.aFunction(t)
	name := some(t, "alias", h.want.units[id].aliases)
	if name == "" {
		t.Skip("there is none")
	}
	return step{name: "delete an alias", do: func(ctx context.Context) error {
		return h.moveAlias(ctx, id, func(tx *store.Tx, row store.Unit) error {
			return versioning.RemoveAlias(ctx, tx, row, name, actor, h.clock.Now())
		})
	}, next: func(s *state) landfall.Kind {
		if _, ok := s.units[id].aliases[name]; !ok {
			return landfall.NotFound
		}
		delete(s.units[id].aliases, name)
		return fine
	}}
}

func (h *history) moveAlias(ctx context.Context, id landfall.UnitID, f func(tx *store.Tx, row store.Unit) error) error {
	return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
		row, err := tx.UnitInNamespace(ctx, app.Namespace, id)
		if err != nil {
			return err
		}
		return f(tx, row)
	})
}

// deleteVersions deletes a version by hand, or all.
func (h *history) deleteVersions(t *rapid.T) step {
	id := rapid.SampledFrom([]landfall.UnitID{fn("f"), fn("f"), fn("g"), pkg()}).Draw(t, "unit")
	u := h.want.units[id]
	if u == nil || u.last == 0 {
		t.Skip("there is no such unit")
	}
	selector := deploy.AllVersions
	number := rapid.Int64Range(0, u.last).Draw(t, "number")
	if number > 0 {
		selector = strconv.FormatInt(number, 10)
	}
	return step{name: "delete a version", do: func(ctx context.Context) error {
		row, err := h.db.UnitInNamespace(ctx, h.app.Namespace, id)
		if err != nil {
			return err
		}
		_, err = h.editor.DeleteVersions(ctx, row, selector, false)
		return err
	}, next: func(s *state) landfall.Kind {
		numbers := slices.Collect(maps.Keys(s.units[id].versions))
		if number > 0 {
			numbers = []int64{number}
			if _, ok := s.units[id].versions[number]; !ok {
				return landfall.NotFound
			}
		}
		if len(numbers) == 0 {
			return landfall.NotFound
		}
		type one struct {
			id     landfall.UnitID
			number int64
		}
		var gone []one
		for _, n := range numbers {
			gone = append(gone, one{id, n})
			if id.Kind != landfall.PackageUnit {
				continue
			}
			for _, user := range []landfall.UnitID{fn("f"), fn("g")} {
				if s.units[user] == nil || s.units[user].retired {
					continue
				}
				for m, v := range s.units[user].versions {
					if v.pkg == n {
						gone = append(gone, one{user, m})
					}
				}
			}
		}
		for _, v := range gone {
			releases, aliases, others := s.holders(v.id, v.number)
			if len(releases)+aliases+others > 0 || v.id == fn("f") && s.leads(v.number, false, h.words, nil) {
				return landfall.Conflict
			}
		}
		for _, v := range gone {
			delete(s.units[v.id].versions, v.number)
		}
		return fine
	}}
}

// deleteFunction deletes a function with its aliases.
func (h *history) deleteFunction(t *rapid.T) step {
	id, _ := h.aFunction(t)
	force := rapid.Bool().Draw(t, "force")
	return step{name: "delete a function", do: func(ctx context.Context) error {
		row, err := h.db.UnitInNamespace(ctx, h.app.Namespace, id)
		if err != nil {
			return err
		}
		_, err = h.editor.DeleteFunction(ctx, row, actor, force, false)
		return err
	}, next: func(s *state) landfall.Kind {
		u := s.units[id]
		if len(u.versions) == 0 {
			return landfall.NotFound
		}
		expired := map[landfall.UID]bool{}
		for number := range u.versions {
			releases, _, others := s.holders(id, number)
			if others > 0 || len(releases) > 0 && !force || slices.Contains(releases, s.live) {
				return landfall.Conflict
			}
			for _, uid := range releases {
				expired[uid] = true
			}
		}
		for _, t := range s.tags {
			if expired[t.release] {
				return landfall.Conflict
			}
		}
		s.expireAll(func(uid landfall.UID, _ release) bool { return expired[uid] })
		clear(u.aliases)
		clear(u.versions)
		return fine
	}}
}

// setSecret gives the secret a value.
func (h *history) setSecret(t *rapid.T) step {
	value := rapid.SampledFrom([]string{"first-value", "second-value"}).Draw(t, "value")
	noRelease := rapid.Bool().Draw(t, "no release")
	var set deploy.SetSecretResult
	return step{name: "set the secret", do: func(ctx context.Context) (err error) {
		set, err = h.editor.SetSecret(ctx, h.app, deploy.NewSecret{Name: key().Name, Value: secret.Text(value),
			NoRelease: noRelease, Actor: actor})
		return err
	}, next: func(s *state) landfall.Kind {
		u := s.units[key()]
		if u == nil {
			u = &unitState{versions: map[int64]version{}, aliases: map[string]alias{}}
			s.units[key()] = u
		}
		newest := int64(0)
		for number := range u.versions {
			newest = max(newest, number)
		}
		if newest == 0 || s.revoked[newest] || h.words[digestOf{key(), u.versions[newest].of}] != value {
			u.last++
			u.retired = false
			if set.Version.Number == u.last {
				h.learn(key(), value, set.Version.Digest)
			}
			u.versions[u.last] = version{uid: set.Version.UID, of: h.digest[madeOf{key(), value}], production: true}
		}
		if noRelease || len(s.applied) == 0 || s.groups[s.applied[len(s.applied)-1]].units[key()] == 0 {
			return fine
		}
		return h.edited(s, maps.Clone(s.groups[s.applied[len(s.applied)-1]].units), set.Release, false, true)
	}}
}

// edited is what the model says of a change by hand, after its unit was put.
func (h *history) edited(s *state, units map[landfall.UnitID]int64, uid landfall.UID, again, released bool) landfall.Kind {
	base := s.groups[s.applied[len(s.applied)-1]]
	if units[key()] > 0 {
		if units[key()] = s.newestSecret(); units[key()] == 0 {
			return landfall.Conflict
		}
	}
	if !again && h.sameDigests(base.units, units) {
		return fine
	}
	g := group{commit: base.commit, units: units}
	if uid != "" {
		g.same = h.group(uid)
	}
	if released && !s.whole(g) {
		return landfall.Conflict
	}
	s.groups[uid] = g
	now := h.clock.Now()
	if refused := s.point(uid, h.branchOf(uid), true, released, "", now); refused != fine {
		return refused
	}
	s.settle(units, true, now)
	return fine
}

// sameDigests reports whether two sets of units are the same app.
func (h *history) sameDigests(a, b map[landfall.UnitID]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for id, number := range a {
		other, ok := b[id]
		if !ok || number != other && h.word(id, number) != h.word(id, other) {
			return false
		}
	}
	return true
}

func (s *state) digestOf(id landfall.UnitID, number int64) landfall.Digest {
	return s.units[id].versions[number].of
}

// revoke takes a value of the secret away.
func (h *history) revoke(t *rapid.T) step {
	u := h.want.units[key()]
	if u == nil || len(u.versions) == 0 {
		t.Skip("there is no secret")
	}
	number := rapid.SampledFrom(slices.Sorted(maps.Keys(u.versions))).Draw(t, "number")
	return step{name: "revoke a secret", do: func(ctx context.Context) error {
		_, err := h.editor.RevokeSecret(ctx, h.app, key().Name, fmt.Sprint(number), actor)
		return err
	}, next: func(s *state) landfall.Kind {
		switch _, there := s.units[key()].versions[number]; {
		case !there:
			return landfall.NotFound
		case s.revoked[number]:
			return fine
		case s.groups[s.live].units[key()] == number:
			return landfall.Conflict
		}
		s.revoked[number] = true
		return fine
	}}
}

// dropSecret deletes the secret.
func (h *history) dropSecret(t *rapid.T) step {
	if h.want.units[key()] == nil {
		t.Skip("there is no secret")
	}
	return step{name: "delete the secret", do: func(ctx context.Context) error {
		return h.editor.DeleteSecret(ctx, h.app, key().Name)
	}, next: func(s *state) landfall.Kind {
		if len(s.units[key()].versions) == 0 {
			return landfall.NotFound
		}
		for uid := range s.releases {
			if s.accessible(uid) && s.groups[uid].units[key()] > 0 {
				return landfall.Conflict
			}
		}
		clear(s.units[key()].versions)
		clear(s.revoked)
		return fine
	}}
}

// configure sets the configuration by hand.
func (h *history) configure(t *rapid.T) step {
	word := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "config")
	var made deploy.EditResult
	return step{name: "set the configuration", do: func(ctx context.Context) (err error) {
		made, err = h.editor.PutConfig(ctx, h.app, fmt.Appendf(nil, `{"colour":%q}`, word), "", actor)
		return err
	}, next: func(s *state) landfall.Kind {
		if len(s.applied) == 0 {
			return landfall.Conflict
		}
		units := maps.Clone(s.groups[s.applied[len(s.applied)-1]].units)
		if made.Release != "" {
			h.learnOf(made.Release, config(), word)
		}
		digest := h.digest[madeOf{config(), word}]
		if h.word(config(), units[config()]) != word {
			units[config()] = s.put(config(), digest, made.Release, true, false, units)
		}
		return h.edited(s, units, made.Release, false, true)
	}}
}

// word is what a version is made of, also one that is gone.
func (h *history) word(id landfall.UnitID, number int64) string {
	return h.words[digestOf{id, h.seen[fmt.Sprintf("%s no. %d", id, number)].Digest}]
}

// learnOf notes the digest of a unit of a group version that was made.
func (h *history) learnOf(uid landfall.UID, id landfall.UnitID, word string) {
	units, err := h.db.GroupUnits(h.ctx, h.app.ID, uid)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, u := range units {
		if u.Unit == id {
			h.learn(id, word, u.Digest)
		}
	}
}

// version makes a version by hand of what is there.
func (h *history) version(t *rapid.T) step {
	id := rapid.SampledFrom([]landfall.UnitID{fn("f"), fn("g"), pkg()}).Draw(t, "unit")
	label := rapid.SampledFrom([]string{"", "v1", "v2", "next"}).Draw(t, "label")
	released := rapid.Bool().Draw(t, "released")
	var made landfall.Version
	return step{name: "make a version", do: func(ctx context.Context) (err error) {
		made, err = h.editor.MakeVersion(ctx, h.app, deploy.HandVersion{Unreleased: !released,
			NewVersion: landfall.NewVersion{Unit: id, Label: label}}, actor)
		return err
	}, next: func(s *state) landfall.Kind {
		if len(s.applied) == 0 {
			return landfall.Conflict
		}
		units := maps.Clone(s.groups[s.applied[len(s.applied)-1]].units)
		latest, there := s.unitVersion(id, units[id])
		if !there {
			return landfall.NotFound
		}
		if id.Kind == landfall.FunctionUnit {
			if _, ok := s.unitVersion(pkg(), latest.pkg); !ok {
				return landfall.NotFound
			}
		}
		if label != "" {
			for _, v := range s.units[id].versions {
				if v.label == label {
					return landfall.Conflict
				}
			}
			if _, ok := s.units[id].aliases[label]; ok {
				return landfall.Conflict
			}
		}
		number := s.put(id, latest.of, made.UID, true, true, map[landfall.UnitID]int64{pkg(): latest.pkg})
		v := s.units[id].versions[number]
		v.label = label
		s.units[id].versions[number], units[id] = v, number
		return h.edited(s, units, made.UID, true, released)
	}}
}

func (s *state) unitVersion(id landfall.UnitID, number int64) (version, bool) {
	if s.units[id] == nil {
		return version{}, false
	}
	v, ok := s.units[id].versions[number]
	return v, ok
}

// execute begins an execution of a version.
func (h *history) execute(t *rapid.T) step {
	id, numbers := h.aFunction(t)
	number := rapid.SampledFrom(numbers).Draw(t, "number")
	x := landfall.Execution{ID: uuid.NewString(), AppID: h.app.ID, Namespace: h.app.Namespace, Function: id.Name,
		Number: number, State: landfall.ExecutionRunning, Attempt: 1}
	v := h.want.units[id].versions[number]
	x.Version, x.Group = v.uid, v.uid
	return step{name: "begin an execution", do: func(ctx context.Context) error {
		x.Created, x.Started = h.clock.Now(), h.clock.Now()
		return h.record(ctx, x)
	}, next: func(s *state) landfall.Kind {
		s.executions[x.ID] = execution{id, number, x.Group}
		return fine
	}}
}

// finish ends an execution.
func (h *history) finish(t *rapid.T) step {
	id := some(t, "execution", h.want.executions)
	if id == "" {
		t.Skip("there is none")
	}
	return step{name: "end an execution", do: func(ctx context.Context) error {
		x, err := h.db.Execution(ctx, id)
		if err != nil {
			return err
		}
		x.State, x.Finished = landfall.ExecutionSucceeded, h.clock.Now()
		return h.record(ctx, x)
	}, next: func(s *state) landfall.Kind {
		delete(s.executions, id)
		return fine
	}}
}

func (h *history) record(ctx context.Context, x landfall.Execution) error {
	return h.db.Update(ctx, func(tx *store.Tx) error {
		return tx.RecordExecutions(ctx, h.clock.Now(), []store.ExecutionRecord{{Execution: x, Process: "history",
			Until: h.clock.Now().Add(time.Hour)}})
	})
}
