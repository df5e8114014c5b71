package preflight

import (
	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
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
