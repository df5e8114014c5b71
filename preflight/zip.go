package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/spec"
)

// brokenZips finds the archives of a spec that are zips among the files of the app's folder and cannot be unpacked, and
// the functions whose entry point is no file of such a zip. A push sees them when it unpacks the zips. Nothing is known
// of files that a build makes.
func brokenZips(ctx context.Context, s *spec.Spec, files []landfall.File,
	open artifact.Opener) (problems []spec.Problem, err error) {
	if s.App != nil && s.App.Build != nil {
		return nil, nil
	}
	below, err := os.MkdirTemp("", "landfall-zip-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(below)) }()
	archives, unzipped := ArchivesOf(s), map[string]Deployment{} // by archive
	for _, a := range s.Archives {
		selected, _, err := builder.SelectArchive(archives[a.Name], files)
		if err != nil || !artifact.IsZip(selected) {
			continue // there is another problem with an archive that cannot exist
		}
		d, err := unzipBelow(ctx, below, a.Name, selected[0], open)
		switch {
		case landfall.Is(err, landfall.Invalid):
			problems = append(problems, spec.Problem{Pos: a.Pos, Message: landfall.MessageOf(err)})
		case err != nil:
			return nil, err
		default:
			unzipped[a.Name] = d
		}
	}
	packages := map[string]Deployment{}
	for _, p := range s.Packages {
		ref, built, compiled := deploymentArchive(s, p)
		if d, is := unzipped[ref.Name]; is && (!built || compiled) {
			d.compiled = compiled
			packages[p.Name] = d
		}
	}
	entries, err := entryProblems(ctx, s, packages)
	return append(problems, entries...), err
}

// unzipBelow unpacks an archive that is a zip in a new folder below another.
func unzipBelow(ctx context.Context, below, archive string, zip builder.ArchiveFile,
	open artifact.Opener) (Deployment, error) {
	dir, err := os.MkdirTemp(below, "")
	if err != nil {
		return Deployment{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Deployment{}, err
	}
	defer func() { _ = root.Close() }() // each file was closed before
	if err := artifact.CopyFile(ctx, root, artifact.ZipFile, zip.File, open); err != nil {
		return Deployment{}, err
	}
	what := ZipName(archive, zip)
	if err := artifact.Unzip(dir, what); err != nil {
		return Deployment{}, err
	}
	made, err := artifact.Collect(dir, "", artifact.Build{What: what, Outputs: []string{artifact.Folder}})
	if err != nil {
		return Deployment{}, err
	}
	list, err := artifact.Deployed(what, made)
	return DeploymentOf(list, func(_ context.Context, f landfall.File) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, filepath.FromSlash(f.Path)))
	}), err
}

// ZipName returns what people call an archive that is a zip.
func ZipName(archive string, zip builder.ArchiveFile) string {
	return fmt.Sprintf("%s (archive %s)", zip.File.Path, archive)
}
