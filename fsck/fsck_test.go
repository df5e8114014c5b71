package fsck_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/fsck"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

// installation has one app with a release: pages, and a package.
type installation struct {
	t       *testing.T
	db      *store.DB
	objects *disk.Store
	folder  string // of the objects
	remote  repositories
	builds  builds
}

const release landfall.UID = "aaaaaaaa"

var (
	page    = []byte("<!doctype html>the shop")
	archive = []byte("PK a zip of files")
)

// newInstallation makes one in which nothing is damaged.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	folder := t.TempDir()
	i := &installation{t: t, db: storetest.Open(t, storetest.SQLite(t)), objects: testkit.Must(disk.Open(folder))(t),
		folder: folder, remote: repositories{heads: map[landfall.RefName]landfall.CommitSHA{}}, builds: builds{}}
	t.Cleanup(func() { _ = i.objects.Close() })
	app := landfall.App{ID: "app", Namespace: landfall.DefaultNamespace, Name: "shop", Branch: "main", Created: time.Now(),
		Objects: "apps/app/"}
	static, stored := i.upload(app)
	pkg := versioning.Declared{Unit: landfall.UnitID{Kind: landfall.PackageUnit, Name: "cart"}, Spec: []byte(`{}`),
		Content: []byte(`"cart"`)}
	config := versioning.Declared{Unit: landfall.UnitID{Kind: landfall.ConfigUnit, Name: landfall.ConfigName},
		Spec: []byte(`{"currency":"EUR"}`)}
	units := testkit.Must(versioning.Resolve([]versioning.Declared{static, pkg, config}))(t)
	apply := versioning.Apply{App: app, UID: release, Commit: landfall.CommitSHA(strings.Repeat("a", 40)),
		Production: true, Units: units, At: time.Now(),
		Stored: map[landfall.UnitID]versioning.Stored{static.Unit: stored, pkg.Unit: i.store(app)}}
	i.update(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.EnsureNamespace(ctx, landfall.DefaultNamespace, 1); err != nil {
			return err
		}
		if err := tx.CreateApp(ctx, app); err != nil {
			return err
		}
		run := landfall.Run{ID: "run", App: app.ID, Commit: apply.Commit, Branch: "main", State: landfall.RunSucceeded,
			UID: release, Created: time.Now()}
		if err := tx.CreateRun(ctx, run); err != nil {
			return err
		}
		if _, err := tx.Reserve(ctx, "run", app.ID, append(stored.Prefixes, packages), time.Now()); err != nil {
			return err
		}
		inForce, err := apply.Versions(ctx, tx)
		if err != nil {
			return err
		}
		var plain []landfall.GroupUnit
		for _, u := range inForce {
			plain = append(plain, u.GroupUnit)
		}
		g := landfall.Group{UID: release, App: app.ID, Digest: versioning.GroupDigest(plain), Branch: "main",
			Commit: apply.Commit, Created: time.Now()}
		if err := tx.CreateGroup(ctx, g, inForce); err != nil {
			return err
		}
		_, err = deploy.Create(ctx, tx, g, landfall.Production, time.Now())
		return err
	})
	return i
}

// upload stores the pages of an app.
func (i *installation) upload(app landfall.App) (versioning.Declared, versioning.Stored) {
	i.t.Helper()
	file := landfall.File{Path: "index.html", Mode: landfall.Regular, Digest: landfall.DigestOf(page),
		Size: int64(len(page))}
	units, _, err := assets.Select([]assets.Rule{{Src: ".", Path: "/"}}, []landfall.File{file})
	if err != nil {
		i.t.Fatal(err)
	}
	uploader := assets.Uploader{Store: i.objects, Read: func(context.Context, landfall.File) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(page)), nil
	}}
	manifest, result, err := uploader.Upload(i.t.Context(),
		assets.Plan(units[0], assets.Prefix(app.Objects, "/", release)))
	if err != nil {
		i.t.Fatal(err)
	}
	content := landfall.StaticContent{Manifest: result.Manifest.Key, Digest: result.Manifest.Digest, Files: 1,
		Bytes: file.Size}
	return versioning.Declared{Unit: units[0].ID(), Spec: units[0].Spec(), Content: units[0].Content()},
		versioning.Stored{Content: testkit.Must(json.Marshal(content))(i.t), Prefixes: manifest.Prefixes()}
}

const packages = "apps/app/packages/cart/aaaaaaaa/"

// store stores the archive of a package of an app.
func (i *installation) store(landfall.App) versioning.Stored {
	i.t.Helper()
	const key = packages + "deploy.zip"
	if _, err := i.objects.Create(i.t.Context(), key, bytes.NewReader(archive), int64(len(archive))); err != nil {
		i.t.Fatal(err)
	}
	content := landfall.PackageContent{Deployment: &landfall.Archive{Key: key, Digest: landfall.DigestOf(archive),
		Size: int64(len(archive))}}
	return versioning.Stored{Content: testkit.Must(json.Marshal(content))(i.t), Prefixes: []string{packages}}
}

func (i *installation) update(f func(ctx context.Context, tx *store.Tx) error) {
	i.t.Helper()
	if err := i.db.Update(i.t.Context(), func(tx *store.Tx) error { return f(i.t.Context(), tx) }); err != nil {
		i.t.Fatal(err)
	}
}

// spoil changes the bytes of the objects whose key ends so; nil takes them away.
func (i *installation) spoil(suffix string, change func([]byte) []byte) {
	i.t.Helper()
	found := 0
	err := filepath.WalkDir(i.folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		found++
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil || change == nil {
			return err
		}
		return os.WriteFile(path, change(data), 0o600)
	})
	if err != nil || found == 0 {
		i.t.Fatalf("%d objects end with %s, %v", found, suffix, err)
	}
}

// findings goes over everything.
func (i *installation) findings() ([]landfall.Finding, landfall.Checked) {
	i.t.Helper()
	var all []landfall.Finding
	c := &fsck.Check{DB: i.db, Objects: i.objects, Repositories: i.remote, Builds: i.builds}
	done, err := c.Run(i.t.Context(), func(f landfall.Finding) error {
		all = append(all, f)
		return nil
	})
	if err != nil {
		i.t.Fatal(err)
	}
	return all, done
}

// repositories has one for each app.
type repositories struct {
	damage []string
	heads  map[landfall.RefName]landfall.CommitSHA
	gone   bool
}

// Check implements fsck.Repositories.
func (r repositories) Check(context.Context, string) ([]string, error) {
	if r.gone {
		return nil, &landfall.Error{Kind: landfall.NotFound}
	}
	return r.damage, nil
}

// Heads implements fsck.Repositories.
func (r repositories) Heads(context.Context, string) (map[landfall.RefName]landfall.CommitSHA, error) {
	return r.heads, nil
}

// Named implements fsck.Repositories.
func (r repositories) Named(context.Context, string,
	[]landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error) {
	return r.heads, nil
}

// Path implements fsck.Repositories.
func (repositories) Path(app string) string { return "git/" + app + ".git" }

// builds has the damaged files of each kept build.
type builds map[string][]string

// Check implements fsck.Builds.
func (b builds) Check(record store.Build) ([]string, error) { return b[string(record.Input)], nil }

// Each damage is named: what, of which app and release, where, and what to do. What is whole is no finding.
func TestFindings(t *testing.T) {
	t.Parallel()
	flip := func(data []byte) []byte { data[0] ^= 1; return data }
	for name, c := range map[string]struct {
		damage func(i *installation)
		want   landfall.Finding // of its texts, parts
	}{
		"nothing": {func(*installation) {}, landfall.Finding{}},
		"a file is gone": {func(i *installation) { i.spoil("index.html", nil) },
			landfall.Finding{What: "object", App: "shop", Unit: "static /", Path: "/index.html", Key: "index.html",
				Problem: "it is gone", Remedy: "landfall run retry --rebuild run"}},
		"a file has other bytes": {func(i *installation) {
			i.spoil("index.html", flip)
		},
			landfall.Finding{What: "object", App: "shop", Unit: "static /", Path: "/index.html", Key: "index.html",
				Problem: "other bytes than were stored", Remedy: "landfall run retry --rebuild run"}},
		"a file is shorter": {func(i *installation) {
			i.spoil("index.html", func(data []byte) []byte { return data[1:] })
		},
			landfall.Finding{What: "object", App: "shop", Unit: "static /", Path: "/index.html", Key: "index.html",
				Problem: "bytes, and 23 were stored", Remedy: "landfall run retry --rebuild run"}},
		"a manifest has other bytes": {func(i *installation) {
			i.spoil(".manifest.json", flip)
		},
			landfall.Finding{What: "manifest", App: "shop", Unit: "static /", Key: ".manifest.json", Problem: "manifest",
				Remedy: "landfall run retry --rebuild run"}},
		"an archive is gone": {func(i *installation) { i.spoil("deploy.zip", nil) },
			landfall.Finding{What: "archive", App: "shop", Unit: "package cart", Key: "deploy.zip", Problem: "it is gone",
				Remedy: "landfall run retry --rebuild run"}},
		"an object that nobody knows": {func(i *installation) {
			if _, err := i.objects.Create(i.t.Context(), "apps/gone/page", bytes.NewReader(page), int64(len(page))); err != nil {
				i.t.Fatal(err)
			}
		}, landfall.Finding{What: "leftover", Key: "apps/gone/page", Problem: "nothing knows of it", Remedy: "delete it"}},
		"a repository is damaged": {func(i *installation) { i.remote.damage = []string{"missing blob abc"} },
			landfall.Finding{What: "repository", App: "shop", Key: "git/app.git", Problem: "missing blob abc",
				Remedy: "push its branches again"}},
		"a branch is not where it was accepted": {func(i *installation) {
			i.update(func(ctx context.Context, tx *store.Tx) error {
				return tx.SetHead(ctx, landfall.Push{App: "app", Ref: "refs/heads/main",
					After: landfall.CommitSHA(strings.Repeat("a", 40))})
			})
		}, landfall.Finding{What: "repository", App: "shop", Key: "git/app.git",
			Problem: "refs/heads/main is gone there, and aaaaaaa was accepted", Remedy: "start the server again"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t)
			c.damage(i)
			found, done := i.findings()
			if done.Apps != 1 || done.Releases != 1 || done.Manifests != 1 || done.Findings != len(found) {
				t.Errorf("it went over %+v, want one app, release and manifest", done)
			}
			if c.want.What == "" {
				if len(found) > 0 {
					t.Errorf("got %+v, want nothing", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("got %+v, want one finding", found)
			}
			f := found[0]
			same := f.What == c.want.What && f.App == c.want.App && f.Unit == c.want.Unit && f.Path == c.want.Path
			for _, text := range [][2]string{{f.Key, c.want.Key}, {f.Problem, c.want.Problem}, {f.Remedy, c.want.Remedy}} {
				same = same && strings.Contains(text[0], text[1])
			}
			if !same {
				t.Errorf("got %+v, want %+v", f, c.want)
			}
			if c.want.Unit != "" && !slices.Equal(f.Releases, []landfall.UID{release}) {
				t.Errorf("it is of the releases %q, want %s", f.Releases, release)
			}
		})
	}
}

// A report that cannot be given ends the check.
func TestReportEnds(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.spoil("index.html", nil)
	i.spoil("deploy.zip", nil)
	reports, closed := 0, &landfall.Error{Kind: landfall.Unavailable, Message: "the pipe is closed"}
	_, err := (&fsck.Check{DB: i.db, Objects: i.objects}).Run(t.Context(), func(landfall.Finding) error {
		reports++
		return closed
	})
	if reports != 1 || !landfall.Is(err, landfall.Unavailable) {
		t.Errorf("got %d reports and %v, want one and its error", reports, err)
	}
}
