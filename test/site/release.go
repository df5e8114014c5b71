package site

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// Released returns the release whose address stands on a line of its own.
func (s *Site) Released(o Told, app string) landfall.UID {
	s.T.Helper()
	uid, ok := s.ReleasedIn(o, app)
	if !ok {
		s.T.Fatalf("got no line that is the address of a release of %s in:\n%s", app, o)
	}
	return uid
}

// ReleasedIn is released for what may not have made a release.
func (s *Site) ReleasedIn(o Told, app string) (landfall.UID, bool) {
	for _, line := range o {
		label, found := strings.CutPrefix(line, "http://"+app+"--")
		uid, ok := strings.CutSuffix(label, ".localhost:"+s.Port+"/")
		if found && ok && landfall.IsUID(uid) {
			return landfall.UID(uid), true
		}
	}
	return "", false
}

// Pushed commits everything, pushes the branch that is checked out, and returns its release.
func (s *Site) Pushed(r *Repository, app, message string) landfall.UID {
	s.T.Helper()
	r.Commit(message)
	return s.Released(r.Push("HEAD"), app)
}

// Applied applies HEAD as `spec version apply` does: the commit travels to a reference of its own. It waits for the
// run.
func (s *Site) Applied(r *Repository, app, branch string, noRelease bool) client.Run {
	s.T.Helper()
	id := strings.ToLower(rand.Text())
	r.Git("push", "--quiet", "origin", "HEAD:"+landfall.ApplyPrefix+id)
	var answer client.Applied
	s.Call(http.MethodPost, "/apps/"+app+"/applies",
		client.Apply{ID: id, Commit: r.Head(), Base: r.Head(), Branch: branch, Clean: true, NoRelease: noRelease}, &answer)
	return s.Final(answer.Run.ID)
}

// Final waits until a run is over and returns it whole.
func (s *Site) Final(id string) client.Run {
	s.T.Helper()
	var run client.Run
	s.Eventually("the run "+id+" is over", func() bool {
		s.Call(http.MethodGet, "/runs/"+id, nil, &run)
		return run.State.Final()
	})
	return run
}

// Release returns a release with its units.
func (s *Site) Release(app, name string) client.Release {
	s.T.Helper()
	var r client.Release
	s.Call(http.MethodGet, "/apps/"+app+"/releases/"+name, nil, &r)
	return r
}

// UnitsOf returns the units of a release by "kind name".
func (s *Site) UnitsOf(app, name string) map[string]landfall.GroupUnit {
	s.T.Helper()
	units := map[string]landfall.GroupUnit{}
	for _, u := range s.Release(app, name).Units {
		units[u.Unit.String()] = u
	}
	return units
}

// Accessible returns the releases of an app that are not expired, newest first.
func (s *Site) Accessible(app string) []landfall.UID {
	s.T.Helper()
	var all []landfall.UID
	for _, r := range List[client.Release](s, "/apps/"+app+"/releases") {
		if r.Expired.IsZero() {
			all = append(all, r.ID)
		}
	}
	return all
}

// Tagged returns what the tags of an app name.
func (s *Site) Tagged(app string) map[string]landfall.UID {
	s.T.Helper()
	tags := map[string]landfall.UID{}
	for _, r := range List[client.Release](s, "/apps/"+app+"/releases") {
		for _, tag := range r.Tags {
			tags[tag] = r.ID
		}
	}
	return tags
}

// Clock is a moment of the server's between two pushes.
func Clock() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// RunOf returns the newest run of a commit, final or not.
func (s *Site) RunOf(app string, commit landfall.CommitSHA) (client.Run, bool) {
	s.T.Helper()
	for run := range Pages[client.Run](s, "/runs?limit=1000&app="+app) {
		if run.Commit == commit {
			return run, true
		}
	}
	return client.Run{}, false
}

// Finished waits until the commit's run is over, and returns it whole.
func (s *Site) Finished(app string, commit landfall.CommitSHA) client.Run {
	s.T.Helper()
	var run client.Run
	s.Eventually("the run of "+commit.Short()+" is over", func() bool {
		var ok bool
		run, ok = s.RunOf(app, commit)
		return ok && run.State.Final()
	})
	var whole client.Run
	s.Call(http.MethodGet, "/runs/"+run.ID, nil, &whole)
	return whole
}

// SetSecret sets a secret as a person does, and returns what was printed.
func (s *Site) SetSecret(app, name, value string, flags ...string) Told {
	s.T.Helper()
	file := filepath.Join(s.T.TempDir(), "value")
	if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
		s.T.Fatal(err)
	}
	out, code := s.Run(s.T.TempDir(), append([]string{"secret", "set", app, name, "--from-file", file}, flags...)...)
	if code != 0 {
		s.T.Fatalf("secret set ended with %d: %s", code, out)
	}
	return Told{out}
}
