package main

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
)

// Every kind of failure has its own meaning for a script that calls us.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	want := map[landfall.Kind]int{
		landfall.Internal: 1, landfall.Invalid: 2, landfall.NotFound: 3, landfall.Conflict: 4, landfall.Unauthorized: 5,
		landfall.Forbidden: 5, landfall.Unavailable: 6, landfall.Canceled: 130,
	}
	for _, kind := range landfall.Kinds() {
		code, ok := want[kind]
		if got := exitCode(&landfall.Error{Kind: kind}); !ok || got != code {
			t.Errorf("%s: got exit code %d, want %d", kind, got, code)
		}
	}
	if got := exitCode(nil); got != 0 {
		t.Errorf("no error: got exit code %d, want 0", got)
	}
	if got := exitCode(errors.New("unclassified")); got != 1 {
		t.Errorf("an unclassified error: got exit code %d, want 1", got)
	}
	if got := exitCode(&landfall.Error{Kind: landfall.Conflict, Err: errHeld}); got != exitHeld {
		t.Errorf("live is held: got exit code %d, want %d", got, exitHeld)
	}
}

// A command that waited for a run says how it ended.
func TestExitCodesOfRuns(t *testing.T) {
	t.Parallel()
	for state, want := range map[landfall.RunState]int{
		landfall.RunSucceeded: 0, landfall.RunSkipped: 0, landfall.RunFailed: 2, landfall.RunError: 1, landfall.RunSuperseded: 4,
		landfall.RunCancelled: 130, landfall.RunQueued: 1, landfall.RunRunning: 1, landfall.RunWaiting: 1,
	} {
		if got := exitCode(runError(state, "")); got != want {
			t.Errorf("%s: got exit code %d, want %d", state, got, want)
		}
	}
}

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
	root := (&cli{}).root()
	call := regexp.MustCompile(`\blandfall((?: [a-z][a-z-]*)+)`)
	for _, cmd := range commands(root) {
		words := strings.Fields(cmd.CommandPath())[1:]
		var out, stderr bytes.Buffer
		if code := execute(t.Context(), append(words, "--help"), strings.NewReader(""), &out, &stderr); code != 0 {
			t.Errorf("%s --help: got exit code %d: %s", cmd.CommandPath(), code, &stderr)
		}
		if !strings.Contains(out.String(), "Examples:\n  ") || !strings.Contains(cmd.Example, cmd.CommandPath()) && !aliased(cmd) {
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
	return strings.Contains(cmd.Example, strings.NewReplacer(" function ", " fn ", " package ", " pkg ").Replace(cmd.CommandPath()))
}

// exists follows words down the tree of commands, to the first command that has none below it.
func exists(cmd *cobra.Command, words []string) (string, bool) {
	for _, word := range words {
		if !cmd.HasSubCommands() {
			return "", true
		}
		next, _, err := cmd.Find([]string{word})
		if err != nil || next == cmd {
			return word, false
		}
		cmd = next
	}
	return "", true
}

// What a server says cannot do anything to a terminal.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain, größer, 日本": "plain, größer, 日本",
		"\x1b[31mred\r\n":   `\x1b[31mred\r\n`,
		"a\tb\x00":          `a\tb\x00`,
		"\u202eevil":        `\u202eevil`,
		"\u009b2J":          `\u009b2J`,
		"not \xff UTF-8":    `not \xff UTF-8`,
		"it's":              "it's",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got, want := printableLines("a\x07\nb\tc\r\n"), `a\a`+"\nb\tc"+`\r`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Programs get the same fields in the same order as JSON and as YAML.
func TestOutput(t *testing.T) {
	t.Parallel()
	value := struct {
		Number  string    `json:"number"`
		Boolean string    `json:"boolean"`
		At      time.Time `json:"at"`
		Text    string    `json:"text"`
		List    []int     `json:"list"`
		Nothing *int      `json:"nothing"`
	}{"012", "yes", time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC), "a <b> \"c\"\nd: #e", []int{1}, nil}
	for _, test := range []struct{ format, want string }{
		{"json", "{\n  \"number\": \"012\",\n  \"boolean\": \"yes\",\n  \"at\": \"2026-11-20T15:00:00Z\",\n  \"text\": \"a <b> \\\"c\\\"\\nd: #e\",\n" +
			"  \"list\": [\n    1\n  ],\n  \"nothing\": null\n}\n"},
		{"yaml", "number: \"012\"\nboolean: \"yes\"\nat: \"2026-11-20T15:00:00Z\"\ntext: |-\n  a <b> \"c\"\n  d: #e\nlist:\n  - 1\nnothing: null\n"},
	} {
		var out bytes.Buffer
		c := &cli{stdout: &out, output: test.format}
		if err := c.print(value, nil); err != nil || out.String() != test.want {
			t.Errorf("%s: got\n%s%v\nwant\n%s", test.format, &out, err, test.want)
		}
	}
}

// A token is sent only to the server that it is for.
func TestTokens(t *testing.T) {
	t.Parallel()
	c := &cli{getenv: func(string) string { return "" }}
	kept := login{Server: "https://landfall.example.com", Token: "kept"}
	for server, want := range map[string]string{"https://landfall.example.com": "kept", "https://other.example.com": "", "http://landfall.example.com": ""} {
		if got, err := c.token(server, kept); err != nil || got != want {
			t.Errorf("%s: got token %q, %v; want %q", server, got, err, want)
		}
	}
	for host, want := range map[string]bool{"localhost": true, "a.localhost": true, "127.0.0.1": true, "::1": true, "10.0.0.1": false, "localhost.example.com": false} {
		if got := isLocal(host); got != want {
			t.Errorf("%s: got %v, want %v", host, got, want)
		}
	}
	for _, server := range []string{"landfall.example.com", "ftp://a", "http://", "https://token@landfall.example.com", "://"} {
		c := &cli{server: server, getenv: c.getenv}
		if _, err := c.address(login{}); landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("%q: got %v, want an Invalid error", server, err)
		}
	}
}
