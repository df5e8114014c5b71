package handmade

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Repositories are those of the built-in remote.
type Repositories interface {
	Create(ctx context.Context, app, head string) error
	Commit(ctx context.Context, app string, c remote.NewCommit) (landfall.CommitSHA, error)
}

// Maker makes versions by hand.
type Maker struct {
	DB           *store.DB
	Editor       *deploy.Editor
	Acceptor     *accept.Acceptor
	Repositories Repositories // nil: there is no git here
	Uploads      *Uploads
	Objects      assets.Opener   // of the packages that there are
	Dialer       *builder.Dialer // by which addresses are fetched
	Now          func() time.Time

	counting sync.Mutex
	fetches  map[string]int // under way, by what is counted
}

// Version is what a person says of a version that is to be made. Where a field is empty, it is as the latest version
// is.
type Version struct {
	Namespace   string
	Unit        landfall.UnitID // a function or a package
	Label       string
	Tag         string // of a function: the function tag that is to name the version
	Description string
	Environment string
	Entrypoint  string // of a function
	// of a function: a version of a package that there is; zero: content says, or nothing changes
	Package    landfall.Reference
	Code       *Content               // a file or an archive that runs as it is
	Source     *Content               // an archive from which the environment builds
	Deployment *Content               // an archive that runs as it is
	Build      string                 // the build command
	New        bool                   // Conflict when the unit has a version
	Update     bool                   // NotFound when it has none
	NoRelease  bool                   // of an app's unit: no release is made with it
	Allowed    func(app string) error // whether the caller may change an app; empty: one of the namespace
	Actor      string
	Owner      landfall.Digest // of whose token the uploads are; empty: of anybody's
	Caller     landfall.Digest // the token
	Key        string          // names what is made, which is made once; small letters and digits; empty: nothing does
}

// Made is what became of it: a version at once, or the run that makes it.
type Made struct {
	Version landfall.Version
	Result  deploy.EditResult // of a version made at once
	Run     string
}

// Make makes a version. What is stored already becomes one at once; of content a run makes it. Of what an app has, a
// person makes the same again: what it is comes with a push. Invalid when what is said makes no sense; Conflict when
// the label is taken, with New the unit, or an app has it; NotFound when the namespace or a package is not there, or
// nothing says what a new unit is made of.
func (m *Maker) Make(ctx context.Context, v Version) (Made, error) {
	if err := v.check(); err != nil {
		return Made{}, err
	}
	if made, there, err := m.earlier(ctx, v); err != nil || there {
		return made, err
	}
	app, latest, err := m.owner(ctx, v)
	if err != nil {
		return Made{}, err
	}
	if v.Tag != "" {
		if err := m.checkTag(ctx, v); err != nil {
			return Made{}, err
		}
	}
	if v.hasContent() {
		run, err := m.run(ctx, app, v, latest)
		return Made{Run: run}, err
	}
	hand := deploy.HandVersion{
		NewVersion: landfall.NewVersion{Unit: v.Unit, Label: v.Label, Description: v.Description, Tag: v.Tag, New: v.New,
			Environment: v.Environment, Entrypoint: v.Entrypoint},
		Unreleased: v.NoRelease || app.OfNamespace(), Key: v.Key,
	}
	if v.Package.Name != "" {
		if hand.Package, err = versioning.Find(ctx, m.DB, v.Namespace, landfall.PackageUnit, v.Package); err != nil {
			return Made{}, err
		}
		hand.UID = hand.Package.UID
		if latest.Number == 0 && v.Environment == "" { // a new function runs where its package does
			if hand.Environment, _, err = spec.ReadPackageVersion(hand.Package.Spec); err != nil {
				return Made{}, err
			}
		}
	}
	if app.ID == "" { // so whatever package there is, a person did not make it
		return Made{}, landfall.Errorf("handmade.Make", landfall.Conflict,
			"%s belongs to an app: a function that is made by hand runs a package that is made by hand; name another "+
				"package, or declare the function in the specs of that app and push", hand.Package.Unit)
	}
	if err := m.checkRuns(ctx, hand, latest); err != nil {
		return Made{}, err
	}
	version, result, err := m.Editor.MakeVersion(ctx, app, hand, v.Actor)
	if err != nil {
		return Made{}, err
	}
	made, err := m.made(ctx, app.ID, version, result.Release)
	made.Result.Note = strings.Join(slices.DeleteFunc(append([]string{made.Result.Note}, result.Tagged...),
		func(note string) bool { return note == "" }), "; ")
	return made, err
}

// reference returns the reference of the commit that a key makes.
func (v Version) reference() landfall.RefName { return landfall.RefName(landfall.ApplyPrefix + v.Key) }

// earlier returns what was made by the key already, and whether something was.
func (m *Maker) earlier(ctx context.Context, v Version) (made Made, there bool, err error) {
	if v.Key == "" {
		return made, false, nil
	}
	row, err := m.DB.UnitInNamespace(ctx, v.Namespace, v.Unit)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return made, false, err
	}
	var apps []landfall.App
	for _, find := range []func() (landfall.App, error){
		func() (landfall.App, error) { return m.DB.App(ctx, row.App) },
		func() (landfall.App, error) { return m.DB.AppByName(ctx, v.Namespace) },
	} {
		app, err := find()
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return made, false, err
		}
		if err == nil {
			apps = append(apps, app)
		}
	}
	for _, app := range apps {
		if made, there, err = m.earlierOf(ctx, app, row, v); err != nil || there {
			return made, there, err
		}
	}
	return made, false, nil
}

// earlierOf is earlier for an app that may own what was made.
func (m *Maker) earlierOf(ctx context.Context, app landfall.App, row store.Unit, v Version) (made Made, there bool,
	err error) {
	runs, err := m.DB.RunsOfRef(ctx, app.ID, v.reference())
	if err != nil {
		return made, false, err
	}
	if len(runs) > 0 {
		return Made{Run: runs[0].ID}, true, nil
	}
	units, err := m.DB.GroupUnits(ctx, app.ID, deploy.KeyUID(app, v.Key, 0))
	if err != nil {
		return made, false, err
	}
	for _, u := range units {
		if u.UnitID == row.ID {
			version, err := m.DB.VersionByNumber(ctx, row.ID, u.Number)
			if err != nil {
				return made, false, landfall.Ignore(err, landfall.NotFound)
			}
			made, err = m.made(ctx, app.ID, version, deploy.KeyUID(app, v.Key, 0))
			return made, err == nil, err
		}
	}
	return made, false, nil
}

// made returns a version that was made at once, in a release of its app or in none.
func (m *Maker) made(ctx context.Context, app string, v landfall.Version, release landfall.UID) (Made, error) {
	now, err := m.DB.App(ctx, app)
	if err != nil {
		return Made{}, err
	}
	result, err := deploy.ResultOf(ctx, m.DB, now, release)
	return Made{Version: v, Result: result}, err
}

// checkTag fails unless the caller may let the function tag name the version: of what it names already, each function
// must be theirs to change.
func (m *Maker) checkTag(ctx context.Context, v Version) error {
	if err := versioning.CheckFunctionTag(v.Tag); err != nil {
		return err
	}
	t, err := m.DB.FunctionTag(ctx, v.Namespace, v.Tag)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	if err := versioning.CheckUndeclared(t); err != nil {
		return err
	}
	for _, f := range t.Functions {
		if err := v.Allowed(f.App); err != nil {
			return err
		}
	}
	return nil
}

func (v Version) hasContent() bool { return v.Code != nil || v.Source != nil || v.Deployment != nil }

// check fails with Invalid when what is said makes no sense by itself.
func (v Version) check() error {
	if err := spec.CheckName(v.Unit.Name); err != nil {
		return err
	}
	switch isPackage := v.Unit.Kind == landfall.PackageUnit; {
	case v.Package.Namespace != "" && v.Package.Namespace != v.Namespace:
		return invalid("a function runs a package of its own namespace, and %s is of another", v.Package)
	case isPackage && v.Tag != "":
		return invalid("a function tag names versions of functions, and %s is a package", v.Unit.Name)
	case isPackage && (v.Package.Name != "" || v.Entrypoint != ""):
		return invalid("a package is made from archives: it has no package and no entry point")
	case isPackage && !v.hasContent() && v.Environment+v.Build != "":
		return invalid("another environment or build command needs the source again: say it (--src)")
	}
	if v.Environment != "" {
		if _, err := environment.Of(landfall.Environment{Name: v.Environment}); err != nil {
			return err
		}
	}
	for _, c := range []*Content{v.Code, v.Source, v.Deployment} {
		if c == nil {
			continue
		}
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

// owner returns the app that a version belongs to, and the version that it follows; a zero one when there is none. What
// nobody has belongs to the app of the namespace, which has no ID when it is not there yet.
func (m *Maker) owner(ctx context.Context, v Version) (app landfall.App, latest landfall.Version, err error) {
	row, err := m.DB.UnitInNamespace(ctx, v.Namespace, v.Unit)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return app, latest, err
	}
	if row.ID != "" {
		latest, err = versioning.Select(ctx, m.DB, row, landfall.Latest)
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return app, latest, err
		}
	}
	if latest.Number > 0 {
		if app, err = m.DB.App(ctx, latest.App); err != nil {
			return app, latest, err
		}
	}
	of := app.ID
	if app.OfNamespace() {
		of = ""
	}
	if err := v.Allowed(of); err != nil {
		return app, latest, err
	}
	if v.New && row.ID != "" {
		if err := versioning.CheckNew(ctx, m.DB, row); err != nil {
			return app, latest, err
		}
	}
	if err := v.fits(app, latest); err != nil {
		return app, latest, err
	}
	if row.ID != "" {
		if err := versioning.CheckLabel(ctx, m.DB, row, v.Label); err != nil {
			return app, latest, err
		}
	}
	if latest.Number > 0 {
		return app, latest, nil
	}
	app, err = m.DB.AppByName(ctx, v.Namespace)
	return app, latest, landfall.Ignore(err, landfall.NotFound)
}

// fits fails when a version cannot follow the latest one of an app; a zero one when there is none.
func (v Version) fits(app landfall.App, latest landfall.Version) error {
	fail := func(kind landfall.Kind, format string, args ...any) error {
		return landfall.Errorf("handmade.Make", kind, format, args...)
	}
	switch there := latest.Number > 0; {
	case there && !app.OfNamespace() && (v.hasContent() || v.Package.Name != "" || v.Environment != "" ||
		v.Entrypoint != ""):
		return fail(landfall.Conflict, "%s belongs to the app %s: what it is comes with a push; change it in the specs "+
			"of %[2]s and push, or choose another name", v.Unit, app.Name)
	case !there && v.Update:
		return fail(landfall.NotFound, "there is no %s in the namespace %q: landfall %s version create makes one", v.Unit,
			v.Namespace, v.Unit.Kind)
	case !there && !v.hasContent() && v.Package.Name == "":
		return fail(landfall.NotFound, "there is no %s in the namespace %q: say what it is made of (--code, --src, --deploy)",
			v.Unit, v.Namespace)
	}
	return nil
}

// run commits what was sent, and returns the run that makes a version of it.
func (m *Maker) run(ctx context.Context, app landfall.App, v Version, latest landfall.Version) (string, error) {
	if m.Repositories == nil {
		return "", landfall.Errorf("handmade.run", landfall.Unavailable,
			"versions are made by git, which this server does not have")
	}
	folder, err := m.Uploads.work()
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	c := newCommit(app, v)
	if err := m.fill(ctx, c, folder, v, latest); err != nil {
		return "", err
	}
	if app.ID == "" { // now that nothing is refused any more
		err := m.DB.UpdateAsLeader(ctx, func(tx *store.Tx) (err error) {
			app, err = tx.NamespaceApp(ctx, v.Namespace, m.Now())
			return err
		})
		if err != nil {
			return "", err
		}
	}
	if err := m.Repositories.Create(ctx, app.ID, app.Branch); err != nil {
		return "", err
	}
	sha, err := m.Repositories.Commit(ctx, app.ID, c.NewCommit)
	if err != nil {
		return "", err
	}
	request := &landfall.ApplyRequest{NoRelease: true, Commit: sha, Versions: c.versions}
	run, err := m.Acceptor.Apply(ctx, app, landfall.Push{
		App: app.ID, Source: landfall.FromApply, Ref: c.Ref, After: sha, Actor: v.Actor, Message: c.Message, Apply: request,
	})
	if err != nil {
		return "", err
	}
	for _, content := range []*Content{v.Code, v.Source, v.Deployment} {
		if content != nil && content.Upload != "" {
			_ = m.Uploads.Remove(content.Upload) // a sweep does it later
		}
	}
	return run, nil
}

// commit is a commit that declares units by hand.
type commit struct {
	remote.NewCommit

	app       landfall.App
	documents []map[string]any
	versions  []landfall.NewVersion
}

func newCommit(app landfall.App, v Version) *commit {
	// also in the message: two versions that a second makes are two commits
	id := cmp.Or(v.Key, strings.ToLower(rand.Text()))
	return &commit{app: app, NewCommit: remote.NewCommit{
		Ref: landfall.RefName(landfall.ApplyPrefix + id), Author: v.Actor,
		Message: fmt.Sprintf("Make a version of the %s\n\n%s", v.Unit, id),
	}}
}

const fission = "fission.io/v1"

// declare adds a document that declares a unit.
func (c *commit) declare(kind, name string, fields any) {
	c.documents = append(c.documents, map[string]any{"apiVersion": fission, "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": fields})
}

// writeSpecs adds the file of the documents.
func (c *commit) writeSpecs() error {
	var text bytes.Buffer
	for _, document := range c.documents {
		text.WriteString("---\n")
		if err := json.NewEncoder(&text).Encode(document); err != nil { // JSON is YAML
			return err
		}
	}
	c.Files = append(c.Files, remote.NewFile{
		Path: path.Join(c.app.Folder, cmp.Or(c.app.Specs, spec.DefaultFolder), spec.HandFile), Size: int64(text.Len()),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil },
	})
	return nil
}

// fill adds the files and the documents of a version, which it receives into a folder.
func (m *Maker) fill(ctx context.Context, c *commit, folder string, v Version, latest landfall.Version) error {
	pkg, before := v.Unit.Name, latest
	if v.Unit.Kind == landfall.FunctionUnit {
		pkg += "-pkg"
		fields, err := spec.WithCode(latest.Spec, pkg, v.Environment, v.Entrypoint)
		if err != nil {
			return err
		}
		c.declare("Function", v.Unit.Name, fields)
		c.versions = append(c.versions, landfall.NewVersion{Unit: landfall.UnitID{Kind: landfall.PackageUnit, Name: pkg}})
		before, err = versioning.Find(ctx, m.DB, v.Namespace, landfall.PackageUnit, landfall.Reference{Name: pkg})
		if landfall.Is(err, landfall.NotFound) {
			before, err = landfall.Version{Spec: fields}, nil
		}
		if err != nil {
			return err
		}
	}
	c.versions = append(c.versions, landfall.NewVersion{Unit: v.Unit, Label: v.Label, Description: v.Description,
		Tag: v.Tag, New: v.New, Environment: v.Environment, Entrypoint: v.Entrypoint})
	fields, err := packageFields(v, before)
	if err != nil {
		return err
	}
	for name, content := range map[string]*Content{"source": v.Source, "deployment": cmp.Or(v.Deployment, v.Code)} {
		if content == nil {
			continue
		}
		r, err := m.receive(ctx, v, *content, folder, content != v.Code)
		if err != nil {
			return err
		}
		at := path.Join("handmade", name, r.name)
		if r.zip {
			at = path.Join("handmade", name+".zip")
		}
		file, err := r.file(path.Join(c.app.Folder, at))
		if err != nil {
			return err
		}
		c.Files = append(c.Files, file)
		archive := pkg + "-" + name
		c.documents = append(c.documents, map[string]any{"apiVersion": fission, "kind": "ArchiveUploadSpec", "name": archive,
			"include": []string{at}})
		fields[name] = map[string]any{"type": "url", "url": "archive://" + archive}
	}
	c.declare("Package", pkg, fields)
	return c.writeSpecs()
}

// packageFields returns the spec of a package without its archives: its environment and its build, of a package as
// before unless a person says otherwise.
func packageFields(v Version, before landfall.Version) (map[string]any, error) {
	env, build, err := spec.ReadPackageVersion(before.Spec)
	if err != nil {
		return nil, err
	}
	if env = cmp.Or(v.Environment, env); env == "" {
		return nil, invalid("a new package needs an environment: say which (--env nodejs)")
	}
	fields := map[string]any{"environment": map[string]any{"name": env}}
	if build = cmp.Or(v.Build, build); build != "" && v.Source != nil {
		fields["buildcmd"] = build
	}
	return fields, nil
}
