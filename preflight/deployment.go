package preflight

import (
	"context"
	"errors"
	"io"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/tree"
)

// Deployment is the files of a package as its functions see them, by their paths, and what reads them.
type Deployment struct {
	Files map[string]landfall.File
	Modes map[string]bool // whether the file is executable
	Open  artifact.Opener

	compiled bool // the files are the source that a build compiles
}

// DeploymentOf returns the deployment that an archive's files are, with what links lead to in the place of the links.
func DeploymentOf(archive []builder.ArchiveFile, open artifact.Opener) Deployment {
	d := Deployment{Files: make(map[string]landfall.File, len(archive)), Modes: make(map[string]bool, len(archive)),
		Open: open}
	inside, lies := builder.InArchive(archive), make(map[string]landfall.File, len(archive))
	for _, f := range archive {
		lies[f.Path] = f.File
	}
	links := tree.Of(inside)
	for _, f := range links.Expand(artifact.MaxFiles) {
		if !f.IsBuiltLink() { // a link that remains leads to nothing
			to, _ := links.Follow(f.Path)
			d.Files[f.Path], d.Modes[f.Path] = lies[to], lies[to].Mode == landfall.Executable
		}
	}
	return d
}

// Stored returns the deployment that a stored archive is. NotFound when it is not there any more.
func Stored(ctx context.Context, objects assets.Opener, archive landfall.Archive) (Deployment, error) {
	stored, err := objects.Open(ctx, archive.Key)
	if err != nil {
		return Deployment{}, err
	}
	defer func() { _ = stored.Close() }()
	list, err := builder.ListWithLinks(stored, archive.Size)
	files := make([]builder.ArchiveFile, len(list))
	for i, f := range list {
		files[i] = builder.ArchiveFile{Path: f.Path, File: f.File}
	}
	return DeploymentOf(files, func(ctx context.Context, f landfall.File) (io.ReadCloser, error) {
		stored, err := objects.Open(ctx, archive.Key)
		if err != nil {
			return nil, err
		}
		file, err := builder.OpenArchived(stored, archive.Size, f.Path)
		if err != nil {
			_ = stored.Close()
			return nil, err
		}
		return archiveEntry{file, stored}, nil
	}), err
}

// archiveEntry is a file of an archive, and the archive.
type archiveEntry struct {
	io.ReadCloser

	archive io.Closer
}

// Close implements io.Closer.
func (b archiveEntry) Close() error {
	return errors.Join(b.ReadCloser.Close(), b.archive.Close())
}
