package event

import (
	"net/http"
	"net/textproto"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"landfall.dev/landfall"
)

// Message is an event in the form of a message queue: headers and a body.
type Message struct {
	Header map[string][]string // names as they were written, because queues are case-sensitive
	Body   []byte
}

// ReadMessage reads a message that is a CloudEvents event in binary or structured mode; it returns false when it is
// none. Invalid, with true, when it claims to be an event and is malformed. It keeps nothing of the message.
func ReadMessage(m Message) (Event, bool, error) {
	headers := http.Header{}
	for name, values := range m.Header {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name == headerType || strings.HasPrefix(name, headerPrefix) {
			headers[name] = append(headers[name], values...)
		}
	}
	// The binding for NATS has the content type of the data as an attribute like any other. HTTP, and many writers to
	// NATS, have it as Content-Type.
	const attributeType = headerPrefix + "Datacontenttype"
	if own, ok := headers[attributeType]; ok {
		delete(headers, attributeType)
		if headers[headerType] == nil {
			headers[headerType] = own
		}
	}
	mediaType := mediaTypeOf(headers.Get(headerType))
	switch _, binary := headers[headerVersion]; {
	case mediaType == cloudevents.ApplicationCloudEventsJSON || mediaType == "application/cloudevents":
		e, _, err := Parse(m.Body)
		return e, true, err
	case strings.HasPrefix(mediaType, "application/cloudevents"):
		return Event{}, true, landfall.Errorf("event.ReadMessage", landfall.Invalid,
			"the content type is %s, and a message is one event as JSON: %s", printable(mediaType),
			cloudevents.ApplicationCloudEventsJSON)
	case binary:
		e, err := parseBinary(headers, m.Body)
		return e, true, err
	}
	return Event{}, false, nil
}

// WriteMessage writes an event in binary mode: the body is its data, so readers need not know events. An event with an
// error is written in structured mode, because it has no data.
func WriteMessage(e Event) (Message, error) {
	if _, fault := attribute(e, attributeError); fault {
		body, err := Append(nil, Structured, e)
		return Message{Header: map[string][]string{headerType: {cloudevents.ApplicationCloudEventsJSON}}, Body: body}, err
	}
	m := Message{Header: map[string][]string{}, Body: e.Data()}
	for _, name := range []string{"specversion", "id", "source", "type", "subject", "time", "dataschema"} {
		if value, ok := attributeText(e, name); ok {
			m.Header["ce-"+name] = []string{encodeHeader(value)}
		}
	}
	for name := range e.Extensions() {
		if value, ok := attributeText(e, name); ok {
			m.Header["ce-"+name] = []string{encodeHeader(value)}
		}
	}
	if contentType := e.DataContentType(); contentType != "" {
		m.Header[headerType] = []string{contentType}
	}
	return m, nil
}
