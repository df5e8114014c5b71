package pipeline

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/versioning"
)

// Images pulls container images from registries.
type Images interface {
	// Pin returns the reference with the digest of the image that it names now. logins are by the registries' hosts.
	Pin(ctx context.Context, reference string, logins map[string]secret.Login) (string, error)
	// Pull writes the image of a pinned reference into a file.
	Pull(ctx context.Context, pinned, file string, logins map[string]secret.Login) error
}

// imageFile is the path of a pulled image in its package.
const imageFile = artifact.Folder + "/image.tar"

// pinImages returns the spec with the digest of each image that must be pulled. A run looks up a tag once, and the
// digest is a part of the versions that the run makes.
func (p plan) pinImages(ctx context.Context) (*spec.Spec, error) {
	pinned := *p.spec
	pinned.Environments = slices.Clone(p.spec.Environments)
	for i, e := range p.spec.Environments {
		read, _, err := spec.ReadEnvironmentVersion(e.Name, e.Spec)
		if err != nil {
			return nil, err
		}
		image := environment.PullImage(e.Name, read.Image)
		if image == "" {
			continue
		}
		if p.Images == nil {
			return nil, landfall.Errorf("pipeline.pinImages", landfall.Invalid, "%s: images are not pulled here", e.Pos)
		}
		if p.judged { // a registry may take its time
			return nil, errChanged
		}
		logins, err := p.buildSecrets.logins(e)
		if err == nil {
			image, err = p.Images.Pin(ctx, image, logins)
		}
		if err != nil {
			return nil, landfall.Wrapf("pipeline.pinImages", landfall.KindOf(err), err, "%s: Environment %s: %s", e.Pos, e.Name,
				landfall.MessageOf(err))
		}
		if pinned.Environments[i].Spec, err = withImage(e.Spec, image); err != nil {
			return nil, err
		}
		p.images[e.Name] = image
	}
	return &pinned, nil
}

// withImage returns the spec of an environment with another image.
func withImage(stored json.RawMessage, image string) (json.RawMessage, error) {
	var fields map[string]any
	if err := json.Unmarshal(stored, &fields); err != nil {
		return nil, err
	}
	runtime, _ := fields["runtime"].(map[string]any)
	if runtime == nil {
		return stored, nil
	}
	runtime["image"] = image
	return json.Marshal(fields)
}

// declareImage makes a pulled image the content of a package whose environment names one.
func (p plan) declareImage(d *versioning.Declared, plan packagePlan) error {
	image := p.images[plan.pkg.Environment]
	if image == "" {
		return nil
	}
	if plan.source != nil || plan.deployment != nil {
		return landfall.Errorf("pipeline.plan", landfall.Invalid,
			"%s: Package %s has files, and its environment %s names the image %s: leave out the files, or name container-env "+
				"and put an image among them", plan.pkg.Pos, plan.pkg.Name, plan.pkg.Environment, image)
	}
	content, err := json.Marshal([]string{"image", image})
	d.Content = content
	return err
}

// pullPackage makes a package from the image that its environment names.
func (b builtPlan) pullPackage(ctx context.Context, u versioning.Unit, image string) error {
	job := buildJob{what: u.Unit.String(), command: "pull " + image, outputs: []string{imageFile}, pullImage: image}
	job.key = job.digest(nil)
	for _, e := range b.spec.Environments {
		if e.Name == b.packages[u.Unit].pkg.Environment {
			job.pullEnv = e
		}
	}
	made, err := b.runBuild(ctx, job)
	if err != nil {
		return err
	}
	for _, f := range made {
		b.packageFiles[u.Unit] = append(b.packageFiles[u.Unit], builder.ArchiveFile{Path: filepath.Base(f.Path), File: f})
	}
	return nil
}

// pull writes an image to where a build would leave it.
func (d draft) pull(ctx context.Context, dir string, job buildJob) error {
	d.logNow(ctx, append(d.takeLog(), "pulling "+job.pullImage)...)
	file := filepath.Join(dir, filepath.FromSlash(imageFile))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	logins, err := d.buildSecrets.logins(job.pullEnv)
	if err != nil {
		return err
	}
	return d.Images.Pull(ctx, job.pullImage, file, logins)
}
