package spec

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/cron"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/route"
)

// functionSpec is a function reference in a trigger's document.
type functionSpec struct {
	Type    string           `json:"type"`
	Name    string           `json:"name"`
	Version string           `json:"version"`
	Alias   string           `json:"alias"`
	Weights map[string]int64 `json:"functionweights"`
}

// The types of function references.
const (
	byName   = "name"
	byWeight = "function-weights"
	byTag    = "tag" // ours: of time triggers
)

// text returns the reference as one text.
func (f functionSpec) text() string {
	if selector := cmp.Or(f.Version, f.Alias); selector != "" {
		return f.Name + ":" + selector
	}
	return f.Name
}

// triggerSpec has the fields of all kinds of triggers that mean something here.
type triggerSpec struct {
	resourceFields
	retryFields

	Function functionSpec      `json:"functionref"`
	Config   map[string]string `json:"config"`
	Filters  json.RawMessage   `json:"filters"`

	Host    string   `json:"host"`
	URL     string   `json:"relativeurl"`
	Prefix  string   `json:"prefix"`
	Keep    bool     `json:"keepPrefix"`
	Method  string   `json:"method"`
	Methods []string `json:"methods"`
	Access  string   `json:"access"`
	Sticky  string   `json:"sticky"`

	Cron     string `json:"cron"`
	TimeZone string `json:"timeZone"`
	Subpath  string `json:"subpath"`

	Topic       string `json:"topic"`
	RespTopic   string `json:"respTopic"`
	ErrorTopic  string `json:"errorTopic"`
	MaxRetries  int    `json:"maxRetries"`
	ContentType string `json:"contentType"`
}

// readTrigger returns the reader of one kind of trigger.
func readTrigger(kind landfall.UnitKind, kindName string) func(*document, Object, map[string]any, nodes) {
	return func(d *document, o Object, spec map[string]any, n nodes) {
		fillTrigger(kind, spec)
		var known triggerSpec
		if !d.finish(&o, spec, &known) {
			return
		}
		d.checkLimits(spec, n)
		read, field, err := known.trigger(kind)
		if err != nil {
			d.problemf(n.at("spec", field), "%s %s: %s", kindName, o.Name, landfall.MessageOf(err))
			return
		}
		t := Trigger{Object: o, Trigger: read}
		d.checkSizes(kindName+" "+o.Name, t.Resources, n)
		d.target(&t, known.Function, n)
		if t.Resources.Concurrency > 0 {
			d.bounds = append(d.bounds, processBound{t, kindName + " " + o.Name, n.at("spec", "concurrency")})
		}
		d.filters(t, kindName, n)
		switch {
		case kind == landfall.HTTPTrigger:
			d.http(&t, known, n)
		case kind == landfall.TimeTrigger && strings.TrimSpace(known.Cron) == "":
			d.problemf(n.at("spec", "cron"), "TimeTrigger %s has no cron", o.Name)
		case kind == landfall.TimeTrigger:
			d.time(t, n)
		case kind == landfall.QueueTrigger:
			d.queue(t, n)
		}
		d.spec.Triggers = append(d.spec.Triggers, t)
	}
}

// trigger returns what the fields say, without the function. When a field is wrong, it is named, and the error is
// Invalid.
func (s triggerSpec) trigger(kind landfall.UnitKind) (t landfall.Trigger, field string, err error) {
	t = landfall.Trigger{Kind: kind, Config: s.Config, Filters: s.Filters, Retries: s.Retries}
	if err := s.check(); err != nil {
		return t, "retries", err
	}
	if t.Resources, field, err = s.resources(); err != nil {
		return t, field, err
	}
	switch kind {
	case landfall.HTTPTrigger:
		t.HTTP = s.http()
	case landfall.TimeTrigger:
		t.Time = landfall.TimeSource{Cron: s.Cron, TimeZone: s.TimeZone, Method: s.Method, Subpath: s.Subpath}
	case landfall.QueueTrigger:
		t.Queue = landfall.QueueSource{
			Topic: s.Topic, RespTopic: s.RespTopic, ErrorTopic: s.ErrorTopic, MaxRetries: s.MaxRetries,
			ContentType: s.ContentType,
		}
	case landfall.ConfigUnit, landfall.EnvironmentUnit, landfall.PackageUnit, landfall.FunctionUnit, landfall.StaticUnit,
		landfall.SecretUnit, landfall.AliasUnit, landfall.FunctionTagUnit:
	}
	return t, "", nil
}

// fillTrigger sets absent fields to Fission's defaults.
func fillTrigger(kind landfall.UnitKind, spec map[string]any) {
	fill := func(in map[string]any, name, value string) {
		if written, _ := in[name].(string); written == "" {
			in[name] = value
		}
	}
	if ref, ok := spec["functionref"].(map[string]any); ok {
		if weights, _ := ref["functionweights"].(map[string]any); len(weights) > 0 {
			fill(ref, "type", byWeight)
		} else {
			fill(ref, "type", byName)
		}
		version, _ := ref["version"].(string)
		alias, _ := ref["alias"].(string)
		name, _ := ref["name"].(string)
		if ref["type"] == byName && alias == "" && (version == "" || version == "0") && !strings.Contains(name, ":") {
			ref["version"] = landfall.Latest
		}
	}
	methods, _ := spec["methods"].([]any)
	if kind == landfall.HTTPTrigger && len(methods) == 0 {
		fill(spec, "method", "GET")
	}
	if kind == landfall.TimeTrigger {
		fill(spec, "method", "POST")
		fill(spec, "subpath", "/")
	}
}

// target reads the function or functions that a trigger names.
func (d *document) target(t *Trigger, f functionSpec, n nodes) {
	at := n.at("spec", "functionref")
	who := "trigger " + t.Name
	switch f.Type {
	case byName:
		if f.Version != "" && f.Alias != "" {
			d.problemf(at, "%s names both a version and an alias of its function", who)
			return
		}
		selector := cmp.Or(f.Version, f.Alias)
		if f.Name == "" {
			d.problemf(at, "%s names no function (spec.functionref.name)", who)
			return
		}
		if selector != "" && strings.Contains(f.Name, ":") {
			d.problemf(at, "%s gives its function's version twice, in name and beside it", who)
			return
		}
		t.Function, _ = d.function(n.at("spec", "functionref", "name"), who, f.text())
	case byWeight:
		d.weights(t, f.Weights, n)
	case byTag:
		d.tag(t, f, n)
	case "":
		d.problemf(at, "%s names no function (spec.functionref.name)", who)
	default:
		d.problemf(n.at("spec", "functionref", "type"), "functionref.type is %s; it must be %s, %s or %s", quote(f.Type),
			byName, byWeight, byTag)
	}
}

// tag reads the function tag that a trigger names. Whether there is one, only the server knows.
func (d *document) tag(t *Trigger, f functionSpec, n nodes) {
	at := n.at("spec", "functionref")
	switch {
	case t.Kind != landfall.TimeTrigger:
		d.problemf(at, "trigger %s names a function tag, which only a TimeTrigger can: it calls several functions, and "+
			"gives nobody their answers", t.Name)
	case f.Name == "":
		d.problemf(at, "trigger %s names no function tag (spec.functionref.name)", t.Name)
	case f.Version+f.Alias != "" || len(f.Weights) > 0:
		d.problemf(at, "trigger %s names a function tag, which says the versions of its functions: leave version, alias and "+
			"functionweights out", t.Name)
	default:
		t.Tag = f.Name
	}
}

// function parses a reference to a function of the same spec.
func (d *document) function(pos Position, who, written string) (landfall.Reference, bool) {
	ref, err := landfall.ParseReference(written)
	if err != nil {
		d.problemf(pos, "%s: %s: %s", who, quote(written), landfall.MessageOf(err))
		return ref, false
	}
	if ref.Namespace != "" {
		d.problemf(pos, "%s: %s names a namespace; a trigger names a function of its own app", who, quote(written))
		return ref, false
	}
	d.reference(pos, who, functionKind, ref.Name)
	return ref, true
}

func (d *document) weights(t *Trigger, weights map[string]int64, n nodes) {
	var sum int64
	for _, written := range sortedKeys(weights) {
		percent := weights[written]
		pos := n.at("spec", "functionref", "functionweights", written)
		if percent < 0 || percent > 100 {
			d.problemf(pos, "trigger %s: a weight is a percentage from 0 to 100", t.Name)
			return
		}
		sum += percent
		if ref, ok := d.function(pos, "trigger "+t.Name, written); ok {
			t.Weights = append(t.Weights, Weight{ref, int(percent)})
		}
	}
	if len(weights) > 2 || sum != 100 {
		d.problemf(n.at("spec", "functionref", "functionweights"),
			"trigger %s: functionweights names %d functions with %d percent; it must be at most 2 with 100", t.Name,
			len(weights), sum)
	}
}

// httpMethods returns the methods of RFC 9110 and PATCH.
func httpMethods() []string {
	return []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
}

// http returns the part of HTTP triggers. As in Fission, prefix comes before relativeurl.
func (s triggerSpec) http() landfall.HTTPSource {
	methods := slices.Clone(s.Methods)
	if s.Method != "" {
		methods = append(methods, s.Method)
	}
	slices.Sort(methods)
	source := landfall.HTTPSource{Methods: slices.Compact(methods), Host: s.Host, URL: s.URL,
		Access: landfall.Access(s.Access), Sticky: landfall.Sticky(s.Sticky)}
	if s.Prefix != "" {
		source.URL, source.Prefix = s.Prefix, true
		if !s.Keep {
			source.Trim = s.Prefix
		}
	}
	return source
}

// time checks the part of time triggers.
func (d *document) time(t Trigger, n nodes) {
	if _, err := cron.Zone(t.Time.TimeZone); err != nil {
		d.problemf(n.at("spec", "timeZone"), "TimeTrigger %s: %s", t.Name, landfall.MessageOf(err))
		return
	}
	if _, err := cron.Parse(t.Time.Cron, t.Time.TimeZone); err != nil {
		d.problemf(n.at("spec", "cron"), "TimeTrigger %s: cron %s: %s", t.Name, quote(t.Time.Cron), landfall.MessageOf(err))
	}
	if !slices.Contains(httpMethods(), t.Time.Method) {
		d.problemf(n.at("spec", "method"), "TimeTrigger %s: unknown method %s; known: %s", t.Name, quote(t.Time.Method),
			strings.Join(httpMethods(), ", "))
	}
	if _, err := url.ParseRequestURI(t.Time.Subpath); err != nil || !strings.HasPrefix(t.Time.Subpath, "/") ||
		strings.HasPrefix(t.Time.Subpath, "//") {
		d.problemf(n.at("spec", "subpath"), "TimeTrigger %s: subpath %s is no path; it begins with / and may have a query",
			t.Name, quote(t.Time.Subpath))
	}
}

// http reads the part of HTTP triggers.
func (d *document) http(t *Trigger, s triggerSpec, n nodes) {
	for _, m := range t.HTTP.Methods {
		if !slices.Contains(httpMethods(), m) {
			d.problemf(n.at("spec", "method"), "HTTPTrigger %s: unknown method %s; known: %s", t.Name, quote(m),
				strings.Join(httpMethods(), ", "))
			return
		}
	}
	at := n.at("spec", "relativeurl")
	if t.HTTP.Prefix {
		at = n.at("spec", "prefix")
	}
	if s.Host != "" && !isObjectName(s.Host) {
		d.problemf(n.at("spec", "host"), "HTTPTrigger %s: %s is no host name in lower case", t.Name, quote(s.Host))
		return
	}
	switch s.Access {
	case "", "public", "token", "signed-in":
	default:
		d.problemf(n.at("spec", "access"), "HTTPTrigger %s: access is %s; it must be public, token or signed-in", t.Name,
			quote(s.Access))
	}
	d.sticky(*t, n)
	if wrong := checkRoute(*t); wrong != "" {
		d.problemf(at, "HTTPTrigger %s: %s %s", t.Name, quote(t.HTTP.URL), wrong)
		return
	}
	for segment := range strings.SplitSeq(t.HTTP.URL, "/") {
		if route.Needed(t.HTTP.URL) {
			break // the error says what it stands for
		}
		if name, parameter := strings.CutPrefix(segment, ":"); parameter {
			d.warnf(at, "HTTPTrigger %s: %s is taken as it stands; one that stands for any segment is written {%s}", t.Name,
				quote(segment), name)
		}
		if segment == "*" || segment == "**" {
			d.warnf(at,
				"HTTPTrigger %s: %s is taken as it stands; everything below a path is written with prefix in place of relativeurl",
				t.Name, quote(segment))
		}
	}
	if s.Prefix != "" && s.URL != "" {
		d.warnf(n.at("spec", "relativeurl"), "HTTPTrigger %s: relativeurl is not used beside prefix", t.Name)
	}
	d.routes = append(d.routes, servedTrigger{*t, at})
}

// sticky checks by what clients of an HTTP trigger are known.
func (d *document) sticky(t Trigger, n nodes) {
	at := n.at("spec", "sticky")
	if err := landfall.CheckSticky(t.HTTP.Sticky); err != nil {
		d.problemf(at, "HTTPTrigger %s: %s", t.Name, landfall.MessageOf(err))
	} else if t.HTTP.Sticky != "" && len(t.Weights) == 0 && t.Function.MeansRelease() {
		d.problemf(at, "HTTPTrigger %s: sticky is for functionweights, or for an alias: %s alone has one version", t.Name,
			t.Function.Name)
	}
}

// queue checks the part of queue triggers.
func (d *document) queue(t Trigger, n nodes) {
	wrong := func(err error, path ...string) {
		if err != nil {
			d.problemf(n.at(append([]string{"spec"}, path...)...), "%s %s: %s", queueKind, t.Name, landfall.MessageOf(err))
		}
	}
	if t.Queue.Topic == "" {
		d.problemf(n.at("spec", "topic"), "%s %s has no topic", queueKind, t.Name)
	} else {
		wrong(landfall.CheckTopicPattern(t.Queue.Topic), "topic")
	}
	for field, topic := range map[string]string{"respTopic": t.Queue.RespTopic, "errorTopic": t.Queue.ErrorTopic} {
		if topic != "" {
			wrong(landfall.CheckTopic(topic), field)
		}
	}
	if t.Queue.MaxRetries < 0 {
		d.problemf(n.at("spec", "maxRetries"), "%s %s: maxRetries is %d; it must be 0 or more", queueKind, t.Name,
			t.Queue.MaxRetries)
	}
}

// filters checks which events a trigger takes.
func (d *document) filters(t Trigger, kindName string, n nodes) {
	_, err := event.ParseFilters(t.Filters)
	if err == nil {
		return
	}
	path := []string{"spec", "filters"}
	if place, ok := errors.AsType[*event.FilterError](err); ok {
		path = append(path, place.Path...)
	}
	d.problemf(n.at(path...), "%s %s: %s", kindName, t.Name, landfall.MessageOf(err))
}
