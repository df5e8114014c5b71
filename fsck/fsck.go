// Package fsck checks everything that an installation keeps, and reports what is damaged.
package fsck

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Objects is the part of the object store that a check needs.
type Objects interface {
	assets.Opener
	// List yields the keys of all objects below a folder.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// Repositories are those of the built-in remote.
type Repositories interface {
	// Check returns what is damaged in the repository of an app. NotFound when there is none.
	Check(ctx context.Context, app string) ([]string, error)
	// Heads returns what the references of a repository name, and Named does so for some of them. Both return an error
	// when one cannot be read.
	Heads(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error)
	Named(ctx context.Context, app string, refs []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error)
	// Path returns where it is.
	Path(app string) string
}

// Builds are the stored outputs of builds.
type Builds interface {
	// Check returns the files whose bytes differ from what the build made.
	Check(b store.Build) (damaged []string, err error)
}

// Check has everything that is checked. It changes nothing. Nothing may be collected while it runs; pushes may come in.
type Check struct {
	DB           *store.DB
	Objects      Objects
	Repositories Repositories   // nil: there are none
	Builds       Builds         // nil: they are not checked
	Secrets      *secret.Keeper // nil: secrets are not opened
}

// Run checks everything, and calls found for each damage. An error means that a check was not possible, or comes from
// found, which ends the run.
func (c *Check) Run(ctx context.Context, found func(landfall.Finding) error) (landfall.Checked, error) {
	r := &checkRun{Check: c, found: found, verdicts: map[string]string{}}
	var err error
	for _, part := range []func(context.Context) error{r.database, r.apps, r.repositories, r.builds, r.leftovers} {
		if err = part(ctx); err != nil {
			break
		}
	}
	return r.done, err
}

// checkRun is a running check.
type checkRun struct {
	*Check
	found    func(landfall.Finding) error
	done     landfall.Checked
	verdicts map[string]string // object to its problem; empty when there is none
}

// report counts a finding and passes it on.
func (r *checkRun) report(f landfall.Finding) error {
	r.done.Findings++
	return r.found(f)
}

const (
	remedyRestore = "stop the server, and restore the last backup: landfall restore"
)

// database makes the engine check its files, and then checks whether the rows keep the rules.
func (r *checkRun) database(ctx context.Context) error {
	damage, err := r.DB.Verify(ctx)
	if err != nil {
		damage = append(damage, err.Error())
	}
	violations, err := r.DB.Violations(ctx)
	if err != nil {
		if landfall.Is(err, landfall.Canceled, landfall.Unavailable) {
			return err
		}
		damage = append(damage, err.Error())
	}
	for _, line := range damage {
		if err := r.report(landfall.Finding{What: "database", Problem: line, Remedy: remedyRestore}); err != nil {
			return err
		}
	}
	for _, v := range violations {
		f := landfall.Finding{What: "rows", App: v.App, Unit: v.Unit, Problem: v.Problem, Remedy: remedyRestore}
		if v.Release != "" {
			f.Releases = []landfall.UID{v.Release}
		}
		if err := r.report(f); err != nil {
			return err
		}
	}
	return nil
}

func (r *checkRun) apps(ctx context.Context) error {
	apps, err := r.DB.Apps(ctx)
	if err != nil {
		return err
	}
	for _, app := range apps {
		r.done.Apps++
		if !app.Deleted.IsZero() {
			continue // nothing of it is served
		}
		if err := r.app(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

// app checks the versions and the releases of an app.
func (r *checkRun) app(ctx context.Context, app landfall.App) error {
	releases, err := r.DB.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return err
	}
	r.done.Releases += len(releases)
	users := map[version][]landfall.UID{}
	for _, release := range releases {
		units, err := r.DB.GroupUnits(ctx, app.ID, release.ID)
		if err != nil {
			return err
		}
		for _, u := range units {
			v := version{u.UnitID, u.Number}
			users[v] = append(users[v], release.ID)
		}
		if err := r.group(app, release, units); err != nil {
			return err
		}
	}
	units, err := r.DB.UnitsOf(ctx, app.ID)
	if err != nil {
		return err
	}
	for _, unit := range units {
		versions, err := r.DB.Versions(ctx, unit.ID, true)
		if err != nil {
			return err
		}
		for _, v := range versions {
			f := landfall.Finding{App: app.Name, Unit: v.Unit.String(), Releases: users[version{unit.ID, v.Number}]}
			if err := r.version(ctx, app, v, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// version names a version of a unit.
type version struct {
	unit   string
	number int64
}

// group checks whether a release has its digest: the names and digests of its units.
func (r *checkRun) group(app landfall.App, release landfall.Release, units []store.GroupUnit) error {
	if versioning.GroupDigest(versioning.InForce(units)) == release.Digest {
		return nil
	}
	return r.report(landfall.Finding{What: "rows", App: app.Name, Releases: []landfall.UID{release.ID},
		Problem: "the release is not what its digest says: its units are other ones", Remedy: remedyRestore})
}

// version checks one version: its declaration, and its stored content. f has its place.
func (r *checkRun) version(ctx context.Context, app landfall.App, v landfall.Version, f landfall.Finding) error {
	switch v.Unit.Kind {
	case landfall.StaticUnit:
		if v.Content == nil { // nobody can reach it
			return nil
		}
		return r.static(ctx, app, v, f)
	case landfall.PackageUnit:
		return r.archives(ctx, app, v, f)
	case landfall.ConfigUnit, landfall.EnvironmentUnit:
		return r.checkDigest(v, nil, f)
	case landfall.SecretUnit:
		return r.secret(v, f)
	case landfall.FunctionUnit, landfall.HTTPTrigger, landfall.TimeTrigger, landfall.QueueTrigger, landfall.AliasUnit,
		landfall.FunctionTagUnit:
	}
	return nil // their digests depend on other units, which are not stored with them
}

// checkDigest checks whether a version has its digest.
func (r *checkRun) checkDigest(v landfall.Version, content []byte, f landfall.Finding) error {
	units, err := versioning.Resolve([]versioning.Declared{{Unit: v.Unit, Spec: v.Spec, Content: content}})
	if err == nil && units[0].Digest == v.Digest {
		return nil
	}
	f.What, f.Problem = "version", fmt.Sprintf("number %d is not what its digest says", v.Number)
	f.Remedy = cmp.Or(f.Remedy, remedyRestore)
	return r.report(f)
}

// secret opens a secret, and checks whether it has its digest.
func (r *checkRun) secret(v landfall.Version, f landfall.Finding) error {
	f.What = "secret"
	content, err := secret.ReadContent(v.Content)
	if err != nil {
		f.Problem, f.Remedy = landfall.MessageOf(err), remedyRestore
		return r.report(f)
	}
	if r.Secrets == nil || !content.Revoked.IsZero() {
		return nil
	}
	owner := secret.Owner{App: v.App, Name: v.Unit.Name}
	value, err := r.Secrets.Open(owner, content.Sealed)
	if err != nil {
		f.Problem, f.Remedy = landfall.MessageOf(err),
			"start the server with the key that it was sealed under; or landfall secret set it again"
		return r.report(f)
	}
	for _, fingerprint := range r.Secrets.Fingerprints(owner, value) {
		units, err := versioning.Resolve([]versioning.Declared{{Unit: v.Unit, Spec: v.Spec, Content: fingerprint}})
		if err == nil && units[0].Digest == v.Digest {
			return nil
		}
	}
	f.Problem, f.Remedy = fmt.Sprintf("number %d is not what its digest says", v.Number), remedyRestore
	return r.report(f)
}

// static checks the manifest of a static unit, and the objects that it names.
func (r *checkRun) static(ctx context.Context, app landfall.App, v landfall.Version, f landfall.Finding) error {
	content, err := landfall.ReadContent[landfall.StaticContent](v.Content)
	if err != nil {
		f.What, f.Problem, f.Remedy = "rows", landfall.MessageOf(err), remedyRestore
		return r.report(f)
	}
	r.done.Manifests++
	f.Key, f.Remedy = content.Manifest, r.rebuildRemedy(ctx, app, v)
	manifest, err := assets.Load(ctx, r.Objects, assets.RefOf(content))
	if err != nil {
		if isUnavailable(err) {
			return err
		}
		f.What, f.Problem = "manifest", problemOf(err)
		return r.report(f)
	}
	if err := r.checkDigest(v, manifest.Content(), f); err != nil {
		return err
	}
	for _, file := range manifest.Files() {
		problem, err := r.object(ctx, file.Key, file.Digest, file.Size)
		if err != nil {
			return err
		}
		if problem != "" {
			f.What, f.Path, f.Key, f.Problem = "object", file.Path, file.Key, problem
			if err := r.report(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// archives checks the archives of a package.
func (r *checkRun) archives(ctx context.Context, app landfall.App, v landfall.Version, f landfall.Finding) error {
	content, err := landfall.ReadContent[landfall.PackageContent](v.Content)
	if err != nil {
		f.What, f.Problem, f.Remedy = "rows", landfall.MessageOf(err), remedyRestore
		return r.report(f)
	}
	for _, a := range content.Archives() {
		problem, err := r.object(ctx, a.Key, a.Digest, a.Size)
		if err != nil {
			return err
		}
		if problem != "" {
			f.What, f.Key, f.Problem, f.Remedy = "archive", a.Key, problem, r.rebuildRemedy(ctx, app, v)
			if err := r.report(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// rebuildRemedy returns how to store a commit's content again.
func (r *checkRun) rebuildRemedy(ctx context.Context, app landfall.App, v landfall.Version) string {
	runs, err := r.DB.RunsOfCommit(ctx, app.ID, v.Commit)
	if err != nil || len(runs) == 0 {
		return remedyRestore
	}
	return "landfall run retry --rebuild " + runs[0].ID
}

// object returns what is wrong with an object; empty when it is undamaged.
func (r *checkRun) object(ctx context.Context, key string, digest landfall.Digest, size int64) (string, error) {
	name := key + " " + string(digest)
	if problem, known := r.verdicts[name]; known {
		return problem, nil
	}
	r.done.Objects++
	problem := ""
	found, n, err := digestOf(ctx, r.Objects, key)
	switch {
	case err != nil && isUnavailable(err):
		return "", err
	case err != nil:
		problem = problemOf(err)
	case n != size:
		problem = fmt.Sprintf("it has %d bytes, and %d were stored", n, size)
	case found != digest:
		problem = "it has other bytes than were stored"
	}
	r.done.Bytes += n
	r.verdicts[name] = problem
	return problem, nil
}

func digestOf(ctx context.Context, objects Objects, key string) (landfall.Digest, int64, error) {
	object, err := objects.Open(ctx, key)
	if err != nil {
		return "", 0, err
	}
	hash := sha256.New()
	n, err := io.Copy(hash, object)
	return landfall.DigestFromSum(hash.Sum(nil)), n, errors.Join(err, object.Close())
}

// isUnavailable reports whether an error says nothing about an object, but that it cannot be checked now.
func isUnavailable(err error) bool {
	return landfall.Is(err, landfall.Canceled, landfall.Unavailable)
}

// problemOf describes an error of reading.
func problemOf(err error) string {
	if landfall.Is(err, landfall.NotFound) {
		return "it is gone"
	}
	return landfall.MessageOf(err)
}

// repositories makes git check every built-in repository, and compares its references with the pushes that were
// accepted.
func (r *checkRun) repositories(ctx context.Context) error {
	if r.Repositories == nil {
		return nil
	}
	apps, err := r.DB.Apps(ctx)
	if err != nil {
		return err
	}
	for _, app := range apps {
		if err := r.repository(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

func (r *checkRun) repository(ctx context.Context, app landfall.App) error {
	damage, err := r.Repositories.Check(ctx, app.ID)
	gone := landfall.Is(err, landfall.NotFound)
	if err != nil && !gone {
		return err
	}
	f := landfall.Finding{What: "repository", App: app.Name, Key: r.Repositories.Path(app.ID),
		Remedy: "push its branches again from a clone, into a repository that is made anew; or " + remedyRestore}
	if gone {
		return r.reportMissingRepository(ctx, app, f)
	}
	r.done.Repositories++
	if len(damage) > 0 {
		if remedy, err := r.references(ctx, app); err != nil || remedy != "" {
			f.Remedy = cmp.Or(remedy, f.Remedy)
		}
	}
	for _, line := range damage {
		f.Problem = line
		if err := r.report(f); err != nil {
			return err
		}
	}
	if len(damage) > 0 || app.Repository != "" || !app.Deleted.IsZero() {
		return nil
	}
	return r.heads(ctx, app, f)
}

// reportMissingRepository reports that the repository of an app that was pushed to is gone.
func (r *checkRun) reportMissingRepository(ctx context.Context, app landfall.App, f landfall.Finding) error {
	if app.Repository != "" || !app.Deleted.IsZero() {
		return nil
	}
	pushed, err := r.DB.HasHeads(ctx, app.ID)
	if err != nil || !pushed {
		return err
	}
	f.Problem = "it is gone"
	f.Remedy = "bring the process that has it back, or put its folder git here; only if it is lost, start once with " +
		"landfall serve --new, and push its branches again from a clone; or " + remedyRestore
	return r.report(f)
}

// references returns how to repair references that cannot be read; empty when all can be.
func (r *checkRun) references(ctx context.Context, app landfall.App) (string, error) {
	heads, err := r.DB.Heads(ctx, app.ID)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, h := range heads {
		if h.SHA.IsZero() || strings.HasPrefix(string(h.Ref), landfall.ApplyPrefix) {
			continue
		}
		if _, err := r.Repositories.Named(ctx, app.ID, []landfall.RefName{h.Ref}); landfall.Is(err, landfall.Internal) {
			lines = append(lines, fmt.Sprintf("write %s into %s", h.SHA, path.Join(r.Repositories.Path(app.ID), string(h.Ref))))
		}
	}
	return strings.Join(lines, "; "), nil
}

// heads compares the references of a repository with the pushes that were accepted. It reads the rows before and after:
// what was pushed meanwhile is no damage.
func (r *checkRun) heads(ctx context.Context, app landfall.App, f landfall.Finding) error {
	before, err := r.DB.Heads(ctx, app.ID)
	if err != nil {
		return err
	}
	named, err := r.Repositories.Heads(ctx, app.ID)
	if err != nil {
		return err
	}
	after, err := r.DB.Heads(ctx, app.ID)
	if err != nil {
		return err
	}
	for _, h := range before {
		if slices.Contains(after, h) && !h.SHA.IsZero() && named[h.Ref] != h.SHA &&
			!strings.HasPrefix(string(h.Ref), landfall.ApplyPrefix) {
			f.Problem = fmt.Sprintf("%s is %s there, and %s was accepted", h.Ref, cmp.Or(named[h.Ref].Short(), "gone"),
				h.SHA.Short())
			f.Remedy = "start the server again: it accepts what is there, unless it never had what was accepted: " +
				"then push its branches again from a clone; or " + remedyRestore
			if err := r.report(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// builds checks the stored outputs of builds.
func (r *checkRun) builds(ctx context.Context) error {
	if r.Builds == nil {
		return nil
	}
	records, err := r.DB.Builds(ctx)
	if err != nil {
		return err
	}
	for _, b := range records {
		damaged, err := r.Builds.Check(b)
		if err != nil {
			return err
		}
		for _, name := range damaged {
			app, err := r.DB.App(ctx, b.App)
			if err != nil {
				return err
			}
			f := landfall.Finding{What: "build", App: app.Name, Key: name, Problem: "it has other bytes than the build made",
				Remedy: "nothing: the next run that needs it builds it again"}
			if err := r.report(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftovers finds objects that no row knows. It reads the rows after the objects, because an object that is being
// stored has its row first.
func (r *checkRun) leftovers(ctx context.Context) error {
	known := map[string]bool{}
	learn := func() error {
		prefixes, err := r.DB.Prefixes(ctx)
		for _, p := range prefixes {
			known[p] = true
		}
		return err
	}
	if err := learn(); err != nil {
		return err
	}
	var strange []string
	for key, err := range r.Objects.List(ctx, "") {
		if err != nil {
			return err
		}
		if !below(known, key) {
			strange = append(strange, key)
		}
	}
	if err := learn(); err != nil {
		return err
	}
	for _, key := range strange {
		if below(known, key) {
			continue
		}
		if err := r.report(landfall.Finding{What: "leftover", Key: key,
			Problem: "nothing knows of it, so it would stay for ever", Remedy: "delete it"}); err != nil {
			return err
		}
	}
	return nil
}

// below reports whether a key is in one of the folders.
func below(folders map[string]bool, key string) bool {
	for folder := path.Dir(key); folder != "."; folder = path.Dir(folder) {
		if folders[folder+"/"] {
			return true
		}
	}
	return false
}
