package client

import (
	"time"

	"landfall.dev/landfall"
)

// The models of the resources below /ns, with the fields that the Fn document gives them. What is marked as read only
// may be given back as it came, and says nothing.

// Namespace owns apps and functions.
type Namespace struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created_at"`
}

// FnApp is an app as the Fn document has it: a grouping of triggers.
type FnApp struct {
	Made

	ID          string         `json:"id,omitempty" readOnly:"true"`
	Name        string         `json:"name,omitempty" readOnly:"true"`
	Config      map[string]any `json:"config" required:"false" doc:"what all its functions get"`
	Annotations map[string]any `json:"annotations,omitempty" doc:"notes that change nothing"`
}

// ResourceConfig bounds a function. A field that is 0 or absent says nothing: what stands behind it counts, of a
// trigger its function, of a function its environment and then the server.
type ResourceConfig struct {
	Memory      int64 `json:"memory,omitempty" minimum:"0" doc:"bytes"`
	CPUs        int   `json:"cpus,omitempty" minimum:"0" doc:"thousandths of a processor"`
	Disk        int64 `json:"disk,omitempty" minimum:"0" doc:"bytes"`
	Timeout     int32 `json:"timeout,omitempty" minimum:"0" doc:"seconds of one execution"`
	IdleTimeout int32 `json:"idle_timeout,omitempty" minimum:"0" doc:"seconds without one"`
}

// FnFunction is a function as production has it.
type FnFunction struct {
	Made

	ID          string            `json:"id,omitempty" readOnly:"true"`
	Namespace   string            `json:"namespace,omitempty" readOnly:"true"`
	Name        string            `json:"name,omitempty" readOnly:"true"`
	Image       string            `json:"image,omitempty" doc:"by it tools pull the function; for a new one, what it is to be like"`
	Resources   ResourceConfig    `json:"resources" required:"false"`
	Config      map[string]string `json:"config" required:"false" doc:"what it gets: the configuration of its app, where it is set"`
	Annotations map[string]any    `json:"annotations,omitempty" doc:"notes that change nothing"`
	Created     time.Time         `json:"created_at,omitzero" readOnly:"true"`
	Updated     time.Time         `json:"updated_at,omitzero" readOnly:"true"`
}

// FnTrigger is a trigger as production has it. What fires it stands in the fields of its kind, which are those of
// specs.
type FnTrigger struct {
	Made

	AppID       string            `json:"app_id,omitempty" readOnly:"true"`
	Name        string            `json:"name,omitempty" readOnly:"true"`
	Kind        landfall.UnitKind `json:"kind,omitempty" enum:"http-trigger,time-trigger,queue-trigger" doc:"absent: what cron, topic or url say"`
	Function    string            `json:"function,omitempty" doc:"NAME or NAME:VERSION, also with SERVER/NAMESPACE/ before it"`
	Weights     map[string]int    `json:"weights,omitempty" doc:"in place of function: up to two versions, and how many percent of the events each gets"`
	Tag         string            `json:"tag,omitempty" doc:"of a time-trigger, in place of function: a function tag, all of whose functions are called"`
	Config      map[string]string `json:"config,omitempty" doc:"over the app's"`
	Resources   ResourceConfig    `json:"resources" required:"false" doc:"over the function's"`
	Annotations map[string]any    `json:"annotations,omitempty" doc:"notes that change nothing"`
	Created     time.Time         `json:"created_at,omitzero" readOnly:"true"`
	Updated     time.Time         `json:"updated_at,omitzero" readOnly:"true"`

	Methods []string `json:"methods,omitempty" doc:"of an http-trigger; without any, GET"`
	URL     string   `json:"url,omitempty" doc:"of an http-trigger: /hello, or /orders/{id}"`
	Prefix  bool     `json:"prefix,omitempty" doc:"of an http-trigger: everything below url, too"`
	Host    string   `json:"host,omitempty" doc:"of an http-trigger"`
	Sticky  string   `json:"sticky,omitempty" doc:"of an http-trigger with weights: cookie, cookie:NAME or header:NAME, by which a client is known that stays on one version"`
	Access  string   `json:"access,omitempty" enum:"public,token,signed-in" doc:"of an http-trigger: who may call it"`

	Cron     string `json:"cron,omitempty" doc:"of a time-trigger"`
	TimeZone string `json:"time_zone,omitempty" doc:"of a time-trigger"`
	Method   string `json:"method,omitempty" doc:"of a time-trigger: of the request that a firing stands for"`
	Subpath  string `json:"subpath,omitempty" doc:"of a time-trigger: of that request"`

	Topic       string `json:"topic,omitempty" doc:"of a queue-trigger"`
	RespTopic   string `json:"resp_topic,omitempty" doc:"of a queue-trigger: where answers go"`
	ErrorTopic  string `json:"error_topic,omitempty" doc:"of a queue-trigger: where failures go"`
	MaxRetries  int    `json:"max_retries,omitempty" minimum:"0" doc:"of a queue-trigger"`
	ContentType string `json:"content_type,omitempty" doc:"of a queue-trigger"`

	Filters []any `json:"filters,omitempty" doc:"which events of its source it takes"`
}

// Made is what a change made; nothing in the answer to a question, or when nothing changed.
type Made struct {
	Release landfall.UID `json:"release,omitempty" readOnly:"true" doc:"in the answer to a change: the release that has it"`
	Note    string       `json:"note,omitempty" readOnly:"true" doc:"in the answer to a change: what else there is to know"`
}
