package history_test

import (
	"flag"
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// histories is how many a test makes unless -rapid.checks says how many; on PostgreSQL it is one of so many of them.
const (
	histories       = 300
	onPostgresOneOf = 15
)

// Whatever people, pushes, time and collections do to an app, in whatever order and at the same time, it is what the
// model says, and the invariants of versioning hold after each step.
func TestHistoriesOnSQLite(t *testing.T) { //nolint:paralleltest // it sets how many histories there are
	tell(t, storetest.SQLite, 1)
}

// The same on PostgreSQL.
func TestHistoriesOnPostgres(t *testing.T) { //nolint:paralleltest // it sets how many histories there are
	tell(t, storetest.Postgres, onPostgresOneOf)
}

// tell makes one of so many random histories in databases that open makes.
func tell(t *testing.T, open func(testing.TB) string, oneOf int) {
	t.Helper()
	i, one := newInstallation(t, open(t)), t
	checks := flag.Lookup("rapid.checks")
	said, n := checks.Value.String(), histories
	flag.Visit(func(f *flag.Flag) {
		if f.Name == checks.Name {
			n = testkit.Must(strconv.Atoi(said))(t)
		}
	})
	// The histories of a usual test run are the same in each; make test/model has others.
	if seed := flag.Lookup("rapid.seed"); n == histories && seed.Value.String() == "0" {
		if err := seed.Value.Set("1"); err != nil {
			t.Error(err)
		}
	}
	set := func(to string) {
		if err := checks.Value.Set(to); err != nil {
			t.Error(err)
		}
	}
	set(strconv.Itoa(max(n/oneOf, 1)))
	t.Cleanup(func() { set(said) })
	count := newFigures()
	t.Cleanup(func() { t.Log(count) })
	rapid.Check(t, func(t *rapid.T) {
		const most = 1000 // each lets months pass: one for all of them would be older than a time.Duration can be
		if n := count.histories.Add(1); n%most == 0 {
			i = newInstallation(one, open(one))
		}
		h := i.begin(t, count)
		defer h.end()
		for range rapid.IntRange(0, 2).Draw(t, "releases at first") {
			h.release(t)
		}
		t.Repeat(h.steps())
	})
}

// steps are all that may happen.
func (h *history) steps() map[string]func(*rapid.T) {
	draw := map[string]func(*rapid.T) step{
		"push": h.push, "work": h.work, "drop": h.drop, "cancel": h.cancel, "retry": h.retry, "reach": h.reach,
		"promote": h.promote, "roll back": h.rollBack, "hold": h.hold, "tag": h.tag, "untag": h.untag, "expire": h.expire,
		"pass": h.pass, "collect": h.collect, "alias": h.setAlias, "drop alias": h.dropAlias, "delete": h.deleteVersions,
		"delete function": h.deleteFunction, "secret": h.setSecret, "revoke": h.revoke, "drop secret": h.dropSecret,
		"config": h.configure, "version": h.version, "execute": h.execute, "finish": h.finish,
		"mark": h.mark, "unmark": h.unmark, "use": h.use, "unuse": h.unuse, "canary": h.startCanary, "stop": h.stopCanary, "drive": h.driveCanary,
	}
	names := slices.Sorted(maps.Keys(draw))
	single := func(name string) bool { return name != "work" && name != "collect" && name != "pass" }
	steps := map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			h.t = t
			h.check()
		},
		// what comes most often
		"release": h.release, "release another": h.release,
		"together": func(t *rapid.T) {
			h.t = t
			first := rapid.SampledFrom(names).Draw(t, "first")
			second := rapid.SampledFrom(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				return !single(name)
			})).Draw(t, "second")
			h.together(draw[first](t), draw[second](t))
		},
		"within a run": func(t *rapid.T) {
			h.t = t
			at := rapid.SampledFrom([]landfall.Step{landfall.StepFetch, landfall.StepPlan, landfall.StepUpload}).Draw(t, "at")
			inner := rapid.SampledFrom(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				return name == "work"
			})).Draw(t, "inner")
			h.within(h.work(t), at, draw[inner](t))
		},
		"within a collection": func(t *rapid.T) {
			h.t = t
			inner := rapid.SampledFrom(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				return name == "collect" || name == "pass" // what a collection lets expire, it does before it deletes
			})).Draw(t, "inner")
			h.within(h.collect(t), "", draw[inner](t))
		},
	}
	steps["contest"], steps["contest again"], steps["plot"] = h.contest, h.contest, h.plot
	for name, of := range draw {
		steps[name] = func(t *rapid.T) {
			h.t = t
			h.take(of(t))
		}
	}
	return steps
}

// release pushes, and works the run.
func (h *history) release(t *rapid.T) {
	h.t = t
	h.take(h.push(t))
	h.take(h.work(t))
}

// contest takes two steps at the same time of which one does away with what the other one needs.
func (h *history) contest(t *rapid.T) {
	h.t = t
	uid := some(h, "release", h.want.releases)
	switch rapid.SampledFrom([]string{"alias", "version", "release", "run"}).Draw(t, "about") {
	case "alias":
		id, numbers := h.aFunction(t)
		unheld := slices.DeleteFunc(slices.Clone(numbers), func(n int64) bool { return h.want.held(id, n) })
		if len(unheld) == 0 {
			unheld = numbers
		}
		number := rapid.SampledFrom(unheld).Draw(t, "number")
		name := rapid.SampledFrom([]string{stable, "next", "last"}).Draw(t, "alias")
		_, there := h.want.units[id].aliases[name]
		h.together(h.deleting(id, number), h.aliasing(id, versioning.NewAlias{Name: name, Create: !there},
			[]int64{number}, []int{100}))
	case "version":
		h.together(h.version(t), h.version(t))
	case "release":
		if uid == "" {
			t.Skip("there is none")
		}
		needs := h.promoting(uid)
		if rapid.Bool().Draw(t, "tagged") {
			needs = h.tagging("beta", uid)
		}
		h.together(h.expiring(uid), needs)
	case "run":
		h.together(h.work(t), h.push(t))
	}
}

// end lets go of the app.
func (h *history) end() {
	h.objects.forget(h.app.Objects)
}
