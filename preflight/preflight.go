// Package preflight finds what cannot be run here before anything of it is run: missing files, entry points that are
// not there, and broken images and zips. A push and the command line, which has only a folder, look in the same way.
package preflight

import (
	"context"
	"io"
	"io/fs"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// Check finds what a spec names and its folder does not have, and the functions that cannot be run: what a push of the
// folder would fail for, and what it would warn of, beside what spec.Parse finds. The error is one of reading a file,
// and the warnings are returned with it, too.
func Check(ctx context.Context, folder fs.FS, s *spec.Spec, files []landfall.File) (problems, warnings []spec.Problem,
	err error) {
	open := func(_ context.Context, f landfall.File) (io.ReadCloser, error) { return folder.Open(f.Path) }
	missing, warnings := missingFiles(s, files)
	unrunnable, err := Unrunnable(ctx, s, files, open)
	if err != nil {
		return nil, warnings, err
	}
	broken, err := brokenImages(ctx, s, files, open)
	if err != nil {
		return nil, warnings, err
	}
	zips, err := brokenZips(ctx, s, files, open)
	return slices.Concat(missing, unrunnable, broken, zips), warnings, err
}
