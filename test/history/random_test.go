package history_test

import (
	"flag"
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"landfall.dev/landfall/store/storetest"
)

// The histories that a test makes unless -rapid.checks says how many.
const (
	histories         = 300
	postgresHistories = 20
)

// Whatever people, pushes, time and collections do to an app, in whatever order and at the same time, it is what the
// model says, and the invariants of versioning hold after each step.
func TestHistoriesOnSQLite(t *testing.T) { //nolint:paralleltest // it sets how many histories there are
	tell(t, newInstallation(t, storetest.SQLite(t)), histories)
}

// The same on PostgreSQL.
func TestHistoriesOnPostgres(t *testing.T) { //nolint:paralleltest // it sets how many histories there are
	tell(t, newInstallation(t, storetest.Postgres(t)), postgresHistories)
}

// tell makes random histories.
func tell(t *testing.T, i *installation, n int) {
	t.Helper()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "rapid.checks" })
	if !said {
		if err := flag.Lookup("rapid.checks").Value.Set(strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
	}
	count := newFigures()
	t.Cleanup(func() { t.Log(count) })
	rapid.Check(t, func(t *rapid.T) {
		count.histories.Add(1)
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
		"within": func(t *rapid.T) {
			h.t = t
			outer := rapid.SampledFrom([]string{"work", "collect"}).Draw(t, "outer")
			inner := rapid.SampledFrom(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				return name == outer
			})).Draw(t, "inner")
			h.within(draw[outer](t), draw[inner](t))
		},
	}
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

// end lets go of the app.
func (h *history) end() {
	h.objects.forget(h.app.Objects)
}
