package pipeline

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/spec"
)

// BrokenZips finds the archives of a spec that are zips among the files of the app's folder and cannot be unpacked, and the functions whose
// entry point is no file of such a zip. A push sees them when it unpacks the zips. Nothing is known of files that a build makes.
func BrokenZips(ctx context.Context, s *spec.Spec, files []landfall.File, open Opener) (problems []spec.Problem, err error) {
	if s.App != nil && s.App.Build != nil {
		return nil, nil
	}
	below, err := os.MkdirTemp("", "landfall-zip-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(below)) }()
	archives, unzipped := archivesOf(s), map[string]deployment{} // by archive
	for _, a := range s.Archives {
		selected, _, err := builder.SelectArchive(archives[a.Name], files)
		if err != nil || !isZip(selected) {
			continue // of an archive that cannot be there is another problem
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
	packages := map[string]deployment{}
	for _, p := range s.Packages {
		ref, built, compiled := seenIn(s, p)
		if d, is := unzipped[ref.Name]; is && (!built || compiled) {
			d.compiled = compiled
			packages[p.Name] = d
		}
	}
	entries, err := entryProblems(ctx, s, packages)
	return append(problems, entries...), err
}

// unzipBelow unpacks an archive that is a zip in a folder of its own below another.
func unzipBelow(ctx context.Context, below, archive string, zip builder.ArchiveFile, open Opener) (deployment, error) {
	dir, err := os.MkdirTemp(below, "")
	if err != nil {
		return deployment{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return deployment{}, err
	}
	defer func() { _ = root.Close() }() // each file was closed before
	if err := copyFile(ctx, root, zipFile, zip.File, open); err != nil {
		return deployment{}, err
	}
	job := unzipJob(archive, zip)
	if err := unpackZip(dir, job.what); err != nil {
		return deployment{}, err
	}
	made, err := collectOutputs(dir, "", job)
	if err != nil {
		return deployment{}, err
	}
	list, err := deployedFiles(job.what, made)
	return deploymentOf(list, func(_ context.Context, f landfall.File) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, filepath.FromSlash(f.Path)))
	}), err
}
