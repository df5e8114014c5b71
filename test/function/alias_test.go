package function_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// An alias names a version of a function: for people who call it, for routes, and for whoever moves it.
func TestAlias(t *testing.T) {
	t.Parallel()
	s := site.Numbered(t, 3)
	named := func() string { return s.Get(s.At("shop", "/api/named")).Body }
	aliases := func() string {
		var all []string
		for _, a := range site.List[client.Alias](s, "/functions/hello/aliases") {
			for _, share := range a.Shares {
				all = append(all, a.Name+"="+strconv.FormatInt(share.Number, 10))
			}
		}
		return strings.Join(all, " ")
	}
	s.Landfall("function", "alias", "create", "--name", "hello", "--alias", "qa", "--version", "2")
	s.Landfall("function", "alias", "create", "hello", "dev", "latest")
	//
	testkit.Equal(t, "aliases", aliases(), "latest=3 dev=3 prod=1 qa=2")
	for alias, want := range map[string]string{"prod": "1", "qa": "2", "dev": "3"} {
		testkit.Equal(t, "what hello:"+alias+" says",
			strings.TrimSpace(s.Landfall("function", "invoke", "hello:"+alias)), want)
	}
	testkit.Equal(t, "the route by alias", named(), "1")
	runs := len(site.List[client.Run](s, "/runs"))
	said := s.Landfall("fn", "alias", "update", "--name", "hello", "--alias", "prod", "--version", "3")
	testkit.Contains(t, site.Told{said}, "alias:", "prod")
	//
	testkit.Equal(t, "the route after the alias moved", named(), "3")
	testkit.Equal(t, "pushes that it took", len(site.List[client.Run](s, "/runs"))-runs, 0)
	//
	testkit.Equal(t, "aliases of one version", aliases(), "latest=3 dev=3 prod=3 qa=2")
	//
	testkit.Contains(t, site.Told{s.Landfall("function", "alias", "list", "--name", "hello")}, "ALIAS", "dev",
		"prod", "qa")
	history := s.Landfall("function", "alias", "history", "hello", "prod")
	testkit.Equal(t, "moves of the alias", len(strings.Split(strings.TrimSpace(history), "\n")), 3)
	testkit.Contains(t, site.Told{s.Landfall("function", "version", "list", "hello")}, "latest, live, dev, prod")

	s.Landfall("function", "alias", "delete", "--name", "hello", "--alias", "qa")
	//
	testkit.Equal(t, "what the version says whose alias is gone",
		strings.TrimSpace(s.Landfall("function", "invoke", "hello:2")), "2")
	//
	testkit.Equal(t, "aliases after one is gone", aliases(), "latest=3 dev=3 prod=3")
}

// What cannot be an alias is refused with what would be right, and nothing moves.
func TestAliasRefused(t *testing.T) {
	t.Parallel()
	s := site.Numbered(t, 2)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"create hello qa 7", 3, `has no version "7"; the newest is`},
		{"create hello prod 2", 4, "update moves it"},
		{"create hello latest 2", 2, `"latest" is reserved`},
		{"update hello latest 1", 2, `"latest" is reserved: it moves by itself`},
		{"create hello 12 2", 2, "number of a version"},
		{"create hello qa", 2, "--weights VERSION=PERCENT"},
		{"create hello qa --weights 1=50,2=40", 2, "2 versions with 90 percent"},
		{"update hello prod --weights 1=90", 2,
			"1 version with 90 percent; right are one or two versions with 100 percent in all"},
		{"create hello qa --weights 1=100,2=0", 2, "a weight is from 1 to 100"},
		{"create hello qa --weights 1=50,1=50", 2, "right would be VERSION=PERCENT"},
		{"create hello qa --weights 2=50,latest=50", 2, "are the same version"},
		{"create hello qa --weights 1", 2, "right would be VERSION=PERCENT"},
		{"create bye qa 1", 3, `there is no function bye`},
		{"update hello qa 1", 3, `there is no alias "qa" of function hello; there are: landfall function alias list hello`},
		{"delete hello qa", 3, `there is no alias "qa" of function hello`},
		{"delete hello prod", 4, "the http-trigger named of the live release"},
	} {
		out, code := s.Run(t.TempDir(), append([]string{"function", "alias"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("alias %s: exit code %d: %s, want %d: %s", c.args, code, out, c.code, c.says)
		}
	}
	r := s.Repository(s.App("late"))
	late := func(function, alias string) {
		r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", function+" hello.main")+
			"---\napiVersion: fission.io/v1\nkind: TimeTrigger\n"+
			"metadata: {name: late}\nspec: {functionref: {name: "+function+", alias: "+alias+"}, cron: '@daily'}\n",
			"specs/app.yaml", site.AppSpec("late"), "site/index.html", "page", function+"/hello.py",
			"def main():\n    return 'late'\n")
		s.Attempt(r, "late", "time-trigger late names "+function+":"+alias,
			"once a push made the function: landfall function alias create "+function+" "+alias+" VERSION")
	}
	late("morrow", "prod")
	all := site.List[client.Alias](s, "/functions/hello/aliases")
	// N-035: refused, and nothing was made
	if len(all) != 2 || all[0].Name != "latest" || all[1].Name != "prod" || all[1].Shares[0].Number != 1 {
		t.Errorf("the aliases are %+v, want latest and prod", all)
	}
}

// V5: the calls of an alias with two versions go to each as its weight says.
func TestAliasWeights(t *testing.T) {
	t.Parallel()
	s := site.Numbered(t, 2)
	s.Landfall("function", "alias", "update", "hello", "prod", "--weights", "1=75,2=25")
	const calls = 400
	got := map[string]int{}
	for range calls {
		got[s.Get(s.At("shop", "/api/named")).Body]++
	}
	const p, sigmas = 0.25, 5
	mean, most := calls*p, sigmas*math.Sqrt(calls*p*(1-p))
	if got["1"]+got["2"] != calls || math.Abs(float64(got["2"])-mean) > most {
		t.Errorf("of %d calls got %v, want %.0f±%.0f of 2 and the others of 1", calls, got, mean, most)
	}
}

// V6: moving an alias under load fails no request, and each is answered by one of the two versions.
func TestAliasMovesUnderLoad(t *testing.T) {
	t.Parallel()
	s := site.Numbered(t, 2)
	const callers, moves = 4, 20
	var done atomic.Bool
	var calls atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for !done.Load() {
				if got := s.Get(s.At("shop", "/api/named")); got.Status != http.StatusOK || (got.Body != "1" && got.Body != "2") {
					t.Errorf("got %d %q", got.Status, got.Body)
				}
				calls.Add(1)
			}
		})
	}
	for n := range moves {
		to := 2 - n%2
		s.Call(http.MethodPut, "/functions/hello/aliases/prod", map[string]any{"version": strconv.Itoa(to)}, nil)
		testkit.Equal(t, "who asks after a move", s.Get(s.At("shop", "/api/named")).Body, strconv.Itoa(to))
	}
	done.Store(true)
	group.Wait()
	if calls.Load() < callers {
		t.Errorf("there were %d calls, which is no load", calls.Load())
	}
}
