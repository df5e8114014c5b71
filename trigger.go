package landfall

import (
	"cmp"
	"encoding/json"
)

// TriggerPath begins the addresses at which triggers are fired by hand.
const TriggerPath = "/r/"

// Trigger binds a source of events to a function, as the spec of its version says. Rooms that know more of one embed it.
type Trigger struct {
	Kind      UnitKind          // HTTPTrigger, TimeTrigger or QueueTrigger: which of the sources below it has
	Config    map[string]string // over the app's
	Filters   json.RawMessage   // canonical JSON, which event.ParseFilters takes; nil: it takes every event of its source
	Resources Resources         // over the function's

	HTTP  HTTPSource
	Time  TimeSource
	Queue QueueSource
}

// Access says who may fire the trigger: nobody but its schedule or queue does so without a token.
func (t Trigger) Access() Access {
	if t.Kind != HTTPTrigger {
		return AccessToken
	}
	return cmp.Or(t.HTTP.Access, AccessPublic)
}

// HTTPSource are requests.
type HTTPSource struct {
	Host    string   // empty: every host of the app
	Methods []string // sorted, without repeats, at least one
	URL     string   // "/…"; matched exactly, "{name}" stands for one segment; with Prefix everything below matches too
	Prefix  bool
	Trim    string // how the path begins that the function does not see
	Access  Access // empty: public
}

// TimeSource is a schedule.
type TimeSource struct {
	Cron, TimeZone  string
	Method, Subpath string // of the request that an event stands for
}

// QueueSource are the messages of topics.
type QueueSource struct {
	Topic       string // which may be a pattern
	RespTopic   string // for answers; empty: they are dropped
	ErrorTopic  string // for what failed each time
	MaxRetries  int
	ContentType string // of messages that have none
}

// Access says who may call a function by HTTP.
type Access string

// The kinds of access.
const (
	AccessPublic   Access = "public"
	AccessToken    Access = "token"     // with a bearer token that may invoke the app's functions
	AccessSignedIn Access = "signed-in" // from a browser that signed in
)
