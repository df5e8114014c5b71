package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
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
		if got := ExitCode(&landfall.Error{Kind: kind}); !ok || got != code {
			t.Errorf("%s: got exit code %d, want %d", kind, got, code)
		}
	}
	if got := ExitCode(nil); got != 0 {
		t.Errorf("no error: got exit code %d, want 0", got)
	}
	if got := ExitCode(errors.New("unclassified")); got != 1 {
		t.Errorf("an unclassified error: got exit code %d, want 1", got)
	}
	if got := ExitCode(&landfall.Error{Kind: landfall.Conflict, Err: errHeld}); got != exitHeld {
		t.Errorf("live is held: got exit code %d, want %d", got, exitHeld)
	}
}

// A command that waited for a run says how it ended.
func TestExitCodesOfRuns(t *testing.T) {
	t.Parallel()
	for state, want := range map[landfall.RunState]int{
		landfall.RunSucceeded: 0, landfall.RunSkipped: 0, landfall.RunFailed: 2, landfall.RunError: 1,
		landfall.RunSuperseded: 4, landfall.RunCancelled: 130, landfall.RunQueued: 1, landfall.RunRunning: 1,
		landfall.RunWaiting: 1,
	} {
		if got := ExitCode(runError(client.Run{State: state})); got != want {
			t.Errorf("%s: got exit code %d, want %d", state, got, want)
		}
	}
	over := client.Run{State: landfall.RunFailed, Stats: landfall.RunStats{OverPlan: true}}
	if got := ExitCode(runError(over)); got != exitOfKind(landfall.Conflict) {
		t.Errorf("over the plan: got exit code %d, want that of a conflict", got)
	}
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

// Programs get the same fields as JSON, and sorted by their names as YAML.
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
		{"json", "{\n  \"number\": \"012\",\n  \"boolean\": \"yes\",\n  \"at\": \"2026-11-20T15:00:00Z\",\n  \"text\": " +
			"\"a <b> \\\"c\\\"\\nd: #e\",\n" +
			"  \"list\": [\n    1\n  ],\n  \"nothing\": null\n}\n"},
		{"yaml", "at: \"2026-11-20T15:00:00Z\"\nboolean: \"yes\"\nlist:\n- 1\nnothing: null\nnumber: \"012\"\ntext: |-\n  " +
			"a <b> \"c\"\n  d: #e\n"},
	} {
		var out bytes.Buffer
		c := &Call{Stdout: &out, output: test.format}
		if err := c.Print(value, nil); err != nil || out.String() != test.want {
			t.Errorf("%s: got\n%s%v\nwant\n%s", test.format, &out, err, test.want)
		}
	}
}

// A token is sent only to the server that it is for.
func TestTokens(t *testing.T) {
	t.Parallel()
	c := &Call{Getenv: func(string) string { return "" }}
	kept := login{Server: "https://landfall.example.com", Token: "kept"}
	for server, want := range map[string]string{"https://landfall.example.com": "kept", "https://other.example.com": "",
		"http://landfall.example.com": ""} {
		if got, err := c.token(server, kept); err != nil || got != want {
			t.Errorf("%s: got token %q, %v; want %q", server, got, err, want)
		}
	}
	for host, want := range map[string]bool{"localhost": true, "a.localhost": true, "127.0.0.1": true, "::1": true,
		"10.0.0.1": false, "localhost.example.com": false} {
		if got := isLocal(host); got != want {
			t.Errorf("%s: got %v, want %v", host, got, want)
		}
	}
	for _, server := range []string{"landfall.example.com", "ftp://a", "http://",
		"https://token@landfall.example.com", "://"} {
		c := &Call{server: server, Getenv: c.Getenv}
		if _, err := c.address(login{}); landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("%q: got %v, want an Invalid error", server, err)
		}
	}
}

// A person who is asked about a deletion sees before what goes, and which triggers will lead nowhere.
func TestAskedDeletion(t *testing.T) {
	t.Parallel()
	all := client.Deletion{Aliases: []string{"hello:prod"},
		Triggers: []landfall.UnitID{{Kind: landfall.HTTPTrigger, Name: "greet"}}}
	want := "THIS WILL BE DELETED  NUMBER\nalias hello:prod      -\n\nTHIS WILL LEAD NOWHERE\nhttp-trigger greet\n" +
		"Delete all of it? [y/N] "
	for answer, agreed := range map[string]bool{"y\n": true, "n\n": false, "": false} {
		var shown bytes.Buffer
		c := &Call{Stdin: strings.NewReader(answer), Stderr: &shown}
		if got := c.agreed(all); got != agreed || shown.String() != want {
			t.Errorf("%q: got %v and\n%s\nwant %v and\n%s", answer, got, &shown, agreed, want)
		}
	}
}
