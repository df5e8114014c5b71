package landfall_test

import (
	"testing"

	"landfall.dev/landfall"
)

// What a program printed for a terminal can be said where there is none.
func TestPlain(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"plain, größer": "plain, größer",
		"\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[m":        "red and green",
		"10%\r\x1b[2K100%\r":                                  "100%",
		"\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\": "link",
		"a\tb":                "a b",
		"\x1b[31m \x1b[0m":    "",
		"\x1b":                "",
		"bell\a":              `bell\a`,
		"one\ntwo\u00a0x\f\n": "one two x",
	} {
		if got := landfall.Plain(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	if got, want := landfall.TerminalText("\x1b[32m  1)\x1b[0m  one\ttwo\r"), "  1)  one    two"; got != want {
		t.Errorf("with its blanks it is %q, want %q", got, want)
	}
}
