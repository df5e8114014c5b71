// Package cli is the command line: a client of a server's API. A program adds commands of its own to it.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// Program is what a program gives its command line.
type Program struct {
	Version string // what it was built of

	// Commands returns the program's own commands, such as those that open data themselves. They stand beside those that
	// ask a server. nil: there are none.
	Commands func(c *Call) []*cobra.Command
}

// Call is one call of the command line.
type Call struct {
	Program        Program
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string // all that Getenv knows

	server string                      // --server
	output string                      // --output: json, yaml, or empty for people
	source string                      // where the token came from, and what to do when the server does not know it
	chosen func(context.Context) error // what the arguments ask for; nil when it is done already
}

// Run runs the command that args name, and returns its exit code. An error is written to Stderr. A Call runs once.
func (c *Call) Run(ctx context.Context, args []string) int {
	root := c.Tree()
	root.SetArgs(args)
	root.SetIn(c.Stdin)
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	err := root.Execute()
	if err == nil && c.chosen != nil {
		err = c.chosen(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = &landfall.Error{Kind: landfall.Canceled, Message: "interrupted", Err: err}
	}
	if err != nil {
		fmt.Fprintf(c.Stderr, "landfall: %s\n", printableLines(landfall.MessageOf(err)))
		if landfall.KindOf(err) == landfall.Unauthorized && c.source != "" {
			fmt.Fprintf(c.Stderr, "the token is from %s\n", printable(c.source))
		}
	}
	return ExitCode(err)
}

const rootHelp = `Landfall makes an immutable release of every push, with an address of its own.

The server is named by --server, LANDFALL_SERVER or landfall login, and is http://localhost:8080 otherwise.
The token comes from LANDFALL_TOKEN (or the file LANDFALL_TOKEN_FILE), from landfall login, or, on the
server's own machine, from its data folder (LANDFALL_DATA, or ./landfall-data).

Exit codes: 0 done, 1 internal error, 2 wrong input or a failed change, 3 no such thing, 4 conflict, superseded
or over the plan, 5 not allowed, 6 the server cannot be reached, 7 released, but live is held, 130 interrupted
or cancelled.`

// Tree returns the command landfall with all others below it, those of the program too.
func (c *Call) Tree() *cobra.Command {
	root := c.group("landfall", "Make an immutable, addressable release of every push",
		"landfall app create shop\nlandfall app history shop", c.loginCommand(), c.statusCommand(), c.appCommand(),
		c.specCommand(), c.runCommand(), c.releaseCommand(), c.unitCommand(functionKind()), c.unitCommand(packageKind()),
		c.environmentCommand(), c.routeCommand(), c.triggerCommand(), c.canaryCommand(), c.namespaceCommand(),
		c.queueCommand(), c.secretCommand(), c.tokenCommand(), c.jobCommand(), c.webhookCommand(),
		c.planCommand(), c.collectCommand(), c.tagCommand(), c.gitHubCommand(),
		c.executionCommand(), c.completionCommand(), c.versionCommand(),
	)
	if c.Program.Commands != nil {
		root.AddCommand(c.Program.Commands(c)...)
	}
	root.Long = rootHelp
	root.Version = c.Program.Version
	root.SetVersionTemplate("landfall {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&c.server, "server", "", "address of the server (LANDFALL_SERVER)")
	root.PersistentFlags().StringVarP(&c.output, "output", "o", "", "json or yaml, for programs")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains([]string{"", "json", "yaml"}, c.output) {
			return Invalid("--output is %q; right would be json or yaml", c.output)
		}
		return nil
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			return noCommand(cmd, words[0])
		}
		if err.Error() == "unknown flag: --json" {
			return Invalid("%v; JSON is printed with -o json", err)
		}
		if wrong := wrongValue.FindStringSubmatch(err.Error()); wrong != nil {
			right := map[string]string{"int": "a whole number",
				"bool": "true or false", "duration": "a time such as 30s, 5m or 1h"}[cmd.Flags().Lookup(wrong[2]).Value.Type()]
			return Invalid("--%s is %s; right would be %s", wrong[2], wrong[1], cmp.Or(right, "another value"))
		}
		hint := ""
		if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
			hint = nearFlag(cmd, name)
		}
		return Invalid("%v; %ssee: %s --help", err, hint, cmd.CommandPath())
	})
	c.complete(root)
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Example = indent("landfall help app history")
			cmd.Run, cmd.RunE = nil, func(_ *cobra.Command, args []string) error { return help(root, args) }
		}
	}
	return root
}

// nearFlag asks for the flag of a command that may have been meant by one that it does not have.
func nearFlag(cmd *cobra.Command, name string) string {
	known := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = !f.Hidden })
	maps.DeleteFunc(known, func(_ string, shown bool) bool { return !shown })
	near := spec.Nearest(name, known)
	if near == "" {
		return ""
	}
	return "did you mean --" + near + "? "
}

// wrongValue is what the library says of a flag whose value is of another type: the value, and the flag's name.
var wrongValue = regexp.MustCompile(`^invalid argument (".*") for "(?:-\w, )?--([\w-]+)" flag: `)

// help shows the help of the command that words name.
func help(root *cobra.Command, words []string) error {
	cmd, rest, err := root.Find(words)
	switch {
	case err != nil:
		return Invalid("%v", err)
	case len(rest) > 0 && cmd.HasSubCommands():
		return noCommand(cmd, rest[0])
	}
	cmd.InitDefaultHelpFlag()
	return cmd.Help()
}

// oneOf fails for the value of a flag that is given and is none of those that there are.
func oneOf(flag, value string, known ...string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	last := len(known) - 1
	return Invalid("--%s is %q; right would be %s or %s", flag, value, strings.Join(known[:last], ", "), known[last])
}

// group returns a command that only holds others.
func (c *Call) group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
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
	var below []string // commands of that name, one group further
	for _, sub := range group.Commands() {
		names[sub.Name()] = true
		for _, one := range sub.Commands() {
			if one.Name() == word {
				below = append(below, strings.TrimSuffix(one.UseLine(), " [flags]"))
			}
		}
	}
	if len(below) > 0 {
		return Invalid("there is no command %q; there are: %s", group.CommandPath()+" "+word, strings.Join(below, ", "))
	}
	return Invalid("there is no command %q; %s", group.CommandPath()+" "+word, spec.Suggest(word, names))
}

// Operands are the words that a command was given, by their names in lower case.
type Operands map[string]string

// Command returns a command. use is its name and its operands in capitals, optional ones in brackets: each can be given
// in its place or as a flag of its name. An optional one that stands first takes a word only if the others have theirs.
// run is called by Run, once the arguments are known to be right.
func (c *Call) Command(use, short, example string, run func(ctx context.Context, in Operands) error) *cobra.Command {
	words := strings.Fields(use)
	cmd := &cobra.Command{Use: use, Short: short, Example: indent(example), Args: cobra.ArbitraryArgs}
	flags := make(map[string]*string, len(words))
	for _, word := range words[1:] {
		name := strings.ToLower(strings.Trim(word, "[]"))
		flags[name] = cmd.Flags().String(name, "", strings.Trim(word, "[]")+", if it is not given as an argument")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := Operands{}
		needed := 0 // words that operands further on cannot do without
		for _, word := range words[1:] {
			if name := strings.ToLower(word); !strings.HasPrefix(word, "[") && !cmd.Flags().Changed(name) {
				needed++
			}
		}
		for _, word := range words[1:] {
			name := strings.ToLower(strings.Trim(word, "[]"))
			optional := strings.HasPrefix(word, "[")
			switch given := cmd.Flags().Changed(name); {
			case given:
				in[name] = *flags[name]
			case optional && len(args) > needed, !optional && len(args) > 0:
				in[name], args = args[0], args[1:]
			}
			if !optional && !cmd.Flags().Changed(name) {
				needed--
			}
			if in[name] == "" && !optional {
				return Invalid("%s is missing: %s", word, cmd.UseLine())
			}
		}
		if len(args) > 0 {
			return Invalid("what is %q? %s", args[0], dashes(cmd, args[0])+cmd.UseLine())
		}
		c.chosen = func(ctx context.Context) error {
			err := run(ctx, in)
			if landfall.Is(err, landfall.NotFound) {
				return c.meant(ctx, cmd, in, err)
			}
			return err
		}
		return nil
	}
	return cmd
}

// dashes returns the flag that was meant by a word that begins with a dash that is no hyphen, as programs for texts
// write it; empty when none was.
func dashes(cmd *cobra.Command, word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "=")
	if strings.HasPrefix(word, "-") || cmd.Flags().Lookup(name) == nil {
		return ""
	}
	return "Did you mean --" + name + ", with two hyphens? "
}

// indent sets an example off as cobra's help wants it.
func indent(example string) string { return "  " + strings.ReplaceAll(example, "\n", "\n  ") }

// Invalid returns the error of a call with wrong arguments: of the Kind Invalid, with a sentence for whoever made it.
func Invalid(format string, args ...any) error {
	return landfall.Errorf("cli", landfall.Invalid, format, args...)
}

func (c *Call) completionCommand() *cobra.Command {
	shells := []string{"bash", "fish", "powershell", "zsh"}
	var cmd *cobra.Command
	cmd = c.Command("completion SHELL", "Print the completion script of bash, fish, powershell or zsh",
		"source <(landfall completion bash)\nlandfall completion zsh > \"${fpath[1]}/_landfall\"",
		func(_ context.Context, in Operands) error {
			switch root := cmd.Root(); in["shell"] {
			case "bash":
				return root.GenBashCompletionV2(c.Stdout, true)
			case "fish":
				return root.GenFishCompletion(c.Stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.Stdout)
			case "zsh":
				return root.GenZshCompletion(c.Stdout)
			}
			return Invalid("there is no completion for %q; there is for %s", in["shell"], strings.Join(shells, ", "))
		})
	cmd.ValidArgs = shells
	return cmd
}

func (c *Call) versionCommand() *cobra.Command {
	return c.Command("version", "Print the version of this program", "landfall version",
		func(context.Context, Operands) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
			}{c.Program.Version, runtime.Version()}
			return c.Print(v, func(t *Table) { t.Row("landfall " + v.Version) })
		})
}
