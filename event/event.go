// Package event reads and writes CloudEvents: 1.0 in all forms of HTTP, and the 0.1 form of the Fn document.
//
// The CloudEvents SDK does most of the format. This package adds what the SDK leaves open: limits, errors that name the
// field, text that cannot break a stream of lines, and the older form.
//
// # Attributes that are maps
//
// The Fn document gives an event four maps: protocol, config, trigger and error. In its 0.1 form they are JSON objects.
// An attribute of CloudEvents 1.0 is never a map, so there each is JSON in a string, which every library can read. An
// object is accepted, too. ProtocolOf, ConfigOf, TriggerOf and ErrorOf read them in both forms.
package event

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"

	"landfall.dev/landfall"
)

// Event is one event. It is always held as 1.0, in whatever form it was read.
type Event = cloudevents.Event

// New returns an empty event of 1.0.
func New() Event { return cloudevents.New() }

// Of returns an event of 1.0 with the required attributes and the time. As with New and the setters, Validate finds
// what is wrong with it.
func Of(id, source, kind string, at time.Time) Event {
	if !isPlainPath(source) || strings.TrimSpace(id) != id || strings.TrimSpace(kind) != kind || id == "" || kind == "" {
		e := New()
		e.SetID(id)
		e.SetSource(source)
		e.SetType(kind)
		e.SetTime(at)
		return e
	}
	c := &cloudevents.EventContextV1{ID: id, Type: kind, Time: &types.Timestamp{Time: at}}
	c.Source.Path = source
	return Event{Context: c}
}

// SetMediaType sets the content type of the data, which must be valid.
func SetMediaType(e *Event, mediaType string) {
	if c, ok := e.Context.(*cloudevents.EventContextV1); ok {
		c.DataContentType = &mediaType
		return
	}
	e.SetDataContentType(mediaType)
}

// SourceOf returns the source of an event. The method Source makes a new string for each call.
func SourceOf(e Event) string {
	if c, ok := e.Context.(*cloudevents.EventContextV1); ok && hasPlainSource(c) {
		return c.Source.Path
	}
	return e.Source()
}

// hasPlainSource reports whether the source is a path that need not be escaped.
func hasPlainSource(c *cloudevents.EventContextV1) bool {
	return isPlainPath(c.Source.Path) && c.Source.URL == (url.URL{Path: c.Source.Path})
}

// Form is how events are written. An answer has the form of its request.
type Form uint8

// The forms.
const (
	Structured Form = iota // one event of 1.0 as JSON
	Binary                 // one event of 1.0 over HTTP: attributes are headers, the data is the body
	Batch                  // a JSON array of events of 1.0
	Draft                  // one event of 0.1 as JSON, as the Fn document has it
)

// Limits bound what is read. Zero fields have defaults.
type Limits struct {
	Bytes  int // of one request, or of one event in a stream; 6 MiB
	Events int // in a batch; 1,000
}

func (l Limits) withDefaults() Limits {
	const bytes, events = 6 << 20, 1000
	return Limits{Bytes: cmp.Or(l.Bytes, bytes), Events: cmp.Or(l.Events, events)}
}

// TooLargeError is the cause of an Invalid error that only a limit caused.
type TooLargeError struct {
	Limit string // its name
	Max   int
}

// Error implements error.
func (e *TooLargeError) Error() string { return fmt.Sprintf("%s is %d", e.Limit, e.Max) }

// The names of the limits.
const (
	limitBytes      = "event bytes"
	limitEvents     = "events in a batch"
	limitAttributes = "attributes of one event"
)

// maxAttributes is how many attributes an event may have in addition to those of CloudEvents and ours. Each one costs
// as much time as a hundred times its bytes, and is copied for each trigger.
const maxAttributes = 128

func tooLarge(op landfall.Op, limit string, most int) error {
	return landfall.Wrapf(op, landfall.Invalid, &TooLargeError{Limit: limit, Max: most},
		"the event is too large: the limit %q is %d", limit, most)
}

// invalid returns an Invalid error that begins with the wrong field.
func invalid(field, problem string, cause error) error {
	return &landfall.Error{Op: "event.Parse", Kind: landfall.Invalid, Message: field + ": " + problem, Err: cause}
}
