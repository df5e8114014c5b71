package spec

import (
	"cmp"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// functionSpec is a function reference as a trigger writes it.
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
)

// written returns the reference as one text.
func (f functionSpec) written() string {
	if selector := cmp.Or(f.Version, f.Alias); selector != "" {
		return f.Name + ":" + selector
	}
	return f.Name
}

// triggerSpec is what has a meaning here of all kinds of triggers.
type triggerSpec struct {
	Function functionSpec `json:"functionref"`

	Host    string   `json:"host"`
	URL     string   `json:"relativeurl"`
	Prefix  string   `json:"prefix"`
	Method  string   `json:"method"`
	Methods []string `json:"methods"`
	Access  string   `json:"access"`
	Cron    string   `json:"cron"`
	Topic   string   `json:"topic"`
}

// readTrigger returns the reader of one kind of trigger.
func readTrigger(kind landfall.UnitKind) func(*document, Object, map[string]any, nodes) {
	return func(d *document, o Object, spec map[string]any, n nodes) {
		fillTrigger(kind, spec)
		var known triggerSpec
		if !d.finish(&o, spec, &known) {
			return
		}
		t := Trigger{Object: o, Kind: kind}
		d.target(&t, known.Function, n)
		switch {
		case kind == landfall.HTTPTrigger:
			d.http(&t, known, n)
		case kind == landfall.TimeTrigger && strings.TrimSpace(known.Cron) == "":
			d.problemf(n.at("spec", "cron"), "TimeTrigger %s has no cron", o.Name)
		case kind == landfall.QueueTrigger && known.Topic == "":
			d.problemf(n.at("spec", "topic"), "MessageQueueTrigger %s has no topic", o.Name)
		}
		d.spec.Triggers = append(d.spec.Triggers, t)
	}
}

// fillTrigger fills in what Fission means by an absent field.
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
		t.Function, _ = d.function(n.at("spec", "functionref", "name"), who, f.written())
	case byWeight:
		d.weights(t, f.Weights, n)
	case "":
		d.problemf(at, "%s names no function (spec.functionref.name)", who)
	default:
		d.problemf(n.at("spec", "functionref", "type"), "functionref.type is %s; it must be %s or %s", quote(f.Type),
			byName, byWeight)
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

// httpMethods are those of RFC 9110 and PATCH.
func httpMethods() []string {
	return []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
}

// route fills in what only HTTP triggers have. As in Fission, prefix counts before relativeurl.
func (s triggerSpec) route(t *Trigger) {
	methods := slices.Clone(s.Methods)
	if s.Method != "" {
		methods = append(methods, s.Method)
	}
	slices.Sort(methods)
	t.Methods, t.Host, t.URL, t.Access = slices.Compact(methods), s.Host, s.URL, s.Access
	if s.Prefix != "" {
		t.URL, t.Prefix = s.Prefix, true
	}
}

// http reads what only HTTP triggers have.
func (d *document) http(t *Trigger, s triggerSpec, n nodes) {
	s.route(t)
	for _, m := range t.Methods {
		if !slices.Contains(httpMethods(), m) {
			d.problemf(n.at("spec", "method"), "HTTPTrigger %s: unknown method %s; known: %s", t.Name, quote(m),
				strings.Join(httpMethods(), ", "))
			return
		}
	}
	at := n.at("spec", "relativeurl")
	if t.Prefix {
		at = n.at("spec", "prefix")
	}
	if s.Host != "" && !isObjectName(s.Host) {
		d.problemf(n.at("spec", "host"), "HTTPTrigger %s: %s is no host name in lower case", t.Name, quote(s.Host))
		return
	}
	switch s.Access {
	case "", "public", "token":
	case "signed-in":
		d.warnf(n.at("spec", "access"), "HTTPTrigger %s: access signed-in is not followed yet, so the route refuses everybody; token works", t.Name)
	default:
		d.problemf(n.at("spec", "access"), "HTTPTrigger %s: access is %s; it must be public, token or signed-in", t.Name,
			quote(s.Access))
	}
	if wrong := checkRoute(*t); wrong != "" {
		d.problemf(at, "HTTPTrigger %s: %s %s", t.Name, quote(t.URL), wrong)
		return
	}
	d.routes = append(d.routes, route{*t, at})
}
