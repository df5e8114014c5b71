package main

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
)

// door is one of the ways to an app or to its functions.
type door struct {
	name string
	ask  func() string // what it answers: the status, or the exit code, and the text
	open string        // what that says while the app is there
	shut string        // how it begins after the app was deleted; where it answers all the same, it does not say open any more
}

// listed reports whether the door answers all the same, without the app.
func (d door) listed() bool {
	return strings.HasPrefix(d.shut, "200") || strings.HasPrefix(d.shut, "0 ") || d.shut == ""
}

// cli is a door on the command line.
func (s *site) cli(args ...string) func() string {
	return func() string {
		out, code := s.run(s.t.TempDir(), args...)
		return strconv.Itoa(code) + " " + out
	}
}

// over is a door that HTTP leads to.
func (s *site) over(method, address, body string, headers ...string) func() string {
	return func() string {
		p := s.send(method, address, body, headers...)
		return strconv.Itoa(p.status) + " " + p.body
	}
}

// doorsOfShop are the doors of the app shop, which has the function hello behind a route, a schedule and a queue.
func (s *site) doorsOfShop(release landfall.UID, execution, run string) []door {
	const missing, gone, api = "404", "410", "/api/v1"
	person, address := s.person(s.t), s.remote(s.showApp("shop"))
	person.signIn("http://localhost:"+s.port+"/sign-in?to=/", s.Token)
	fromSource := func(path, source string) func() string {
		return s.over(http.MethodPost, s.URL+path, eventFrom(source), "Content-Type", oneEvent)
	}
	get := func(path string) func() string { return s.over(http.MethodGet, s.URL+path, "") }
	visit := func(host, path string) func() string { return s.over(http.MethodGet, s.at(host, path), "") }
	asRole, event := []string{"Authorization", "Bearer " + roleSecret}, []string{"Content-Type", oneEvent}
	return []door{
		{"function list", s.cli("function", "list"), "hello", "0 "},
		{"function invoke", s.cli("function", "invoke", "hello", "--data", "{}"), "says one", "3 "},
		{"a version by its number", s.cli("function", "invoke", "hello:1", "--data", "{}"), "says one", "3 "},
		{"a version by an alias", s.cli("function", "invoke", "hello:steady", "--data", "{}"), "says one", "3 "},
		{"function version list", s.cli("function", "version", "list", "hello"), "steady", "3 "},
		{"function version show", s.cli("function", "version", "show", "hello:1"), "hello", "3 "},
		{"function alias list", s.cli("function", "alias", "list", "hello"), "steady", "3 "},
		{"function logs", s.cli("function", "logs", "hello:1"), "logged by one", "3 "},
		{"execution list", s.cli("execution", "list"), "hello", "0 "},
		{"execution show", s.cli("execution", "show", execution), "hello", "3 "},
		{"execution create", s.cli("execution", "create", "hello"), "succeeded", "3 "},
		{"GET of a function", get("/functions/default/hello:1"), "default", missing},
		{"POST to a function", s.over(http.MethodPost, s.URL+"/functions/default/hello", eventFrom("/test"), event...), "says one", missing},
		{
			"a function that is accepted", s.over(http.MethodPost, s.URL+"/functions/default/hello", eventFrom("/test"), append(event, "Prefer", "respond-async")...),
			"202", missing,
		},
		{"a function for a runner", s.over(http.MethodGet, s.URL+"/functions/default/hello", "", asRole...), "hello", `502 {"kind":"not-found"`},
		{"a trigger by its address", s.over(http.MethodPost, s.URL+"/r/default/shop/hello", "{}"), "says one", gone},
		{"a trigger of a release", s.over(http.MethodPost, s.URL+"/r/default/shop:"+string(release)+"/hello", "{}"), "says one", gone},
		{"/fire by a trigger", fromSource("/fire", "/r/default/shop/hello"), "says one", missing},
		{"/run by a trigger", fromSource("/run", "/r/default/shop/tick"), "says one", missing},
		{"/fire by a topic", fromSource("/fire", "default.shop.orders"), "says one", missing},
		{"/fire by a route", fromSource("/fire", "http://shop.localhost:"+s.port+"/api/hello"), "says one", missing},
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
		{"app list", s.cli("app", "list"), "shop", "0 "},
		{"app history", s.cli("app", "history", "shop"), "Release", "3 "},
		{"release list", s.cli("release", "list", "shop"), string(release), "3 "},
		{"secret list", s.cli("secret", "list", "shop"), "STRIPE_KEY", "3 "},
		{"run list", s.cli("run", "list"), "shop", "0 "},
		{"run retry", s.over(http.MethodPost, s.URL+api+"/runs/"+run+"/retry", ""), "", missing},
		{"queue publish", s.cli("queue", "publish", "shop", "orders", "--data", "{}"), "stored", "3 "},
		{"queue read", s.cli("queue", "read", "shop", ">"), "orders", "3 "},
		{"the git remote", func() string {
			out, err := newRepository(s.t).try("ls-remote", address)
			return fmt.Sprint(err, " ", out)
		}, "refs/heads/main", ""},
		{"the page of the app", func() string {
			p := person.ask(http.MethodGet, "http://localhost:"+s.port+"/apps/shop", "")
			return strconv.Itoa(p.status) + " " + p.body
		}, "shop", missing},
		{"the first page", func() string { return person.ask(http.MethodGet, "http://localhost:"+s.port+"/", "").body }, "/apps/shop", ""},
		{"metrics", get("/metrics"), `"hello"`, "200"},
	}
}

// sayingIts is a function that says a word, and logs it.
func sayingIts(word string) string {
	return "import os, sys, time\n\ndef main(event):\n    print('logged by " + word + "', file=sys.stderr)\n    return 'says " + word + "'\n"
}

// specsOfShop declare the function hello behind a route, a schedule and a queue, with a secret.
func specsOfShop() string {
	return naming(functionsSpec("python-env", "hello hello.main"), "STRIPE_KEY") + timerSpec("tick hello @every 1s") +
		queueSpec("orders", "functionref: {name: hello}", "topic: orders", "respTopic: confirmed")
}

// An app that was deleted is gone: whatever led to it or its functions leads nowhere, in the moment in which the command has returned. Its
// functions are in nobody's way, what it stored is removed, and nothing of it comes back with a function of the same name.
func TestDeletedAppIsGone(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", withPostgres + "+" + withS3} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			s := newSiteOn(t, engineOf(t, on), "LANDFALL_SANDBOX=off", "LANDFALL_ROLE_SECRET="+roleSecret)
			testDeletedAppIsGone(t, s)
		})
	}
}

func testDeletedAppIsGone(t *testing.T, s *site) {
	t.Helper()
	app := s.app("shop")
	r := s.repository(app)
	s.setSecret("shop", "STRIPE_KEY", "open-sesame")
	r.write("specs/functions.yaml", specsOfShop(), "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "hello/hello.py", sayingIts("one"))
	release := s.pushed(r, "shop", "A function")
	s.landfall("function", "alias", "create", "hello", "steady", "1")
	s.landfall("release", "tag", "shop", string(release), "beta")
	s.landfall("function", "invoke", "hello", "--data", "{}")
	var executions []landfall.Execution
	s.eventually("its execution is recorded", func() bool {
		executions = list[landfall.Execution](s, "/executions?function=hello")
		return len(executions) > 0
	})
	run, _ := s.runOf("shop", r.head())
	doors := s.doorsOfShop(release, executions[0].ID, run.ID)
	for _, d := range doors {
		if got := d.ask(); !strings.Contains(got, d.open) {
			t.Errorf("%s: got %q while the app is there, want %q in it", d.name, got, d.open)
		}
	}
	objects := s.objectsOf("shop")
	wantEqual(t, "whether something is stored", len(s.storedBelow(objects)) > 0, true)
	for _, folder := range []string{filepath.Join("git", app.ID+".git"), filepath.Join("nats", "jetstream", "$G", "streams", "landfall-"+app.ID)} {
		if _, err := os.Stat(filepath.Join(s.data, folder)); err != nil {
			t.Error(err)
		}
	}

	out := s.landfall("app", "delete", "shop", "--force")
	wantText(t, told{out}, "shop")
	for _, d := range doors {
		got := d.ask()
		// K-015: after the deletion the door is shut, whichever it is
		if !strings.HasPrefix(got, d.shut) || d.listed() && strings.Contains(got, d.open) {
			t.Errorf("%s: got %q after the app was deleted, want %q", d.name, got, d.shut)
		}
	}
	r.commit("After the end")
	out, err := r.try("push", "origin", "HEAD")
	if err == nil || !strings.Contains(out, "deleted") {
		t.Errorf("got a push to a deleted app %v:\n%s\nwant a refusal that says so", err, out)
	}
	s.wantRemoved(app.ID, objects)
	s.wantNewOwner(executions[0].ID)
}

// wantRemoved fails the test unless what a deleted app stored is removed soon.
func (s *site) wantRemoved(id, objects string) {
	s.t.Helper()
	absent := func(path ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{s.data}, path...)...))
		return errors.Is(err, os.ErrNotExist)
	}
	// Objects, repository and messages are collected.
	s.eventually("its objects are gone", func() bool { return len(s.storedBelow(objects)) == 0 })
	s.eventually("its repository is gone", func() bool { return absent("git", id+".git") })
	s.eventually("its messages are gone", func() bool { return absent("nats", "jetstream", "$G", "streams", "landfall-"+id) })
	s.eventually("what builds made is gone", func() bool { return absent("cache", "builds", id) })
}

// wantNewOwner fails the test unless another app may have a function with the name of the deleted one, of which it inherits nothing.
func (s *site) wantNewOwner(execution string) {
	t := s.t
	t.Helper()
	r := s.repository(s.app("store"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("store"), "site/index.html", "page",
		"hello/hello.py", sayingIts("two"))
	s.pushed(r, "store", "The name is free")
	wantEqual(t, "answer", strings.TrimSpace(s.landfall("function", "invoke", "hello", "--data", "{}")), "says two")
	wantText(t, told{s.landfall("function", "version", "list", "hello")}, " 2 ")
	for what, args := range map[string][]string{
		"a version of the old one": {"function", "invoke", "hello:1", "--data", "{}"}, "an alias of it": {"function", "invoke", "hello:steady", "--data", "{}"},
		"its execution": {"execution", "show", execution}, "the log of it": {"function", "logs", "hello:1"},
	} {
		if out, code := s.run(t.TempDir(), args...); code != exitNotFound {
			t.Errorf("%s: got %d %s", what, code, out)
		}
	}
	wantRefused(t, s.refused(http.MethodPost, "/apps", client.NewApp{Name: "shop"}), landfall.Conflict, "stay reserved")
	s.wantWhole()
	archive := filepath.Join(t.TempDir(), "landfall.tar.zst")
	s.landfall("backup", archive)
	again := restored(t, archive)
	wantStatus(t, again, "shop", http.StatusGone, "This app was deleted")
	again.wantWhole()
}

// keepsAll keeps the content of deleted apps.
const keepsAll = "LANDFALL_KEEP_DELETED=30d"

// What an app stored is kept for as long as is configured, with the record of what was closed, and everything is shut all the same.
func TestDeletedAppIsKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off", keepsAll)
	app := s.app("shop")
	r := s.repository(app)
	s.setSecret("shop", "STRIPE_KEY", "open-sesame")
	r.write("specs/functions.yaml", specsOfShop(), "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "hello/hello.py", sayingIts("one"))
	release := s.pushed(r, "shop", "A function")
	s.landfall("function", "alias", "create", "hello", "steady", "1")
	s.landfall("release", "tag", "shop", string(release), "beta")
	objects := s.objectsOf("shop")
	before := s.storedBelow(objects)
	s.landfall("app", "delete", "shop", "--force")
	wantText(t, told{s.landfall("app", "show", "shop")}, "deleted")
	s.numbered(s.static("store"), "store", 1) // the collection of the other app came before
	s.stop()
	wantList(t, "what is stored", s.storedBelow(objects), before)
	db := must(s.openState())(t)
	closed, there, err := db.Tombstone(t.Context(), app.ID)
	wantEqual(t, "whether it is recorded what was closed", fmt.Sprint(there, err), "true <nil>")
	wantEqual(t, "live", closed.Live, release)
	wantList(t, "releases", closed.Releases, []landfall.UID{release})
	var tags []string
	for _, tag := range closed.Tags {
		tags = append(tags, tag.Name+" "+string(tag.Release))
	}
	wantList(t, "tags", tags, []string{"beta " + string(release), "branch-main " + string(release)})
	wantEqual(t, "aliases", fmt.Sprint(len(closed.Aliases), " ", closed.Aliases[0].Alias.Name), "1 steady")
	secrets := must(db.UnitsOf(t.Context(), app.ID))(t)
	kept := 0
	for _, u := range secrets {
		kept += len(must(db.Versions(t.Context(), u.ID, true))(t))
	}
	wantEqual(t, "whether versions are kept", kept > 0, true)
	wantEqual(t, "violations", fmt.Sprint(must(db.Violations(t.Context()))(t)), "[]")
	must(0, db.Close())(t)
	s.start("LANDFALL_KEEP_DELETED=0")
	s.wantRemoved(app.ID, objects)
}

// Wherever a deletion is killed, it is as if it had not begun, or is done in the end.
func TestDeletionWhenKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"delete.expired", "delete.closed", "remove.marked", "remove.deleted"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newStopped(t, newEngine(t), "LANDFALL_SANDBOX=off")
			s.start()
			s.readToken()
			app := s.app("shop")
			r := s.repository(app)
			r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("shop"),
				"site/index.html", "page", "hello/hello.py", sayingIts("one"))
			s.pushed(r, "shop", "A function")
			objects := s.objectsOf("shop")
			s.stop()
			s.start("LANDFALL_CRASH=" + point)
			_, _ = s.run(t.TempDir(), "app", "delete", "shop", "--force") // it may have ended before the kill
			s.dies()
			s.start()
			if s.showApp("shop").Deleted.IsZero() {
				wantEqual(t, "the point in the transaction", point, "delete.expired")
				wantServed(t, s, "shop", "/", "page")
				wantEqual(t, "answer", strings.TrimSpace(s.landfall("function", "invoke", "hello", "--data", "{}")), "says one")
				s.landfall("app", "delete", "shop", "--force")
			}
			wantStatus(t, s, "shop", http.StatusGone, "This app was deleted")
			wantEqual(t, "functions", len(list[client.Unit](s, "/functions")), 0)
			s.wantRemoved(app.ID, objects)
		})
	}
}

// What a program before this one left of the apps that it deleted is closed and removed at the start: their functions are in nobody's way.
func TestDeletedByAnEarlierProgram(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", withPostgres + "+folder"} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			s := newSiteOn(t, engineOf(t, on), "LANDFALL_SANDBOX=off")
			app := s.app("shop")
			r := s.repository(app)
			r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("shop"),
				"site/index.html", "page", "hello/hello.py", sayingIts("one"))
			s.pushed(r, "shop", "A function")
			s.landfall("function", "alias", "create", "hello", "steady", "1")
			objects := s.objectsOf("shop")
			s.stop()
			s.deleteAsBefore(app.ID)
			s.start("LANDFALL_CRASH=delete.expired") // it dies in the middle of that, and goes on at the next start
			s.dies()
			s.start()
			wantStatus(t, s, "shop", http.StatusGone, "This app was deleted")
			s.wantRemoved(app.ID, objects)
			wantEqual(t, "functions", len(list[client.Unit](s, "/functions")), 0)
			other := s.repository(s.app("store"))
			other.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("store"), "site/index.html", "page",
				"hello/hello.py", sayingIts("two"))
			s.pushed(other, "store", "The name is free")
			wantEqual(t, "answer", strings.TrimSpace(s.landfall("function", "invoke", "hello", "--data", "{}")), "says two")
			s.wantWhole()
		})
	}
}

// deleteAsBefore deletes an app in the database of a site that has stopped as programs did whose deletion closed the addresses only.
func (s *site) deleteAsBefore(app string) {
	s.t.Helper()
	db := must(s.openState())(s.t)
	defer func() { _ = db.Close() }()
	err := db.Update(s.t.Context(), func(tx *store.Tx) error {
		a, err := tx.App(s.t.Context(), app)
		if err != nil {
			return err
		}
		a.Deleted = a.Created
		return tx.UpdateApp(s.t.Context(), a)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// A push and a call that are under way when their app is deleted come to an end, and leave nothing behind.
func TestDeletionBesideAPushAndACall(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	app := s.app("shop")
	r := s.repository(app)
	g, building := newGate(t), newGate(t)
	slow := strings.Replace(sayingIts("one"), "    return", g.wait()+"    return", 1)
	specs := functionsSpec("python-env", "hello hello.main")
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "hello/hello.py", slow)
	s.pushed(r, "shop", "A function")
	answered := make(chan string, 1)
	go func() { answered <- s.cli("function", "invoke", "hello", "--data", "{}")() }()
	accepted := s.post(s.URL+"/functions/default/hello", oneEvent, eventFrom("/test"), "Prefer", "respond-async")
	wantEqual(t, "status of what is accepted", accepted.status, http.StatusAccepted)
	s.eventually("the function runs twice", func() bool {
		return strings.Count(s.landfall("execution", "list", "--state", "running"), "hello") == 2
	})
	r.write("specs/functions.yaml", strings.Replace(specs, "deployment: {url: \"archive://hello\"}", "source: {url: \"archive://hello\"}, buildcmd: ./build.sh", 1),
		"hello/build.sh", "#!/bin/sh\nwhile [ ! -e "+string(building)+" ]; do sleep 0.05; done\ncp -r . \"$DEPLOY_PKG\"\n")
	if err := os.Chmod(filepath.Join(r.dir, "hello", "build.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.commit("A build that waits")
	pushed := make(chan error, 1)
	go func() {
		_, err := r.try("push", "origin", "HEAD")
		pushed <- err
	}()
	s.eventually("it builds", func() bool {
		run, there := s.runOf("shop", r.head())
		return there && run.Step == landfall.StepBuild
	})
	objects := s.objectsOf("shop")
	s.landfall("app", "delete", "shop", "--force")
	building.open(t)
	<-pushed
	g.open(t)
	if got := <-answered; !strings.HasPrefix(got, "0 ") || !strings.Contains(got, "says one") {
		t.Errorf("the call that was under way: got %q, want its answer", got)
	}
	wantStatus(t, s, "shop", http.StatusGone, "This app was deleted")
	wantEqual(t, "functions", len(list[client.Unit](s, "/functions")), 0)
	wantEqual(t, "executions", len(list[landfall.Execution](s, "/executions")), 0)
	s.wantRemoved(app.ID, objects)
	s.stop()
	db := must(s.openState())(t)
	defer func() { _ = db.Close() }()
	wantEqual(t, "accessible releases", len(must(db.AccessibleReleases(t.Context(), app.ID))(t)), 0)
	wantEqual(t, "violations", fmt.Sprint(must(db.Violations(t.Context()))(t)), "[]")
}

// An app that an earlier program made has its objects under its name, and goes on so: earlier releases answer, files are shared with them,
// and backups and checks have them beside those that lie under an app's id.
func TestObjectsOfAnEarlierProgram(t *testing.T) {
	t.Parallel()
	const folder = "apps/default/shop/"
	s := newSiteOn(t, engineOf(t, "sqlite+folder"))
	s.stop()
	old := landfall.App{ID: uuid.NewString(), Namespace: landfall.DefaultNamespace, Name: "shop", Objects: folder, UIDSpace: uuid.New(), Created: time.Now()}
	db := must(s.openState())(t)
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		return errors.Join(tx.EnsureNamespace(t.Context(), old.Namespace, 1), tx.CreateApp(t.Context(), old))
	})
	repositories := must(remote.OpenRepositories(filepath.Join(s.data, "git"), must(remote.FindGit())(t)))(t)
	if err := errors.Join(err, db.Close(), repositories.Create(t.Context(), old.ID, "")); err != nil {
		t.Fatal(err)
	}
	s.start()
	r := s.repository(s.showApp("shop"))
	r.write("specs/app.yaml", appSpec("shop"))
	r.write("site/shared.txt", "shared by both")
	one := s.numbered(r, "shop", 1)
	before := s.storedBelow(folder)
	two := s.numbered(r, "shop", 2)
	prefix := folder + "static/root/" + string(two) + "/"
	wantList(t, "what the second push stored", added(before, s.storedBelow(folder)), []string{prefix + ".manifest.json", prefix + "index.html"})
	s.numbered(s.static("store"), "store", 1)
	s.wantWhole()
	archive := filepath.Join(t.TempDir(), "landfall.tar.zst")
	s.landfall("backup", archive)
	again := restored(t, archive)
	for _, s := range []*site{s, again} {
		wantServed(t, s, "shop--"+string(one), "/", "page 1")
		wantServed(t, s, "shop--"+string(one), "/shared.txt", "shared by both")
		wantServed(t, s, "store", "/", "page 1")
		s.wantWhole()
		id := s.showApp("shop").ID
		s.landfall("app", "delete", "shop", "--force")
		s.wantRemoved(id, folder)
		wantServed(t, s, "store", "/", "page 1")
		s.wantWhole()
	}
}
