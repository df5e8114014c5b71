package event

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Part is a piece of the data of a streamed answer: a JSON object that follows the answer's event.
type Part struct {
	Data []byte
	Last bool   // nothing follows
	Err  *Error // the error in the middle of the answer; nothing follows
	Read bool   // the parts of the request were read to the last
}

// SetFollows sets whether the data of an event follows it in parts. It replaces what the sender said.
func SetFollows(e *Event, follows bool) {
	if follows {
		put(e, attributeFollows, true)
	} else if _, said := attribute(*e, attributeFollows); said {
		*e = e.Clone()
		e.SetExtension(attributeFollows, nil)
	}
}

// HasRead reports whether an answer says that the parts of its request were read to the last. It removes that from the
// answer.
func HasRead(answer *Event) bool {
	said, ok := attribute(*answer, attributeRead)
	if ok {
		answer.SetExtension(attributeRead, nil)
	}
	return said == true
}

// AppendPart appends a part of a request's data, any bytes, as a line.
func AppendPart(out, data []byte) []byte {
	out = append(out, `{"data_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(out, data), "\"}\n"...)
}

// AppendLast appends the last part of a request's data as a line: the data is complete or, with an error, it is not.
func AppendLast(out []byte, fault *Error) []byte {
	last := struct {
		Last bool   `json:"last,omitzero"`
		Err  *Error `json:"error,omitzero"`
	}{fault == nil, fault}
	text, err := json.Marshal(last, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return out // it has only strings
	}
	return append(append(out, text...), '\n')
}

// Streams reports whether parts of an answer's data follow it.
func Streams(e Event) bool {
	value, _ := attribute(e, attributeProtocol)
	text, ok := value.(string)
	if !ok || !strings.Contains(text, "streaming") {
		return false // most events, at no cost
	}
	p, err := ProtocolOf(e)
	return err == nil && p.Streaming
}

// SetWhole removes from a streamed answer that it streams, because all of its data is there.
func SetWhole(answer *Event) {
	var protocol map[string]jsontext.Value
	if _, err := get(*answer, attributeProtocol, &protocol); err != nil || protocol == nil {
		return
	}
	delete(protocol, "streaming")
	set(answer, attributeProtocol, protocol)
}

// ParsePart reads a part. Its data is text, or bytes as data_base64; anything else is used as JSON.
func ParsePart(text []byte) (Part, error) {
	var read struct {
		Data   jsontext.Value `json:"data"`
		Base64 *string        `json:"data_base64"`
		Last   bool           `json:"last"`
		Err    *Error         `json:"error"`
		Read   bool           `json:"dataread"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return Part{}, invalid("part", "it is no JSON object with data, data_base64, last or error", err)
	}
	part := Part{Last: read.Last || read.Err != nil, Err: read.Err, Read: read.Read}
	var err error
	switch {
	case read.Base64 != nil && read.Data != nil:
		return Part{}, invalid("data", "there is data_base64 beside it", nil)
	case read.Base64 != nil:
		if part.Data, err = base64.StdEncoding.DecodeString(*read.Base64); err != nil {
			return Part{}, invalid("data_base64", "it is no base64", err)
		}
	case read.Data.Kind() == '"':
		part.Data, err = jsontext.AppendUnquote(nil, read.Data)
	case read.Data != nil:
		part.Data = read.Data
	}
	return part, err
}
