package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// cli is one call of the command line.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	environ        []string // all that getenv knows

	zone *time.Location // in which people are shown times

	server string                      // --server
	output string                      // --output: json, yaml, or empty for people
	source string                      // where the token came from, and what to do when the server does not know it
	chosen func(context.Context) error // what the arguments ask for; nil when it is done already
}

// execute runs the command that args name, and returns its exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	zone, err := time.LoadLocation("Local")
	if err != nil {
		zone = time.UTC
	}
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr, getenv: os.Getenv, environ: os.Environ(), zone: zone}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err = root.Execute(); err == nil && c.chosen != nil {
		err = c.chosen(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = &landfall.Error{Kind: landfall.Canceled, Message: "interrupted", Err: err}
	}
	if err != nil {
		fmt.Fprintf(stderr, "landfall: %s\n", printableLines(landfall.MessageOf(err)))
		if landfall.KindOf(err) == landfall.Unauthorized && c.source != "" {
			fmt.Fprintf(stderr, "the token is from %s\n", printable(c.source))
		}
	}
	return exitCode(err)
}

const rootHelp = `Landfall makes an immutable release of every push, with an address of its own.

The server is named by --server, LANDFALL_SERVER or landfall login, and is http://localhost:8080 otherwise. The token comes
from LANDFALL_TOKEN (or the file LANDFALL_TOKEN_FILE), from landfall login, or, on the server's own machine, from its data
folder (LANDFALL_DATA, or ./landfall-data).

Exit codes: 0 done, 1 internal error, 2 wrong input or a failed change, 3 no such thing, 4 conflict or superseded, 5 not
allowed, 6 the server cannot be reached, 7 released, but live is held, 130 interrupted or cancelled.`

// root returns the whole tree of commands.
func (c *cli) root() *cobra.Command {
	root := c.group("landfall", "Make an immutable, addressable release of every push", "landfall app create shop\nlandfall app history shop",
		c.serveCommand(), c.loginCommand(), c.statusCommand(), c.appCommand(), c.specCommand(), c.runCommand(), c.releaseCommand(),
		c.unitCommand(unitKind{"function", "fn", "/functions"}), c.unitCommand(unitKind{"package", "pkg", "/packages"}),
		c.routeCommand(), c.triggerCommand(), c.namespaceCommand(), c.queueCommand(), c.secretCommand(), c.executionCommand(),
		c.backupCommand(), c.restoreCommand(), c.fsckCommand(), c.completionCommand(), c.versionCommand(),
	)
	root.Long = rootHelp
	root.Version = programVersion()
	root.SetVersionTemplate("landfall {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&c.server, "server", "", "address of the server (LANDFALL_SERVER)")
	root.PersistentFlags().StringVarP(&c.output, "output", "o", "", "json or yaml, for programs")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains([]string{"", "json", "yaml"}, c.output) {
			return invalid("--output is %q; right would be json or yaml", c.output)
		}
		return nil
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			return noCommand(cmd, words[0])
		}
		if err.Error() == "unknown flag: --json" {
			return invalid("%v; JSON is printed with -o json", err)
		}
		return invalid("%v; see: %s --help", err, cmd.CommandPath())
	})
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Example = indent("landfall help app history")
		}
	}
	return root
}

// group returns a command that only holds others.
func (c *cli) group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: use, Short: short, Example: indent(example), Args: cobra.ArbitraryArgs}
	group.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return noCommand(cmd, args[0])
	}
	group.AddCommand(commands...)
	return group
}

// noCommand is the error of a word that is no command of a group.
func noCommand(group *cobra.Command, word string) error {
	names := map[string]bool{}
	for _, sub := range group.Commands() {
		names[sub.Name()] = true
	}
	return invalid("there is no command %q; %s", group.CommandPath()+" "+word, spec.Suggest(word, names))
}

// operands are the words that a command was given, by their names in lower case.
type operands map[string]string

// command returns a command. use is its name and its operands in capitals, optional ones in brackets: each can be given
// in its place or as a flag of its name.
func (c *cli) command(use, short, example string, run func(ctx context.Context, in operands) error) *cobra.Command {
	words := strings.Fields(use)
	cmd := &cobra.Command{Use: use, Short: short, Example: indent(example), Args: cobra.ArbitraryArgs}
	flags := make(map[string]*string, len(words))
	for _, word := range words[1:] {
		name := strings.ToLower(strings.Trim(word, "[]"))
		flags[name] = cmd.Flags().String(name, "", strings.Trim(word, "[]")+", if it is not given as an argument")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := operands{}
		for _, word := range words[1:] {
			name := strings.ToLower(strings.Trim(word, "[]"))
			switch {
			case cmd.Flags().Changed(name):
				in[name] = *flags[name]
			case len(args) > 0:
				in[name], args = args[0], args[1:]
			}
			if in[name] == "" && !strings.HasPrefix(word, "[") {
				return invalid("%s is missing: %s", word, cmd.UseLine())
			}
		}
		if len(args) > 0 {
			return invalid("what is %q? %s", args[0], cmd.UseLine())
		}
		c.chosen = func(ctx context.Context) error { return run(ctx, in) }
		return nil
	}
	return cmd
}

// indent sets an example off as cobra's help wants it.
func indent(example string) string { return "  " + strings.ReplaceAll(example, "\n", "\n  ") }

func invalid(format string, args ...any) error {
	return &landfall.Error{Op: "cli", Kind: landfall.Invalid, Message: fmt.Sprintf(format, args...)}
}

func (c *cli) completionCommand() *cobra.Command {
	shells := []string{"bash", "fish", "powershell", "zsh"}
	var cmd *cobra.Command
	cmd = c.command("completion SHELL", "Print the completion script of bash, fish, powershell or zsh",
		"source <(landfall completion bash)\nlandfall completion zsh > \"${fpath[1]}/_landfall\"",
		func(_ context.Context, in operands) error {
			switch root := cmd.Root(); in["shell"] {
			case "bash":
				return root.GenBashCompletionV2(c.stdout, true)
			case "fish":
				return root.GenFishCompletion(c.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.stdout)
			case "zsh":
				return root.GenZshCompletion(c.stdout)
			}
			return invalid("there is no completion for %q; there is for %s", in["shell"], strings.Join(shells, ", "))
		})
	cmd.ValidArgs = shells
	return cmd
}

func (c *cli) versionCommand() *cobra.Command {
	return c.command("version", "Print the version of this program", "landfall version", func(context.Context, operands) error {
		v := struct {
			Version string `json:"version"`
			Go      string `json:"go"`
		}{programVersion(), runtime.Version()}
		return c.print(v, func(t *table) { t.row("landfall " + v.Version) })
	})
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
