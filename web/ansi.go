package web

import (
	"strconv"
	"strings"

	"landfall.dev/landfall"
)

// span is a piece of a line that looks the same throughout.
type span struct {
	Class string // of landfall.css; empty: plain
	Text  string // printable
}

// spans reads a line of a log as a terminal would: colours and weights become classes, other sequences go, and what
// else cannot be printed is escaped. Nothing reaches beyond its line.
func spans(line string) []span {
	var all []span
	var look style
	for line != "" {
		at := strings.IndexByte(line, landfall.Escape)
		if at < 0 {
			at = len(line)
		}
		if at > 0 {
			all = append(all, span{look.class(), printable(line[:at])})
		}
		if line = line[at:]; line != "" {
			sequence := landfall.EscapeSequence(line)
			look.apply(sequence)
			line = line[len(sequence):]
		}
	}
	return all
}

// printable keeps tabs, as nothing else that moves.
func printable(s string) string {
	parts := strings.Split(s, "\t")
	for i, part := range parts {
		parts[i] = landfall.Printable(part)
	}
	return strings.Join(parts, "\t")
}

// style is how text looks.
type style struct {
	bold, dim, italic, underlined bool
	colour, ground                int // 0: none; else 1 to 16
}

// apply changes the style as a sequence says (SGR); other sequences say nothing.
func (s *style) apply(sequence string) {
	if !strings.HasPrefix(sequence, "\x1b[") || !strings.HasSuffix(sequence, "m") {
		return
	}
	codes := strings.Split(sequence[2:len(sequence)-1], ";")
	for i := 0; i < len(codes); i++ {
		code, err := strconv.Atoi(codes[i])
		if err != nil && codes[i] != "" {
			return
		}
		if code == 38 || code == 48 {
			i += s.extended(code, codes[i+1:])
			continue
		}
		s.set(code)
	}
}

func (s *style) set(code int) {
	switch {
	case code == 0:
		*s = style{}
	case code == 1:
		s.bold = true
	case code == 2:
		s.dim = true
	case code == 3:
		s.italic = true
	case code == 4:
		s.underlined = true
	case code == 22:
		s.bold, s.dim = false, false
	case code == 23:
		s.italic = false
	case code == 24:
		s.underlined = false
	case code >= 30 && code <= 37:
		s.colour = code - 29
	case code == 39:
		s.colour = 0
	case code >= 40 && code <= 47:
		s.ground = code - 39
	case code == 49:
		s.ground = 0
	case code >= 90 && code <= 97:
		s.colour = code - 81
	case code >= 100 && code <= 107:
		s.ground = code - 91
	}
}

// extended reads a colour by number or by its parts, and returns how many codes that took. Of the numbers only the
// first 16 have a look here: the others depend on a background that is not ours.
func (s *style) extended(code int, rest []string) int {
	if len(rest) == 0 {
		return 0
	}
	if rest[0] == "2" {
		return min(4, len(rest))
	}
	if rest[0] != "5" || len(rest) < 2 {
		return 1
	}
	if n, err := strconv.Atoi(rest[1]); err == nil && n >= 0 && n < 16 {
		if code == 38 {
			s.colour = n + 1
		} else {
			s.ground = n + 1
		}
	}
	return 2
}

// class returns the classes of the style.
func (s *style) class() string {
	var names []string
	for _, c := range []struct {
		is   bool
		name string
	}{
		{s.bold, "bold"}, {s.dim, "dim"}, {s.italic, "italic"}, {s.underlined, "underlined"},
		{s.colour > 0, "fg" + strconv.Itoa(s.colour-1)}, {s.ground > 0, "bg" + strconv.Itoa(s.ground-1)},
	} {
		if c.is {
			names = append(names, c.name)
		}
	}
	return strings.Join(names, " ")
}
