package pipeline

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/preflight"
	"landfall.dev/landfall/versioning"
)

// unzipPackage replaces those archives of a package that are zips of the commit by the files in them.
func (b builtPlan) unzipPackage(ctx context.Context, u versioning.Unit) error {
	plan := b.packages[u.Unit]
	var err error
	if plan.pkg.Source.Name != "" && artifact.IsZip(plan.source) {
		plan.source, err = b.unzip(ctx, plan.pkg.Source.Name, plan.source[0])
	}
	if err == nil && plan.pkg.Deployment.Name != "" && artifact.IsZip(plan.deployment) {
		plan.deployment, err = b.unzip(ctx, plan.pkg.Deployment.Name, plan.deployment[0])
	}
	plan.unzipped = err == nil
	b.packages[u.Unit] = plan
	return err
}

// unzip returns the files of an archive that is a zip.
func (d draft) unzip(ctx context.Context, archive string, zip builder.ArchiveFile) ([]builder.ArchiveFile, error) {
	job := buildJob{what: preflight.ZipName(archive, zip), command: "unzip", outputs: []string{artifact.Folder},
		unzip: true, inputs: []builder.ArchiveFile{{Path: artifact.ZipFile, File: zip.File}}}
	job.key = job.digest(nil)
	made, err := d.runBuild(ctx, job)
	if err != nil {
		return nil, err
	}
	d.logf("%s is a zip: the archive is its %s", job.what, landfall.Count(len(made), "file"))
	return artifact.Deployed(job.what, made)
}
