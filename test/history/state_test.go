package history_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// state is all of an app that the model speaks of: as the model expects it, or as the store has it.
type state struct {
	live     landfall.UID
	heldLive bool
	keep     int
	canary   canary
	units    map[landfall.UnitID]*unitState
	groups   map[landfall.UID]group // those that were made since the history began

	releases   map[landfall.UID]release
	tags       map[string]tag
	moves      []move // of live, oldest first
	executions map[string]execution
	uses       map[string]use                       // jobs that are not over, and webhooks
	marks      map[string]map[landfall.UnitID]int64 // function tags, and what they name
	applied    []landfall.UID                       // what production applied, oldest first
	revoked    map[int64]bool                       // versions of the secret
	heads      map[landfall.RefName]landfall.CommitSHA
	runs       map[string]run
	words      map[digestOf]string       // what digests are made of, as the history has learned
	reserved   map[landfall.UnitID]int64 // what a run is about to share
}

// unitState is a unit with what exists of it.
type unitState struct {
	last     int64 // number; none above it was ever given
	retired  bool
	versions map[int64]version
	aliases  map[string]alias
}

type version struct {
	uid                 landfall.UID
	of                  landfall.Digest
	label               string
	pkg                 int64 // of a function: the number of its package's version
	production, retired bool
	empty               bool // of static files: what is stored of them was collected
}

type group struct {
	commit landfall.CommitSHA
	units  map[landfall.UnitID]int64
	code   landfall.Digest // of its package
	same   string          // groups with the same digests have the same
}

type release struct {
	line    landfall.Line
	branch  string
	created time.Time
	expired bool
}

type tag struct {
	release landfall.UID
	kind    landfall.TagKind
	moved   time.Time
}

type move struct {
	from, to landfall.UID
	back     bool
}

// run is the passage of a commit, and the references that want it.
type run struct {
	commit landfall.CommitSHA
	state  landfall.RunState
	group  landfall.UID // that it made
	expect landfall.UID // the group version that it must make again
	wants  string       // references, each with a space behind it
}

// alias is the numbers of one or two versions, with the percent of the first.
type alias struct {
	first, other int64
	percent      int
}

// canary is the release that a share of the visitors gets; zero while none runs.
type canary struct {
	release landfall.UID
	weight  int
}

type execution struct {
	function landfall.UnitID
	number   int64
	group    landfall.UID
	late     bool // it was found before its version was deleted, and recorded after that
}

// use is a job or a webhook, with the version that it names; 0: the latest.
type use struct {
	function landfall.UnitID
	number   int64
}

func newState() *state {
	return &state{keep: (landfall.ReleasePolicy{}).KeepOrDefault(), units: map[landfall.UnitID]*unitState{},
		groups: map[landfall.UID]group{}, releases: map[landfall.UID]release{}, tags: map[string]tag{},
		uses: map[string]use{}, marks: map[string]map[landfall.UnitID]int64{},
		executions: map[string]execution{}, revoked: map[int64]bool{},
		heads: map[landfall.RefName]landfall.CommitSHA{}, runs: map[string]run{}}
}

// clone returns a state that can be changed without changing this one.
func (s *state) clone() *state {
	c := *s
	c.units = make(map[landfall.UnitID]*unitState, len(s.units))
	for id, u := range s.units {
		own := *u
		own.versions, own.aliases = maps.Clone(u.versions), maps.Clone(u.aliases)
		c.units[id] = &own
	}
	c.groups = make(map[landfall.UID]group, len(s.groups))
	for uid, g := range s.groups {
		g.units = maps.Clone(g.units)
		c.groups[uid] = g
	}
	c.releases, c.tags, c.executions = maps.Clone(s.releases), maps.Clone(s.tags), maps.Clone(s.executions)
	c.uses, c.marks = maps.Clone(s.uses), make(map[string]map[landfall.UnitID]int64, len(s.marks))
	for name, named := range s.marks {
		c.marks[name] = maps.Clone(named)
	}
	c.heads, c.runs = maps.Clone(s.heads), maps.Clone(s.runs)
	c.revoked, c.moves, c.applied = maps.Clone(s.revoked), slices.Clone(s.moves), slices.Clone(s.applied)
	return &c
}

// String shows the state in lines that can be compared.
func (s *state) String() string {
	lines := []string{fmt.Sprintf("live %s held %t keep %d canary %+v", s.live, s.heldLive, s.keep, s.canary)}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for id, u := range s.units {
		add("%s last %d retired %t", id, u.last, u.retired)
		for number, v := range u.versions {
			add("%s no. %d: %+v", id, number, v)
		}
		for name, a := range u.aliases {
			add("%s alias %s: %+v", id, name, a)
		}
	}
	for uid, g := range s.groups {
		units := make([]string, 0, len(g.units))
		for id, number := range g.units {
			units = append(units, fmt.Sprintf("%s:%d", id, number))
		}
		slices.Sort(units)
		add("group %s: %s", uid, strings.Join(units, ", "))
	}
	for uid, r := range s.releases {
		add("release %s: %s of %s expired %t", uid, r.line, r.branch, r.expired)
	}
	for name, t := range s.tags {
		add("tag %s: %s %s", name, t.release, t.kind)
	}
	for i, m := range s.moves {
		add("move %3d: %+v", i, m)
	}
	for id, x := range s.executions {
		add("execution %s: %s no. %d in %s", id, x.function, x.number, x.group)
	}
	for id, u := range s.uses {
		add("use %s: %s no. %d", id, u.function, u.number)
	}
	for name, named := range s.marks {
		add("function tag %s: %v", name, named)
	}
	for number := range s.revoked {
		add("revoked %d", number)
	}
	for ref, commit := range s.heads {
		add("head %s: %s", ref, commit)
	}
	for id, r := range s.runs {
		add("run %s: %+v", id, r)
	}
	sort.Strings(lines[1:])
	return strings.Join(lines, "\n")
}

// difference shows the lines that only one of two states has.
func difference(got, want *state) string {
	one, other := strings.Split(got.String(), "\n"), strings.Split(want.String(), "\n")
	var lines []string
	for _, line := range one {
		if !slices.Contains(other, line) {
			lines = append(lines, "  got  "+line)
		}
	}
	for _, line := range other {
		if !slices.Contains(one, line) {
			lines = append(lines, "  want "+line)
		}
	}
	return strings.Join(lines, "\n")
}

// reader reads a state from the store, in one transaction's view of it.
type reader struct {
	h  *history
	at *store.Snapshot
	s  *state
}

// read returns the state that the store has.
func (h *history) read(ctx context.Context) (*state, error) {
	s := newState()
	s.words = h.words
	err := h.db.Snapshot(ctx, func(at *store.Snapshot) error {
		r := reader{h, at, s}
		app, err := at.App(ctx, h.app.ID)
		if err != nil {
			return err
		}
		s.live, s.heldLive, s.keep = app.Live, app.Held, app.Policy.KeepOrDefault()
		rows, err := at.UnitsOf(ctx, app.ID)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if s.units[row.Unit], err = r.unit(ctx, row); err != nil {
				return err
			}
		}
		return r.pointers(ctx)
	})
	return s, err
}

func (r reader) unit(ctx context.Context, row store.Unit) (*unitState, error) {
	u := &unitState{last: row.LastNumber, retired: row.Retired, versions: map[int64]version{}, aliases: map[string]alias{}}
	versions, err := r.at.Versions(ctx, row.ID, true)
	if err != nil {
		return u, err
	}
	for _, v := range versions {
		r.h.remember(v)
		known := version{uid: v.UID, label: v.Label, of: v.Digest, production: v.Production, retired: v.Retired}
		switch row.Unit.Kind {
		case landfall.StaticUnit:
			known.empty = v.Content == nil
		case landfall.FunctionUnit:
			content, err := landfall.ReadContent[landfall.FunctionContent](v.Content)
			if err != nil {
				return u, err
			}
			_, _ = fmt.Sscan(content.Package.ResourceVersion, &known.pkg)
		case landfall.SecretUnit:
			content, err := secret.ReadContent(v.Content)
			if err != nil {
				return u, err
			}
			if !content.Revoked.IsZero() {
				r.s.revoked[v.Number] = true
			}
		case landfall.ConfigUnit, landfall.EnvironmentUnit, landfall.PackageUnit, landfall.HTTPTrigger, landfall.TimeTrigger,
			landfall.QueueTrigger, landfall.AliasUnit, landfall.FunctionTagUnit:
		}
		u.versions[v.Number] = known
	}
	aliases, err := r.at.Aliases(ctx, row.ID)
	for _, a := range aliases {
		shares := alias{first: a.Shares[0].Number, percent: a.Shares[0].Percent}
		if len(a.Shares) > 1 {
			shares.other = a.Shares[1].Number
		}
		u.aliases[a.Name] = shares
	}
	return u, err
}

// pointers reads what points to versions.
func (r reader) pointers(ctx context.Context) error {
	app := r.h.app.ID
	const many = 1000
	groups, err := r.at.Groups(ctx, app, time.Time{}, many)
	if err != nil {
		return err
	}
	for _, g := range groups {
		units, err := r.at.GroupUnits(ctx, app, g.UID)
		if err != nil {
			return err
		}
		known := group{commit: g.Commit, same: string(g.Digest), units: map[landfall.UnitID]int64{}}
		for _, u := range units {
			known.units[u.Unit] = u.Number
			if u.Unit == pkg() {
				known.code = u.Digest
			}
		}
		r.s.groups[g.UID] = known
	}
	releases, err := r.at.Releases(ctx, app)
	if err != nil {
		return err
	}
	for _, of := range releases {
		r.s.releases[of.ID] = release{of.Line, of.Branch, of.Created, !of.Expired.IsZero()}
	}
	tags, err := r.at.Tags(ctx, app)
	if err != nil {
		return err
	}
	for _, t := range tags {
		r.s.tags[t.Name] = tag{t.Release, t.Kind, t.Moved}
	}
	moves, err := r.at.Moves(ctx, app, landfall.LivePointer, many)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(moves) {
		r.s.moves = append(r.s.moves, move{m.From, m.To, m.Back})
	}
	running, err := r.at.RunningReleaseCanary(ctx, app)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	r.s.canary = canary{running.Release, running.Weight}
	heads, err := r.at.Heads(ctx, app)
	if err != nil {
		return err
	}
	for _, head := range heads {
		if head.SHA != "" {
			r.s.heads[head.Ref] = head.SHA
		}
	}
	if err := r.runs(ctx); err != nil {
		return err
	}
	if err := r.names(ctx); err != nil {
		return err
	}
	return r.executions(ctx)
}

// names reads what names versions beside releases and aliases: function tags, jobs and webhooks.
func (r reader) names(ctx context.Context) error {
	const many = 1000
	names, err := r.at.FunctionTagNames(ctx, r.h.app.Namespace)
	if err != nil {
		return err
	}
	for _, name := range names {
		t, err := r.at.FunctionTag(ctx, r.h.app.Namespace, name)
		if err != nil {
			return err
		}
		r.s.marks[name] = map[landfall.UnitID]int64{}
		for _, f := range t.Functions {
			r.s.marks[name][fn(f.Name)] = f.Number
		}
	}
	jobs, err := r.at.Jobs(ctx, "", []string{r.h.app.ID}, landfall.FunctionUse{}, many)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if !j.State.Final() {
			r.s.uses[j.ID] = use{fn(j.Function), j.Number}
		}
	}
	hooks, err := r.at.FunctionHooks(ctx, "", []string{r.h.app.ID}, landfall.FunctionUse{}, many)
	for _, hook := range hooks {
		r.s.uses[hook.ID] = use{fn(hook.Function), hook.Number}
	}
	return err
}

func (r reader) runs(ctx context.Context) error {
	const many = 1000
	all, err := r.at.Runs(ctx, r.h.app.ID, landfall.Run{}, many)
	if err != nil {
		return err
	}
	for _, of := range all {
		known := run{commit: of.Commit, state: of.State, expect: of.Expect}
		if of.State == landfall.RunSucceeded {
			known.group = of.UID
		}
		refs, err := r.at.RunRefs(ctx, of.ID)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			if !ref.Withdrawn {
				known.wants += string(ref.Ref) + " "
			}
		}
		known.wants = sorted(known.wants)
		r.s.runs[of.ID] = known
	}
	return nil
}

// executions reads those that are not over.
func (r reader) executions(ctx context.Context) error {
	const many = 1000
	all, err := r.at.ExecutionsLike(ctx, landfall.Execution{AppID: r.h.app.ID}, landfall.Execution{}, many)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.Finished.IsZero() {
			r.s.executions[x.ID] = execution{function: fn(x.Function), number: x.Number, group: x.Group}
		}
	}
	return nil
}
