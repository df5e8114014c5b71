package event

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"landfall.dev/landfall"
)

// These are parts of the 0.1 form of the Fn document.
const (
	draftVersion     = "cloud-events-version"
	draft            = "0.1"
	draftTypeVersion = "eventtypeversion" // the attribute of 1.0 that holds event-type-version
	draftEncoding    = "encoding"         // the extension that marks data as base64, for which 0.1 has no field
	draftBase64      = "base64"
)

// draftEvent is an event of 0.1 as it is written.
type draftEvent struct {
	Version     string                    `json:"cloud-events-version"`
	ID          string                    `json:"event-id"`
	Source      string                    `json:"source"`
	Type        string                    `json:"event-type"`
	TypeVersion string                    `json:"event-type-version,omitempty"`
	Time        string                    `json:"event-time,omitempty"`
	Schema      string                    `json:"schema-url,omitempty"`
	ContentType string                    `json:"content-type,omitempty"`
	Error       jsontext.Value            `json:"error,omitempty"`
	Data        jsontext.Value            `json:"data,omitempty"`
	Extensions  map[string]jsontext.Value `json:"extensions,omitempty"`
}

// parseDraft reads an event of 0.1 as one of 1.0. Names of extensions become lower case, as in 1.0, and values that 1.0
// does not have become JSON in strings.
func parseDraft(members []member) (Event, error) {
	e := New()
	var data jsontext.Value
	for _, m := range members {
		switch m.name {
		case "data":
			data = m.value
		case "extensions":
			if err := parseExtensions(&e, m.value); err != nil {
				return Event{}, err
			}
		case "error":
			if err := setError(&e, m.value); err != nil {
				return Event{}, err
			}
		default:
			if err := parseField(&e, m); err != nil {
				return Event{}, err
			}
		}
	}
	for _, field := range []struct{ name, value string }{{"event-id", e.ID()}, {"source", e.Source()},
		{"event-type", e.Type()}} {
		if strings.TrimSpace(field.value) == "" {
			return Event{}, invalid(field.name, "it is missing", nil)
		}
	}
	if err := parseData(&e, data); err != nil {
		return Event{}, err
	}
	return e, validate(e)
}

// parseField reads a field that is a string.
func parseField(e *Event, m member) error {
	names := map[string]string{"source": "source", "event-time": "time", "schema-url": "dataschema",
		"content-type": "datacontenttype"}
	if m.value.Kind() == 'n' {
		return nil
	}
	if m.value.Kind() != '"' {
		return invalid(printable(m.name), "it must be a string", nil)
	}
	value := text(m.value)
	if name, ok := names[m.name]; ok {
		if err := checkText(name, value); err != nil {
			_, problem, _ := strings.Cut(landfall.MessageOf(err), ": ")
			return invalid(m.name, problem, err)
		}
	}
	switch m.name {
	case draftVersion:
		if value != draft {
			return invalid(draftVersion, fmt.Sprintf("%q is not known; known is \"0.1\", and \"1.0\" as specversion",
				printable(value)), nil)
		}
	case "event-id":
		e.SetID(value)
	case "source":
		e.SetSource(value)
	case "event-type":
		e.SetType(value)
	case "event-type-version":
		e.SetExtension(draftTypeVersion, value)
	case "event-time":
		at, _ := time.Parse(time.RFC3339Nano, value) // it was checked before
		e.SetTime(at)
	case "schema-url":
		e.SetDataSchema(value)
	case "content-type":
		e.SetDataContentType(value)
	default:
		return invalid(printable(m.name), "an event of 0.1 has no such field; what is your own stands in extensions", nil)
	}
	return nil
}

// setError reads the field error.
func setError(e *Event, value jsontext.Value) error {
	var fault Error
	if value.Kind() == 'n' {
		return nil
	}
	if value.Kind() != '{' || json.Unmarshal(value, &fault) != nil {
		return invalid(attributeError, "it must be a map of message, type and trace, which are strings", nil)
	}
	if fault.Message == "" {
		return invalid("error.message", "it is missing", nil)
	}
	set(e, attributeError, fault)
	return nil
}

// parseExtensions reads the extensions of 0.1.
func parseExtensions(e *Event, value jsontext.Value) error {
	var extensions map[string]jsontext.Value
	if err := json.Unmarshal(value, &extensions); err != nil {
		return invalid("extensions", "it must be a map", err)
	}
	foreign := 0
	for _, given := range slices.Sorted(maps.Keys(extensions)) {
		v, name, field := extensions[given], strings.ToLower(given), "extensions."+printable(given)
		_, twice := attribute(*e, name)
		if isForeign(name) {
			foreign++
		}
		switch {
		case foreign > maxAttributes:
			return tooLarge("event.Parse", limitAttributes, maxAttributes)
		case !isName(name) || name == attributeError || isReserved(name):
			return invalid(field, "the name cannot stand for an attribute of 1.0: it has other characters than letters and "+
				"digits, or is one of its own", nil)
		case twice:
			return invalid(field, "it is there twice when letters are lower case", nil)
		case isMap(name) && v.Kind() != '{' && v.Kind() != 'n':
			return invalid(field, "it must be a map", nil)
		}
		switch {
		case v.Kind() == 'n':
		case v.Kind() == '"':
			e.SetExtension(name, text(v))
		case v.Kind() == 't' || v.Kind() == 'f':
			e.SetExtension(name, v.Kind() == 't')
		default:
			var whole int32
			if json.Unmarshal(v, &whole) == nil {
				e.SetExtension(name, whole)
				continue
			}
			e.SetExtension(name, compact(v))
		}
	}
	return nil
}

// isReserved reports whether a name belongs to an attribute of 1.0, or to a member of its JSON.
func isReserved(name string) bool {
	return slices.Contains([]string{
		"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data", draftTypeVersion,
	}, name)
}

// parseData reads the data. The other fields must be known.
func parseData(e *Event, value jsontext.Value) error {
	if value == nil || value.Kind() == 'n' {
		return nil
	}
	_, fault := e.Extensions()[attributeError]
	encoded := e.Extensions()[draftEncoding] == draftBase64
	mediaType := mediaTypeOf(e.DataContentType())
	switch {
	case fault:
		return invalid("data", "an event with an error has none", nil)
	case encoded:
		data, err := base64.StdEncoding.DecodeString(text(value))
		if err != nil {
			return invalid("data", "it is no base64, which extensions.encoding says", err)
		}
		e.DataEncoded, e.DataBase64 = data, true
		e.SetExtension(draftEncoding, nil)
	case isJSON(mediaType) || jsonSuffix(mediaType):
		e.DataEncoded = slices.Clone(value)
	case value.Kind() == '"':
		e.DataEncoded = []byte(text(value))
	default:
		return invalid("data", "it must be a string, because its content-type is not JSON", nil)
	}
	return nil
}

// appendDraft appends an event as 0.1 on one line.
func appendDraft(out []byte, e Event) ([]byte, error) {
	d := draftEvent{
		Version: draft, ID: e.ID(), Source: e.Source(), Type: e.Type(), Schema: e.DataSchema(),
		ContentType: e.DataContentType(), Extensions: map[string]jsontext.Value{},
	}
	if at := e.Time(); !at.IsZero() {
		d.Time = at.UTC().Format(time.RFC3339Nano)
	}
	for name, value := range e.Extensions() {
		if name == draftTypeVersion {
			d.TypeVersion, _ = value.(string)
			continue
		}
		v, err := extension(value)
		if err != nil {
			return nil, err
		}
		if name == attributeError {
			d.Error = v
			continue
		}
		d.Extensions[name] = v
	}
	if subject := e.Subject(); subject != "" {
		d.Extensions["subject"] = quote(nil, subject)
	}
	d.Data = draftData(e, d.Extensions)
	line, err := json.Marshal(d, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	return append(out, line...), err
}

// extension returns the value of an attribute in the form of 0.1: a map or a list that is JSON in a string becomes a
// value again.
func extension(value any) (jsontext.Value, error) {
	if said, ok := value.(string); ok && (strings.HasPrefix(said, "{") || strings.HasPrefix(said, "[")) {
		if v := jsontext.Value(said); v.IsValid() {
			return v, nil
		}
	}
	return json.Marshal(value, jsontext.AllowInvalidUTF8(true))
}

// draftData returns the data in the form of 0.1.
func draftData(e Event, extensions map[string]jsontext.Value) jsontext.Value {
	data, mediaType := e.Data(), mediaTypeOf(e.DataContentType())
	asJSON := isJSON(mediaType) || jsonSuffix(mediaType)
	switch {
	case data == nil:
		return nil
	case asJSON && jsontext.Value(data).IsValid():
		return jsontext.Value(compact(data))
	case !asJSON && utf8.Valid(data):
		return quote(nil, string(data))
	}
	extensions[draftEncoding] = quote(nil, draftBase64)
	return quote(nil, base64.StdEncoding.EncodeToString(data))
}
