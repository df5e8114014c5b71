package server

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/sandbox"
)

// Forward is what the binary is when the server starts it: the init of a sandbox, or a compiler of modules. Its main
// calls it before anything else, with its arguments; handled is false when they are neither's.
func Forward(args []string) (code int, handled bool) {
	if code, handled = sandbox.Forward(args); !handled {
		code, handled = wasm.Forward(args)
	}
	return code, handled
}

// CommandLine is what the server gives the command line: its version and the commands that open data themselves. An
// empty version is what Go knows of the build.
func CommandLine(version string) cli.Program {
	version = programVersion(version)
	return cli.Program{
		Version: version,
		Commands: func(c *cli.Call) []*cobra.Command {
			return []*cobra.Command{serveCommand(c, version), backupCommand(c), restoreCommand(c), fsckCommand(c)}
		},
	}
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
