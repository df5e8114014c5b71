package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// in returns the site for a subtest.
func (s *site) in(t *testing.T) *site {
	t.Helper()
	c := *s
	c.t = t
	return &c
}

// Exit codes of the command line, as `landfall --help` has them.
const (
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 6
)

// told is what the server said during a push, line by line, as the person who pushed reads it.
type told []string

func (o told) String() string { return strings.Join(o, "\n") }

func toldBy(output string) told {
	var lines told
	for line := range strings.Lines(output) {
		if text, ok := strings.CutPrefix(line, "remote: "); ok {
			lines = append(lines, strings.TrimRight(text, " \r\n"))
		}
	}
	return lines
}

// push pushes to origin and fails the test when git fails.
func (r *repository) push(args ...string) told {
	r.t.Helper()
	return toldBy(r.git(append([]string{"push", "origin"}, args...)...))
}

// released returns the release whose address stands on a line of its own.
func (s *site) released(o told, app string) landfall.UID {
	s.t.Helper()
	uid, ok := s.releasedIn(o, app)
	if !ok {
		s.t.Fatalf("got no line that is the address of a release of %s in:\n%s", app, o)
	}
	return uid
}

// releasedIn is released for what may not have made a release.
func (s *site) releasedIn(o told, app string) (landfall.UID, bool) {
	for _, line := range o {
		label, found := strings.CutPrefix(line, "http://"+app+"--")
		uid, ok := strings.CutSuffix(label, ".localhost:"+s.port+"/")
		if found && ok && landfall.IsUID(uid) {
			return landfall.UID(uid), true
		}
	}
	return "", false
}

// pushed commits everything, pushes the branch that is checked out, and returns its release.
func (s *site) pushed(r *repository, app, message string) landfall.UID {
	s.t.Helper()
	r.commit(message)
	return s.released(r.push("HEAD"), app)
}

// applied applies HEAD as `spec version apply` does: the commit travels to a reference of its own. It waits for the run.
func (s *site) applied(r *repository, app, branch string, noRelease bool) client.Run {
	s.t.Helper()
	id := strings.ToLower(rand.Text())
	r.git("push", "--quiet", "origin", "HEAD:"+landfall.ApplyPrefix+id)
	var answer client.Applied
	s.call(http.MethodPost, "/apps/"+app+"/applies",
		client.Apply{ID: id, Commit: r.head(), Base: r.head(), Branch: branch, Clean: true, NoRelease: noRelease}, &answer)
	return s.final(answer.Run.ID)
}

// final waits until a run is over and returns it whole.
func (s *site) final(id string) client.Run {
	s.t.Helper()
	var run client.Run
	s.eventually("the run "+id+" is over", func() bool {
		s.call(http.MethodGet, "/runs/"+id, nil, &run)
		return run.State.Final()
	})
	return run
}

// refused calls the API, which must refuse, and returns how.
func (s *site) refused(method, path string, in any) *landfall.Error {
	s.t.Helper()
	err := s.Do(context.Background(), method, path, in, nil)
	if err == nil {
		s.t.Fatalf("%s %s was not refused", method, path)
	}
	return &landfall.Error{Kind: landfall.KindOf(err), Message: landfall.MessageOf(err)}
}

// release returns a release with its units.
func (s *site) release(app, name string) client.Release {
	s.t.Helper()
	var r client.Release
	s.call(http.MethodGet, "/apps/"+app+"/releases/"+name, nil, &r)
	return r
}

// unitsOf returns the units of a release by "kind name".
func (s *site) unitsOf(app, name string) map[string]landfall.GroupUnit {
	s.t.Helper()
	units := map[string]landfall.GroupUnit{}
	for _, u := range s.release(app, name).Units {
		units[u.Unit.String()] = u
	}
	return units
}

// accessible returns the releases of an app that are not expired, newest first.
func (s *site) accessible(app string) []landfall.UID {
	s.t.Helper()
	var all []landfall.UID
	for _, r := range list[client.Release](s, "/apps/"+app+"/releases") {
		if r.Expired.IsZero() {
			all = append(all, r.ID)
		}
	}
	return all
}

// tagged returns what the tags of an app name.
func (s *site) tagged(app string) map[string]landfall.UID {
	s.t.Helper()
	tags := map[string]landfall.UID{}
	for _, r := range list[client.Release](s, "/apps/"+app+"/releases") {
		for _, tag := range r.Tags {
			tags[tag] = r.ID
		}
	}
	return tags
}

// objectsOf returns the folder of the object store that holds an app's content.
func (s *site) objectsOf(app string) string {
	s.t.Helper()
	return "apps/" + s.showApp(app).ID + "/"
}

// stored returns the keys of all objects of an app.
func (s *site) stored(app string) []string {
	s.t.Helper()
	return s.storedBelow(s.objectsOf(app))
}

// storedBelow returns the keys of all objects below a folder of the object store.
func (s *site) storedBelow(folder string) []string {
	s.t.Helper()
	objects, err := s.openObjects()
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	var keys []string
	for key, err := range objects.List(context.Background(), folder) {
		if err != nil {
			s.t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// added returns what is in after and not in before.
func added(before, after []string) []string {
	fresh := []string{}
	for _, key := range after {
		if !slices.Contains(before, key) {
			fresh = append(fresh, key)
		}
	}
	return fresh
}

// appSpec is an App document that serves the folder site; more follows in its spec.
func appSpec(name string, more ...string) string {
	text := "apiVersion: landfall.dev/v1\nkind: App\nmetadata: {name: " + name + "}\nspec:\n  static:\n    - {src: site, path: /}\n"
	for _, line := range more {
		text += "  " + line + "\n"
	}
	return text
}

// functionSpec declares a function of Python, with its package and archive, whose code is NAME/main.py.
func functionSpec(name string) string {
	return strings.ReplaceAll(`apiVersion: fission.io/v1
kind: Function
metadata: {name: NAME}
spec:
  environment: {name: python}
  package:
    packageref: {name: NAME-pkg}
    functionName: main.main
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: NAME-pkg}
spec:
  environment: {name: python}
  deployment: {url: "archive://NAME"}
---
kind: ArchiveUploadSpec
name: NAME
include: ["NAME/*.py"]
---
`, "NAME", name)
}

const environmentSpec = "apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: python}\nspec:\n  version: 2\n  runtime: {image: fission/python-env}\n"

// wantEqual fails the test unless got is want.
func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// wantList fails the test unless got is want, in order.
func wantList[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// wantText fails the test unless every part stands in text.
func wantText(t *testing.T, text fmt.Stringer, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text.String(), part) {
			t.Errorf("got no %q in:\n%s", part, text)
		}
	}
}

// wantLine fails the test unless a line is exactly want.
func wantLine(t *testing.T, o told, want string) {
	t.Helper()
	if !slices.Contains(o, want) {
		t.Errorf("got no line %q in:\n%s", want, o)
	}
}

// wantRefused fails the test unless a refusal has the kind and says every part.
func wantRefused(t *testing.T, err *landfall.Error, kind landfall.Kind, parts ...string) {
	t.Helper()
	if err.Kind != kind {
		t.Errorf("got a refusal of kind %s (%s), want %s", err.Kind, err.Message, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Message, part) {
			t.Errorf("got %q, which does not say %q", err.Message, part)
		}
	}
}

// wantServed fails the test unless the host answers the path with exactly this body.
func wantServed(t *testing.T, s *site, host, path, want string) {
	t.Helper()
	p := s.in(t).get(s.at(host, path))
	if p.status != http.StatusOK || p.body != want {
		t.Errorf("%s%s: got %d %.300q, want 200 %.300q", host, path, p.status, p.body, want)
	}
}

// wantStatus fails the test unless the host answers / with the status and a page that says every part.
func wantStatus(t *testing.T, s *site, host string, status int, parts ...string) {
	t.Helper()
	p := s.in(t).get(s.at(host, "/"))
	if p.status != status {
		t.Errorf("%s: got %d %.300q, want %d", host, p.status, p.body, status)
	}
	for _, part := range parts {
		if !strings.Contains(html.UnescapeString(p.body), part) {
			t.Errorf("%s: got the page %q, which does not say %q", host, p.body, part)
		}
	}
}

// wantFailed fails the test unless the push was kept, its run ended as failed, and its output says every part.
func wantFailed(t *testing.T, s *site, app string, r *repository, o told, parts ...string) {
	t.Helper()
	run := s.in(t).finished(app, r.head())
	if run.State != landfall.RunFailed || run.Release != "" {
		t.Errorf("got the state %s and the release %q, want %s and none: %s", run.State, run.Release, landfall.RunFailed, run.Reason)
	}
	wantText(t, o, append(parts, "made no release")...)
}

// clock is a moment of the server's between two pushes.
func clock() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// run runs the program as a person does, in a folder, and returns what it printed on both outputs and its exit code.
func (s *site) run(dir string, args ...string) (out string, code int) {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LANDFALL_SERVER="+s.URL, "LANDFALL_TOKEN="+s.Token, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	data, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
		s.t.Fatalf("landfall %s: %v\n%s", strings.Join(args, " "), err, data)
	}
	return string(data), cmd.ProcessState.ExitCode()
}
