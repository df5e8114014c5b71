package parcel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/unpack"
	"landfall.dev/landfall/versioning"
)

// Importer makes releases of archives.
type Importer struct {
	DB         *store.DB
	Objects    assets.Store
	Specs      spec.Limits
	Rollout    *deploy.Rollout
	ReleaseURL func(app string, selector landfall.UID) string
	Folder     string // for work in progress; made when needed
	MaxBytes   int64  // of an archive, and of what is stored of it
	Now        func() time.Time

	RequireTests bool // only functions that have passed a test are released: none of an archive

	// WithoutCollection runs f while nothing is collected: a collection would take what is not visible yet. A backup
	// goes on meanwhile: it has the rows of one moment, and what they name was stored before them.
	WithoutCollection func(ctx context.Context, f func() error) error

	checking, installing sync.Mutex // one after the other, as archives are unpacked for it, and stored
}

// Receive keeps the bytes of an archive in a file of its own, which the caller closes; its name is gone already.
// Invalid when there are more than may be.
func (m *Importer) Receive(r io.Reader) (*os.File, error) {
	const op landfall.Op = "parcel.Receive"
	if err := os.MkdirAll(m.Folder, 0o700); err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	file, err := os.CreateTemp(m.Folder, "import-*")
	if err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	err = os.Remove(file.Name())
	var n int64
	if err == nil {
		n, err = io.Copy(file, io.LimitReader(r, m.MaxBytes+1))
	}
	if err == nil && n > m.MaxBytes {
		err = invalid("has more than %d bytes (LANDFALL_MAX_COMMIT_BYTES)", m.MaxBytes)
	}
	if err != nil {
		_ = file.Close()
		return nil, wrapRead(err)
	}
	return file, nil
}

// Destination is where a release is imported.
type Destination struct {
	App  landfall.App                                    // has no ID when it is to be made
	Make func(ctx context.Context) (landfall.App, error) // makes it
	Live bool                                            // the release becomes live
}

// Install makes a release of a parcel in an app, which is live then if it is to be. Otherwise it is one of the releases
// of branches other than production. Nothing is visible before all of it is stored, and nothing is stored and no app
// is made when the app lacks a secret, owns no unit of a name, or the archive has what cannot be taken.
func (m *Importer) Install(ctx context.Context, to Destination, p *Parcel,
	actor string) (landfall.UID, []string, error) {
	line := landfall.Preview
	if to.Live {
		line = landfall.Production
	}
	w := &installation{Importer: m, parcel: p, app: to.App, line: line, actor: actor,
		stored: map[landfall.UnitID]versioning.Stored{}, holds: map[landfall.UnitID][]*beside{}}
	if err := w.check(ctx); err != nil {
		return "", nil, err
	}
	m.installing.Lock()
	defer m.installing.Unlock()
	if err := m.WithoutCollection(ctx, func() error { return w.install(ctx, to.Make) }); err != nil {
		return "", nil, err
	}
	m.Rollout.Show(ctx, w.app)
	return w.uid, w.notes, nil
}

// installation is the work on one parcel.
type installation struct {
	*Importer

	parcel   *Parcel
	app      landfall.App
	line     landfall.Line
	actor    string
	uid      landfall.UID
	units    []versioning.Unit
	secrets  []store.GroupUnit
	triggers []spec.Trigger
	statics  map[landfall.UnitID]assets.Unit
	stored   map[landfall.UnitID]versioning.Stored
	folders  []string
	notes    []string
	beside   []*beside
	holds    map[landfall.UnitID][]*beside // what declared aliases and function tags name
}

// check fails unless the parcel can be installed. It stores nothing.
func (w *installation) check(ctx context.Context) error {
	if w.RequireTests && len(w.functions()) > 0 {
		return deploy.ErrUntested
	}
	w.checking.Lock()
	defer w.checking.Unlock()
	if err := w.declare(ctx); err != nil {
		return err
	}
	if err := w.checkSize(); err != nil {
		return err
	}
	return w.checkArchives(ctx)
}

func (w *installation) install(ctx context.Context, makeApp func(ctx context.Context) (landfall.App, error)) error {
	if w.app.ID == "" {
		err := deploy.CheckNewRelease(ctx, w.DB, w.app, w.functions(), w.size())
		if err != nil {
			return err
		}
		if w.app, err = makeApp(ctx); err != nil {
			return err
		}
	}
	if err := w.store(ctx); err != nil {
		return err
	}
	crashpoint.Here("import.stored")
	return w.DB.Update(ctx, func(tx *store.Tx) error { return w.commit(ctx, tx) })
}

// functions are the specs of the functions of the release.
func (w *installation) functions() (specs []json.RawMessage) {
	for _, u := range w.parcel.Document.Units {
		if u.Kind == landfall.FunctionUnit {
			specs = append(specs, u.Spec)
		}
	}
	return specs
}

// size is how many bytes are stored of the archive: each unit stores what it names.
func (w *installation) size() (bytes int64) {
	for _, u := range w.archives() {
		for _, b := range []*Blob{u.Source, u.Deployment} {
			if b != nil && (b != u.Deployment || u.Source == nil || u.Source.Digest != b.Digest) {
				bytes += b.Size
			}
		}
		if u.Kind == landfall.StaticUnit {
			bytes += assets.Plan(w.statics[u.ID()], "").Bytes()
		}
	}
	return bytes
}

// checkSize fails when more would be stored than an archive may have.
func (w *installation) checkSize() error {
	if bytes := w.size(); bytes > w.MaxBytes {
		return invalid("would take %d bytes when it is stored; the limit is %d (LANDFALL_MAX_COMMIT_BYTES)", bytes,
			w.MaxBytes)
	}
	return nil
}

// archives are all units that may have content: of the release, and beside it.
func (w *installation) archives() []Unit {
	all := slices.Clone(w.parcel.Document.Units)
	for _, v := range w.parcel.Document.Versions {
		all = append(all, v.Package)
	}
	return all
}

// declare gives the units the digests that they have here. Conflict, with their names, when the app lacks secrets.
func (w *installation) declare(ctx context.Context) error {
	var declared []versioning.Declared
	w.statics = map[landfall.UnitID]assets.Unit{}
	if err := w.prepareBeside(ctx); err != nil {
		return err
	}
	for _, u := range w.parcel.Document.Units {
		d, err := w.content(u)
		if err != nil {
			return err
		}
		switch {
		case u.Kind == landfall.StaticUnit:
			unit := w.parcel.static(u)
			w.statics[u.ID()] = unit
			d.Content = unit.Content()
		case u.Kind == landfall.AliasUnit || u.Kind == landfall.FunctionTagUnit:
			if err := w.name(u, &d); err != nil {
				return err
			}
		case u.Kind.IsTrigger():
			if err := w.trigger(ctx, u, &d); err != nil {
				return err
			}
		}
		if u.Kind == landfall.FunctionUnit || u.Kind == landfall.PackageUnit {
			if err := w.checkOwner(ctx, u.ID()); err != nil {
				return err
			}
		}
		declared = append(declared, d)
	}
	err := spec.CheckRoutes(w.triggers, w.Specs)
	if err != nil {
		return invalid("has triggers of which two cannot be together: %s", landfall.MessageOf(err))
	}
	if w.units, err = versioning.Resolve(declared); err != nil {
		return err
	}
	if err := w.DB.Update(ctx, func(tx *store.Tx) error { return w.checkAliases(ctx, tx) }); err != nil {
		return err
	}
	return w.pinSecrets(ctx, w.DB)
}

// checkOwner fails when a function or package is not this app's to have on the line of the import.
func (w *installation) checkOwner(ctx context.Context, id landfall.UnitID) error {
	return versioning.CheckOwner(ctx, w.DB, w.app, id, "the archive", w.line == landfall.Production,
		w.parcel.Document.has)
}

// content returns what a unit is here, and for a package and a function, of what.
func (w *installation) content(u Unit) (d versioning.Declared, err error) {
	d = versioning.Declared{Unit: u.ID(), Where: "the archive"}
	if d.Spec, err = spec.Rename(u.ID(), u.Spec, w.here); err != nil {
		return d, err
	}
	switch u.Kind { //nolint:exhaustive // the others have neither content nor parts
	case landfall.PackageUnit:
		d.Content, err = json.Marshal([]any{"imported", u.Source, u.Deployment})
	case landfall.FunctionUnit:
		var f landfall.Function
		f, err = spec.ReadFunctionVersion(u.Spec)
		d.Refs = []landfall.UnitID{{Kind: landfall.PackageUnit, Name: spec.ReadPackage(u.Spec)},
			{Kind: landfall.EnvironmentUnit, Name: f.Environment.Name}}
	}
	return d, err
}

// name checks a declared alias or function tag.
func (w *installation) name(u Unit, d *versioning.Declared) error {
	refs, err := spec.CheckNameVersion(u.ID(), u.Spec)
	if err != nil {
		return err
	}
	w.holds[u.ID()] = w.pinned(refs)
	d.Pinned = digests(w.holds[u.ID()])
	return nil
}

// trigger checks a trigger as one that a person sets by hand.
func (w *installation) trigger(ctx context.Context, u Unit, d *versioning.Declared) error {
	var fields map[string]any
	if err := spec.DecodeNumbers(d.Spec, &fields); err != nil {
		return err
	}
	written, err := spec.ReadTriggerVersion(u.ID(), u.Spec)
	if err != nil {
		return err
	}
	t, err := spec.ReadTrigger(u.Kind, u.Name, fields, nil, w.Specs)
	if err != nil {
		return invalid("has a %s that is wrong: %s", u.ID(), landfall.MessageOf(err))
	}
	d.Spec = t.Spec
	w.triggers = append(w.triggers, t)
	d.Pinned = digests(w.pinned(written.References()))
	_, err = w.DB.FunctionTag(ctx, w.app.Namespace, t.Tag)
	if t.Tag == "" || landfall.Is(err, landfall.NotFound) || w.parcel.Document.unit(tagUnit(t.Tag)) != nil {
		return nil
	}
	return cmp.Or(err, deploy.CheckTriggerTag(ctx, w.DB, w.app, t))
}

// secretReader is what pinSecrets needs; the database and its transactions have it.
type secretReader interface {
	Unit(ctx context.Context, app landfall.App, id landfall.UnitID) (store.Unit, error)
	NewestVersion(ctx context.Context, unit string, spec json.RawMessage) (landfall.Version, error)
}

// pinSecrets takes the app's own values of the secrets.
func (w *installation) pinSecrets(ctx context.Context, r secretReader) error {
	w.secrets = nil
	var missing []string
	names := slices.Clone(w.parcel.Document.Secrets)
	for _, v := range w.parcel.Document.Versions {
		var err error
		if names, err = withSecrets(names, v.Function.Spec); err != nil {
			return err
		}
	}
	for _, name := range names {
		pinned, err := deploy.Pin(ctx, r, w.app, name, w.line)
		if landfall.Is(err, landfall.Invalid) {
			missing = append(missing, name)
			continue
		}
		if err != nil {
			return err
		}
		w.secrets = append(w.secrets, pinned)
	}
	if missing == nil {
		return nil
	}
	first := ""
	if w.app.ID == "" {
		first = "landfall app create " + w.app.Name + ", "
	}
	return landfall.Errorf("parcel.Install", landfall.Conflict, "the release needs secrets that %s does not have, and "+
		"none is in an archive: %s; set each (%slandfall secret set %[1]s %[4]s), and import it again", w.app.Name,
		strings.Join(missing, ", "), first, missing[0])
}

// static is a unit of static files as a commit has it.
func (p *Parcel) static(u Unit) assets.Unit {
	s, _ := landfall.ReadStaticSpec(u.Spec) // it was read before
	unit := assets.Unit{Rule: assets.Rule{Path: u.Name, Fallback: s.Fallback}}
	for _, f := range u.Files {
		unit.Entries = append(unit.Entries, assets.Entry{Path: f.Path,
			File: landfall.File{Path: f.Path, Blob: f.Git, Digest: f.Digest, Size: f.Size}})
	}
	return unit
}

// checkArchives unpacks each archive of what runs once, to nowhere: one that is none, leaves its folder or is a bomb is
// refused, and all of them together when they are one.
func (w *installation) checkArchives(ctx context.Context) error {
	checked, left := map[landfall.Digest]bool{}, int64(artifact.MaxBytes)
	for _, u := range w.archives() {
		for _, b := range []*Blob{u.Source, u.Deployment} {
			if b == nil || checked[b.Digest] {
				continue
			}
			if err := ctx.Err(); err != nil {
				return &landfall.Error{Op: "parcel.Install", Kind: landfall.Canceled, Err: err}
			}
			checked[b.Digest] = true
			folder, err := os.MkdirTemp(w.Folder, "check-*")
			if err != nil {
				return &landfall.Error{Op: "parcel.Install", Err: err}
			}
			err = unpack.Zip(folder, fmt.Sprintf("the %s in the archive", u.ID()), w.parcel.open(b.Digest), b.Size,
				unpack.Limits{Files: artifact.MaxFiles, Bytes: left})
			if err == nil {
				var bytes int64
				bytes, err = bytesOf(folder)
				left -= bytes
			}
			if removed := os.RemoveAll(folder); err == nil && removed != nil {
				err = removed
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// bytesOf returns how many bytes the files of a folder have.
func bytesOf(folder string) (bytes int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// store stores the content below folders of its own, which a collection takes away when the rest fails, and which no
// other import of the same archive has.
func (w *installation) store(ctx context.Context) error {
	if err := w.storeUnits(ctx, w.parcel.Document.Units, w.stored); err != nil {
		return err
	}
	for i, v := range w.parcel.Document.Versions {
		if err := w.storeUnits(ctx, []Unit{v.Package}, w.beside[i].stored); err != nil {
			return err
		}
	}
	return w.Objects.Sync(ctx)
}

func (w *installation) storeUnits(ctx context.Context, units []Unit,
	all map[landfall.UnitID]versioning.Stored) error {
	own := landfall.NewUID()
	for _, u := range units {
		var folder string
		switch u.Kind { //nolint:exhaustive // the others have no content
		case landfall.StaticUnit:
			folder = assets.Prefix(w.app.Objects, u.Name, own)
		case landfall.PackageUnit:
			folder = w.app.Objects + "packages/" + u.Name + "/" + string(own) + "/"
		default:
			continue
		}
		w.folders = append(w.folders, folder)
		if err := w.DB.Update(ctx, func(tx *store.Tx) error {
			return tx.CreatePrefix(ctx, folder, w.app.ID, w.Now())
		}); err != nil {
			return err
		}
		stored, err := w.storeUnit(ctx, u, folder)
		if err != nil {
			return err
		}
		all[u.ID()] = stored
	}
	return nil
}

func (w *installation) storeUnit(ctx context.Context, u Unit, folder string) (versioning.Stored, error) {
	s := versioning.Stored{Own: folder, Prefixes: []string{folder}}
	if u.Kind == landfall.StaticUnit {
		plan := assets.Plan(w.statics[u.ID()], folder)
		uploader := assets.Uploader{Store: w.Objects, Read: func(_ context.Context, f landfall.File) (io.ReadCloser, error) {
			return io.NopCloser(w.parcel.open(f.Digest)), nil
		}}
		manifest, result, err := uploader.Upload(ctx, plan)
		if err != nil {
			return s, err
		}
		s.Bytes = plan.Bytes()
		s.Content, err = json.Marshal(landfall.StaticContent{Manifest: result.Manifest.Key, Digest: result.Manifest.Digest,
			Files: len(u.Files), Bytes: manifest.Figures().Bytes})
		return s, err
	}
	var content landfall.PackageContent
	if u.Source != nil {
		source, err := w.storeArchive(ctx, *u.Source, folder+"source.zip")
		if err != nil {
			return s, err
		}
		content.Source = source
		s.Bytes += source.Size
	}
	if u.Source != nil && u.Source.Digest == u.Deployment.Digest {
		content.Deployment = content.Source
	} else {
		deployment, err := w.storeArchive(ctx, *u.Deployment, folder+"deploy.zip")
		if err != nil {
			return s, err
		}
		content.Deployment = deployment
		s.Bytes += deployment.Size
	}
	var err error
	s.Content, err = json.Marshal(content)
	return s, err
}

func (w *installation) storeArchive(ctx context.Context, b Blob, key string) (*landfall.Archive, error) {
	digest, err := w.Objects.Create(ctx, key, w.parcel.open(b.Digest), b.Size)
	if err == nil && digest != b.Digest {
		err = landfall.Errorf("parcel.Install", landfall.Internal, "%s was damaged on its way", filepath.Base(key))
	}
	return &landfall.Archive{Key: key, Digest: b.Digest, Size: b.Size}, err
}

// commit makes versions, app version and release visible.
func (w *installation) commit(ctx context.Context, tx *store.Tx) error {
	app, err := tx.ActiveApp(ctx, w.app.ID)
	if err != nil {
		return err
	}
	w.app = app
	budget, err := deploy.NewBudget(ctx, tx, app)
	if err != nil {
		return err
	}
	if there, err := tx.PrefixesThere(ctx, w.folders); err != nil || !there {
		if err == nil {
			err = landfall.Errorf("parcel.Install", landfall.Unavailable,
				"what the import stored was collected meanwhile: import it again")
		}
		return err
	}
	if err := w.pinSecrets(ctx, tx); err != nil {
		return err
	}
	if w.uid, err = tx.FreeUID(ctx, app.ID, "", func(n int) landfall.UID {
		if own := w.parcel.Document.Release; n == 0 && landfall.IsUID(string(own)) {
			return own // its address has the same name then
		}
		return landfall.NewUID()
	}); err != nil {
		return err
	}
	if err := w.makeBeside(ctx, tx); err != nil {
		return err
	}
	for i, u := range w.units {
		for _, b := range w.holds[u.Unit] {
			w.units[i].Holds = append(w.units[i].Holds, b.made)
		}
	}
	apply := versioning.Apply{App: app, UID: w.uid, Commit: w.parcel.Document.Commit,
		Production: w.line == landfall.Production, Units: w.units, Stored: w.stored, At: w.Now()}
	units, err := apply.Versions(ctx, tx)
	if err == nil {
		err = w.makeNames(ctx, tx, units)
	}
	if err != nil {
		return err
	}
	units = append(units, w.secrets...)
	d := w.parcel.Document
	g := landfall.Group{UID: w.uid, App: app.ID, Digest: versioning.GroupDigest(versioning.InForce(units)),
		Commit: d.Commit, Branch: d.Branch, Clean: d.Clean, Message: imported(d), Actor: w.actor, Created: w.Now(),
		Policy: &app.Policy} // an archive is no commit of production, and changes nothing of it
	if err := tx.CreateGroup(ctx, g, units); err != nil {
		return err
	}
	if err := w.makeGroups(ctx, tx, g, units); err != nil {
		return err
	}
	u := deploy.RefUpdate{Tx: tx, App: &app, Group: g, Units: units, Release: true, ReleaseURL: w.ReleaseURL, Now: w.Now,
		Budget: budget}
	if err := u.Import(ctx, w.line, deploy.Mover{Actor: w.actor, Reason: "imported " + string(d.Release) + " of " + d.App,
		At: w.Now()}); err != nil {
		return err
	}
	_, notes, err := u.Settle(ctx)
	if err != nil {
		return err
	}
	w.notes = append(w.notes, notes...)
	w.notes = slices.DeleteFunc(w.notes, func(note string) bool { return note == "" })
	return nil
}

// imported is what the history says of an imported release.
func imported(d Document) string {
	const most = 500
	message := fmt.Sprintf("Imported %s of %s, made %s by %s: %s", d.Release, d.App, d.Created.Format(time.DateOnly),
		d.Actor, d.Message)
	return string([]rune(message)[:min(len([]rune(message)), most)])
}
