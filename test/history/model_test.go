package history_test

import (
	"maps"
	"slices"
	"time"

	"landfall.dev/landfall"
)

// The rules of versioning, written down once more, and as plainly as possible: no database, no sharing, no indexes. What
// they say is compared with what the store has.

const branch = "main" // of production

// previous is the release to which a rollback goes; empty: none.
func (s *state) previous() landfall.UID {
	var was []landfall.UID
	for _, m := range s.moves {
		if m.back {
			if at := lastIndex(was, m.to); at >= 0 {
				was = was[:at]
			}
		}
		was = append(was, m.to)
	}
	for _, uid := range slices.Backward(was) {
		if uid != s.live && s.accessible(uid) {
			return uid
		}
	}
	return ""
}

func lastIndex(all []landfall.UID, uid landfall.UID) int {
	for i, other := range slices.Backward(all) {
		if other == uid {
			return i
		}
	}
	return -1
}

func (s *state) accessible(uid landfall.UID) bool {
	r, ok := s.releases[uid]
	return ok && !r.expired
}

// holders are what a person is told who deletes a version: the names are aliases and function tags.
func (s *state) holders(id landfall.UnitID, number int64) (releases []landfall.UID, names, others int) {
	for uid := range s.releases {
		if s.accessible(uid) && s.groups[uid].units[id] == number {
			releases = append(releases, uid)
		}
	}
	for _, a := range s.units[id].aliases {
		if a.first == number || a.other == number {
			names++
		}
	}
	for _, named := range s.marks {
		if named[id] == number {
			names++
		}
	}
	for _, u := range s.uses {
		if u.function == id && u.number == number {
			others++
		}
	}
	for _, x := range s.executions {
		if x.function == id && x.number == number || s.groups[x.group].units[id] == number {
			others++
		}
	}
	return releases, names, others
}

// held reports whether anything needs a version to be there: what a person is told, and what is run with it.
func (s *state) held(id landfall.UnitID, number int64) bool {
	releases, names, others := s.holders(id, number)
	if len(releases)+names+others > 0 || s.reserved[id] == number || id == fn("f") && s.leads(number) {
		return true
	}
	// A function runs the package's version with which it was made, and there may be another one with the same content.
	runs := func(g group) bool {
		of := g.units[id]
		return of > 0 && (of == number || id == pkg() && g.code == s.units[id].versions[number].of)
	}
	if id == pkg() {
		if f := s.units[fn("f")]; f != nil {
			for n, v := range f.versions {
				if v.pkg == number && s.leads(n) {
					return true
				}
			}
		}
		for uid := range s.releases {
			if s.accessible(uid) && runs(s.groups[uid]) {
				return true
			}
		}
		for _, x := range s.executions {
			if runs(s.groups[x.group]) {
				return true
			}
		}
	}
	if !slices.Contains([]landfall.UnitKind{landfall.PackageUnit, landfall.EnvironmentUnit, landfall.ConfigUnit,
		landfall.SecretUnit}, id.Kind) {
		return false
	}
	for _, to := range s.named() {
		if v, ok := s.units[to.function].versions[to.number]; ok && runs(s.groups[v.uid]) {
			return true
		}
	}
	return false
}

// named are the versions of functions that aliases, function tags, jobs and webhooks name.
func (s *state) named() []use {
	all := slices.Collect(maps.Values(s.uses))
	for id, u := range s.units {
		for _, a := range u.aliases {
			all = append(all, use{id, a.first}, use{id, a.other})
		}
	}
	for _, named := range s.marks {
		for id, number := range named {
			all = append(all, use{id, number})
		}
	}
	return slices.DeleteFunc(all, func(to use) bool { return to.number == 0 })
}

// whole reports whether all versions of a group version are there, with their static files.
func (s *state) whole(g group) bool {
	for id, number := range g.units {
		if v, ok := s.units[id].versions[number]; !ok || v.empty {
			return false
		}
	}
	return true
}

// secretsGood reports whether no secret of a group version was revoked or deleted.
func (s *state) secretsGood(g group) bool {
	number, ok := g.units[key()]
	if !ok {
		return true
	}
	_, there := s.units[key()].versions[number]
	return there && !s.revoked[number]
}

// newestSecret is the version of the secret that a new release gets; 0: none.
func (s *state) newestSecret() int64 {
	u := s.units[key()]
	if u == nil || len(u.versions) == 0 {
		return 0
	}
	newest := slices.Max(slices.Collect(maps.Keys(u.versions)))
	if s.revoked[newest] {
		return 0
	}
	return newest
}

// create makes a group version reachable.
func (s *state) create(uid landfall.UID, line landfall.Line, of string, now time.Time) landfall.Kind {
	r, there := s.releases[uid]
	switch {
	case !there:
		r = release{line: line, branch: of, created: now}
	case r.expired:
		r.expired, r.created = false, now
	case line == landfall.Preview || r.line == line:
		return fine
	}
	if !s.secretsGood(s.groups[uid]) {
		return landfall.Conflict
	}
	if line == landfall.Production {
		r.line = line
	}
	s.releases[uid] = r
	return fine
}

// moveLive moves live to a release, which ends a canary.
func (s *state) moveLive(to landfall.UID, back bool) landfall.Kind {
	s.canary = canary{}
	r, there := s.releases[to]
	switch {
	case s.live == to:
		return fine
	case !there:
		return landfall.NotFound
	case r.expired, !s.secretsGood(s.groups[to]):
		return landfall.Conflict
	}
	s.moves = append(s.moves, move{s.live, to, back})
	s.live = to
	return fine
}

// heldReleases are those that do not expire by themselves.
func (s *state) heldReleases(now time.Time) map[landfall.UID]bool {
	const life = 90 * 24 * time.Hour
	held := map[landfall.UID]bool{s.live: true, s.previous(): true, s.canary.release: true}
	for name, t := range s.tags {
		if t.kind == landfall.BranchTag && (now.Sub(t.moved) > life || name == "branch-"+branch) {
			continue
		}
		held[t.release] = true
	}
	return held
}

// expireSurplus expires the oldest releases of each line that are more than are kept.
func (s *state) expireSurplus(now time.Time) {
	held := s.heldReleases(now)
	for _, line := range []landfall.Line{landfall.Production, landfall.Preview} {
		newest := map[string]time.Time{}
		mayNot := map[string]bool{}
		for uid, r := range s.releases {
			if r.expired || r.line != line {
				continue
			}
			same := s.groups[uid].same
			if r.created.After(newest[same]) {
				newest[same] = r.created
			}
			mayNot[same] = mayNot[same] || held[uid]
		}
		order := slices.SortedFunc(maps.Keys(newest), func(a, b string) int { return newest[a].Compare(newest[b]) })
		left := len(order)
		for i, same := range order {
			if left <= s.keep || mayNot[same] || i == len(order)-1 {
				continue
			}
			left--
			s.expireAll(func(uid landfall.UID, r release) bool { return r.line == line && s.groups[uid].same == same })
		}
	}
}

func (s *state) expireAll(which func(landfall.UID, release) bool) {
	for uid, r := range s.releases {
		if !r.expired && which(uid, r) {
			r.expired = true
			s.releases[uid] = r
		}
	}
}

// point points production, or another branch, at a group version, and settles what follows. A tag is empty unless a
// branch's tag moves.
func (s *state) point(uid landfall.UID, of string, production, released bool, tagged string,
	now time.Time) landfall.Kind {
	g := s.groups[uid]
	line := landfall.Preview
	if production {
		line = landfall.Production
		s.applied = append(s.applied, uid)
	}
	if released {
		if refused := s.create(uid, line, of, now); refused != fine {
			return refused
		}
	}
	if production {
		for id, number := range g.units {
			u := s.units[id]
			u.retired = false
			if v, ok := u.versions[number]; ok {
				v.production, v.retired = true, false
				u.versions[number] = v
			}
		}
		s.keep = keep
		if released {
			s.canary = canary{}
		}
		if released && !s.heldLive {
			if refused := s.moveLive(uid, false); refused != fine {
				return refused
			}
		}
	}
	if released && tagged != "" {
		s.tags[tagged] = tag{uid, landfall.BranchTag, now}
	}
	return fine
}

// settle expires and retires what an apply left over.
func (s *state) settle(inForce map[landfall.UnitID]int64, production bool, now time.Time) {
	s.expireSurplus(now)
	if !production {
		return
	}
	for id, u := range s.units {
		inProduction := false
		for _, v := range u.versions {
			inProduction = inProduction || v.production && !v.retired
		}
		if inForce[id] > 0 || u.retired || id.Kind == landfall.SecretUnit || !inProduction {
			continue
		}
		for number, v := range u.versions {
			if !s.held(id, number) {
				delete(u.versions, number)
				continue
			}
			v.retired = true
			u.versions[number] = v
		}
		u.retired = true
	}
}

// collect takes away what nothing holds.
func (s *state) collect(now time.Time) {
	s.expireSurplus(now)
	type one struct {
		id     landfall.UnitID
		number int64
	}
	var gone []one
	for id, u := range s.units {
		for number, v := range u.versions {
			if (v.retired || !v.production) && !s.held(id, number) {
				gone = append(gone, one{id, number})
			}
		}
	}
	for _, v := range gone {
		delete(s.units[v.id].versions, v.number)
	}
	u := s.units[site()]
	if u == nil {
		return
	}
	for number, v := range u.versions {
		if releases, _, _ := s.holders(site(), number); len(releases) == 0 && s.reserved[site()] != number {
			v.empty = true
			u.versions[number] = v
		}
	}
}

// newest is the number of the newest version with a digest; 0: none.
func (u *unitState) newest(of landfall.Digest) (newest int64) {
	for number, v := range u.versions {
		if v.of == of {
			newest = max(newest, number)
		}
	}
	return newest
}

// put is the version of a unit with a digest, in an apply that shares a uid: the newest that there is, or a new one.
func (s *state) put(id landfall.UnitID, of landfall.Digest, uid landfall.UID, production, again bool, inForce map[landfall.UnitID]int64) int64 {
	u := s.units[id]
	if u == nil {
		u = &unitState{versions: map[int64]version{}, aliases: map[string]alias{}}
		s.units[id] = u
	}
	newest := u.newest(of)
	if newest > 0 && !again {
		v := u.versions[newest]
		u.retired = u.retired && !production
		v.production, v.retired, v.empty = v.production || production, v.retired && !production, false
		u.versions[newest] = v
		return newest
	}
	u.last++
	u.retired = false
	v := version{uid: uid, of: of, production: production}
	if id.Kind == landfall.FunctionUnit {
		v.pkg = inForce[pkg()]
	}
	if newest > 0 {
		v.empty = u.versions[newest].empty
	}
	u.versions[u.last] = v
	return u.last
}
