package main

import (
	"context"
	"io"
	"io/fs"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/spec"
)

// commandLine is what this program gives its command line.
func commandLine() cli.Program {
	return cli.Program{
		Version: programVersion(), Specs: pipeline.DefaultSpecs, Check: checkFolder,
		Commands: func(c *cli.Call) []*cobra.Command {
			return []*cobra.Command{serveCommand(c), backupCommand(c), restoreCommand(c), fsckCommand(c)}
		},
	}
}

// checkFolder is the Check of the command line: it finds what a spec names and its folder does not have, and the functions that cannot be
// run. It does so as a push does, as far as the files of the folder tell.
func checkFolder(ctx context.Context, folder fs.FS, s *spec.Spec, files []landfall.File) (problems, warnings []spec.Problem, err error) {
	open := func(_ context.Context, f landfall.File) (io.ReadCloser, error) { return folder.Open(f.Path) }
	missing, warnings := pipeline.MissingFiles(s, files)
	unrunnable, err := pipeline.Unrunnable(ctx, s, files, open)
	if err != nil {
		return nil, warnings, err
	}
	broken, err := pipeline.BrokenImages(ctx, s, files, open)
	return slices.Concat(missing, unrunnable, broken), warnings, err
}

// version is what make build calls the commit that it builds.
var version string

// programVersion says what this program was built of; without make and git, what Go knows.
func programVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
