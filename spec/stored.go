package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall"
)

// A version keeps its document's spec as canonical JSON, which was validated when the version was made. These read it back.

// StoredFunction is what a function's version says about running it.
type StoredFunction struct {
	Environment string
	Entrypoint  string // within the package; may be empty
	Resources   landfall.Resources
}

// ReadFunctionVersion reads the spec of a function's version. Invalid when it is none that could be run.
func ReadFunctionVersion(stored json.RawMessage) (StoredFunction, error) {
	var s struct {
		resourceFields

		Environment reference `json:"environment"`
		Package     struct {
			FunctionName string `json:"functionName"`
		} `json:"package"`
	}
	if err := json.Unmarshal(stored, &s); err != nil {
		return StoredFunction{}, unreadable(err)
	}
	resources, _, err := s.resources()
	return StoredFunction{s.Environment.Name, s.Package.FunctionName, resources}, err
}

// ReadEnvironmentVersion returns the image of an environment's version, and what it gives functions that ask for nothing.
func ReadEnvironmentVersion(stored json.RawMessage) (image string, resources landfall.Resources, err error) {
	var s struct {
		resourceFields

		Runtime struct {
			Image string `json:"image"`
		} `json:"runtime"`
	}
	if err := json.Unmarshal(stored, &s); err != nil {
		return "", resources, unreadable(err)
	}
	resources, _, err = s.resources()
	return s.Runtime.Image, resources, err
}

// ReadTriggerVersion reads the spec of an HTTP trigger's version. Invalid when it names no function that could be; what else could be
// read is returned, too.
func ReadTriggerVersion(name string, stored json.RawMessage) (Trigger, error) {
	var s triggerSpec
	if err := json.Unmarshal(stored, &s); err != nil {
		return Trigger{}, unreadable(err)
	}
	t := Trigger{Object: Object{Name: name, Spec: stored}, Kind: landfall.HTTPTrigger}
	s.route(&t)
	if s.Function.Type == byWeight {
		for _, written := range sortedKeys(s.Function.Weights) {
			ref, err := landfall.ParseReference(written)
			if err != nil {
				return t, unreadable(err)
			}
			t.Weights = append(t.Weights, Weight{ref, int(s.Function.Weights[written])})
		}
		return t, nil
	}
	ref, err := landfall.ParseReference(s.Function.written())
	t.Function = ref
	return t, err
}

func unreadable(err error) error {
	return &landfall.Error{Op: "spec.Stored", Kind: landfall.Invalid, Message: "the spec of a version cannot be read", Err: err}
}

// resourceFields are Fission's: quantities as Kubernetes writes them, times in seconds.
type resourceFields struct {
	Resources struct {
		Requests map[string]any `json:"requests"`
		Limits   map[string]any `json:"limits"`
	} `json:"resources"`
	Timeout     int64 `json:"functionTimeout"`
	IdleTimeout int64 `json:"idletimeout"`
	Concurrency int64 `json:"concurrency"`
}

// resources returns what the fields ask for; limits count before requests. When a field is wrong, it is named, and the error is
// Invalid.
func (f resourceFields) resources() (r landfall.Resources, field string, err error) {
	const longest = 24 * 60 * 60 // seconds
	for _, seconds := range []struct {
		field string
		value int64
		to    *time.Duration
	}{{"functionTimeout", f.Timeout, &r.Timeout}, {"idletimeout", f.IdleTimeout, &r.IdleTimeout}} {
		if seconds.value < 0 || seconds.value > longest {
			return r, seconds.field, wrongf("%s is %d; it is a number of seconds from 0 to %d", seconds.field, seconds.value, longest)
		}
		*seconds.to = time.Duration(seconds.value) * time.Second
	}
	const most = 10_000
	if f.Concurrency < 0 || f.Concurrency > most {
		return r, "concurrency", wrongf("concurrency is %d; it is a number from 0 to %d", f.Concurrency, most)
	}
	r.Concurrency = int(f.Concurrency)
	for _, given := range []map[string]any{f.Resources.Requests, f.Resources.Limits} {
		for name, to := range map[string]func(float64){
			"memory":            func(v float64) { r.Memory = int64(v) },
			"ephemeral-storage": func(v float64) { r.Disk = int64(v) },
			"cpu":               func(v float64) { r.MilliCPU = int(math.Ceil(v * 1000)) },
		} {
			value, ok := given[name]
			if !ok {
				continue
			}
			v, ok := quantity(fmt.Sprint(value))
			if !ok {
				return r, "resources", wrongf("resources: %s is %v; it is a quantity such as 128Mi or 500m", name, value)
			}
			to(v)
		}
	}
	return r, "", nil
}

func wrongf(format string, args ...any) error {
	return &landfall.Error{Op: "spec.Resources", Kind: landfall.Invalid, Message: fmt.Sprintf(format, args...)}
}

// quantity reads a positive quantity of Kubernetes: 128Mi, 0.5, 500m, 1G.
func quantity(written string) (float64, bool) {
	const kibi, kilo = 1024, 1000
	units := []struct {
		suffix string
		factor float64
	}{
		{"Ki", kibi}, {"Mi", kibi * kibi}, {"Gi", kibi * kibi * kibi}, {"Ti", kibi * kibi * kibi * kibi},
		{"m", 1.0 / kilo}, {"k", kilo}, {"M", kilo * kilo}, {"G", kilo * kilo * kilo}, {"T", kilo * kilo * kilo * kilo},
	}
	factor, number := 1.0, written
	for _, u := range units {
		if rest, ok := strings.CutSuffix(written, u.suffix); ok {
			factor, number = u.factor, rest
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	v *= factor
	const most = 1 << 50
	return v, err == nil && v > 0 && v <= most && strings.Trim(number, "0123456789.eE+-") == ""
}
