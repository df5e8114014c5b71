package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Shortest is the length in bytes from which values are removed from text. Shorter ones occur in too much text that is
// not secret.
const Shortest = 8

const (
	piece   = 64 // bytes of a long value that are searched together
	glimpse = 4  // bytes of a value at the end of a text that are not shown
)

// Redactor removes values from text: in their own form, as JSON, URLs and HTML write them, in base64 and in hexadecimal
// digits. It does not find values that are hidden with more effort. A nil Redactor leaves text as it is. It is safe for
// concurrent use.
type Redactor struct {
	byKey    map[uint64][]pattern // by their first Shortest bytes; longer ones first
	prefixes map[string]string    // beginnings of patterns, shorter than Shortest, and their marks
	first    [1 << 16 / 64]uint64 // set of the first two bytes of patterns
	longest  int
}

// pattern is a text that is searched.
type pattern struct {
	text []byte
	mark string // replaces it
}

// NewRedactor returns a redactor for values, by their names; nil when none of them is long enough.
func NewRedactor(values map[string]Text) *Redactor {
	r := &Redactor{byKey: map[uint64][]pattern{}, prefixes: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		r.addValue(values[name].Reveal(), name)
		for _, part := range Keys(values[name]) { // functions find each in a file of its own
			if part != values[name] {
				r.addValue(part.Reveal(), name)
			}
		}
	}
	if len(r.byKey) == 0 {
		return nil
	}
	for key := range r.byKey {
		slices.SortStableFunc(r.byKey[key], func(a, b pattern) int { return cmp.Compare(len(b.text), len(a.text)) })
	}
	return r
}

// addValue adds all forms of a value that is long enough.
func (r *Redactor) addValue(value, name string) {
	if len(value) < Shortest {
		return
	}
	mark := "[secret " + name + "]"
	for _, form := range forms(value) {
		r.add([]byte(form), mark)
	}
}

// add adds a form of a value, and each piece of a long one.
func (r *Redactor) add(form []byte, mark string) {
	long := len(form) >= piece+Shortest
	for len(form) > 0 {
		n := len(form)
		if n >= piece+Shortest {
			n = piece
		}
		if p := form[:n]; n >= Shortest && (!long || isDistinctive(p)) {
			r.addPiece(pattern{p, mark})
		}
		form = form[n:]
	}
}

// isDistinctive reports whether a piece of a long value is more than a line of dashes, which also occurs in other text.
func isDistinctive(p []byte) bool {
	const enough = 4
	seen := map[byte]bool{}
	for _, c := range p {
		seen[c] = true
	}
	return len(seen) >= enough
}

func (r *Redactor) addPiece(p pattern) {
	const most = 32 // of a value with equal beginnings: a repetitive value must not make the search slow
	key, alike := binary.LittleEndian.Uint64(p.text), 0
	for _, known := range r.byKey[key] {
		if bytes.Equal(known.text, p.text) {
			return
		}
		if known.mark == p.mark {
			alike++
		}
	}
	if alike == most {
		return
	}
	r.byKey[key] = append(r.byKey[key], p)
	for n := 1; n < Shortest; n++ {
		r.prefixes[string(p.text[:n])] = p.mark
	}
	two := binary.LittleEndian.Uint16(p.text)
	r.first[two/64] |= 1 << (two % 64)
	r.longest = max(r.longest, len(p.text))
}

// forms returns the ways in which a value may be written.
func forms(value string) []string {
	all := []string{
		value, hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))),
		html.EscapeString(value),
	}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") { // the heading of a key is not secret
			all = append(all, line)
		}
	}
	plain := inJSON(value, false)
	for _, quoted := range []string{plain, inJSON(value, true), asciiJSON(plain), strconv.Quote(value),
		strconv.QuoteToASCII(value)} {
		text := quoted[1 : len(quoted)-1]
		all = append(all, text, strings.ReplaceAll(text, "/", `\/`))
	}
	query := url.QueryEscape(value)
	component := strings.ReplaceAll(query, "+", "%20")
	// JavaScript does not escape them
	marks := strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")
	python := strings.ReplaceAll(component, "%2F", "/")
	whole := strings.NewReplacer("%3B", ";", "%2C", ",", "%3F", "?", "%3A", ":", "%40", "@", "%26", "&", "%3D", "=", "%2B",
		"+", "%24", "$", "%23", "#")
	for _, text := range []string{
		query, component, url.PathEscape(value), marks.Replace(component), marks.Replace(query), python,
		whole.Replace(marks.Replace(python)),
	} {
		all = append(all, text, percent.ReplaceAllStringFunc(text, strings.ToLower))
	}
	return append(all, inBase64(value)...)
}

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

// inJSON returns a text as JSON writes it, with or without escapes for characters that mean something in HTML.
func inJSON(text string, inHTML bool) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(inHTML)
	if err := encoder.Encode(text); err != nil { // all text can be encoded
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// asciiJSON writes characters that are not ASCII as \u, with two of them where one is not enough.
func asciiJSON(text string) string {
	var b strings.Builder
	for _, c := range text {
		const basic = 0xffff
		switch {
		case c < 0x80:
			b.WriteRune(c)
		case c <= basic:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			c -= basic + 1
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		}
	}
	return b.String()
}

// inBase64 returns the base64 digits that depend only on the value, for each of the three positions at which the value
// can begin in a text.
func inBase64(value string) []string {
	var all []string
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		all = append(all, encoding.EncodeToString([]byte(value)))
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), value...))
			skip := (before*8 + 5) / 6             // digits with bits of the text before
			whole := (before + len(value)) * 8 / 6 // digits without bits of the text after
			all = append(all, text[skip:whole])
		}
	}
	return all
}

// String returns a text without the values.
func (r *Redactor) String(text string) string {
	if r == nil || text == "" {
		return text
	}
	var last string
	out, _ := r.scan(nil, []byte(text), &last, true)
	return string(out)
}

// Finds reports whether a text contains a value.
func (r *Redactor) Finds(text []byte) bool {
	if r == nil {
		return false
	}
	var last string
	out, _ := r.scan(nil, text, &last, true)
	return !bytes.Equal(out, text)
}

// Read reports whether the text of a reader contains a value, and returns the value's mark.
func (r *Redactor) Read(in io.Reader) (mark string, err error) {
	if r == nil {
		return "", nil
	}
	buffer := make([]byte, max(64<<10, 2*r.longest))
	for held := 0; ; {
		n, err := in.Read(buffer[held:])
		text := buffer[:held+n]
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return "", err
		}
		i := 0
		for ; i < len(text) && (ended || len(text)-i >= r.longest); i++ {
			if n, mark, _ := r.at(text[i:]); n > 0 {
				return mark, nil
			}
		}
		if ended {
			return "", nil
		}
		held = copy(buffer, text[i:])
	}
}

// scan appends text without the values to out. Unless text is complete, it leaves the end that may be the beginning of
// a value. last is the mark that was appended last, if a value came last.
func (r *Redactor) scan(out, text []byte, last *string, all bool) (result, rest []byte) {
	for i := 0; i < len(text); {
		n, mark, open := r.at(text[i:])
		switch {
		case open && !all:
			return out, text[i:]
		case open && n == 0 && len(text)-i >= glimpse:
			n = len(text) - i
			fallthrough
		case n > 0:
			if mark != *last { // the pieces of a value get one mark
				out = append(out, mark...)
			}
			*last = mark
			i += n
		default:
			out = append(out, text[i])
			*last = ""
			i++
		}
	}
	return out, nil
}

// at returns how many bytes at the beginning of text are a value, and its mark. open says that text ends inside what
// may be a value, or a longer one.
func (r *Redactor) at(text []byte) (n int, mark string, open bool) {
	if len(text) >= 2 {
		two := binary.LittleEndian.Uint16(text)
		if r.first[two/64]&(1<<(two%64)) == 0 {
			return 0, "", false
		}
	}
	if len(text) < Shortest {
		mark, open = r.prefixes[string(text)]
		return 0, mark, open
	}
	for _, p := range r.byKey[binary.LittleEndian.Uint64(text)] {
		known := min(len(text), len(p.text))
		if !bytes.Equal(text[:known], p.text[:known]) {
			continue
		}
		if known == len(p.text) {
			return known, p.mark, open
		}
		open, mark = true, p.mark
	}
	return 0, mark, open
}

// Stream removes the values of a redactor from text that comes in pieces.
type Stream struct {
	r    *Redactor
	held []byte // the possible beginning of a value
	out  []byte
	last string
}

// Stream returns a new stream; nil for a nil Redactor.
func (r *Redactor) Stream() *Stream {
	if r == nil {
		return nil
	}
	return &Stream{r: r}
}

// Next takes a piece of text, and returns what is certainly not a value. The result is valid until the next call. A nil
// Stream leaves text as it is.
func (s *Stream) Next(text []byte) []byte {
	if s == nil {
		return text
	}
	if len(s.held) > 0 {
		text = append(s.held, text...)
	}
	out, rest := s.r.scan(s.out[:0], text, &s.last, false)
	s.held = append([]byte(nil), rest...)
	s.out = out
	return out
}

// End returns the rest when the text is over, and begins again. The result is valid until the next call.
func (s *Stream) End() []byte {
	if s == nil {
		return nil
	}
	out, _ := s.r.scan(s.out[:0], s.held, &s.last, true)
	s.held, s.last, s.out = s.held[:0], "", out
	return out
}
