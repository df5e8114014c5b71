package event

import (
	"maps"
	"slices"
	"strconv"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The attributes that are ours.
const (
	attributeProtocol  = "protocol"
	attributeConfig    = "config"
	attributeTrigger   = "trigger"
	attributeError     = "error"
	attributeFunction  = "function"
	attributeExecution = "execution"
)

// isMap reports whether an attribute holds a map.
func isMap(name string) bool {
	return name == attributeProtocol || name == attributeConfig || name == attributeTrigger || name == attributeError
}

// Error is what an event says that stands for an answer that could not be given.
type Error struct {
	Message string `json:"message"`         // what went wrong, for the caller
	Type    string `json:"type,omitempty"`  // what kind of error it is
	Trace   string `json:"trace,omitempty"` // where it happened
}

// Protocol is what the protocol of an event's source knows beside the data. For HTTP, a request has all but Status, and an
// answer has Status and Headers.
type Protocol struct {
	Type       string              `json:"type,omitempty"` // "http"
	Method     string              `json:"method,omitempty"`
	RequestURL string              `json:"request_url,omitempty"`
	Status     int                 `json:"status_code,omitzero"` // 0: the answer does not say
	Headers    map[string][]string `json:"headers,omitempty"`
	Params     map[string]string   `json:"params,omitempty"` // of a request: the values of the wildcards in its route's path
}

// Trigger is what a trigger adds to an event.
type Trigger struct {
	FunctionURL string            `json:"function_url"`
	Config      map[string]string `json:"config,omitempty"` // of app and trigger
}

// ErrorOf returns the error that an event is, and false when it is none. Invalid when it has an error that is not like one.
func ErrorOf(e Event) (Error, bool, error) {
	var fault Error
	ok, err := get(e, attributeError, &fault)
	if err == nil && ok && fault.Message == "" {
		err = invalid("error.message", "it is missing", nil)
	}
	return fault, ok, err
}

// SetError makes an event one that stands for an answer: it has no data.
func SetError(e *Event, fault Error) {
	e.DataEncoded, e.DataBase64 = nil, false
	set(e, attributeError, fault)
}

// ProtocolOf returns what an event's protocol says; zero when nothing. Invalid when it is not like that.
func ProtocolOf(e Event) (Protocol, error) {
	var p Protocol
	_, err := get(e, attributeProtocol, &p)
	return p, err
}

// SetProtocol sets what an event's protocol says.
func SetProtocol(e *Event, p Protocol) {
	const usual = 1 << 10
	e.SetExtension(attributeProtocol, string(p.appendJSON(make([]byte, 0, usual))))
}

// appendJSON appends p as json.Marshal would, in a quarter of its time: every request has one.
func (p Protocol) appendJSON(out []byte) []byte {
	out = append(out, '{')
	for _, field := range [...]struct{ name, value string }{{"type", p.Type}, {"method", p.Method}, {"request_url", p.RequestURL}} {
		if field.value != "" {
			out = quote(appendName(out, field.name), field.value)
		}
	}
	if p.Status != 0 {
		out = strconv.AppendInt(appendName(out, "status_code"), int64(p.Status), 10)
	}
	if len(p.Headers) > 0 {
		out = append(appendName(out, "headers"), '{')
		for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
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
		for _, name := range slices.Sorted(maps.Keys(p.Params)) {
			out = quote(appendName(out, name), p.Params[name])
		}
		out = append(out, '}')
	}
	return append(out, '}')
}

// appendName appends the name of a member of an object.
func appendName(out []byte, name string) []byte {
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	return append(quote(out, name), ':')
}

// ConfigOf returns the configuration that came with an event. Invalid when it is no map of strings.
func ConfigOf(e Event) (map[string]string, error) {
	var config map[string]string
	_, err := get(e, attributeConfig, &config)
	return config, err
}

// SetConfig sets the configuration of app and trigger.
func SetConfig(e *Event, config map[string]string) { set(e, attributeConfig, config) }

// TriggerOf returns what a trigger added. Invalid when it is not like that.
func TriggerOf(e Event) (Trigger, error) {
	var t Trigger
	_, err := get(e, attributeTrigger, &t)
	return t, err
}

// SetTrigger sets what a trigger adds, and the function's address also by itself, where the document's flow has it.
func SetTrigger(e *Event, t Trigger) {
	set(e, attributeTrigger, t)
	e.SetExtension(attributeFunction, t.FunctionURL)
}

// ExecutionOf returns the name of the execution that an event belongs to, or nothing.
func ExecutionOf(e Event) string {
	value, _ := attribute(e, attributeExecution)
	name, _ := value.(string)
	return name
}

// SetExecution names the execution that an event belongs to.
func SetExecution(e *Event, name string) { e.SetExtension(attributeExecution, name) }

// Strip takes away what only a function is told: configuration, which may hold secrets, and what the trigger added. A
// function that hands its request back does not tell it to its caller.
func Strip(e *Event) {
	for _, name := range []string{attributeConfig, attributeTrigger, attributeFunction} {
		if _, ok := attribute(*e, name); ok {
			e.SetExtension(name, nil)
		}
	}
}

// Answer returns an event with nothing in it that answers another: its source and type, and an ID of its own.
func Answer(request Event, id string) Event {
	e := New()
	e.SetID(id)
	e.SetSource(request.Source())
	e.SetType(request.Type())
	if version, ok := attribute(request, draftTypeVersion); ok {
		e.SetExtension(draftTypeVersion, version)
	}
	return e
}

// attribute returns an attribute that 1.0 does not have itself. Event.Extensions copies all of them.
func attribute(e Event, name string) (any, bool) {
	if v1, ok := e.Context.(*cloudevents.EventContextV1); ok {
		value, ok := v1.Extensions[name]
		return value, ok
	}
	value, ok := e.Extensions()[name]
	return value, ok
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
		return // there are only strings and numbers in it
	}
	e.SetExtension(name, string(said))
}
