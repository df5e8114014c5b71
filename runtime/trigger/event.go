package trigger

import (
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/registry"
)

// The types of the events of schedules, and of messages that are no events themselves.
const (
	ScheduleType = "dev.landfall.schedule"
	MessageType  = "dev.landfall.message"
)

// NewEvent returns an event of a time trigger, which stands for the request that Fission would send, or of a queue
// trigger. It has no data.
func NewEvent(t *registry.Trigger) event.Event {
	if t.Kind != landfall.TimeTrigger {
		e := event.Of(uuid.NewString(), t.Source(), MessageType, time.Now())
		e.SetSubject(t.Queue.Topic)
		return e
	}
	e := event.Of(uuid.NewString(), t.Source(), ScheduleType, time.Now())
	e.SetSubject(t.Name)
	event.SetProtocol(&e, event.Protocol{
		Type: "http", Method: t.Time.Method, RequestURL: t.Time.Subpath,
		Headers: map[string][]string{"X-Fission-Timer-Name": {t.Name}},
	})
	return e
}
