package server

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
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/spec"
)

// Forward is what the binary is when the server starts it: the init of a sandbox, or a compiler of modules. Its main calls it before
// anything else, with its arguments; handled is false when they are neither's.
func Forward(args []string) (code int, handled bool) {
	if code, handled = sandbox.Forward(args); !handled {
		code, handled = wasm.Forward(args)
	}
	return code, handled
}

// CommandLine is what the server gives the command line: its version and the commands that open data themselves. An empty version is what
// Go knows of the build.
func CommandLine(version string) cli.Program {
	version = programVersion(version)
	return cli.Program{
		Version: version, Specs: pipeline.DefaultSpecs, Check: checkFolder,
		Commands: func(c *cli.Call) []*cobra.Command {
			return []*cobra.Command{serveCommand(c, version), backupCommand(c), restoreCommand(c), fsckCommand(c)}
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
	if err != nil {
		return nil, warnings, err
	}
	zips, err := pipeline.BrokenZips(ctx, s, files, open)
	return slices.Concat(missing, unrunnable, broken, zips), warnings, err
}

// programVersion says what this program was built of; without make and git, what Go knows.
func programVersion(version string) string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
