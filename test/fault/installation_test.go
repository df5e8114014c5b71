package fault_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// newInstallation is a stopped site with an app that was pushed to.
func newInstallation(t testing.TB, on, app string) (*site.Site, string) {
	t.Helper()
	s := site.NewOn(t, site.EngineOf(t, on))
	r := s.Repository(s.App(app))
	forge.Round(r, app, 1)
	uid := s.Released(r.Push("main"), app)
	s.Stop()
	return s, app + "--" + string(uid)
}

// refuses starts the server, which must end, and must say every part.
func refuses(s *site.Site, parts ...string) {
	s.T.Helper()
	s.Start()
	s.Dies()
	testkit.Contains(s.T, s.Log, parts...)
	s.Cmd = nil
}

// A server is not started on the data folder of one installation and the database or the bucket of another: it says
// which is whose, and where the settings came from, and changes nothing.
func TestDifferentInstallations(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", site.WithPostgres + "+" + site.WithS3} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			one, first := newInstallation(t, on, forge.NearApp)
			other, second := newInstallation(t, on, forge.FarApp)
			settings := other.Env
			database, right := other.Engine.Database, one.Engine.Database
			if database == "" {
				database, right = filepath.Join(other.Data, "landfall.db"), filepath.Join(one.Data, "landfall.db")
			}

			file := filepath.Join(t.TempDir(), "landfall.yaml")
			if err := os.WriteFile(file, []byte("database: "+database+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			one.Flags = []string{"--config", file}
			mine := one.Env
			one.Env = withoutDatabase(mine)
			refuses(one, "these are of different installations", "the data folder "+one.Data, "right would be", file)
			if err := os.WriteFile(file, []byte("database: "+right+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			one.Start()
			testkit.Contains(t, one.Log, "settings were read from a file", file)
			site.WantServed(t, one, first, "/", forge.PageOf(forge.NearApp, 1))
			one.Stop()
			one.Flags, one.Env = nil, mine

			if one.Engine.Bucket.Endpoint != "" { // the bucket of the other, whose database is its own
				one.Env = append(withoutDatabase(settings), "LANDFALL_DATABASE="+one.Engine.Database)
				refuses(one, "these are of different installations", "the bucket "+other.Engine.Bucket.Bucket)
				one.Env = mine
			}
			other.Start()
			site.WantServed(t, other, second, "/", forge.PageOf(forge.FarApp, 1))
			site.WantSound(t, other, true)
			site.WantSound(t, one, true)
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

// A server is not started when a part of what it kept is gone, and says which: the database, the repositories or the
// objects. What is put back is served again, and landfall serve --new begins with what there is.
func TestLostParts(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", site.WithPostgres + "+" + site.WithS3} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			s, host := newInstallation(t, on, forge.NearApp)
			away := func(name string) (back func()) {
				from, to := filepath.Join(s.Data, name), filepath.Join(s.Data, name+".away")
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
			refuses(s, "the repositories are gone", filepath.Join(s.Data, "git"), "landfall serve --new")
			back()
			if s.Engine.Bucket.Endpoint == "" {
				back = away("objects")
				refuses(s, "has no object", filepath.Join(s.Data, "objects"), "landfall serve --new")
				if _, err := os.Stat(filepath.Join(s.Data, "objects")); err == nil {
					t.Error("an empty folder of objects was made all the same")
				}
				back()
			}
			s.Start()
			site.WantServed(t, s, host, "/", forge.PageOf(forge.NearApp, 1))
			if s.Engine.Bucket.Endpoint == "" {
				waitsForObjects(s, away)
			}
			s.Stop()

			if s.Engine.Database != "" {
				storetest.Empty(t, s.Engine.Database)
			} else {
				away("landfall.db")
			}
			// K-018: a data folder whose database is gone is refused with a sentence, and no new one is made
			refuses(s, "its database is gone, or is another one", "landfall restore", "landfall serve --new")
			if _, err := os.Stat(filepath.Join(s.Data, "landfall.db")); err == nil {
				t.Error("a new database was made all the same")
			}
			s.Flags = []string{"--new"}
			s.Start()
			s.Flags = nil
			r := s.Repository(s.App(forge.FarApp))
			forge.Round(r, forge.FarApp, 1)
			host = forge.FarApp + "--" + string(s.Released(r.Push("main"), forge.FarApp))
			s.Stop()
			s.Start() // without being told again
			site.WantServed(t, s, host, "/", forge.PageOf(forge.FarApp, 1))
		})
	}
}

// waitsForObjects takes the objects away while the server runs: a push waits until they are back, and nothing is
// written elsewhere.
func waitsForObjects(s *site.Site, away func(name string) (back func())) {
	s.T.Helper()
	const app = "patient-app"
	r := s.Repository(s.App(app))
	commit := forge.Round(r, app, 1)
	back := away("objects")
	pushed := make(chan site.Told)
	go func() {
		out, _ := r.Try("push", "origin", "main")
		pushed <- site.ToldBy(out)
	}()
	s.Eventually("the run waits for the objects", func() bool {
		run, ok := s.RunOf(app, commit)
		return ok && strings.Contains(run.Reason, "Trying again: the folder of the object store is gone")
	})
	back()
	host := app + "--" + string(s.Released(<-pushed, app))
	site.WantServed(s.T, s, host, "/", forge.PageOf(app, 1))
}

// ready returns what /readyz says.
func ready(s *site.Site) string {
	s.T.Helper()
	return s.Get("http://127.0.0.1:" + s.Port + "/readyz").Body
}

// problems returns what landfall status says is wrong.
func problems(s *site.Site) site.Told {
	s.T.Helper()
	var status client.Status
	s.Call(http.MethodGet, "/status", nil, &status)
	return site.Told{strings.Join(status.Problems, "\n")}
}

// landfall serve --new lasts: what it was told to go on with is started plainly from then on, and takes pushes.
func TestNewLasts(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"sqlite+folder", site.WithPostgres + "+" + site.WithS3} {
		for lost, lose := range map[string]func(s *site.Site) (app string){
			"the database": func(s *site.Site) string {
				if s.Engine.Database != "" {
					storetest.Empty(s.T, s.Engine.Database)
				} else if err := os.Remove(filepath.Join(s.Data, "landfall.db")); err != nil {
					s.T.Fatal(err)
				}
				return ""
			},
			"the repositories": func(s *site.Site) string {
				if err := os.RemoveAll(filepath.Join(s.Data, "git")); err != nil {
					s.T.Fatal(err)
				}
				return forge.NearApp
			},
			"the objects": func(s *site.Site) string {
				if s.Engine.Bucket.Endpoint != "" {
					s.Env = append(s.Env, "LANDFALL_S3_BUCKET="+s.Engine.Bucket.Bucket+"-other")
				} else if err := os.RemoveAll(filepath.Join(s.Data, "objects")); err != nil {
					s.T.Fatal(err)
				}
				return forge.NearApp
			},
			"a strange database": func(s *site.Site) string {
				other, _ := newInstallation(s.T, on, forge.FarApp)
				database := other.Engine.Database
				if database == "" {
					database = filepath.Join(other.Data, "landfall.db")
				}
				s.Env = append(withoutDatabase(s.Env), "LANDFALL_DATABASE="+database)
				return forge.FarApp
			},
		} {
			t.Run(lost+" on "+on, func(t *testing.T) {
				t.Parallel()
				s, _ := newInstallation(t, on, forge.NearApp)
				app := lose(s)
				refuses(s, "landfall serve --new")
				s.Flags = []string{"--new"}
				s.Start()
				s.Stop()
				s.Flags = nil
				s.Start()
				if app == "" {
					app = s.App(forge.NearApp).Name
				}
				r := s.Repository(s.ShowApp(app))
				forge.Round(r, app, 2)
				// K-018: what serve --new accepted is started plainly from then on, and takes pushes
				site.WantServed(t, s, app+"--"+string(s.Released(r.Push("--force", "main"), app)), "/", forge.PageOf(app, 2))
				s.Stop()
				s.Start()
				site.WantServed(t, s, app, "/", forge.PageOf(app, 2))
			})
		}
	}
}

// A repository that is gone is not made anew by who reads or pushes, and its branches are not taken for deleted: it is
// named, and what was put back goes on. Once it is said that it will not come back, it is pushed again.
func TestLostRepository(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	near, far := s.App(forge.NearApp), s.App(forge.FarApp)
	r, other := s.Repository(near), s.Repository(far)
	forge.Round(r, forge.NearApp, 1)
	r.Push("main")
	r.Git("switch", "--quiet", "--create", "topic")
	forge.Round(r, forge.NearApp, 2)
	topic := forge.NearApp + "--" + string(s.Released(r.Push("topic"), forge.NearApp))
	forge.Round(other, forge.FarApp, 1)
	other.Push("main")
	folder := filepath.Join(s.Data, "git", near.ID+".git")
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(folder, folder+".away")
	const gone = "the repository of " + forge.NearApp + " is gone"
	wantGone := func(when string) {
		t.Helper()
		forge.Round(r, forge.NearApp, 3)
		for _, command := range [][]string{{"ls-remote", "origin"}, {"fetch", "origin"}, {"push", "origin", "topic"}} {
			out, err := r.Try(command...)
			if err == nil || !strings.Contains(out, gone) {
				t.Errorf("%s, git %s: got %v\n%s\nwant %q", when, command[0], err, out, gone)
			}
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s, the repository was made anew", when)
		}
		// K-018: who asks hears whose repository is gone, and what to do
		s.Eventually("it is said", func() bool { return strings.Contains(ready(s), "those of 1 app are not here") })
		testkit.Contains(t, site.Told{ready(s)}, "bring the process that has them back, or its folder git",
			"landfall serve --new")
		testkit.Contains(t, problems(s), "not here are those of "+forge.NearApp)
		wantNamed(s, "repository", forge.NearApp, near.ID)
		site.WantServed(t, s, topic, "/", forge.PageOf(forge.NearApp, 2))
		forge.Round(other, forge.FarApp, 2)
		s.Released(other.Push("main"), forge.FarApp)
	}
	wantGone("while the server runs")
	s.Stop()
	s.Start()
	wantGone("after a start")
	rename(folder+".away", folder)
	s.Released(r.Push("topic"), forge.NearApp)
	s.Stop()
	rename(folder, folder+".away")
	s.Flags = []string{"--new"}
	s.Start()
	s.Stop()
	s.Flags = nil
	s.Start()
	site.WantServed(t, s, topic, "/", forge.PageOf(forge.NearApp, 2))
	forge.Round(r, forge.NearApp, 4)
	site.WantServed(t, s, forge.NearApp+"--"+string(s.Released(r.Push("topic"), forge.NearApp)), "/",
		forge.PageOf(forge.NearApp, 4))
	site.WantServed(t, s, forge.NearApp, "/", forge.PageOf(forge.NearApp, 1))
	r.Push("main")
	site.WantSound(t, s, true)
}

// A second process with the role api, on a machine of its own, hears that there is one already. Once it takes over, it
// serves what it has, and says which repositories it has not: they were never in its data folder, so it is not taken
// for one that lost them.
func TestStandbyHasNoRepositories(t *testing.T) {
	t.Parallel()
	s, host := newInstallation(t, site.WithPostgres+"+"+site.WithS3, forge.NearApp)
	s.Start()
	standby := site.NewStopped(t, s.Engine)
	standby.Env = s.Env
	refuses(standby, "another landfall process uses this database")
	s.Stop()
	for range 2 {
		standby.Start()
		site.WantServed(t, standby, host, "/", forge.PageOf(forge.NearApp, 1))
		testkit.Contains(t, site.Told{ready(standby)}, "those of 1 app are not here")
		testkit.Contains(t, standby.Log, "taken for that of a standby", forge.NearApp)
		standby.ReadToken()
		testkit.Contains(t, problems(standby), "not here are those of "+forge.NearApp, "taken for that of a standby")
		standby.Stop()
	}
	s.Start()
	r := s.Repository(s.ShowApp(forge.NearApp))
	forge.Round(r, forge.NearApp, 2)
	site.WantServed(t, s, forge.NearApp+"--"+string(s.Released(r.Push("--force", "main"), forge.NearApp)), "/",
		forge.PageOf(forge.NearApp, 2))
}

// A standby that was told that the repositories are lost is pushed to from then on. The process that has them all the
// same, as they once were, is not started any more; not even with the flag it puts an older release live.
func TestStandbyTakesOverForGood(t *testing.T) {
	t.Parallel()
	s, _ := newInstallation(t, site.WithPostgres+"+"+site.WithS3, forge.NearApp)
	standby := site.NewStopped(t, s.Engine)
	standby.Env = s.Env
	standby.Flags = []string{"--new"}
	standby.Start()
	testkit.Contains(t, standby.Log, "its branches are unknown until they are pushed again", forge.NearApp)
	standby.ReadToken()
	r := standby.Repository(standby.ShowApp(forge.NearApp))
	forge.Round(r, forge.NearApp, 2)
	standby.Released(r.Push("--force", "main"), forge.NearApp)
	site.WantServed(t, standby, forge.NearApp, "/", forge.PageOf(forge.NearApp, 2))
	standby.Stop()
	refuses(s, "these are of different installations", "the data folder "+s.Data)
	s.Flags = []string{"--new"}
	s.Start()
	site.WantServed(t, s, forge.NearApp, "/", forge.PageOf(forge.NearApp, 2))
	s.Eventually("the older copy is left out", func() bool {
		return strings.Contains(s.Log.String(), "it is an older copy")
	})
	site.WantServed(t, s, forge.NearApp, "/", forge.PageOf(forge.NearApp, 2))
}

// A data folder whose path has characters of a pattern is looked at as any other.
func TestStrangeRepositoriesBelowAPattern(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	s.Stop()
	s.Data = filepath.Join(t.TempDir(), "[data*?")
	if err := os.MkdirAll(filepath.Join(s.Data, "git", "unknown.git"), 0o700); err != nil {
		t.Fatal(err)
	}
	refuses(s, "has repositories of apps, and", "knows none of these apps")
}
