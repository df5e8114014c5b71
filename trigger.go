package landfall

import (
	"cmp"
	"encoding/json"
)

// The types of the events that schedules make, and of messages that are no events themselves.
const (
	ScheduleEvent = "dev.landfall.schedule"
	MessageEvent  = "dev.landfall.message"
)

// TriggerPath begins the addresses at which triggers are fired by hand.
const TriggerPath = "/r/"

// HookPath begins the addresses of webhooks of functions.
const HookPath = "/hooks/"

// Trigger binds a source of events to a function, as the spec of its version says. Rooms that know more about a trigger
// embed it.
type Trigger struct {
	Kind   UnitKind          // HTTPTrigger, TimeTrigger or QueueTrigger; it says which of the sources below is set
	Config map[string]string // overrides the app's
	// canonical JSON in the form that event.ParseFilters takes; nil: every event of the source passes
	Filters   json.RawMessage
	Resources Resources // override the function's
	Retries   *int      `json:",omitempty"` // override the function's; nil: they do not; a queue has its own

	HTTP  HTTPSource
	Time  TimeSource
	Queue QueueSource
}

// Access says who may fire the trigger. Only its schedule or queue may do so without a token.
func (t Trigger) Access() Access {
	if t.Kind != HTTPTrigger {
		return AccessToken
	}
	return cmp.Or(t.HTTP.Access, AccessPublic)
}

// HTTPSource says which requests fire a trigger.
type HTTPSource struct {
	Host    string   // empty: every host of the app
	Methods []string // sorted, without repeats, at least one
	URL     string   // "/…"; matched exactly, "{name}" stands for one segment; with Prefix everything below matches too
	Prefix  bool
	Trim    string // beginning of the path that the function does not see
	Access  Access // empty: public
	Sticky  Sticky // where weights decide; empty: that of the alias, if it leads to one
}

// TimeSource is a schedule.
type TimeSource struct {
	Cron, TimeZone  string
	Method, Subpath string // of the request that the event represents
}

// QueueSource says which messages fire a trigger.
type QueueSource struct {
	Topic       string // may be a pattern
	RespTopic   string // for answers; empty: they are dropped
	ErrorTopic  string // for messages that failed in every attempt
	MaxRetries  int
	ContentType string // for messages without one
}

// Access says who may call a function by HTTP.
type Access string

// The kinds of access.
const (
	AccessPublic   Access = "public"
	AccessToken    Access = "token"     // with a bearer token that may invoke the app's functions
	AccessSignedIn Access = "signed-in" // from a browser that signed in
)
