package environment

import (
	"bytes"
	"strings"
)

// pythonCode returns Python source with blanks in place of comments and strings. Every line and position stays.
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

// nodeCode returns JavaScript source with blanks in place of comments, strings and regular expressions. Every line and
// position stays.
func nodeCode(source []byte) []byte {
	const beforeExpression = "(,=:[!&|?{};"
	code := bytes.Clone(source)
	last := byte(0)                // the last byte that is neither a blank nor in a comment
	depth, templates := 0, []int{} // depth of braces, and the depths at which template strings go on after their code
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

// skipString returns the position after the first of some ends that has no backslash before it. When there is none, it
// returns the end of the line, or the end of the code for strings that may have several lines.
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

// skipRegexp returns the position after a regular expression: a slash in its brackets does not end it.
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

// skipTo returns the position after an end, or the end of the code.
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
