package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// kept is what a commit comes to, with all its content stored.
type kept struct {
	built

	stored map[landfall.UnitID]versioning.Stored
}

// upload stores the content of the units that have none stored, and tests what is new of it. Nothing of it is visible yet.
func (w built) upload(ctx context.Context) (kept, error) {
	k := kept{built: w, stored: map[landfall.UnitID]versioning.Stored{}}
	k.current, k.changes = maps.Clone(w.current), slices.Clone(w.changes) // which it completes
	if err := k.store(ctx); err != nil {
		return kept{}, err
	}
	return k, k.test(ctx)
}

// store stores the content of the units that have none stored.
func (w kept) store(ctx context.Context) error {
	if err := w.holdUnchanged(ctx); err != nil {
		return err
	}
	pushes, err := w.pushes(ctx, w.DB)
	if err != nil {
		return err
	}
	for _, u := range w.units {
		if u.Content == nil || w.current[u.Unit].content() != nil {
			continue
		}
		if u.Unit.Kind == landfall.StaticUnit && unreleased(pushes) {
			continue // nobody can reach it; making it accessible stores it
		}
		stored, err := w.uploadUnit(ctx, u)
		if err != nil {
			return err
		}
		w.stored[u.Unit] = stored
	}
	if err := w.countFiles(ctx); err != nil {
		return err
	}
	if len(w.stored) > 0 {
		if err := w.Objects.Sync(ctx); err != nil {
			return err
		}
	}
	w.sayf("%d of %s uploaded (%d of %d bytes)", w.stats.FilesUploaded, landfall.Count(w.stats.Files, "file"), w.stats.BytesUploaded, w.stats.Bytes)
	return nil
}

// holdUnchanged reserves what the unchanged units point into. A unit whose content is just being collected is stored
// again.
func (w kept) holdUnchanged(ctx context.Context) error {
	var prefixes []string
	for _, u := range w.units {
		prefixes = append(prefixes, w.current[u.Unit].prefixes...)
	}
	slices.Sort(prefixes)
	refused, err := w.reserve(ctx, "", slices.Compact(prefixes))
	if err != nil || len(refused) == 0 {
		return err
	}
	for id, v := range w.current {
		if slices.ContainsFunc(v.prefixes, func(p string) bool { return slices.Contains(refused, p) }) {
			v.again = true
			w.current[id] = v
		}
	}
	return nil
}

// reserve makes the run hold a prefix of its own, if any, and those of earlier versions. It returns those that it cannot
// hold, because they are being deleted or are gone.
func (w *attempt) reserve(ctx context.Context, own string, shared []string) (refused []string, err error) {
	err = w.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Fence(ctx, w.run.ID, w.run.Attempt); err != nil {
			return err
		}
		if own != "" {
			if refused, err = tx.Reserve(ctx, w.run.ID, w.app.ID, []string{own}, w.Now()); err != nil {
				return err
			}
		}
		gone, err := tx.Share(ctx, w.run.ID, shared)
		refused = append(refused, gone...)
		return err
	})
	crashpoint.Here("upload.reserved")
	return refused, err
}

func (w kept) uploadUnit(ctx context.Context, u versioning.Unit) (versioning.Stored, error) {
	if u.Unit.Kind == landfall.PackageUnit {
		return w.uploadPackage(ctx, u)
	}
	return w.uploadStatic(ctx, u)
}

// uploadStatic stores the files of a static unit that no earlier version has, and its manifest.
func (w kept) uploadStatic(ctx context.Context, u versioning.Unit) (versioning.Stored, error) {
	unit := w.statics[u.Unit]
	prefix := assets.Prefix(w.app.Objects, u.Unit.Name, w.run.UID)
	earlier, err := w.knownOf(ctx, u.Unit)
	if err != nil {
		return versioning.Stored{}, err
	}
	known, before := slices.Clone(earlier.all), earlier.before
	plan := assets.Plan(unit, prefix, known...)
	refused, err := w.reserve(ctx, prefix, slices.DeleteFunc(plan.Prefixes(), func(p string) bool { return p == prefix }))
	if err != nil {
		return versioning.Stored{}, err
	}
	if slices.Contains(refused, prefix) {
		return versioning.Stored{}, versioning.ErrPlanAgain
	}
	if len(refused) > 0 {
		for i, m := range known {
			known[i] = m.Without(refused...)
		}
		plan = assets.Plan(unit, prefix, known...)
	}
	uploader := assets.Uploader{Store: w.Objects, Read: w.open}
	if uploader.There, err = w.storedBefore(ctx, prefix); err != nil {
		return versioning.Stored{}, err
	}
	manifest, result, err := uploader.Upload(ctx, plan)
	if err != nil {
		return versioning.Stored{}, err
	}
	w.Manifests.Keep(result.Manifest, manifest)
	crashpoint.Here("upload.static")
	w.stats.FilesUploaded += plan.Uploads()
	w.stats.BytesUploaded += plan.Bytes()
	w.noteFiles(u.Unit, assets.Diff(before, manifest))
	content := landfall.StaticContent{Manifest: result.Manifest.Key, Digest: result.Manifest.Digest, Files: len(manifest.Files())}
	for _, f := range manifest.Files() {
		content.Bytes += f.Size
	}
	data, err := json.Marshal(content)
	return versioning.Stored{Content: data, Prefixes: manifest.Prefixes()}, err
}

// storedBefore returns the keys below a prefix of the run's own that an earlier attempt stored.
func (w *attempt) storedBefore(ctx context.Context, prefix string) (map[string]bool, error) {
	there := map[string]bool{}
	if w.run.Attempt == 1 {
		return there, nil
	}
	for key, err := range w.Objects.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		there[key] = true
	}
	return there, nil
}

// knownManifests are those of earlier versions of a static unit.
type knownManifests struct {
	all    []*assets.Manifest // whose files need not travel again: of the base, of production and of the live release
	before *assets.Manifest   // the base's, for the diff; nil: there is none
}

// knownOf returns the manifests of earlier versions of a static unit. They are read once: what is collected in between is
// refused when it is reserved.
func (w plan) knownOf(ctx context.Context, id landfall.UnitID) (knownManifests, error) {
	if known, ok := w.known[id]; ok {
		return known, nil
	}
	known, err := w.readKnown(ctx, id)
	if err == nil {
		w.known[id] = known
	}
	return known, err
}

func (w plan) readKnown(ctx context.Context, id landfall.UnitID) (known knownManifests, err error) {
	row, err := w.DB.Unit(ctx, w.app, id)
	if err != nil {
		return known, landfall.Ignore(err, landfall.NotFound)
	}
	numbers := []int64{}
	for _, b := range w.base {
		if b.Unit == id {
			numbers = append(numbers, b.Number)
		}
	}
	inBase := len(numbers) > 0
	for _, find := range []func(context.Context, string) (int64, error){w.DB.LatestNumber, w.DB.LiveNumber} {
		if number, err := find(ctx, row.ID); err == nil && !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	for i, number := range numbers {
		v, err := w.DB.VersionByNumber(ctx, row.ID, number)
		if err != nil {
			if landfall.KindOf(err) == landfall.NotFound {
				continue
			}
			return known, err
		}
		ref := assets.RefIn(v.Content)
		if ref.Key == "" {
			continue
		}
		m, err := w.Manifests.Load(ctx, ref)
		if err != nil {
			if unlessDamaged(err) == nil {
				continue // it was just collected, or is damaged: then all travels again
			}
			return known, err
		}
		if !w.run.Rebuild { // what is not trusted is not shared
			known.all = append(known.all, m)
		}
		if i == 0 && inBase {
			known.before = m
		}
	}
	return known, nil
}

// noteFiles adds to the diff what changed within a static unit.
func (w kept) noteFiles(id landfall.UnitID, change landfall.FileChange) {
	for i := range w.changes {
		if w.changes[i].Unit == id {
			w.changes[i].Files = &change
		}
	}
}

// countFiles counts the static files of the release.
func (w kept) countFiles(context.Context) error {
	for id, unit := range w.statics {
		content := w.current[id].content()
		if stored, ok := w.stored[id]; ok {
			content = stored.Content
		}
		c, err := landfall.ReadContent[landfall.StaticContent](content)
		if err != nil {
			return err
		}
		w.stats.Files += len(unit.Entries)
		w.stats.Bytes += c.Bytes
	}
	return nil
}

// open reads a file of the commit, or of its build.
func (w checkout) open(ctx context.Context, f landfall.File) (io.ReadCloser, error) {
	if f.Blob != "" {
		return w.mirror.Read(ctx, f)
	}
	return w.openOutput(f)
}

// uploadPackage stores the archives of a package.
func (w kept) uploadPackage(ctx context.Context, u versioning.Unit) (versioning.Stored, error) {
	plan := w.packages[u.Unit]
	prefix := w.app.Objects + "packages/" + u.Unit.Name + "/" + string(w.run.UID) + "/"
	refused, err := w.reserve(ctx, prefix, nil)
	if err != nil {
		return versioning.Stored{}, err
	}
	if len(refused) > 0 || !plan.unzipped && (artifact.IsZip(plan.source) || artifact.IsZip(plan.deployment)) { // for the same reason as below
		return versioning.Stored{}, versioning.ErrPlanAgain
	}
	var content landfall.PackageContent
	if plan.source != nil {
		if content.Source, err = w.uploadArchive(ctx, prefix+"source.zip", plan.source); err != nil {
			return versioning.Stored{}, err
		}
	}
	switch built, ok := w.made[u.Unit]; {
	case ok:
		content.Deployment, err = w.uploadArchive(ctx, prefix+"deploy.zip", built)
	case plan.pkg.BuildCommand != "" && plan.source != nil, w.images[plan.pkg.Environment] != "":
		err = versioning.ErrPlanAgain // it counted on a version that is just being collected, and was not built
	case plan.deployment != nil:
		content.Deployment, err = w.uploadArchive(ctx, prefix+"deploy.zip", plan.deployment)
	default:
		content.Deployment = content.Source // a source without a build command is the deployment
	}
	if err != nil {
		return versioning.Stored{}, err
	}
	crashpoint.Here("upload.package")
	data, err := json.Marshal(content)
	return versioning.Stored{Content: data, Prefixes: []string{prefix}}, err
}

// uploadArchive stores an archive, made in a file of its own first because its size must be known.
func (w checkout) uploadArchive(ctx context.Context, key string, files []builder.ArchiveFile) (*landfall.Archive, error) {
	if err := os.MkdirAll(w.Scratch, 0o700); err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(w.Scratch, "archive-*.zip")
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = temp.Close()
		_ = os.Remove(temp.Name())
	}()
	err = builder.WriteArchive(temp, files, func(f landfall.File) (io.ReadCloser, error) { return w.open(ctx, f) })
	if err != nil {
		return nil, err
	}
	crashpoint.Here("upload.archive")
	return w.storeFile(ctx, key, temp)
}

// storeFile stores a file as an object. Where the same bytes lie already, by an earlier attempt, they stay.
func (w *attempt) storeFile(ctx context.Context, key string, f *os.File) (*landfall.Archive, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	digest, err := digestFile(f)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if w.run.Attempt > 1 { // it need not travel again
		if same, err := w.holds(ctx, key, digest); same || unlessDamaged(landfall.Ignore(err, landfall.NotFound)) != nil {
			return &landfall.Archive{Key: key, Digest: digest, Size: size}, err
		}
	}
	if _, err = w.Objects.Create(ctx, key, f, size); err == nil {
		return &landfall.Archive{Key: key, Digest: digest, Size: size}, nil
	}
	if landfall.KindOf(err) != landfall.Conflict {
		return nil, err
	}
	same, err := w.holds(ctx, key, digest)
	if landfall.KindOf(err) == landfall.NotFound {
		return nil, &landfall.Error{Op: "pipeline.upload", Kind: landfall.Unavailable, Err: err, Message: fmt.Sprintf(
			"the object store says that %q is there, and that it is not", key)}
	}
	if err = unlessDamaged(err); err != nil || same {
		return &landfall.Archive{Key: key, Digest: digest, Size: size}, err
	}
	const digits = 8
	return w.storeFile(ctx, key+"~"+digest.Hex()[:digits], f)
}

func (w *attempt) holds(ctx context.Context, key string, digest landfall.Digest) (bool, error) {
	object, err := w.Objects.Open(ctx, key)
	if err != nil {
		return false, err
	}
	found, err := digestFile(object)
	if closeErr := object.Close(); err == nil {
		err = closeErr
	}
	return found == digest, err
}
