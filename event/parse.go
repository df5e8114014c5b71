package event

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/go-json-experiment/json/jsontext"

	"landfall.dev/landfall"
)

// Parse reads one event as JSON, of 1.0 or 0.1, and returns its form. It keeps nothing of data. Invalid names the wrong
// field.
func Parse(data []byte) (Event, Form, error) {
	return read(data, false)
}

// ParseAnswer is Parse, and Strip, for the answer of a function.
func ParseAnswer(data []byte) (Event, error) {
	e, _, err := read(data, true)
	if err == nil {
		Strip(&e)
	}
	return e, err
}

// read is Parse. In an answer it can skip what Strip removes.
func read(data []byte, answer bool) (Event, Form, error) {
	var room [commonMembers]member
	if members, ok := scanStrings(data, room[:0], answer); ok {
		return parseMembers(data, members)
	}
	return parseAny(data)
}

// parseAny is Parse for every event.
func parseAny(data []byte) (Event, Form, error) {
	var room [commonMembers]member
	members, err := scan(data, room[:0])
	if err != nil {
		return Event{}, Structured, err
	}
	return parseMembers(data, members)
}

// parseMembers reads the event with the members that were found in data.
func parseMembers(data []byte, members []member) (Event, Form, error) {
	if slices.ContainsFunc(members, func(m member) bool { return m.name == draftVersion }) {
		e, err := parseDraft(members)
		return e, Draft, err
	}
	e, err := parse(data, members)
	return e, Structured, err
}

// member is one member of an event's object.
type member struct {
	name    string
	value   jsontext.Value
	text    string // the text, when the value is a string
	private bool   // Strip removes it
}

// decoders are used again for the next event.
//
//nolint:gochecknoglobals // a pool works only as one for all events of the process
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// borrow returns a decoder of data, and done, which returns the decoder.
func borrow(data []byte, options ...jsontext.Options) (decoder *jsontext.Decoder, done func()) {
	decoder, _ = decoders.Get().(*jsontext.Decoder)
	decoder.Reset(bytes.NewBuffer(data), options...)
	return decoder, func() {
		decoder.Reset(strings.NewReader("")) // the decoder keeps nothing of data
		decoders.Put(decoder)
	}
}

// commonMembers is how many members most events have at most.
const commonMembers = 16

// scan reads the members of the one object in data, and appends them to members.
func scan(data []byte, members []member) ([]member, error) {
	decoder, done := borrow(data, jsontext.AllowDuplicateNames(true)) // duplicates are looked for below
	defer done()
	if decoder.PeekKind() != '{' {
		_, err := decoder.ReadValue()
		return nil, jsonError(err)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, jsonError(err)
	}
	foreign := 0
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadValue()
		if err != nil {
			return nil, jsonError(err)
		}
		m := member{name: memberName(name)}
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, jsonError(err)
		}
		m.value = value
		if end := int(decoder.InputOffset()); end <= len(data) { // the decoder's own bytes are valid only until the next read
			m.value = jsontext.Value(data[end-len(value) : end])
		}
		if m.name != "data" && m.name != "data_base64" {
			m.text = text(m.value)
		}
		if isForeign(m.name) {
			foreign++
		}
		if foreign > maxAttributes {
			return nil, tooLarge("event.Parse", limitAttributes, maxAttributes)
		}
		members = append(members, m)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, jsonError(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, landfall.Wrapf("event.Parse", landfall.Invalid, err,
			"there is more than one JSON value where one event should be")
	}
	return members, checkDuplicates(members)
}

// checkDuplicates refuses two members with the same name.
func checkDuplicates(members []member) error {
	const few = 16
	if len(members) <= few {
		for i, m := range members {
			if slices.ContainsFunc(members[:i], func(before member) bool { return before.name == m.name }) {
				return invalid(printable(m.name), "it is there twice", nil)
			}
		}
		return nil
	}
	seen := make(map[string]struct{}, len(members))
	for _, m := range members {
		if _, twice := seen[m.name]; twice {
			return invalid(printable(m.name), "it is there twice", nil)
		}
		seen[m.name] = struct{}{}
	}
	return nil
}

// memberName returns the name of a member, without making a string for usual names.
func memberName(quoted jsontext.Value) string {
	switch string(quoted) {
	case `"specversion"`:
		return "specversion"
	case `"id"`:
		return "id"
	case `"source"`:
		return "source"
	case `"type"`:
		return "type"
	case `"datacontenttype"`:
		return "datacontenttype"
	case `"data"`:
		return "data"
	case `"time"`:
		return "time"
	case `"` + attributeExecution + `"`:
		return attributeExecution
	case `"` + attributeProtocol + `"`:
		return attributeProtocol
	case `"` + attributeConfig + `"`:
		return attributeConfig
	case `"` + attributeTrigger + `"`:
		return attributeTrigger
	case `"` + attributeFunction + `"`:
		return attributeFunction
	case `"` + draftTypeVersion + `"`:
		return draftTypeVersion
	}
	return text(quoted)
}

func jsonError(err error) error {
	if err == nil {
		return landfall.Errorf("event.Parse", landfall.Invalid, "an event is a JSON object, and this is another value")
	}
	message := "the event is no valid JSON"
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		message += fmt.Sprintf(", at byte %d", syntax.ByteOffset)
	}
	return &landfall.Error{Op: "event.Parse", Kind: landfall.Invalid, Message: message, Err: err}
}

// parse reads an event of 1.0.
func parse(data []byte, members []member) (Event, error) {
	var version, mediaType string
	var content *member
	plain := true
	for i, m := range members {
		if err := check(m); err != nil {
			return Event{}, err
		}
		switch m.name {
		case "specversion":
			version = m.text
		case "datacontenttype":
			mediaType = m.text
		case "data", "data_base64":
			if content != nil {
				return Event{}, invalid("data_base64", "there is also data", nil)
			}
			content = &members[i]
		}
		plain = plain && m.value.Kind() != 'n' && (!isMap(m.name) || m.value.Kind() == '"')
	}
	if version != cloudevents.CloudEventsVersionV1 {
		return Event{}, wrongVersion(version)
	}
	ownData := content != nil && isReadAsText(mediaType)
	if content != nil {
		if err := checkData(*content, mediaType); err != nil {
			return Event{}, err
		}
	}
	if plain && !ownData {
		if e, ok := parseFast(members, mediaType); ok {
			return e, complete(e)
		}
	}
	if !plain || ownData {
		data = rewrite(members, ownData)
	}
	e := New()
	if err := e.UnmarshalJSON(data); err != nil {
		return Event{}, &landfall.Error{Op: "event.Parse", Kind: landfall.Invalid, Message: printable(err.Error()), Err: err}
	}
	if ownData {
		setData(&e, *content)
	}
	return e, complete(e) // the rest was checked before
}

// parseFast returns the event that the SDK would read, with less work, when everything except data is text, because
// every call has an answer. The members were checked before. It returns false for rare forms.
func parseFast(members []member, mediaType string) (Event, bool) {
	c := &cloudevents.EventContextV1{}
	e := Event{Context: c}
	for _, m := range members {
		if m.name == "data" {
			e.DataEncoded = dataOf(m.value, mediaType)
			continue
		}
		if m.value.Kind() != '"' {
			return Event{}, false
		}
		said := m.text
		if m.private {
			continue
		}
		switch m.name {
		case "specversion":
		case "id":
			c.ID = said
		case "type":
			c.Type = said
		case "subject":
			subject := said
			c.Subject = &subject
		case "datacontenttype":
			c.DataContentType = &mediaType
		case "source":
			if isPlainPath(said) {
				c.Source.Path = said
				continue
			}
			ref := types.ParseURIRef(said)
			if ref == nil {
				return Event{}, false
			}
			c.Source = *ref
		case "time":
			at, err := types.ParseTimestamp(said)
			if err != nil {
				return Event{}, false
			}
			c.Time = at
		case "dataschema", "data_base64":
			return Event{}, false
		default:
			if c.Extensions == nil {
				c.Extensions = make(map[string]any)
			}
			c.Extensions[m.name] = said
		}
	}
	return e, true
}

// dataOf returns the bytes of data, which fits its type.
func dataOf(v jsontext.Value, mediaType string) []byte {
	switch {
	case isJSON(mediaTypeOf(mediaType)):
		return slices.Clone(v)
	case bytes.IndexByte(v, '\\') < 0:
		return slices.Clone(v[1 : len(v)-1])
	}
	return []byte(text(v))
}

// wrongVersion refuses an event of a version that is not supported.
func wrongVersion(version string) error {
	if version == "" {
		return invalid("specversion", "it is missing, so this is no event; write \"1.0\"", nil)
	}
	return invalid("specversion", fmt.Sprintf("%q is not known; known are \"1.0\", and \"0.1\" as cloud-events-version",
		printable(version)), nil)
}

// check refuses a member of 1.0 that the SDK would misread, or would refuse without its name.
func check(m member) error {
	kind := m.value.Kind()
	switch m.name {
	case "data":
		return nil
	case "data_base64", "specversion", "id", "type", "subject", "datacontenttype", "source", "dataschema", "time":
		if kind != '"' && kind != 'n' {
			return invalid(m.name, "it must be a string", nil)
		}
		if m.name == "data_base64" || kind == 'n' {
			return nil
		}
		return checkText(m.name, m.text)
	}
	if !isName(m.name) {
		return invalid(printable(m.name), "the name of an attribute has only a to z and 0 to 9", nil)
	}
	switch {
	case kind == '{' && isMap(m.name), kind == '"', kind == 't', kind == 'f', kind == 'n':
		return nil
	case kind == '0':
		if _, err := strconv.ParseInt(string(m.value), 10, 32); err == nil {
			return nil
		}
		return invalid(m.name, "a number must be a whole one of 32 bits; write others as strings", nil)
	}
	return invalid(m.name, "it must be a string, a whole number, true or false", nil)
}

// checkData refuses data that does not fit its type.
func checkData(m member, contentType string) error {
	if m.value.Kind() == 'n' {
		return nil
	}
	if m.name == "data_base64" {
		if _, err := base64.StdEncoding.DecodeString(text(m.value)); err != nil {
			return invalid(m.name, "it is no base64", err)
		}
		return nil
	}
	mediaType := mediaTypeOf(contentType)
	if m.value.Kind() != '"' && !isJSON(mediaType) && !jsonSuffix(mediaType) {
		return invalid(m.name, "it must be a string, because its content type is "+printable(mediaType), nil)
	}
	return nil
}

// checkText refuses a value of an attribute to which 1.0 gives a type.
func checkText(name, value string) error {
	var err error
	problem := "it is empty"
	switch name {
	case "source":
		if !isPlainPath(value) {
			_, err = url.Parse(value)
		}
		problem = "it is no URI reference"
	case "dataschema":
		var parsed *url.URL
		if parsed, err = url.Parse(value); err == nil && !parsed.IsAbs() {
			value = ""
		}
		problem = "it is no absolute URI"
	case "time":
		_, err = time.Parse(time.RFC3339Nano, value)
		problem = "it is no time like 2026-11-20T15:00:00Z"
	case "datacontenttype":
		if value == cloudevents.ApplicationJSON || value == cloudevents.TextPlain {
			return nil
		}
		_, _, err = mime.ParseMediaType(value)
		problem = "it is no media type like application/json"
	}
	if err != nil || strings.TrimSpace(value) == "" {
		return invalid(name, problem, err)
	}
	return nil
}

// isPlainPath reports whether a URI reference is only an absolute path without escapes.
func isPlainPath(ref string) bool {
	if !strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, "//") {
		return false
	}
	for _, c := range []byte(ref) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("/-._~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// isName reports whether an attribute of 1.0 can have this name.
func isName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// text returns the text of a JSON string; empty for another value.
func text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	switch string(v) { // these are in every event, and no string is made for them
	case `"1.0"`:
		return cloudevents.CloudEventsVersionV1
	case `"application/json"`:
		return cloudevents.ApplicationJSON
	case `"text/plain"`:
		return cloudevents.TextPlain
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	said, err := jsontext.AppendUnquote(make([]byte, 0, len(v)), v)
	if err != nil {
		return "" // it was read as a value before
	}
	return string(said)
}

// rewrite encodes the event again, with maps as strings, and without null values. When the caller sets the data, it is
// left out, too.
func rewrite(members []member, withoutData bool) []byte {
	out := []byte{'{'}
	for _, m := range members {
		if m.value.Kind() == 'n' ||
			(withoutData && strings.HasPrefix(m.name, "data") && m.name != "datacontenttype" && m.name != "dataschema") {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = quote(out, m.name)
		out = append(out, ':')
		if isMap(m.name) && m.value.Kind() == '{' {
			out = quote(out, compact(m.value))
			continue
		}
		out = append(out, m.value...)
	}
	return append(out, '}')
}

// quote appends a JSON string.
func quote(out []byte, s string) []byte {
	out, _ = jsontext.AppendQuote(out, s) // the error is about invalid bytes, which are replaced
	return out
}

// compact returns a JSON value without white space.
func compact(v jsontext.Value) string {
	v = slices.Clone(v)
	_ = v.Compact() // it was read as a value before
	return string(v)
}

// complete refuses an event without a required attribute.
func complete(e Event) error {
	for _, field := range []struct{ name, value string }{{"id", e.ID()}, {"source", SourceOf(e)}, {"type", e.Type()}} {
		if strings.TrimSpace(field.value) == "" {
			return invalid(field.name, "it is missing", nil)
		}
	}
	return nil
}

// validate refuses an incomplete event, and everything else that the SDK finds wrong.
func validate(e Event) error {
	if err := complete(e); err != nil {
		return err
	}
	if err := e.Validate(); err != nil {
		return &landfall.Error{Op: "event.Parse", Kind: landfall.Invalid, Message: printable(err.Error()), Err: err}
	}
	return nil
}

// printable returns a stranger's text in a form for messages.
func printable(s string) string {
	const most = 100
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s))
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
