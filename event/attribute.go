package event

import (
	"slices"
	"strconv"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// These attributes are ours.
const (
	attributeProtocol  = "protocol"
	attributeConfig    = "config"
	attributeTrigger   = "trigger"
	attributeError     = "error"
	attributeFunction  = "function"
	attributeExecution = "execution"

	attributeTrace = "traceparent" // of the extension for distributed tracing

	attributeFollows = "datafollows" // of a request: its data follows in parts
	attributeRead    = "dataread"    // of its answer: the parts were read to the last
)

// isMap reports whether an attribute holds a map.
func isMap(name string) bool {
	return name == attributeProtocol || name == attributeConfig || name == attributeTrigger || name == attributeError
}

// isForeign reports whether an attribute is neither of CloudEvents nor ours.
func isForeign(name string) bool {
	switch name {
	case attributeProtocol, attributeConfig, attributeTrigger, attributeError, attributeFunction, attributeExecution,
		attributeTrace,
		draftTypeVersion, draftEncoding, "data_base64":
		return false
	}
	return !isReserved(name)
}

// Error is what an event says that takes the place of an answer.
type Error struct {
	Message string `json:"message"`         // what went wrong, for the caller
	Type    string `json:"type,omitempty"`  // what kind of error it is
	Trace   string `json:"trace,omitempty"` // where it happened
}

// Protocol is what the protocol of an event's source says in addition to the data. For HTTP, a request has everything
// except Status, and an answer has Status and Headers.
type Protocol struct {
	Type       string              `json:"type,omitempty"` // "http"
	Method     string              `json:"method,omitempty"`
	RequestURL string              `json:"request_url,omitempty"`
	Status     int                 `json:"status_code,omitzero"` // 0: the answer does not say
	Headers    map[string][]string `json:"headers,omitempty"`
	Streaming  bool                `json:"streaming,omitempty"` // of an answer: parts of its data follow
	// of a request: the values of the wildcards in its route's path
	Params map[string]string `json:"params,omitempty"`
}

// Trigger is what a trigger adds to an event.
type Trigger struct {
	FunctionURL string            `json:"function_url"`
	Config      map[string]string `json:"config,omitempty"` // of app and trigger
}

// ErrorOf returns the error of an event, and false when it has none. Invalid when its error is malformed.
func ErrorOf(e Event) (Error, bool, error) {
	if _, ok := attribute(e, attributeError); !ok {
		return Error{}, false, nil // most events
	}
	var fault Error
	ok, err := get(e, attributeError, &fault)
	if err == nil && ok && fault.Message == "" {
		err = invalid("error.message", "it is missing", nil)
	}
	return fault, ok, err
}

// SetError makes an event an error without data.
func SetError(e *Event, fault Error) {
	e.DataEncoded, e.DataBase64 = nil, false
	set(e, attributeError, fault)
}

// ChangeError changes the texts of an event's error, if it has one; for a malformed error, all of it.
func ChangeError(e *Event, change func(text string) string) {
	fault, is, err := ErrorOf(*e)
	switch {
	case err != nil:
		value, _ := attribute(*e, attributeError)
		if said, ok := value.(string); ok {
			e.SetExtension(attributeError, change(said))
		}
	case is:
		SetError(e, Error{Message: change(fault.Message), Type: change(fault.Type), Trace: change(fault.Trace)})
	}
}

// ProtocolOf returns the protocol of an event; zero when it has none. Invalid when it is malformed.
func ProtocolOf(e Event) (Protocol, error) {
	if _, ok := attribute(e, attributeProtocol); !ok {
		return Protocol{}, nil
	}
	var p Protocol
	_, err := get(e, attributeProtocol, &p)
	return p, err
}

// SameProtocol reports whether two events have the same protocol, byte for byte.
func SameProtocol(e, other Event) bool {
	one, _ := attribute(e, attributeProtocol)
	another, _ := attribute(other, attributeProtocol)
	said, ok := one.(string)
	others, too := another.(string)
	return ok && too && said == others
}

// SetProtocol sets the protocol of an event.
func SetProtocol(e *Event, p Protocol) {
	const usual = 1 << 10
	var room [usual]byte
	put(e, attributeProtocol, string(p.appendJSON(room[:0])))
}

// appendJSON appends p as json.Marshal does, in a quarter of its time, because every request has one.
func (p Protocol) appendJSON(out []byte) []byte {
	var room [commonMembers]string
	out = append(out, '{')
	for _, field := range [...]struct{ name, value string }{{"type", p.Type}, {"method", p.Method},
		{"request_url", p.RequestURL}} {
		if field.value != "" {
			out = quote(appendName(out, field.name), field.value)
		}
	}
	if p.Status != 0 {
		out = strconv.AppendInt(appendName(out, "status_code"), int64(p.Status), 10)
	}
	if len(p.Headers) > 0 {
		out = append(appendName(out, "headers"), '{')
		for _, name := range sortedKeys(room[:0], p.Headers) {
			out = append(appendName(out, name), '[')
			for i, value := range p.Headers[name] {
				if i > 0 {
					out = append(out, ',')
				}
				out = quote(out, value)
			}
			out = append(out, ']')
		}
		out = append(out, '}')
	}
	if len(p.Params) > 0 {
		out = append(appendName(out, "params"), '{')
		for _, name := range sortedKeys(room[:0], p.Params) {
			out = quote(appendName(out, name), p.Params[name])
		}
		out = append(out, '}')
	}
	return append(out, '}')
}

// sortedKeys appends the keys of a map to names, which is empty, and sorts them.
func sortedKeys[V any](names []string, m map[string]V) []string {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// appendName appends the name of a member of an object.
func appendName(out []byte, name string) []byte {
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	return append(quote(out, name), ':')
}

// ConfigOf returns the configuration in an event. Invalid when it is no map of strings.
func ConfigOf(e Event) (map[string]string, error) {
	var config map[string]string
	_, err := get(e, attributeConfig, &config)
	return config, err
}

// SetConfig sets the configuration of app and trigger.
func SetConfig(e *Event, config map[string]string) { set(e, attributeConfig, config) }

// TriggerOf returns what a trigger added to an event. Invalid when it is malformed.
func TriggerOf(e Event) (Trigger, error) {
	var t Trigger
	_, err := get(e, attributeTrigger, &t)
	return t, err
}

// Addition is what a trigger adds to its events. It is encoded once for all of them: each field is a string.
type Addition struct{ config, trigger, function any }

// NewAddition returns what a trigger adds. The configuration of app and trigger is also added by itself, as in the Fn
// document.
func NewAddition(t Trigger) Addition {
	e := New()
	SetConfig(&e, t.Config)
	SetTrigger(&e, t)
	return Addition{attributeString(e, attributeConfig), attributeString(e, attributeTrigger),
		attributeString(e, attributeFunction)}
}

// AddTo adds it to an event, in place of what the event has.
func (a Addition) AddTo(e *Event) {
	put(e, attributeConfig, a.config)
	put(e, attributeTrigger, a.trigger)
	put(e, attributeFunction, a.function)
}

// SetTrigger sets what a trigger adds. The function's address is also added by itself, as in the Fn document.
func SetTrigger(e *Event, t Trigger) {
	set(e, attributeTrigger, t)
	e.SetExtension(attributeFunction, t.FunctionURL)
}

// FunctionOf returns the URL of the function to which an event is sent; empty when there is none.
func FunctionOf(e Event) string {
	return attributeString(e, attributeFunction)
}

// SetTypeVersion sets the version of an event's type. 1.0 has no attribute for it, and 0.1 has one.
func SetTypeVersion(e *Event, version string) { put(e, draftTypeVersion, version) }

// ExecutionOf returns the name of the execution to which an event belongs; empty when there is none.
func ExecutionOf(e Event) string {
	return attributeString(e, attributeExecution)
}

// SetExecution sets the execution to which an event belongs.
func SetExecution(e *Event, name string) {
	if ExecutionOf(*e) != name || name == "" {
		put(e, attributeExecution, name)
	}
}

// TraceOf returns the traceparent of an event, from CloudEvents' extension for distributed tracing; empty when there is
// none.
func TraceOf(e Event) string {
	return attributeString(e, attributeTrace)
}

// SetTrace sets the traceparent of an event that has none, unless parent is empty. An event that belongs to a trace
// stays in it.
func SetTrace(e *Event, parent string) {
	if _, has := attribute(*e, attributeTrace); !has && parent != "" {
		e.SetExtension(attributeTrace, parent)
	}
}

// Strip removes what only a function may see: configuration, which may have secrets, and what the trigger added. So a
// function that returns its request does not show them to its caller.
func Strip(e *Event) {
	for _, name := range [...]string{attributeConfig, attributeTrigger, attributeFunction} {
		if _, ok := attribute(*e, name); ok {
			e.SetExtension(name, nil)
		}
	}
}

// isPrivate reports whether Strip removes an attribute.
func isPrivate(name string) bool {
	return name == attributeConfig || name == attributeTrigger || name == attributeFunction
}

// SizeOf returns about how many bytes an event has: its data and all other parts that may be long.
func SizeOf(e Event) int {
	size := len(e.DataEncoded) + len(e.ID()) + len(e.Type()) + len(e.Source()) + len(e.Subject()) +
		len(e.DataContentType()) + len(e.DataSchema())
	for _, value := range e.Extensions() {
		if text, ok := value.(string); ok {
			size += len(text)
		}
	}
	return size
}

// attribute returns an extension attribute. Event.Extensions copies all of them.
func attribute(e Event, name string) (any, bool) {
	if v1, ok := e.Context.(*cloudevents.EventContextV1); ok {
		value, ok := v1.Extensions[name]
		return value, ok
	}
	value, ok := e.Extensions()[name]
	return value, ok
}

// attributeString returns an attribute that is a string, and nothing for any other.
func attributeString(e Event, name string) string {
	value, _ := attribute(e, name)
	text, _ := value.(string)
	return text
}

// put sets an extension attribute, with a name and a value that the SDK would accept. The SDK checks every one.
func put(e *Event, name string, value any) {
	v1, ok := e.Context.(*cloudevents.EventContextV1)
	if !ok {
		e.SetExtension(name, value)
		return
	}
	if v1.Extensions == nil {
		v1.Extensions = make(map[string]any)
	}
	v1.Extensions[name] = value
}

// get reads an attribute that is a map.
func get(e Event, name string, to any) (bool, error) {
	value, ok := attribute(e, name)
	if !ok {
		return false, nil
	}
	said, ok := value.(string)
	if !ok {
		return true, invalid(name, "it must be a map", nil)
	}
	if err := json.Unmarshal([]byte(said), to); err != nil {
		return true, invalid(name, "it is not the map that it should be", err)
	}
	return true, nil
}

// set writes an attribute that is a map.
func set(e *Event, name string, value any) {
	said, err := json.Marshal(value, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return // it has only strings and numbers
	}
	e.SetExtension(name, string(said))
}
