package environment

import (
	"bytes"
	"strings"
)

// pythonCode returns a source of Python with blanks in the place of comments and strings: every line and every place stays.
func pythonCode(source []byte) []byte {
	code := bytes.Clone(source)
	for i := 0; i < len(code); {
		from := i
		switch c := code[i]; c {
		case '#':
			i = skipTo(code, i, "\n")
		case '"', '\'':
			if triple := strings.Repeat(string(c), 3); bytes.HasPrefix(code[i:], []byte(triple)) {
				i = skipString(code, i+len(triple), true, triple)
			} else {
				i = skipString(code, i+1, false, string(c))
			}
		default:
			i++
			continue
		}
		blank(code[from:i])
	}
	return code
}

// nodeCode returns a source of JavaScript with blanks in the place of comments, strings and regular expressions: every line and every
// place stays.
func nodeCode(source []byte) []byte {
	const beforeExpression = "(,=:[!&|?{};"
	code := bytes.Clone(source)
	last := byte(0)                // of what stands before, without blanks and comments
	depth, templates := 0, []int{} // of braces, and at which the strings go on whose code this is
	for i := 0; i < len(code); {
		from, c, next := i, code[i], last
		switch {
		case bytes.HasPrefix(code[i:], []byte("//")):
			i = skipTo(code, i, "\n")
		case bytes.HasPrefix(code[i:], []byte("/*")):
			i = skipTo(code, i+2, "*/")
		case c == '/' && strings.IndexByte(beforeExpression, last) >= 0:
			i = skipRegexp(code, i+1)
			next = c
		case c == '"' || c == '\'':
			i = skipString(code, i+1, false, string(c))
			next = c
		case c == '`' || c == '}' && len(templates) > 0 && depth == templates[len(templates)-1]:
			if c == '}' {
				templates = templates[:len(templates)-1]
			}
			if i = skipString(code, i+1, true, "`", "${"); code[i-1] == '{' {
				templates = append(templates, depth)
			}
			next = code[i-1]
		default:
			switch c {
			case '{':
				depth++
			case '}':
				depth--
			}
			if c > ' ' {
				last = c
			}
			i++
			continue
		}
		last = next
		blank(code[from:i])
	}
	return code
}

// skipString returns the place behind the first of such ends with no backslash before it: where there is none, that of the end of the line,
// or of the code for what may have many lines.
func skipString(code []byte, from int, lines bool, ends ...string) int {
	for i := from; i < len(code); i++ {
		for _, end := range ends {
			if bytes.HasPrefix(code[i:], []byte(end)) {
				return i + len(end)
			}
		}
		switch {
		case code[i] == '\\':
			i++
		case code[i] == '\n' && !lines:
			return i
		}
	}
	return len(code)
}

// skipRegexp returns the place behind a regular expression: in its brackets a slash is no end.
func skipRegexp(code []byte, from int) int {
	brackets := false
	for i := from; i < len(code) && code[i] != '\n'; i++ {
		switch code[i] {
		case '\\':
			i++
		case '[', ']':
			brackets = code[i] == '['
		case '/':
			if !brackets {
				return i + 1
			}
		}
	}
	return skipTo(code, from, "\n")
}

// skipTo returns the place behind an end, or that of the code's end.
func skipTo(code []byte, from int, end string) int {
	if n := bytes.Index(code[from:], []byte(end)); n >= 0 {
		return from + n + len(end)
	}
	return len(code)
}

func blank(code []byte) {
	for i, c := range code {
		if c != '\n' {
			code[i] = ' '
		}
	}
}
