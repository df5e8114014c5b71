package runner

import "bytes"

// frame finds the end of a JSON object in a stream. It looks at nothing but braces and strings: what is in between is
// looked at when the object is complete.
type frame struct {
	depth   int
	text    bool // within a string
	escaped bool // after a backslash
}

// find goes on with p. It returns the place after the object's last brace, or -1 when that is yet to come, and false
// when there is something before the object.
func (f *frame) find(p []byte) (end int, ok bool) {
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case f.escaped:
			f.escaped = false
		case f.text:
			i += f.skip(p[i:])
		case c == '"' && f.depth > 0:
			f.text = true
		case c == '{' || (c == '[' && f.depth > 0):
			f.depth++
		case (c == '}' || c == ']') && f.depth > 0:
			f.depth--
			if f.depth == 0 {
				return i + 1, true
			}
		case f.depth == 0 && !isBlank(c):
			return -1, false
		}
	}
	return -1, true
}

// skip goes to the end of a string, or behind p, and returns how far it went, less one.
func (f *frame) skip(p []byte) int {
	quote := bytes.IndexByte(p, '"')
	if quote < 0 {
		quote = len(p)
	}
	if escape := bytes.IndexByte(p[:quote], '\\'); escape >= 0 {
		f.escaped = true
		return escape
	}
	f.text = quote == len(p)
	return quote
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// blank reports whether there is nothing but white space.
func blank(p []byte) bool {
	for _, c := range p {
		if !isBlank(c) {
			return false
		}
	}
	return true
}
