package push_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
)

// poisonRoundsVariable says how often each kind of poison is pushed; 20 is the full dose.
const poisonRoundsVariable = "LANDFALL_POISON_ROUNDS"

// poison is a push that cannot become a release.
type poison struct {
	name  string
	files []string                               // pairs of path and content, beside those of an app that works
	also  func(t testing.TB, r *site.Repository) // what no pair of path and content is
	says  []string                               // what the person who pushed is told
}

// badApp is a poison in the app's document: its lines in place of those that work.
func badApp(name, text string, says ...string) poison {
	return poison{name: name, files: []string{"specs/app.yaml", text}, says: append(says, "specs/app.yaml")}
}

// badObject is a poison in a document of its own.
func badObject(name, text string, says ...string) poison {
	return poison{name: name, files: []string{"specs/bad.yaml", text}, says: append(says, "specs/bad.yaml")}
}

// badBuild is a build that does what no build should.
func badBuild(name, command string, says ...string) poison {
	build := "build: {command: '" + command + "', inputs: [in], outputs: [site]}"
	return poison{name: name, files: []string{"specs/app.yaml", site.AppSpec("poison", build), "in", name},
		says: append(says, "the build")}
}

// badTree is a tree with something that cannot be served.
func badTree(name string, also func(t testing.TB, r *site.Repository), says ...string) poison {
	return poison{name: name, also: also, says: says}
}

const (
	poisonApp   = "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: poison}\nspec:\n  static:\n    - "
	poisonRoute = "apiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: r}\nspec: "
	poisonTimer = "apiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: t}\nspec: "
	poisonQueue = "apiVersion: fission.io/v1\nkind: MessageQueueTrigger\nmetadata: {name: q}\nspec: "
)

// poisons returns all kinds.
func poisons() []poison {
	bomb := "config:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("    a%d: &a%d [%s]\n", i, i,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return []poison{
		badApp("syntax", "a: [\n"), badApp("tabs", "a:\n\t- b\n"), badApp("no document", "--- 1\n"),
		badApp("a list", "- a\n- b\n"), badApp("alias bomb", site.AppSpec("poison", bomb)),
		badApp("nested maps", site.AppSpec("poison", "config: "+strings.Repeat("{a: ", 20_000)+strings.Repeat("}", 20_000))),
		badApp("nested lists", site.AppSpec("poison",
			"config: {a: "+strings.Repeat("[", 50_000)+strings.Repeat("]", 50_000)+"}")),
		badApp("an alias of itself", site.AppSpec("poison", "config: &a {b: *a}")),
		badApp("a merge of itself", site.AppSpec("poison", "config: &a {<<: *a}")),
		badApp("an alias of nothing", site.AppSpec("poison", "config: *a")),
		badApp("no UTF-8", site.AppSpec("poison", "config: {a: \"\xff\xfe\"}")),
		badApp("control characters", site.AppSpec("poison", "config: {a: \"\x01\"}")),
		badApp("a zero byte", site.AppSpec("poison", "config: {a: \"\x00\"}")),
		badApp("a key twice", site.AppSpec("poison", "config: {a: 1, a: 2}")),
		badApp("two apps", site.AppSpec("poison")+"---\n"+site.AppSpec("poison")),
		badApp("an unknown field", site.AppSpec("poison", "confog: {}"), `"confog"`),
		badApp("an unknown kind", "apiVersion: landfall.dev/v1\nkind: Ship\nmetadata: {name: a}\n", "Ship"),
		badApp("an unknown version", strings.Replace(site.AppSpec("poison"), "dev/v1", "dev/v9", 1)),
		badApp("a name of dots", site.AppSpec("..")),
		badApp("a name with a slash", site.AppSpec("a/b")),
		badApp("a list for text", site.AppSpec("poison", "release: {production: [main]}")),
		badApp("a negative number", site.AppSpec("poison", "release: {keep: -1}")),
		badApp("a huge number", site.AppSpec("poison", "release: {keep: 1e99}")),
		badApp("nothing that matches", poisonApp+"{src: nowhere, path: /}\n", "nowhere"),
		badApp("out of the tree", poisonApp+"{src: ../../etc, path: /}\n"), badApp("an absolute source",
			poisonApp+"{src: /etc/passwd, path: /}\n"), badApp("a path out of the site", poisonApp+"{src: site, path: /../x}\n"),
		badApp("a glob that is none", poisonApp+"{src: 'site/[', path: /}\n"),
		badApp("the same path", site.AppSpec("poison")+"    - {src: site, path: /}\n"),
		badObject("a function of nothing", "apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: f}\nspec: {}\n"),
		badObject("a function without its package",
			"apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: f}\nspec: {environment: {name: python}, package: "+
				"{packageref: {name: none}}}\n", "none"),
		badObject("a package that is no base64",
			"apiVersion: fission.io/v1\nkind: Package\nmetadata: {name: p}\nspec: {environment: {name: python}, deployment: "+
				"{type: literal, literal: '%%'}}\n"),
		badObject("a route of nobody", poisonRoute+"{relativeurl: /r, functionref: {name: nobody}}\n", "nobody"),
		badObject("a route without a path", poisonRoute+"{functionref: {name: hello}}\n"),
		badObject("a route that is none", poisonRoute+"{relativeurl: '/{a', functionref: {name: hello}}\n"),
		badObject("a method that is none", poisonRoute+"{relativeurl: /r, method: 'G ET', functionref: {name: hello}}\n"),
		badObject("a version of the future", poisonRoute+"{relativeurl: /r, functionref: {name: hello, version: '99'}}\n"),
		badObject("weights of nothing", poisonRoute+
			"{relativeurl: /r, functionref: {type: function-weights, functionweights: {hello: -5}}}\n"),
		badObject("a cron of stars", poisonTimer+"{cron: '* * *', functionref: {name: hello}}\n"),
		badObject("a cron that is never due", poisonTimer+"{cron: 0 0 30 2 *, functionref: {name: hello}}\n"),
		badObject("a zone of nowhere", poisonTimer+"{cron: '@daily', timeZone: Mars/Olympus, functionref: {name: hello}}\n"),
		badObject("a topic of two words", poisonQueue+"{topic: 'a b', functionref: {name: hello}}\n"),
		badObject("filters that are none", poisonQueue+
			"{topic: a, filters: [{like: {type: a}}], functionref: {name: hello}}\n"),
		badObject("too many values", "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: poison}\nspec: {config: {a: ["+
			strings.Repeat("1,", 200_000)+"]}}\n"),
		badTree("a link in a circle", func(_ testing.TB, r *site.Repository) {
			link(r, "b", "site/a")
			link(r, "a", "site/b")
		}, "symlink"),
		badTree("a link out of the tree", func(_ testing.TB, r *site.Repository) {
			link(r, "/etc/passwd", "site/a")
		}, "symlink"),
		badTree("a link to its folder", func(_ testing.TB, r *site.Repository) { link(r, ".", "site/a") }, "symlink"),
		badTree("100,000 files", manyFiles, "LANDFALL_MAX_FILES"),
		{name: "a pointer", files: []string{"site/video.mp4", lfsPointer}, says: []string{"Git LFS"}},
		{name: "too large", files: []string{"site/large", strings.Repeat("0123456789", 300_000)},
			says: []string{"LANDFALL_MAX_FILE_BYTES"}},
		{name: "too much YAML", files: []string{"specs/large.yaml", strings.Repeat("# 3456789\n", 100_000)},
			says: []string{"LANDFALL_MAX_SPEC_BYTES"}},
		badBuild("ends with an error", "exit 3", "exit code 3"), badBuild("kills itself", "kill -9 $$"),
		badBuild("makes nothing", "true", "did not make site"),
		badBuild("forks without end", "f() { f | f & }; f; wait; sleep 600"),
		badBuild("takes all memory", "head -c 100G /dev/zero | tail"), badBuild("fills the disk",
			"head -c 1T /dev/zero >site"), badBuild("leaves a link", "mkdir site; ln -s /etc site/etc", "leads out of site"),
		badBuild("reads others' secrets", "cat /proc/1/environ /root/.ssh/id_rsa"),
	}
}

// manyFiles adds a hundred thousand names of one file to the index.
func manyFiles(t testing.TB, r *site.Repository) {
	t.Helper()
	var index strings.Builder
	blob := strings.TrimSpace(r.Git("rev-parse", "HEAD:site/index.html"))
	for i := range 100_000 {
		fmt.Fprintf(&index, "100644 %s\tsite/many/%d\n", blob, i)
	}
	if out, err := r.TryWith(strings.NewReader(index.String()), "update-index", "--index-info"); err != nil {
		t.Fatalf("git update-index: %v\n%s", err, out)
	}
}

// neighbour visits an app all the time, and keeps how long each visit took.
type neighbour struct {
	stop   chan struct{}
	out    sync.Mutex // is held by a visit
	group  sync.WaitGroup
	took   []time.Duration
	visits atomic.Int64
	wrong  []string
}

func newNeighbour(s *site.Site, app string) *neighbour {
	n, one := &neighbour{stop: make(chan struct{})}, s.Visitor(app)
	n.group.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-n.stop:
				return
			case <-tick.C:
				n.visit(one)
			}
		}
	})
	return n
}

func (n *neighbour) visit(one *site.Visitor) {
	n.out.Lock()
	defer n.out.Unlock()
	begin := time.Now()
	status, _, body := one.Ask("/")
	n.took = append(n.took, time.Since(begin))
	n.visits.Add(1)
	if status != http.StatusOK || body != "neighbour" {
		n.wrong = append(n.wrong, fmt.Sprint(status, " ", body))
	}
}

// stays calls a function while the neighbour stays at home: what developers do on their own machines takes nothing of
// the server's.
func (n *neighbour) stays(do func()) {
	n.out.Lock()
	defer n.out.Unlock()
	do()
}

// leave ends the visits, and returns what 99 of 100 were faster than.
func (n *neighbour) leave(t *testing.T) time.Duration {
	t.Helper()
	close(n.stop)
	n.group.Wait()
	if len(n.wrong) > 0 {
		t.Errorf("a neighbour's page was answered with %q", n.wrong[0])
	}
	slices.Sort(n.took)
	return n.took[len(n.took)*99/100]
}

// Whatever a repository has in it, only its own push fails, with a reason, and nobody else notices.
func TestPoisonPushes(t *testing.T) {
	t.Parallel()
	rounds := 1
	if text, ok := os.LookupEnv(poisonRoundsVariable); ok {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	s := site.New(t, "LANDFALL_MAX_FILE_BYTES=2000000", "LANDFALL_MAX_SPEC_BYTES=800000")
	beside := s.Static("beside")
	beside.Write("site/index.html", "neighbour")
	s.Pushed(beside, "beside", "A neighbour")
	quiet, enough := newNeighbour(s, "beside"), 150*rounds
	s.Eventually("the neighbour was there a while", func() bool { return quiet.visits.Load() >= int64(enough) })
	alone := quiet.leave(t)
	r := s.Repository(s.App("poison"))
	works := []string{"specs/app.yaml", site.AppSpec("poison"), "specs/env.yaml", site.EnvironmentSpec, "specs/hello.yaml",
		site.FunctionSpec("hello"),
		"hello/main.py", "code", "site/index.html", "page", "in", "nothing"}
	r.Write(works...)
	s.Pushed(r, "poison", "Works")
	usual := newNeighbour(s, "beside")
	for i := range 10 * rounds {
		usual.stays(func() {
			r.Write("site/round", fmt.Sprint("harmless ", i))
			r.Commit("Harmless")
		})
		s.Released(r.Push("HEAD"), "poison")
	}
	harmless := usual.leave(t)
	n, all := newNeighbour(s, "beside"), poisons()
	for round := range rounds {
		for _, p := range all {
			n.stays(func() { spoilWith(r, works, p, round) })
			poisoned(s, t, r, p)
		}
	}
	poisoned := n.leave(t)
	site.WantServed(t, s, "poison", "/", "page")
	restart(r, works)
	s.Pushed(r, "poison", "Works again")
	t.Logf("%d kinds, %d times each; 99 of 100 visits of a neighbour took %s alone, %s beside pushes that work, %s "+
		"meanwhile (%d visits)", len(all), rounds, alone, harmless, poisoned, len(n.took))
}

// restart makes the work tree that of an app that works.
func restart(r *site.Repository, works []string) {
	r.T.Helper()
	r.Git("rm", "-r", "--quiet", "--force", "--ignore-unmatch", ".")
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		r.T.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() != ".git" {
			if err := os.RemoveAll(filepath.Join(r.Dir, entry.Name())); err != nil {
				r.T.Fatal(err)
			}
		}
	}
	r.Write(works...)
}

// spoilWith commits a poison.
func spoilWith(r *site.Repository, works []string, p poison, round int) {
	r.T.Helper()
	restart(r, works)
	r.Write(append([]string{"site/round", fmt.Sprint(p.name, round)}, p.files...)...)
	r.Git("add", "--all")
	if p.also != nil {
		p.also(r.T, r)
		if !strings.Contains(p.name, "files") {
			r.Git("add", "--all")
		}
	}
	r.Git("commit", "--quiet", "--message", p.name)
}

// poisoned pushes a poison, and looks at what became of it.
func poisoned(s *site.Site, t *testing.T, r *site.Repository, p poison) {
	t.Helper()
	out := r.Push("HEAD:main", "--force")
	run := s.Finished("poison", r.Head())
	if run.State != landfall.RunFailed || run.Release != "" || strings.Contains(run.Reason, "internal error") {
		t.Errorf("%s: the run is %s, %q; it made %q", p.name, run.State, run.Reason, run.Release)
	}
	for _, part := range p.says {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%s: got no %q in:\n%s", p.name, part, out)
		}
	}
}
