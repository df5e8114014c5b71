package server

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"landfall.dev/landfall/cli"
)

// commands returns every command of the tree that people can call.
func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

// Help has an example for every command, and names no command that does not exist.
func TestHelp(t *testing.T) {
	t.Parallel()
	root := (&cli.Call{Program: CommandLine("")}).Tree()
	call := regexp.MustCompile(`\blandfall((?: [a-z][a-z-]*)+)`)
	for _, cmd := range commands(root) {
		words := strings.Fields(cmd.CommandPath())[1:]
		var out, stderr bytes.Buffer
		c := &cli.Call{Program: CommandLine(""), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &stderr}
		if code := c.Run(t.Context(), append(words, "--help")); code != 0 {
			t.Errorf("%s --help: got exit code %d: %s", cmd.CommandPath(), code, &stderr)
		}
		if !strings.Contains(out.String(), "Examples:\n  ") ||
			!strings.Contains(cmd.Example, cmd.CommandPath()) && !aliased(cmd) {
			t.Errorf("%s --help: got no example of it:\n%s", cmd.CommandPath(), &out)
		}
		for _, match := range call.FindAllStringSubmatch(cmd.Example+"\n"+cmd.Long+"\n"+cmd.Short, -1) {
			if name, ok := exists(root, strings.Fields(match[1])); !ok {
				t.Errorf("%s --help names %q, want only commands that exist; %q does not", cmd.CommandPath(), match[0], name)
			}
		}
	}
}

// aliased reports whether an example shows a command by the short name of its group.
func aliased(cmd *cobra.Command) bool {
	return strings.Contains(cmd.Example, strings.NewReplacer(" function ", " fn ", " package ",
		" pkg ").Replace(cmd.CommandPath()))
}

// exists follows words down the tree of commands, to the first command that has none below it, or takes an operand.
func exists(cmd *cobra.Command, words []string) (string, bool) {
	for _, word := range words {
		if !cmd.HasSubCommands() {
			return "", true
		}
		next, _, err := cmd.Find([]string{word})
		if err != nil || next == cmd {
			return word, strings.Contains(cmd.Use, " ")
		}
		cmd = next
	}
	return "", true
}
