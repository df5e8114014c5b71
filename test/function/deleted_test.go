package function_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// door is one of the ways to an app or to its functions.
type door struct {
	name string
	ask  func() string // what it answers: the status, or the exit code, and the text
	open string        // what that says while the app is there
	// how it begins after the app was deleted; where it answers all the same, it does not say open any more
	shut string
}

// listed reports whether the door answers all the same, without the app.
func (d door) listed() bool {
	return strings.HasPrefix(d.shut, "200") || strings.HasPrefix(d.shut, "0 ") || d.shut == ""
}

// cli is a door on the command line.
func cli(s *site.Site, args ...string) func() string {
	return func() string {
		out, code := s.Run(s.T.TempDir(), args...)
		return strconv.Itoa(code) + " " + out
	}
}

// over is a door that HTTP leads to.
func over(s *site.Site, method, address, body string, headers ...string) func() string {
	return func() string {
		p := s.Send(method, address, body, headers...)
		return strconv.Itoa(p.Status) + " " + p.Body
	}
}

// doorsOfShop are the doors of the app shop, which has the function hello behind a route, a schedule and a queue.
func doorsOfShop(s *site.Site, release landfall.UID, execution, run string) []door {
	const missing, gone, api = "404", "410", "/api/v1"
	person, address := s.Person(s.T), s.Remote(s.ShowApp("shop"))
	person.SignIn("http://localhost:"+s.Port+"/sign-in?to=/", s.Token)
	fromSource := func(path, source string) func() string {
		return over(s, http.MethodPost, s.URL+path, site.EventFrom(source), "Content-Type", site.OneEvent)
	}
	get := func(path string) func() string { return over(s, http.MethodGet, s.URL+path, "") }
	visit := func(host, path string) func() string { return over(s, http.MethodGet, s.At(host, path), "") }
	asRole, event := []string{"Authorization", "Bearer " + site.RoleSecret}, []string{"Content-Type", site.OneEvent}
	return []door{
		{"function list", cli(s, "function", "list"), "hello", "0 "},
		{"function invoke", cli(s, "function", "invoke", "hello", "--data", "{}"), "says one", "3 "},
		{"a version by its number", cli(s, "function", "invoke", "hello:1", "--data", "{}"), "says one", "3 "},
		{"a version by an alias", cli(s, "function", "invoke", "hello:steady", "--data", "{}"), "says one", "3 "},
		{"function version list", cli(s, "function", "version", "list", "hello"), "steady", "3 "},
		{"function version show", cli(s, "function", "version", "show", "hello:1"), "hello", "3 "},
		{"function alias list", cli(s, "function", "alias", "list", "hello"), "steady", "3 "},
		{"function logs", cli(s, "function", "logs", "hello:1"), "logged by one", "3 "},
		{"execution list", cli(s, "execution", "list"), "hello", "0 "},
		{"execution show", cli(s, "execution", "show", execution), "hello", "3 "},
		{"execution create", cli(s, "execution", "create", "hello"), "succeeded", "3 "},
		{"GET of a function", get("/functions/default/hello:1"), "default", missing},
		{"POST to a function", over(s, http.MethodPost, s.URL+"/functions/default/hello", site.EventFrom("/test"), event...),
			"says one", missing}, {
			"a function that is accepted", over(s, http.MethodPost, s.URL+"/functions/default/hello", site.EventFrom("/test"),
				append(event, "Prefer", "respond-async")...),
			"202", missing,
		},
		{"a function for a runner", over(s, http.MethodGet, s.URL+"/functions/default/hello", "", asRole...), "hello",
			`502 {"kind":"not-found"`},
		{"a trigger by its address", over(s, http.MethodPost, s.URL+"/r/default/shop/hello", "{}"), "says one", gone},
		{"a trigger of a release", over(s, http.MethodPost, s.URL+"/r/default/shop:"+string(release)+"/hello", "{}"),
			"says one", gone}, {"/fire by a trigger", fromSource("/fire", "/r/default/shop/hello"), "says one", missing},
		{"/run by a trigger", fromSource("/run", "/r/default/shop/tick"), "says one", missing},
		{"/fire by a topic", fromSource("/fire", "default.shop.orders"), "says one", missing},
		{"/fire by a route", fromSource("/fire", "http://shop.localhost:"+s.Port+"/api/hello"), "says one", missing},
		{"images: tags", get("/v2/default/hello/tags/list"), "steady", missing},
		{"images: a manifest", get("/v2/default/hello/manifests/1"), "application/vnd", missing},
		{"the live address", visit("shop", "/"), "page", gone},
		{"a route", visit("shop", "/api/hello"), "says one", gone},
		{"the address of a release", visit("shop--"+string(release), "/api/hello"), "says one", gone},
		{"package list", get(api + "/packages"), "hello-pkg", "200"},
		{"versions of a package", get(api + "/packages/hello-pkg/versions"), "uid", missing},
		{"functions of the namespace", get(api + "/ns/default/functions"), "hello", "200"},
		{"a function of the namespace", get(api + "/ns/default/functions/hello"), "hello", missing},
		{"an app of the namespace", get(api + "/ns/default/apps/shop"), "shop", missing},
		{"triggers of an app", get(api + "/apps/shop/triggers"), "tick", missing},
		{"app list", cli(s, "app", "list"), "shop", "0 "},
		{"app history", cli(s, "app", "history", "shop"), "Release", "3 "},
		{"release list", cli(s, "release", "list", "shop"), string(release), "3 "},
		{"secret list", cli(s, "secret", "list", "shop"), "STRIPE_KEY", "3 "},
		{"run list", cli(s, "run", "list"), "shop", "0 "},
		{"run retry", over(s, http.MethodPost, s.URL+api+"/runs/"+run+"/retry", ""), "", missing},
		{"queue publish", cli(s, "queue", "publish", "shop", "orders", "--data", "{}"), "stored", "3 "},
		{"queue read", cli(s, "queue", "read", "shop", ">"), "orders", "3 "},
		{"the git remote", func() string {
			out, err := site.NewRepository(s.T).Try("ls-remote", address)
			return fmt.Sprint(err, " ", out)
		}, "refs/heads/main", ""},
		{"the page of the app", func() string {
			p := person.Ask(http.MethodGet, "http://localhost:"+s.Port+"/apps/shop", "")
			return strconv.Itoa(p.Status) + " " + p.Body
		}, "shop", missing},
		{"the first page", func() string {
			return person.Ask(http.MethodGet, "http://localhost:"+s.Port+"/", "").Body
		}, "/apps/shop", ""},
		{"metrics", get("/metrics"), `"hello"`, "200"},
	}
}

// sayingIts is a function that says a word, and logs it.
func sayingIts(word string) string {
	return "import os, sys, time\n\ndef main(event):\n    print('logged by " + word +
		"', file=sys.stderr)\n    return 'says " + word + "'\n"
}

// specsOfShop declare the function hello behind a route, a schedule and a queue, with a secret.
func specsOfShop() string {
	return site.Naming(site.FunctionsSpec("python-env", "hello hello.main"), "STRIPE_KEY") +
		site.TimerSpec("tick hello @every 1s") +
		site.QueueSpec("orders", "functionref: {name: hello}", "topic: orders", "respTopic: confirmed")
}

// An app that was deleted is gone: whatever led to it or its functions leads nowhere, in the moment in which the
// command has returned. Its functions are in nobody's way, what it stored is removed, and nothing of it comes back with
// a function of the same name.
func TestDeletedAppIsGone(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", site.WithPostgres + "+" + site.WithS3} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			s := site.NewOn(t, site.EngineOf(t, on), "LANDFALL_SANDBOX=off", "LANDFALL_ROLE_SECRET="+site.RoleSecret)
			testDeletedAppIsGone(t, s)
		})
	}
}

func testDeletedAppIsGone(t *testing.T, s *site.Site) {
	t.Helper()
	app := s.App("shop")
	r := s.Repository(app)
	s.SetSecret("shop", "STRIPE_KEY", "open-sesame")
	r.Write("specs/functions.yaml", specsOfShop(), "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hello/hello.py", sayingIts("one"))
	release := s.Pushed(r, "shop", "A function")
	s.Landfall("function", "alias", "create", "hello", "steady", "1")
	s.Landfall("release", "tag", "shop", string(release), "beta")
	s.Landfall("function", "invoke", "hello", "--data", "{}")
	var executions []landfall.Execution
	s.Eventually("its execution is recorded", func() bool {
		executions = site.List[landfall.Execution](s, "/executions?function=hello")
		return len(executions) > 0
	})
	run, _ := s.RunOf("shop", r.Head())
	doors := doorsOfShop(s, release, executions[0].ID, run.ID)
	for _, d := range doors {
		if got := d.ask(); !strings.Contains(got, d.open) {
			t.Errorf("%s: got %q while the app is there, want %q in it", d.name, got, d.open)
		}
	}
	objects := s.ObjectsOf("shop")
	testkit.Equal(t, "whether something is stored", len(s.StoredBelow(objects)) > 0, true)
	for _, folder := range []string{filepath.Join("git", app.ID+".git"),
		filepath.Join("nats", "jetstream", "$G", "streams", "landfall-"+app.ID)} {
		if _, err := os.Stat(filepath.Join(s.Data, folder)); err != nil {
			t.Error(err)
		}
	}

	out := s.Landfall("app", "delete", "shop", "--force")
	testkit.Contains(t, site.Told{out}, "shop")
	for _, d := range doors {
		got := d.ask()
		// K-015: after the deletion the door is shut, whichever it is
		if !strings.HasPrefix(got, d.shut) || d.listed() && strings.Contains(got, d.open) {
			t.Errorf("%s: got %q after the app was deleted, want %q", d.name, got, d.shut)
		}
	}
	r.Commit("After the end")
	out, err := r.Try("push", "origin", "HEAD")
	if err == nil || !strings.Contains(out, "deleted") {
		t.Errorf("got a push to a deleted app %v:\n%s\nwant a refusal that says so", err, out)
	}
	wantRemoved(s, app.ID, objects)
	wantNewOwner(s, executions[0].ID)
}

// wantRemoved fails the test unless what a deleted app stored is removed soon.
func wantRemoved(s *site.Site, id, objects string) {
	s.T.Helper()
	absent := func(path ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{s.Data}, path...)...))
		return errors.Is(err, os.ErrNotExist)
	}
	// Objects, repository and messages are collected.
	s.Eventually("its objects are gone", func() bool { return len(s.StoredBelow(objects)) == 0 })
	s.Eventually("its repository is gone", func() bool { return absent("git", id+".git") })
	s.Eventually("its messages are gone", func() bool {
		return absent("nats", "jetstream", "$G", "streams", "landfall-"+id)
	})
	s.Eventually("what builds made is gone", func() bool { return absent("cache", "builds", id) })
}

// wantNewOwner fails the test unless another app may have a function with the name of the deleted one, of which it
// inherits nothing.
func wantNewOwner(s *site.Site, execution string) {
	t := s.T
	t.Helper()
	r := s.Repository(s.App("store"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("store"), "site/index.html", "page", "hello/hello.py", sayingIts("two"))
	s.Pushed(r, "store", "The name is free")
	testkit.Equal(t, "answer", strings.TrimSpace(s.Landfall("function", "invoke", "hello", "--data", "{}")), "says two")
	testkit.Contains(t, site.Told{s.Landfall("function", "version", "list", "hello")}, " 2 ")
	for what, args := range map[string][]string{
		"a version of the old one": {"function", "invoke", "hello:1", "--data", "{}"},
		"an alias of it":           {"function", "invoke", "hello:steady", "--data", "{}"},
		"its execution":            {"execution", "show", execution}, "the log of it": {"function", "logs", "hello:1"},
	} {
		if out, code := s.Run(t.TempDir(), args...); code != site.ExitNotFound {
			t.Errorf("%s: got %d %s", what, code, out)
		}
	}
	site.WantRefused(t, s.Refused(http.MethodPost, "/apps", client.NewApp{Name: "shop"}), landfall.Conflict,
		"stay reserved")
	s.WantWhole()
	archive := filepath.Join(t.TempDir(), "landfall.tar.zst")
	s.Landfall("backup", archive)
	again := site.Restored(t, archive)
	site.WantStatus(t, again, "shop", http.StatusGone, "This app was deleted")
	again.WantWhole()
}

// keepsAll keeps the content of deleted apps.
const keepsAll = "LANDFALL_KEEP_DELETED=30d"

// What an app stored is kept for as long as is configured, with the record of what was closed, and everything is shut
// all the same.
func TestDeletedAppIsKept(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off", keepsAll)
	app := s.App("shop")
	r := s.Repository(app)
	s.SetSecret("shop", "STRIPE_KEY", "open-sesame")
	r.Write("specs/functions.yaml", specsOfShop(), "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hello/hello.py", sayingIts("one"))
	release := s.Pushed(r, "shop", "A function")
	s.Landfall("function", "alias", "create", "hello", "steady", "1")
	s.Landfall("release", "tag", "shop", string(release), "beta")
	objects := s.ObjectsOf("shop")
	before := s.StoredBelow(objects)
	s.Landfall("app", "delete", "shop", "--force")
	testkit.Contains(t, site.Told{s.Landfall("app", "show", "shop")}, "deleted")
	s.Numbered(s.Static("store"), "store", 1) // the collection of the other app came before
	s.Stop()
	testkit.EqualList(t, "what is stored", s.StoredBelow(objects), before)
	db := testkit.Must(s.OpenState())(t)
	closed, there, err := db.Tombstone(t.Context(), app.ID)
	testkit.Equal(t, "whether it is recorded what was closed", fmt.Sprint(there, err), "true <nil>")
	testkit.Equal(t, "live", closed.Live, release)
	testkit.EqualList(t, "releases", closed.Releases, []landfall.UID{release})
	var tags []string
	for _, tag := range closed.Tags {
		tags = append(tags, tag.Name+" "+string(tag.Release))
	}
	testkit.EqualList(t, "tags", tags, []string{"beta " + string(release), "branch-main " + string(release)})
	testkit.Equal(t, "aliases", fmt.Sprint(len(closed.Aliases), " ", closed.Aliases[0].Alias.Name), "1 steady")
	secrets := testkit.Must(db.UnitsOf(t.Context(), app.ID))(t)
	kept := 0
	for _, u := range secrets {
		kept += len(testkit.Must(db.Versions(t.Context(), u.ID, true))(t))
	}
	testkit.Equal(t, "whether versions are kept", kept > 0, true)
	testkit.Equal(t, "violations", fmt.Sprint(testkit.Must(db.Violations(t.Context()))(t)), "[]")
	testkit.Must(0, db.Close())(t)
	s.Start("LANDFALL_KEEP_DELETED=0")
	wantRemoved(s, app.ID, objects)
}

// Wherever a deletion is killed, it is as if it had not begun, or is done in the end.
func TestDeletionWhenKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"delete.expired", "delete.closed", "remove.marked", "remove.deleted"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := site.NewStopped(t, site.NewEngine(t), "LANDFALL_SANDBOX=off")
			s.Start()
			s.ReadToken()
			app := s.App("shop")
			r := s.Repository(app)
			r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
				site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", sayingIts("one"))
			s.Pushed(r, "shop", "A function")
			objects := s.ObjectsOf("shop")
			s.Stop()
			s.Start("LANDFALL_CRASH=" + point)
			_, _ = s.Run(t.TempDir(), "app", "delete", "shop", "--force") // it may have ended before the kill
			s.Dies()
			s.Start()
			if s.ShowApp("shop").Deleted.IsZero() {
				testkit.Equal(t, "the point in the transaction", point, "delete.expired")
				site.WantServed(t, s, "shop", "/", "page")
				testkit.Equal(t, "answer", strings.TrimSpace(s.Landfall("function", "invoke", "hello", "--data", "{}")), "says one")
				s.Landfall("app", "delete", "shop", "--force")
			}
			site.WantStatus(t, s, "shop", http.StatusGone, "This app was deleted")
			testkit.Equal(t, "functions", len(site.List[client.Unit](s, "/functions")), 0)
			wantRemoved(s, app.ID, objects)
		})
	}
}

// What a program before this one left of the apps that it deleted is closed and removed at the start: their functions
// are in nobody's way.
func TestDeletedByAnEarlierProgram(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", site.WithPostgres + "+folder"} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			s := site.NewOn(t, site.EngineOf(t, on), "LANDFALL_SANDBOX=off")
			app := s.App("shop")
			r := s.Repository(app)
			r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
				site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", sayingIts("one"))
			s.Pushed(r, "shop", "A function")
			s.Landfall("function", "alias", "create", "hello", "steady", "1")
			objects := s.ObjectsOf("shop")
			s.Stop()
			deleteAsBefore(s, app.ID)
			s.Start("LANDFALL_CRASH=delete.expired") // it dies in the middle of that, and goes on at the next start
			s.Dies()
			s.Start()
			site.WantStatus(t, s, "shop", http.StatusGone, "This app was deleted")
			wantRemoved(s, app.ID, objects)
			testkit.Equal(t, "functions", len(site.List[client.Unit](s, "/functions")), 0)
			other := s.Repository(s.App("store"))
			other.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
				site.AppSpec("store"), "site/index.html", "page",
				"hello/hello.py", sayingIts("two"))
			s.Pushed(other, "store", "The name is free")
			testkit.Equal(t, "answer", strings.TrimSpace(s.Landfall("function", "invoke", "hello", "--data", "{}")), "says two")
			s.WantWhole()
		})
	}
}

// deleteAsBefore deletes an app in the database of a site that has stopped as programs did whose deletion closed the
// addresses only.
func deleteAsBefore(s *site.Site, app string) {
	s.T.Helper()
	db := testkit.Must(s.OpenState())(s.T)
	defer func() { _ = db.Close() }()
	err := db.Update(s.T.Context(), func(tx *store.Tx) error {
		a, err := tx.App(s.T.Context(), app)
		if err != nil {
			return err
		}
		a.Deleted = a.Created
		return tx.UpdateApp(s.T.Context(), a)
	})
	if err != nil {
		s.T.Fatal(err)
	}
}

// A push and a call that are under way when their app is deleted come to an end, and leave nothing behind.
func TestDeletionBesideAPushAndACall(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	app := s.App("shop")
	r := s.Repository(app)
	g, building := newGate(t), newGate(t)
	slow := strings.Replace(sayingIts("one"), "    return", g.wait()+"    return", 1)
	specs := site.FunctionsSpec("python-env", "hello hello.main")
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hello/hello.py", slow)
	s.Pushed(r, "shop", "A function")
	answered := make(chan string, 1)
	go func() { answered <- cli(s, "function", "invoke", "hello", "--data", "{}")() }()
	accepted := s.Post(s.URL+"/functions/default/hello", site.OneEvent, site.EventFrom("/test"), "Prefer", "respond-async")
	testkit.Equal(t, "status of what is accepted", accepted.Status, http.StatusAccepted)
	s.Eventually("the function runs twice", func() bool {
		return strings.Count(s.Landfall("execution", "list", "--state", "running"), "hello") == 2
	})
	r.Write("specs/functions.yaml", strings.Replace(specs, "deployment: {url: \"archive://hello\"}",
		"source: {url: \"archive://hello\"}, buildcmd: ./build.sh", 1), "hello/build.sh",
		"#!/bin/sh\nwhile [ ! -e "+string(building)+" ]; do sleep 0.05; done\ncp -r . \"$DEPLOY_PKG\"\n")
	if err := os.Chmod(filepath.Join(r.Dir, "hello", "build.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Commit("A build that waits")
	pushed := make(chan error, 1)
	go func() {
		_, err := r.Try("push", "origin", "HEAD")
		pushed <- err
	}()
	s.Eventually("it builds", func() bool {
		run, there := s.RunOf("shop", r.Head())
		return there && run.Step == landfall.StepBuild
	})
	objects := s.ObjectsOf("shop")
	s.Landfall("app", "delete", "shop", "--force")
	building.open(t)
	<-pushed
	g.open(t)
	if got := <-answered; !strings.HasPrefix(got, "0 ") || !strings.Contains(got, "says one") {
		t.Errorf("the call that was under way: got %q, want its answer", got)
	}
	site.WantStatus(t, s, "shop", http.StatusGone, "This app was deleted")
	testkit.Equal(t, "functions", len(site.List[client.Unit](s, "/functions")), 0)
	testkit.Equal(t, "executions", len(site.List[landfall.Execution](s, "/executions")), 0)
	wantRemoved(s, app.ID, objects)
	s.Stop()
	db := testkit.Must(s.OpenState())(t)
	defer func() { _ = db.Close() }()
	testkit.Equal(t, "accessible releases", len(testkit.Must(db.AccessibleReleases(t.Context(), app.ID))(t)), 0)
	testkit.Equal(t, "violations", fmt.Sprint(testkit.Must(db.Violations(t.Context()))(t)), "[]")
}

// An app that an earlier program made has its objects under its name, and goes on so: earlier releases answer, files
// are shared with them, and backups and checks have them beside those that lie under an app's id.
func TestObjectsOfAnEarlierProgram(t *testing.T) {
	t.Parallel()
	const folder = "apps/default/shop/"
	s := site.NewOn(t, site.EngineOf(t, "sqlite+folder"))
	s.Stop()
	old := landfall.App{ID: uuid.NewString(), Namespace: landfall.DefaultNamespace, Name: "shop", Objects: folder,
		UIDSpace: uuid.New(), Created: time.Now()}
	db := testkit.Must(s.OpenState())(t)
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		return errors.Join(tx.EnsureNamespace(t.Context(), old.Namespace, 1), tx.CreateApp(t.Context(), old))
	})
	repositories := testkit.Must(remote.OpenRepositories(filepath.Join(s.Data, "git"),
		testkit.Must(remote.FindGit())(t)))(t)
	if err := errors.Join(err, db.Close(), repositories.Create(t.Context(), old.ID, "")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	r := s.Repository(s.ShowApp("shop"))
	r.Write("specs/app.yaml", site.AppSpec("shop"))
	r.Write("site/shared.txt", "shared by both")
	one := s.Numbered(r, "shop", 1)
	before := s.StoredBelow(folder)
	two := s.Numbered(r, "shop", 2)
	prefix := folder + "static/root/" + string(two) + "/"
	testkit.EqualList(t, "what the second push stored", site.Added(before, s.StoredBelow(folder)),
		[]string{prefix + ".manifest.json", prefix + "index.html"})
	s.Numbered(s.Static("store"), "store", 1)
	s.WantWhole()
	archive := filepath.Join(t.TempDir(), "landfall.tar.zst")
	s.Landfall("backup", archive)
	again := site.Restored(t, archive)
	for _, s := range []*site.Site{s, again} {
		site.WantServed(t, s, "shop--"+string(one), "/", "page 1")
		site.WantServed(t, s, "shop--"+string(one), "/shared.txt", "shared by both")
		site.WantServed(t, s, "store", "/", "page 1")
		s.WantWhole()
		id := s.ShowApp("shop").ID
		s.Landfall("app", "delete", "shop", "--force")
		wantRemoved(s, id, folder)
		site.WantServed(t, s, "store", "/", "page 1")
		s.WantWhole()
	}
}
