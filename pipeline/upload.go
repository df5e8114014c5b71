package pipeline

import (
	"context"
	"encoding/json"
	"errors"
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

// storedPlan is a plan with all its content stored.
type storedPlan struct {
	builtPlan

	stored map[landfall.UnitID]versioning.Stored
}

// upload stores the content of the units whose content is not stored, and tests the new versions. Nothing is visible
// yet.
func (b builtPlan) upload(ctx context.Context) (storedPlan, error) {
	k := storedPlan{builtPlan: b, stored: map[landfall.UnitID]versioning.Stored{}}
	k.current, k.changes = maps.Clone(b.current), slices.Clone(b.changes) // it completes both
	if err := k.store(ctx); err != nil {
		return storedPlan{}, err
	}
	return k, k.test(ctx)
}

// store stores the content of the units whose content is not stored.
func (k storedPlan) store(ctx context.Context) error {
	if err := k.holdUnchanged(ctx); err != nil {
		return err
	}
	pushes, err := k.pushes(ctx, k.DB)
	if err != nil {
		return err
	}
	for _, u := range k.units {
		if u.Content == nil || k.current[u.Unit].content() != nil {
			continue
		}
		if u.Unit.Kind == landfall.StaticUnit && wantNoRelease(pushes) {
			continue // nobody can reach it; making it accessible stores it
		}
		upload := k.uploadStatic
		if u.Unit.Kind == landfall.PackageUnit {
			upload = k.uploadPackage
		}
		stored, err := upload(ctx, u)
		if err != nil {
			return err
		}
		k.stored[u.Unit] = stored
	}
	if err := k.countFiles(ctx); err != nil {
		return err
	}
	if len(k.stored) > 0 {
		if err := k.Objects.Sync(ctx); err != nil {
			return err
		}
	}
	k.logStored()
	return nil
}

func (k storedPlan) logStored() {
	k.logf("%d of %s uploaded (%d of %d bytes)", k.stats.FilesUploaded, landfall.Count(k.stats.Files, "file"),
		k.stats.BytesUploaded, k.stats.Bytes)
}

// holdUnchanged reserves the prefixes that the unchanged units use. A unit whose content is just being collected is
// stored again.
func (k storedPlan) holdUnchanged(ctx context.Context) error {
	var prefixes []string
	for _, u := range k.units {
		prefixes = append(prefixes, k.current[u.Unit].prefixes...)
	}
	slices.Sort(prefixes)
	refused, err := k.reserve(ctx, "", slices.Compact(prefixes))
	if err != nil || len(refused) == 0 {
		return err
	}
	for id, v := range k.current {
		if slices.ContainsFunc(v.prefixes, func(p string) bool { return slices.Contains(refused, p) }) {
			v.storeAgain = true
			k.current[id] = v
		}
	}
	return nil
}

// reserve makes the run hold its own prefix, if any, and those of earlier versions. It returns those that it cannot
// hold because they are being deleted or are gone.
func (a *attempt) reserve(ctx context.Context, own string, shared []string) (refused []string, err error) {
	err = a.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Fence(ctx, a.run.ID, a.run.Attempt); err != nil {
			return err
		}
		if own != "" {
			if refused, err = tx.Reserve(ctx, a.run.ID, a.app.ID, []string{own}, a.Now()); err != nil {
				return err
			}
		}
		gone, err := tx.Share(ctx, a.run.ID, shared)
		refused = append(refused, gone...)
		return err
	})
	crashpoint.Here("upload.reserved")
	return refused, err
}

// uploadStatic stores the files of a static unit that no earlier version has, and its manifest.
func (k storedPlan) uploadStatic(ctx context.Context, u versioning.Unit) (versioning.Stored, error) {
	unit := k.statics[u.Unit]
	prefix := assets.Prefix(k.app.Objects, u.Unit.Name, k.run.UID)
	earlier, err := k.earlierManifestsOf(ctx, u.Unit)
	if err != nil {
		return versioning.Stored{}, err
	}
	known, before := slices.Clone(earlier.all), earlier.base
	plan := assets.Plan(unit, prefix, known...)
	refused, err := k.reserve(ctx, prefix, slices.DeleteFunc(plan.Prefixes(), func(p string) bool { return p == prefix }))
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
	uploader := assets.Uploader{Store: k.Objects, Read: k.open}
	if uploader.Stored, err = k.storedBefore(ctx, prefix); err != nil {
		return versioning.Stored{}, err
	}
	manifest, result, err := uploader.Upload(ctx, plan)
	if err != nil {
		return versioning.Stored{}, err
	}
	k.Manifests.Keep(result.Manifest, manifest)
	crashpoint.Here("upload.static")
	k.stats.FilesUploaded += plan.Uploads()
	k.stats.BytesUploaded += plan.Bytes()
	k.noteFiles(u.Unit, assets.Diff(before, manifest))
	content := landfall.StaticContent{Manifest: result.Manifest.Key, Digest: result.Manifest.Digest,
		Files: len(manifest.Files())}
	for _, f := range manifest.Files() {
		content.Bytes += f.Size
	}
	data, err := json.Marshal(content)
	return versioning.Stored{Content: data, Prefixes: manifest.Prefixes(), Own: prefix, Bytes: plan.Bytes()}, err
}

// storedBefore returns the keys below a prefix of the run that an earlier attempt stored.
func (a *attempt) storedBefore(ctx context.Context, prefix string) (map[string]bool, error) {
	there := map[string]bool{}
	if a.run.Attempt == 1 {
		return there, nil
	}
	for key, err := range a.Objects.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		there[key] = true
	}
	return there, nil
}

// earlierManifests are the manifests of earlier versions of a static unit.
type earlierManifests struct {
	all  []*assets.Manifest // their files need not be uploaded again: of the base, of production and of the live release
	base *assets.Manifest   // the manifest of the base, for the diff; nil: there is none
}

// earlierManifestsOf returns the manifests of earlier versions of a static unit. It reads them once. What is collected
// after that cannot be reserved any more.
func (p plan) earlierManifestsOf(ctx context.Context, id landfall.UnitID) (earlierManifests, error) {
	if known, ok := p.manifests[id]; ok {
		return known, nil
	}
	known, err := p.readEarlierManifests(ctx, id)
	if err == nil {
		p.manifests[id] = known
	}
	return known, err
}

func (p plan) readEarlierManifests(ctx context.Context, id landfall.UnitID) (known earlierManifests, err error) {
	row, err := p.DB.Unit(ctx, p.app, id)
	if err != nil {
		return known, landfall.Ignore(err, landfall.NotFound)
	}
	numbers := []int64{}
	for _, b := range p.base {
		if b.Unit == id {
			numbers = append(numbers, b.Number)
		}
	}
	inBase := len(numbers) > 0
	for _, find := range []func(context.Context, string) (int64, error){p.DB.LatestNumber, p.DB.LiveNumber} {
		if number, err := find(ctx, row.ID); err == nil && !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	for i, number := range numbers {
		v, err := p.DB.VersionByNumber(ctx, row.ID, number)
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
		m, err := p.Manifests.Load(ctx, ref)
		if err != nil {
			if ignoreDamage(err) == nil {
				continue // it was just collected, or is damaged: then everything is uploaded again
			}
			return known, err
		}
		if !p.run.Rebuild { // in a rebuild, files that may be damaged are not shared
			known.all = append(known.all, m)
		}
		if i == 0 && inBase {
			known.base = m
		}
	}
	return known, nil
}

// noteFiles adds to the diff what changed within a static unit.
func (k storedPlan) noteFiles(id landfall.UnitID, change landfall.FileChange) {
	for i := range k.changes {
		if k.changes[i].Unit == id {
			k.changes[i].Files = &change
		}
	}
}

// countFiles counts the static files of the release.
func (k storedPlan) countFiles(context.Context) error {
	for id, unit := range k.statics {
		content := k.current[id].content()
		if stored, ok := k.stored[id]; ok {
			content = stored.Content
		}
		c, err := landfall.ReadContent[landfall.StaticContent](content)
		if err != nil {
			return err
		}
		k.stats.Files += len(unit.Entries)
		k.stats.Bytes += c.Bytes
	}
	return nil
}

// open reads a file of the commit, or of its build.
func (c checkout) open(ctx context.Context, f landfall.File) (io.ReadCloser, error) {
	if f.Blob != "" {
		return c.mirror.Read(ctx, f)
	}
	return c.openOutput(f)
}

// uploadPackage stores the archives of a package.
func (k storedPlan) uploadPackage(ctx context.Context, u versioning.Unit) (versioning.Stored, error) {
	plan := k.packages[u.Unit]
	prefix := k.app.Objects + "packages/" + u.Unit.Name + "/" + string(k.run.UID) + "/"
	refused, err := k.reserve(ctx, prefix, nil)
	if err != nil {
		return versioning.Stored{}, err
	}
	// for the same reason as below
	if len(refused) > 0 || !plan.unzipped && (artifact.IsZip(plan.source) || artifact.IsZip(plan.deployment)) {
		return versioning.Stored{}, versioning.ErrPlanAgain
	}
	var content landfall.PackageContent
	if plan.source != nil {
		if content.Source, err = k.uploadArchive(ctx, prefix+"source.zip", plan.source); err != nil {
			return versioning.Stored{}, err
		}
	}
	switch built, ok := k.packageFiles[u.Unit]; {
	case ok:
		content.Deployment, err = k.uploadArchive(ctx, prefix+"deploy.zip", built)
	case plan.pkg.BuildCommand != "" && plan.source != nil, k.images[plan.pkg.Environment] != "":
		err = versioning.ErrPlanAgain // the plan relied on a version that is just being collected, and did not build it
	case plan.deployment != nil:
		content.Deployment, err = k.uploadArchive(ctx, prefix+"deploy.zip", plan.deployment)
	default:
		content.Deployment = content.Source // a source without a build command is the deployment
	}
	if err != nil {
		return versioning.Stored{}, err
	}
	crashpoint.Here("upload.package")
	data, err := json.Marshal(content)
	stored := versioning.Stored{Content: data, Prefixes: []string{prefix}, Own: prefix}
	for i, archive := range content.Archives() {
		if i == 0 || archive.Key != content.Source.Key {
			stored.Bytes += archive.Size
		}
	}
	return stored, err
}

// uploadArchive stores an archive. It makes a file of it first, because the size must be known.
func (c checkout) uploadArchive(ctx context.Context, key string,
	files []builder.ArchiveFile) (*landfall.Archive, error) {
	if err := os.MkdirAll(c.Scratch, 0o700); err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(c.Scratch, "archive-*.zip")
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = temp.Close()
		_ = os.Remove(temp.Name())
	}()
	err = builder.WriteArchive(temp, files, func(f landfall.File) (io.ReadCloser, error) { return c.open(ctx, f) })
	if err != nil {
		return nil, err
	}
	crashpoint.Here("upload.archive")
	return c.storeFile(ctx, key, temp)
}

// storeFile stores a file as an object. When an earlier attempt has stored the same bytes, they stay.
func (a *attempt) storeFile(ctx context.Context, key string, f *os.File) (*landfall.Archive, error) {
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
	if a.run.Attempt > 1 { // the object may be stored already
		if same, err := a.holds(ctx, key, digest); same || ignoreDamage(landfall.Ignore(err, landfall.NotFound)) != nil {
			return &landfall.Archive{Key: key, Digest: digest, Size: size}, err
		}
	}
	if _, err = a.Objects.Create(ctx, key, f, size); err == nil {
		return &landfall.Archive{Key: key, Digest: digest, Size: size}, nil
	}
	if landfall.KindOf(err) != landfall.Conflict {
		return nil, err
	}
	same, err := a.holds(ctx, key, digest)
	if landfall.KindOf(err) == landfall.NotFound {
		return nil, landfall.Wrapf("pipeline.upload", landfall.Unavailable, err,
			"the object store says that %q is there, and that it is not", key)
	}
	if err = ignoreDamage(err); err != nil || same {
		return &landfall.Archive{Key: key, Digest: digest, Size: size}, err
	}
	const digits = 8
	return a.storeFile(ctx, key+"~"+digest.Hex()[:digits], f)
}

func (a *attempt) holds(ctx context.Context, key string, digest landfall.Digest) (bool, error) {
	object, err := a.Objects.Open(ctx, key)
	if err != nil {
		return false, err
	}
	found, err := digestFile(object)
	return found == digest, errors.Join(err, object.Close())
}
