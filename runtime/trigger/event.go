package trigger

import (
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/registry"
)

// NewEvent returns an event of a time trigger, which stands for the request that Fission would send, or of a queue
// trigger. It has no data.
func NewEvent(t *registry.Trigger) event.Event {
	if t.Kind != landfall.TimeTrigger {
		e := event.Of(uuid.NewString(), t.Source(), landfall.MessageEvent, time.Now())
		e.SetSubject(t.Queue.Topic)
		return e
	}
	e := event.Of(uuid.NewString(), t.Source(), landfall.ScheduleEvent, time.Now())
	e.SetSubject(t.Name)
	event.SetProtocol(&e, event.Protocol{
		Type: "http", Method: t.Time.Method, RequestURL: t.Time.Subpath,
		Headers: map[string][]string{"X-Fission-Timer-Name": {t.Name}},
	})
	return e
}
