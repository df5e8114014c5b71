package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store/storetest"
)

// newInstallation is a stopped site with an app that was pushed to.
func newInstallation(t *testing.T, on, app string) (*site, string) {
	t.Helper()
	s := newSiteOn(t, engineOf(t, on))
	r := s.repository(s.app(app))
	r.round(app, 1)
	uid := s.released(r.push("main"), app)
	s.stop()
	return s, app + "--" + string(uid)
}

// refuses starts the server, which must end, and must say every part.
func (s *site) refuses(parts ...string) {
	s.t.Helper()
	s.start()
	s.dies()
	wantText(s.t, s.log, parts...)
	s.cmd = nil
}

// A server is not started on the data folder of one installation and the database or the bucket of another: it says which is whose,
// and where the settings came from, and changes nothing.
func TestDifferentInstallations(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", withPostgres + "+" + withS3} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			one, first := newInstallation(t, on, nearApp)
			other, second := newInstallation(t, on, farApp)
			settings := other.env
			database, right := other.engine.database, one.engine.database
			if database == "" {
				database, right = filepath.Join(other.data, "landfall.db"), filepath.Join(one.data, "landfall.db")
			}

			file := filepath.Join(t.TempDir(), "landfall.yaml")
			if err := os.WriteFile(file, []byte("database: "+database+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			one.flags = []string{"--config", file}
			mine := one.env
			one.env = withoutDatabase(mine)
			one.refuses("these are of different installations", "the data folder "+one.data, "right would be", file)
			if err := os.WriteFile(file, []byte("database: "+right+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			one.start()
			wantText(t, one.log, "settings were read from a file", file)
			wantServed(t, one, first, "/", pageOf(nearApp, 1))
			one.stop()
			one.flags, one.env = nil, mine

			if one.engine.bucket.Endpoint != "" { // the bucket of the other, whose database is its own
				one.env = append(withoutDatabase(settings), "LANDFALL_DATABASE="+one.engine.database)
				one.refuses("these are of different installations", "the bucket "+other.engine.bucket.Bucket)
				one.env = mine
			}
			other.start()
			wantServed(t, other, second, "/", pageOf(farApp, 1))
			wantSound(t, other, true)
			wantSound(t, one, true)
		})
	}
}

func withoutDatabase(env []string) (rest []string) {
	for _, setting := range env {
		if !strings.HasPrefix(setting, "LANDFALL_DATABASE=") {
			rest = append(rest, setting)
		}
	}
	return rest
}

// A server is not started when a part of what it kept is gone, and says which: the database, the repositories or the objects. What is
// put back is served again, and landfall serve --new begins with what there is.
func TestLostParts(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", withPostgres + "+" + withS3} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			s, host := newInstallation(t, on, nearApp)
			away := func(name string) (back func()) {
				from, to := filepath.Join(s.data, name), filepath.Join(s.data, name+".away")
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
				return func() {
					if err := os.RemoveAll(from); err != nil {
						t.Fatal(err)
					}
					if err := os.Rename(to, from); err != nil {
						t.Fatal(err)
					}
				}
			}
			back := away("git")
			// K-018: a data folder without its repositories is refused with a sentence
			s.refuses("the repositories are gone", filepath.Join(s.data, "git"), "landfall serve --new")
			back()
			if s.engine.bucket.Endpoint == "" {
				back = away("objects")
				s.refuses("has no object", filepath.Join(s.data, "objects"), "landfall serve --new")
				if _, err := os.Stat(filepath.Join(s.data, "objects")); err == nil {
					t.Error("an empty folder of objects was made all the same")
				}
				back()
			}
			s.start()
			wantServed(t, s, host, "/", pageOf(nearApp, 1))
			if s.engine.bucket.Endpoint == "" {
				s.waitsForObjects(away)
			}
			s.stop()

			if s.engine.database != "" {
				storetest.Empty(t, s.engine.database)
			} else {
				away("landfall.db")
			}
			// K-018: a data folder whose database is gone is refused with a sentence, and no new one is made
			s.refuses("its database is gone, or is another one", "landfall restore", "landfall serve --new")
			if _, err := os.Stat(filepath.Join(s.data, "landfall.db")); err == nil {
				t.Error("a new database was made all the same")
			}
			s.flags = []string{"--new"}
			s.start()
			s.flags = nil
			r := s.repository(s.app(farApp))
			r.round(farApp, 1)
			host = farApp + "--" + string(s.released(r.push("main"), farApp))
			s.stop()
			s.start() // without being told again
			wantServed(t, s, host, "/", pageOf(farApp, 1))
		})
	}
}

// waitsForObjects takes the objects away while the server runs: a push waits until they are back, and nothing is written elsewhere.
func (s *site) waitsForObjects(away func(name string) (back func())) {
	s.t.Helper()
	const app = "patient-app"
	r := s.repository(s.app(app))
	commit := r.round(app, 1)
	back := away("objects")
	pushed := make(chan told)
	go func() {
		out, _ := r.try("push", "origin", "main")
		pushed <- toldBy(out)
	}()
	s.eventually("the run waits for the objects", func() bool {
		run, ok := s.runOf(app, commit)
		return ok && strings.Contains(run.Reason, "Trying again: the folder of the object store is gone")
	})
	back()
	host := app + "--" + string(s.released(<-pushed, app))
	wantServed(s.t, s, host, "/", pageOf(app, 1))
}

// ready returns what /readyz says.
func (s *site) ready() string {
	s.t.Helper()
	return s.get("http://127.0.0.1:" + s.port + "/readyz").body
}

// problems returns what landfall status says is wrong.
func (s *site) problems() told {
	s.t.Helper()
	var status client.Status
	s.call(http.MethodGet, "/status", nil, &status)
	return told{strings.Join(status.Problems, "\n")}
}

// landfall serve --new lasts: what it was told to go on with is started plainly from then on, and takes pushes.
func TestNewLasts(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", withPostgres + "+" + withS3} {
		for lost, lose := range map[string]func(s *site) (app string){
			"the database": func(s *site) string {
				if s.engine.database != "" {
					storetest.Empty(s.t, s.engine.database)
				} else if err := os.Remove(filepath.Join(s.data, "landfall.db")); err != nil {
					s.t.Fatal(err)
				}
				return ""
			},
			"the repositories": func(s *site) string {
				if err := os.RemoveAll(filepath.Join(s.data, "git")); err != nil {
					s.t.Fatal(err)
				}
				return nearApp
			},
			"the objects": func(s *site) string {
				if s.engine.bucket.Endpoint != "" {
					s.env = append(s.env, "LANDFALL_S3_BUCKET="+s.engine.bucket.Bucket+"-other")
				} else if err := os.RemoveAll(filepath.Join(s.data, "objects")); err != nil {
					s.t.Fatal(err)
				}
				return nearApp
			},
			"a strange database": func(s *site) string {
				other, _ := newInstallation(s.t, on, farApp)
				database := other.engine.database
				if database == "" {
					database = filepath.Join(other.data, "landfall.db")
				}
				s.env = append(withoutDatabase(s.env), "LANDFALL_DATABASE="+database)
				return farApp
			},
		} {
			t.Run(lost+" on "+on, func(t *testing.T) {
				t.Parallel()
				s, _ := newInstallation(t, on, nearApp)
				app := lose(s)
				s.refuses("landfall serve --new")
				s.flags = []string{"--new"}
				s.start()
				s.stop()
				s.flags = nil
				s.start()
				if app == "" {
					app = s.app(nearApp).Name
				}
				r := s.repository(s.showApp(app))
				r.round(app, 2)
				// K-018: what serve --new accepted is started plainly from then on, and takes pushes
				wantServed(t, s, app+"--"+string(s.released(r.push("--force", "main"), app)), "/", pageOf(app, 2))
				s.stop()
				s.start()
				wantServed(t, s, app, "/", pageOf(app, 2))
			})
		}
	}
}

// A repository that is gone is not made anew by who reads or pushes, and its branches are not taken for deleted: it is named, and what
// was put back goes on. Once it is said that it will not come back, it is pushed again.
func TestLostRepository(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	near, far := s.app(nearApp), s.app(farApp)
	r, other := s.repository(near), s.repository(far)
	r.round(nearApp, 1)
	r.push("main")
	r.git("switch", "--quiet", "--create", "topic")
	r.round(nearApp, 2)
	topic := nearApp + "--" + string(s.released(r.push("topic"), nearApp))
	other.round(farApp, 1)
	other.push("main")
	folder := filepath.Join(s.data, "git", near.ID+".git")
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(folder, folder+".away")
	const gone = "the repository of " + nearApp + " is gone"
	wantGone := func(when string) {
		t.Helper()
		r.round(nearApp, 3)
		for _, command := range [][]string{{"ls-remote", "origin"}, {"fetch", "origin"}, {"push", "origin", "topic"}} {
			out, err := r.try(command...)
			if err == nil || !strings.Contains(out, gone) {
				t.Errorf("%s, git %s: got %v\n%s\nwant %q", when, command[0], err, out, gone)
			}
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s, the repository was made anew", when)
		}
		// K-018: who asks hears whose repository is gone, and what to do
		s.eventually("it is said", func() bool { return strings.Contains(s.ready(), "those of 1 app are not here") })
		wantText(t, told{s.ready()}, "bring the process that has them back, or its folder git", "landfall serve --new")
		wantText(t, s.problems(), "not here are those of "+nearApp)
		s.wantNamed("repository", nearApp, near.ID)
		wantServed(t, s, topic, "/", pageOf(nearApp, 2))
		other.round(farApp, 2)
		s.released(other.push("main"), farApp)
	}
	wantGone("while the server runs")
	s.stop()
	s.start()
	wantGone("after a start")
	rename(folder+".away", folder)
	s.released(r.push("topic"), nearApp)
	s.stop()
	rename(folder, folder+".away")
	s.flags = []string{"--new"}
	s.start()
	s.stop()
	s.flags = nil
	s.start()
	wantServed(t, s, topic, "/", pageOf(nearApp, 2))
	r.round(nearApp, 4)
	wantServed(t, s, nearApp+"--"+string(s.released(r.push("topic"), nearApp)), "/", pageOf(nearApp, 4))
	wantServed(t, s, nearApp, "/", pageOf(nearApp, 1))
	r.push("main")
	wantSound(t, s, true)
}

// A second process with the role api, on a machine of its own, hears that there is one already. Once it takes over, it serves what it
// has, and says which repositories it has not: they were never in its data folder, so it is not taken for one that lost them.
func TestStandbyHasNoRepositories(t *testing.T) {
	t.Parallel()
	s, host := newInstallation(t, withPostgres+"+"+withS3, nearApp)
	s.start()
	standby := newStopped(t, s.engine)
	standby.env = s.env
	standby.refuses("another landfall process uses this database")
	s.stop()
	for range 2 {
		standby.start()
		wantServed(t, standby, host, "/", pageOf(nearApp, 1))
		wantText(t, told{standby.ready()}, "those of 1 app are not here")
		wantText(t, standby.log, "taken for that of a standby", nearApp)
		standby.readToken()
		wantText(t, standby.problems(), "not here are those of "+nearApp, "taken for that of a standby")
		standby.stop()
	}
	s.start()
	r := s.repository(s.showApp(nearApp))
	r.round(nearApp, 2)
	wantServed(t, s, nearApp+"--"+string(s.released(r.push("--force", "main"), nearApp)), "/", pageOf(nearApp, 2))
}

// A standby that was told that the repositories are lost is pushed to from then on. The process that has them all the same, as they once
// were, is not started any more; not even with the flag it puts an older release live.
func TestStandbyTakesOverForGood(t *testing.T) {
	t.Parallel()
	s, _ := newInstallation(t, withPostgres+"+"+withS3, nearApp)
	standby := newStopped(t, s.engine)
	standby.env = s.env
	standby.flags = []string{"--new"}
	standby.start()
	wantText(t, standby.log, "its branches are unknown until they are pushed again", nearApp)
	standby.readToken()
	r := standby.repository(standby.showApp(nearApp))
	r.round(nearApp, 2)
	standby.released(r.push("--force", "main"), nearApp)
	wantServed(t, standby, nearApp, "/", pageOf(nearApp, 2))
	standby.stop()
	s.refuses("these are of different installations", "the data folder "+s.data)
	s.flags = []string{"--new"}
	s.start()
	wantServed(t, s, nearApp, "/", pageOf(nearApp, 2))
	s.eventually("the older copy is left out", func() bool { return strings.Contains(s.log.String(), "it is an older copy") })
	wantServed(t, s, nearApp, "/", pageOf(nearApp, 2))
}

// A data folder whose path has characters of a pattern is looked at as any other.
func TestStrangeRepositoriesBelowAPattern(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stop()
	s.data = filepath.Join(t.TempDir(), "[data*?")
	if err := os.MkdirAll(filepath.Join(s.data, "git", "unknown.git"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.refuses("has repositories of apps, and", "knows none of these apps")
}
