package landfall

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns s with every character escaped that cannot be printed. The text comes from strangers and is shown
// to people.
func Printable(s string) string {
	var b strings.Builder
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0]), 16))
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		s = s[size:]
	}
	return b.String()
}

// Count returns a number of things as people say it: "1 file", "2 files".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Plain is TerminalText on one line: runs of white space and ends of lines become one blank.
func Plain(line string) string {
	return Printable(strings.Join(strings.Fields(stripEscapes(line)), " "))
}

// TerminalText returns a line of a program's output as a terminal would show it: without colours and other escape
// sequences, only the text after the last carriage return, blanks instead of tabs, and everything else as Printable
// returns it.
func TerminalText(line string) string {
	return Printable(strings.ReplaceAll(stripEscapes(line), "\t", "    "))
}

// stripEscapes returns the text after the last carriage return of a line, without escape sequences.
func stripEscapes(line string) string {
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	var b strings.Builder
	for line != "" {
		at := strings.IndexByte(line, Escape)
		if at < 0 {
			at = len(line)
		}
		b.WriteString(line[:at])
		line = line[at:]
		if line != "" {
			line = line[len(EscapeSequence(line)):]
		}
	}
	return b.String()
}

// Escape begins every escape sequence.
const Escape = 0x1b

// EscapeSequence returns the escape sequence at the beginning of s (ECMA-48): a control sequence to its final byte, a
// string to its end, or the escape and the character after it.
func EscapeSequence(s string) string {
	if len(s) < 2 {
		return s
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return s[:i+1]
			}
			if s[i] < 0x20 || s[i] > 0x3f {
				return s[:i]
			}
		}
		return s
	case ']', 'P', 'X', '^', '_':
		// titles and links are shorter; without a bound, many sequences that do not end would take quadratic time
		const longest = 4 << 10
		for i := 2; i < min(len(s), longest); i++ {
			switch {
			case s[i] == '\a':
				return s[:i+1]
			case s[i] == Escape && i+1 < len(s) && s[i+1] == '\\':
				return s[:i+2]
			}
		}
		return s[:2] // it does not end: the rest is text
	}
	if s[1] >= 0x20 && s[1] <= 0x7e {
		return s[:2]
	}
	return s[:1]
}
