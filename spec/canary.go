package spec

import (
	"slices"
	"time"

	"landfall.dev/landfall"
)

// readCanary reads a CanaryConfig, whose defaults are those of Fission's command line.
func readCanary(d *document, o Object, spec map[string]any, n nodes) {
	var known struct {
		Trigger     string `json:"trigger"`
		Newer       string `json:"newfunction"`
		Older       string `json:"oldfunction"`
		Step        *int   `json:"weightincrement"`
		Interval    string `json:"duration"`
		Threshold   *int   `json:"failurethreshold"`
		FailureType string `json:"failureType"`
	}
	if !d.finish(&o, spec, &known) {
		return
	}
	c := landfall.DeclaredCanary{Name: o.Name, Trigger: known.Trigger, Newer: known.Newer, Older: known.Older,
		CanaryRule: landfall.DefaultCanaryRule()}
	wrong := func(field, format string, args ...any) {
		d.problemf(n.at("spec", field), "CanaryConfig %s: "+format, append([]any{o.Name}, args...)...)
	}
	if known.Step != nil {
		c.Step = *known.Step
	}
	if known.Threshold != nil {
		c.Threshold = *known.Threshold
	}
	if known.Interval != "" {
		var err error
		if c.Interval, err = time.ParseDuration(known.Interval); err != nil {
			wrong("duration", "duration is %s; right would be 30s, 2m or 1h", quote(known.Interval))
			return
		}
	}
	for _, name := range []struct{ field, value string }{{"trigger", c.Trigger}, {"newfunction", c.Newer},
		{"oldfunction", c.Older}} {
		if name.value == "" {
			wrong(name.field, "%s is missing", name.field)
			return
		}
	}
	if known.FailureType != "" && known.FailureType != "status-code" {
		wrong("failureType", "failureType is %s; there is status-code", quote(known.FailureType))
	}
	if err := landfall.CheckCanaryRule(c.CanaryRule); err != nil {
		wrong("weightincrement", "%s", landfall.MessageOf(err))
	}
	d.spec.Canaries = append(d.spec.Canaries, Canary{o, c})
}

// checkCanaries warns about canaries that will move nothing, since their triggers do not lead to both functions.
func (r *reader) checkCanaries() {
	for _, declared := range r.spec.Canaries {
		c := declared.Declared
		i := slices.IndexFunc(r.spec.Triggers, func(t Trigger) bool {
			return t.Kind == landfall.HTTPTrigger && t.Name == c.Trigger
		})
		if i < 0 || !r.spec.Triggers[i].shares(c.Newer) || !r.spec.Triggers[i].shares(c.Older) {
			r.warnf(declared.Pos, "CanaryConfig %s moves nothing: no HTTPTrigger %s of the spec has the functions %s and %s "+
				"among its functionweights", c.Name, c.Trigger, c.Older, c.Newer)
		}
	}
}

// shares reports whether a trigger gives a function a weight.
func (t Trigger) shares(written string) bool {
	ref, err := landfall.ParseReference(written)
	return err == nil && slices.ContainsFunc(t.Weights, func(w Weight) bool { return w.Function == ref })
}
