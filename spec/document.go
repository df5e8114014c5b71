package spec

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"regexp"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document is the text of one YAML document.
type document struct {
	*reader
	file string
	line int // lines of the file before this document
	text []byte
}

// These bound how much is parsed again to find the lines of syntax errors. A parser itself takes some memory.
const (
	locatingBudget = 2 << 20
	parserSize     = 8 << 10
)

// split splits the sources into documents and enforces the limits that need no decoding.
func (r *reader) split(sources []Source) ([]document, error) {
	var size int64
	for _, s := range sources {
		size += int64(len(s.Data))
	}
	if err := r.limits.CheckBytes(size); err != nil {
		return nil, err
	}
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(a, b Source) int { return cmp.Compare(a.Name, b.Name) })
	var documents []document
	for _, s := range sources {
		documents = append(documents, r.splitFile(s)...)
	}
	if r.objects > r.limits.Objects {
		return nil, overLimit("spec files", "documents", int64(r.objects), int64(r.limits.Objects),
			"LANDFALL_MAX_SPEC_OBJECTS")
	}
	for _, d := range documents {
		where := Position{d.file, d.line + 1}.String()
		if n := values(d.text); n > r.limits.Values {
			return nil, overLimit(where, "lines and values in one document", int64(n), int64(r.limits.Values),
				"LANDFALL_MAX_SPEC_VALUES")
		}
		// Brackets in text may be open without nesting: the exact depth is checked in the tree.
		if n := openBrackets(d.text); n > 10*r.limits.Depth {
			return nil, overLimit(where, "levels of nesting", int64(n), int64(r.limits.Depth), "LANDFALL_MAX_SPEC_DEPTH")
		}
	}
	return documents, nil
}

// splitFile splits a file at its lines "---" and "...", which YAML allows only between documents. A part with only
// comments is no document. It only counts documents over the limit.
func (r *reader) splitFile(s Source) []document {
	text := bytes.TrimPrefix(s.Data, []byte("\ufeff"))
	if !utf8.Valid(text) {
		line := 1
		for part := range bytes.Lines(text) {
			if !utf8.Valid(part) {
				break
			}
			line++
		}
		r.problemf(Position{s.Name, line}, "the text is not UTF-8")
		r.incomplete = true
		return nil
	}
	var documents []document
	number, start, first, content := 0, 0, 0, false
	cut := func(end int) {
		if content {
			r.objects++
		}
		if content && r.objects <= r.limits.Objects {
			documents = append(documents, document{reader: r, file: s.Name, line: first, text: text[start:end]})
		}
		start, first, content = end, number, false
	}
	offset := 0
	for line := range bytes.Lines(text) {
		rest := bytes.TrimRight(line, "\r\n")
		after, starts := afterMarker(rest, "---")
		ignored, ends := afterMarker(rest, "...")
		ends = ends && !hasContent(ignored)
		if starts || ends {
			cut(offset)
			rest = after
		}
		offset += len(line)
		number++
		if ends {
			start, first = offset, number
		}
		content = content || hasContent(rest)
	}
	cut(offset)
	return documents
}

// afterMarker returns the text after a marker between documents, if line begins with the marker.
func afterMarker(line []byte, marker string) ([]byte, bool) {
	after, ok := bytes.CutPrefix(line, []byte(marker))
	if !ok || (len(after) > 0 && after[0] != ' ' && after[0] != '\t') {
		return nil, false
	}
	return after, true
}

// hasContent reports whether a line is neither blank nor a comment.
func hasContent(line []byte) bool {
	line = bytes.Trim(line, " \t\r\n")
	return len(line) > 0 && line[0] != '#'
}

// values returns an upper bound, correct within a factor of two, of the lines and values of a text, without reading it:
// each value ends a line or stands beside one of these marks.
func values(text []byte) int {
	n := 0
	for _, mark := range []string{"\n", ",", "[", "{", ":", "- ", "? "} {
		n += bytes.Count(text, []byte(mark))
	}
	return n
}

// openBrackets returns how many flow collections, or compact sequences within one line, can be open at once.
func openBrackets(text []byte) int {
	open, deepest, run := 0, 0, 0
	for i, c := range text {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		}
		if (c == '-' || c == '?') && i+1 < len(text) && text[i+1] == ' ' {
			run++
		} else if c != ' ' {
			run = 0
		}
		deepest = max(deepest, open, run)
	}
	return deepest
}

// pos returns the position of a node.
func (d *document) pos(n *yaml.Node) Position { return Position{d.file, d.line + n.Line} }

// root parses the document and returns its mapping. When there is none, it records why and returns nil.
func (d *document) root() *yaml.Node {
	if start, line := d.firstLine(); d.text[start] == '%' {
		d.problemf(Position{d.file, d.line + line}, "YAML directives are not read; leave the line out")
		d.incomplete = true
		return nil
	}
	lines := &lineReader{rest: d.text}
	n, err := decode(lines)
	if err != nil {
		line, why := d.locate(lines.read), yamlPrefix.ReplaceAllString(err.Error(), "")
		if indentedByTab(d.text, line) {
			why = "the line is indented with a tab; write spaces"
		}
		d.problemf(Position{d.file, d.line + line}, "not YAML: %s", why)
		d.incomplete = true
		return nil
	}
	return d.mapping(n)
}

// yamlPrefix matches what the parser puts before its sentences. Its line is often not the wrong one.
var yamlPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// decode returns the root of the only document in r. The library reports some malformed text by a panic.
func decode(r io.Reader) (root *yaml.Node, err error) {
	defer func() {
		if recover() != nil {
			root, err = nil, errors.New("the parser does not understand it")
		}
	}()
	decoder := yaml.NewDecoder(r)
	var n yaml.Node
	if err := decoder.Decode(&n); err != nil {
		return nil, err
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document without a line \"---\" between them")
	}
	return n.Content[0], nil
}

// indentedByTab reports whether a line of a text, the first is 1, begins with a tab, or with spaces and a tab.
func indentedByTab(text []byte, line int) bool {
	for range line - 1 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return bytes.HasPrefix(bytes.TrimLeft(text, " "), []byte("\t"))
}

// mapping returns n if it is a mapping.
func (d *document) mapping(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.MappingNode {
		return n
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!null" {
		d.problemf(d.pos(n), "a document is a mapping that begins with apiVersion and kind")
		d.incomplete = true
	}
	return nil
}

// firstLine returns the offset and the number of the first line with content.
func (d *document) firstLine() (start, number int) {
	number = 1
	for line := range bytes.Lines(d.text) {
		if hasContent(line) {
			break
		}
		start += len(line)
		number++
	}
	return start, number
}

// locate returns the line of a syntax error that was found within the first read lines: the first line with content
// after the longest beginning that can be parsed.
func (d *document) locate(read int) int {
	lines := slices.Collect(bytes.Lines(d.text))
	end := 0
	for _, line := range lines[:read] {
		end += len(line)
	}
	good := read
	for good > 0 && d.locating > 0 {
		good--
		end -= len(lines[good])
		d.locating -= end + parserSize
		if _, err := decode(bytes.NewReader(d.text[:end])); err == nil || errors.Is(err, io.EOF) {
			break
		}
	}
	for i, line := range lines[good:] {
		if hasContent(line) {
			return good + i + 1
		}
	}
	return max(read, 1)
}

// lineReader returns a text line by line and counts the lines.
type lineReader struct {
	rest []byte
	line []byte // the rest of the current line
	read int
}

// Read implements io.Reader.
func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.line) == 0 {
		if len(l.rest) == 0 {
			return 0, io.EOF
		}
		end := bytes.IndexByte(l.rest, '\n') + 1
		if end == 0 {
			end = len(l.rest)
		}
		l.line, l.rest = l.rest[:end], l.rest[end:]
		l.read++
	}
	n := copy(p, l.line)
	l.line = l.line[n:]
	return n, nil
}
