package event

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/binding"
	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cloudhttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"landfall.dev/landfall"
)

const (
	headerPrefix  = "Ce-"
	headerVersion = "Ce-Specversion"
	headerType    = "Content-Type"
	plainJSON     = "application/json"
)

// Read reads the events of a request, and returns their form: only a Batch can have other than one event. It also reads
// a body of type application/json as an event. It never reads more of the body than the limit. Invalid names the wrong
// field, with a TooLargeError as its cause if a limit was reached.
func Read(r *http.Request, limits Limits) ([]Event, Form, error) {
	const op landfall.Op = "event.Read"
	limits = limits.withDefaults()
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get(headerType))
	_, binary := r.Header[headerVersion]
	structured := mediaType == cloudevents.ApplicationCloudEventsJSON || (mediaType == plainJSON && !binary)
	batch := mediaType == cloudevents.ApplicationCloudEventsBatchJSON
	if !structured && !batch && !binary {
		return nil, Structured, landfall.Errorf(op, landfall.Invalid,
			"the request is no event: its content type must be %s or %s, or the header ce-specversion must be there",
			cloudevents.ApplicationCloudEventsJSON, cloudevents.ApplicationCloudEventsBatchJSON)
	}
	body, err := readBody(r, limits.Bytes)
	switch {
	case err != nil:
		return nil, Structured, err
	case batch:
		events, err := parseBatch(body, limits.Events)
		return events, Batch, err
	case structured:
		e, form, err := Parse(body)
		return []Event{e}, form, err
	}
	e, err := parseBinary(r.Header, body)
	return []Event{e}, Binary, err
}

func readBody(r *http.Request, most int) ([]byte, error) {
	const op landfall.Op = "event.Read"
	if r.ContentLength > int64(most) {
		return nil, tooLarge(op, limitBytes, most)
	}
	if r.Body == nil {
		return nil, nil
	}
	var body bytes.Buffer
	const atFirst = 64 << 10 // the announced length costs the sender nothing, so it is not trusted
	body.Grow(int(min(max(r.ContentLength, 0), atFirst)) + bytes.MinRead)
	_, err := body.ReadFrom(io.LimitReader(r.Body, int64(most)+1))
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large || body.Len() > most:
		return nil, tooLarge(op, limitBytes, most)
	case err != nil:
		return nil, landfall.Wrapf(op, landfall.Invalid, err, "the body could not be read to its end")
	}
	return body.Bytes(), nil
}

// parseBatch reads a batch.
func parseBatch(body []byte, most int) ([]Event, error) {
	const op landfall.Op = "event.Parse"
	var values []jsontext.Value
	if err := json.Unmarshal(body, &values); err != nil {
		return nil, landfall.Wrapf(op, landfall.Invalid, err, "a batch is a JSON array of events, and this is none")
	}
	if len(values) > most {
		return nil, tooLarge(op, limitEvents, most)
	}
	events := make([]Event, 0, len(values))
	for i, value := range values {
		e, form, err := Parse(value)
		if err == nil && form != Structured {
			err = invalid("specversion", "a batch has events of 1.0 only", nil)
		}
		if err != nil {
			return nil, landfall.Wrapf(op, landfall.KindOf(err), err, "event %d of the batch: %s", i+1, landfall.MessageOf(err))
		}
		events = append(events, e)
	}
	return events, nil
}

// parseBinary reads an event whose attributes are headers.
func parseBinary(headers http.Header, body []byte) (Event, error) {
	clean, foreign := http.Header{}, 0
	for name, values := range headers {
		attribute, ours := strings.CutPrefix(name, headerPrefix)
		attribute = strings.ToLower(attribute)
		switch {
		case name == headerType:
			attribute = "datacontenttype"
		case !ours:
			continue
		case !isName(attribute) || attribute == "data":
			return Event{}, invalid(printable(strings.ToLower(name)),
				"the name of an attribute has only a to z and 0 to 9, and is not data", nil)
		}
		if isForeign(attribute) {
			foreign++
		}
		switch {
		case len(values) != 1:
			return Event{}, invalid(attribute, "the header is there more than once", nil)
		case foreign > maxAttributes:
			return Event{}, tooLarge("event.Parse", limitAttributes, maxAttributes)
		}
		value := values[0]
		if ours {
			var ok bool
			if value, ok = decodeHeader(value); !ok {
				return Event{}, invalid(attribute, "the header is no UTF-8, written in percent where it is not ASCII", nil)
			}
		}
		if err := checkHeader(attribute, value); err != nil {
			return Event{}, err
		}
		clean[name] = []string{value}
	}
	if version := clean.Get(headerVersion); version != cloudevents.CloudEventsVersionV1 {
		return Event{}, wrongVersion(version)
	}
	e, err := binding.ToEvent(context.Background(), cloudhttp.NewMessage(clean, io.NopCloser(bytes.NewReader(body))))
	if err != nil {
		return Event{}, &landfall.Error{Op: "event.Parse", Kind: landfall.Invalid, Message: printable(err.Error()), Err: err}
	}
	prepareData(e)
	return *e, validate(*e)
}

// checkHeader refuses the value of a header that the SDK refuses without its name.
func checkHeader(attribute, value string) error {
	switch attribute {
	case "id", "source", "type", "subject", "time", "datacontenttype", "dataschema":
		return checkText(attribute, value)
	}
	return nil
}

// decodeHeader undoes encodeHeader. A percent sign that begins no escape stands for itself.
func decodeHeader(value string) (string, bool) {
	if strings.Contains(value, "%") {
		if decoded, err := url.PathUnescape(value); err == nil {
			value = decoded
		}
	}
	return value, utf8.ValidString(value)
}

// encodeHeader encodes the value of an attribute for a header (CloudEvents over HTTP, section 3.1.3.2).
func encodeHeader(value string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for _, c := range []byte(value) {
		if c <= ' ' || c > '~' || c == '"' || c == '%' {
			out.Write([]byte{'%', hex[c>>4], hex[c&15]})
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

// Write writes events as an answer in a form. Several events are always a Batch; an event with an error, or one of
// several, is never Binary. It returns an error of the connection as it is.
func Write(w http.ResponseWriter, status int, form Form, events ...Event) error {
	if form == Binary && len(events) == 1 {
		if _, fault := attribute(events[0], attributeError); !fault {
			e := events[0]
			return cloudhttp.WriteResponseWriter(binding.WithForceBinary(context.Background()), (*binding.EventMessage)(&e),
				status, &headerWriter{ResponseWriter: w})
		}
	}
	contentType, body := cloudevents.ApplicationCloudEventsJSON, []byte(nil)
	if form == Batch || len(events) != 1 {
		contentType, form, body = cloudevents.ApplicationCloudEventsBatchJSON, Batch, append(body, '[')
	}
	for i, e := range events {
		if i > 0 {
			body = append(body, ',')
		}
		var err error
		if body, err = Append(body, form, e); err != nil {
			return &landfall.Error{Op: "event.Write", Err: err}
		}
	}
	if form == Batch {
		body = append(body, ']')
	}
	w.Header().Set(headerType, contentType)
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// headerWriter encodes the attributes of an event for headers, which the SDK does not do.
type headerWriter struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *headerWriter) WriteHeader(status int) {
	for name, values := range w.Header() {
		if strings.HasPrefix(name, headerPrefix) {
			for i := range values {
				values[i] = encodeHeader(values[i])
			}
		}
	}
	w.ResponseWriter.WriteHeader(status)
}
