package landfall_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
)

func TestCutDescription(t *testing.T) {
	t.Parallel()
	words := strings.TrimSpace(strings.Repeat("word ", 40))
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"what fits", "Released owf2k7qa", "Released owf2k7qa"},
		{"one line", " specs/a.yaml:3: no\n\tsuch   field\r\n", "specs/a.yaml:3: no such field"},
		{"140 characters", strings.Repeat("a", 140), strings.Repeat("a", 140)},
		{"140 characters of two bytes", strings.Repeat("ä", 140), strings.Repeat("ä", 140)},
		{"141 characters", strings.Repeat("a", 141), strings.Repeat("a", 139) + "…"},
		{"a long word", "see " + strings.Repeat("é", 200), "see " + strings.Repeat("é", 135) + "…"},
		// S29: nothing that people write turns the text around
		{"control characters", "a\x1b[31m\u202e b", `a\x1b[31m\u202e b`},
		{"words", "a " + words, ("a " + words)[:136] + "…"},
	} {
		if got := landfall.CutDescription(c.text); got != c.want {
			t.Errorf("%s: got %q (%d characters), want %q", c.name, got, utf8.RuneCountInString(got), c.want)
		}
	}
}

// Whatever is to be said, GitHub takes it, and it begins as it was.
func TestCutDescriptionProperty(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(
		rapid.StringN(0, 400, -1),
		rapid.Map(rapid.SliceOf(rapid.StringN(1, 30, -1)), func(words []string) string { return strings.Join(words, " ") }))
	rapid.Check(t, func(t *rapid.T) {
		s := text.Draw(t, "text")
		got := landfall.CutDescription(s)
		line := landfall.Printable(strings.Join(strings.Fields(s), " "))
		if n := utf8.RuneCountInString(got); n > landfall.MaxStatusDescription || strings.ContainsAny(got, "\r\n\t") ||
			!utf8.ValidString(got) {
			t.Fatalf("got %q of %d characters, want one line of at most %d", got, n, landfall.MaxStatusDescription)
		}
		kept, cut := strings.CutSuffix(got, "…")
		if !cut || got == line {
			if got != line {
				t.Fatalf("got %q, want %q", got, line)
			}
			return
		}
		if !strings.HasPrefix(line, kept) {
			t.Fatalf("got %q, which does not begin %q", got, line)
		}
		// The cut is between two words, unless that would lose more than half.
		if rest := strings.TrimPrefix(line, kept); !strings.HasPrefix(rest, " ") &&
			strings.LastIndexByte(kept, ' ') > len(kept)/2 {
			t.Fatalf("got %q, cut within the word before %q", got, rest[:min(len(rest), 10)])
		}
		if got2 := landfall.CutDescription(got); got2 != got {
			t.Fatalf("cutting again: got %q, want %q", got2, got)
		}
	})
}
