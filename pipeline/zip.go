package pipeline

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/unpack"
	"landfall.dev/landfall/versioning"
)

// zipFile is what a zip is called in the folder where it is unpacked.
const zipFile = "archive.zip"

// isZip reports whether an archive is a zip already: it has nothing else.
func isZip(files []builder.ArchiveFile) bool {
	return len(files) == 1 && strings.EqualFold(path.Ext(files[0].Path), ".zip") && files[0].File.Mode != landfall.Symlink
}

// unzipPackage puts the files of zips in the place of those archives of a package that are zips already.
func (w built) unzipPackage(ctx context.Context, u versioning.Unit) error {
	plan := w.packages[u.Unit]
	var err error
	if isZip(plan.source) {
		plan.source, err = w.unzip(ctx, plan.pkg.Source.Name, plan.source[0])
	}
	if err == nil && isZip(plan.deployment) {
		plan.deployment, err = w.unzip(ctx, plan.pkg.Deployment.Name, plan.deployment[0])
	}
	plan.unzipped = err == nil
	w.packages[u.Unit] = plan
	return err
}

// unzip returns the files of an archive that is a zip.
func (w draft) unzip(ctx context.Context, archive string, zip builder.ArchiveFile) ([]builder.ArchiveFile, error) {
	job := unzipJob(archive, zip)
	job.inputs = []builder.ArchiveFile{{Path: zipFile, File: zip.File}}
	job.key = job.digest(nil)
	made, err := w.runBuild(ctx, job)
	if err != nil {
		return nil, err
	}
	w.sayf("%s is a zip: the archive is its %s", job.what, landfall.Count(len(made), "file"))
	return deployedFiles(job.what, made)
}

func unzipJob(archive string, zip builder.ArchiveFile) buildJob {
	return buildJob{what: fmt.Sprintf("%s (archive %s)", zip.File.Path, archive), command: "unzip", outputs: []string{deployName}, unzip: true}
}

// unpackZip unpacks the zip in a folder to where a build would have left its files.
func unpackZip(dir, called string) error {
	into := filepath.Join(dir, deployName)
	if err := os.Mkdir(into, 0o700); err != nil {
		return err
	}
	zipped, err := os.Open(filepath.Join(dir, zipFile))
	if err != nil {
		return err
	}
	defer func() { _ = zipped.Close() }()
	info, err := zipped.Stat()
	if err != nil {
		return err
	}
	return unpack.Zip(into, called, zipped, info.Size(), unpack.Limits{Files: maxOutputFiles, Bytes: maxOutputBytes})
}
