package spec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall"
)

// A version keeps its document's spec as canonical JSON, which was validated when the version was made. These functions
// read it.

// ReadFunctionVersion returns what the spec of a function's version says about running it. Its environment and secrets
// have only names. Invalid when it cannot be run.
func ReadFunctionVersion(stored json.RawMessage) (f landfall.Function, err error) {
	var s struct {
		resourceFields
		bodyFields
		retryFields

		Contract    json.RawMessage `json:"contract"`
		Secrets     []reference     `json:"secrets"`
		ConfigMaps  json.RawMessage `json:"configmaps"`
		Environment reference       `json:"environment"`
		Package     struct {
			FunctionName string `json:"functionName"`
		} `json:"package"`
	}
	if err := json.Unmarshal(stored, &s); err != nil {
		return f, versionError(err)
	}
	f = landfall.Function{
		Environment: landfall.Environment{Name: s.Environment.Name}, Entrypoint: s.Package.FunctionName,
		Folders: folders(s.Secrets, s.ConfigMaps), Contract: s.Contract,
	}
	for _, named := range s.Secrets {
		f.Secrets = append(f.Secrets, landfall.SealedSecret{Name: named.Name})
	}
	if f.Resources, _, err = s.resources(); err != nil {
		return f, err
	}
	if f.Body, _, err = s.body(); err != nil {
		return f, err
	}
	if s.Retries != nil {
		f.Retries = *s.Retries
	}
	return f, s.check()
}

// ReadPackageVersion returns the environment and the build command in the spec of a package's version; nothing without
// one.
func ReadPackageVersion(stored json.RawMessage) (env, build string, err error) {
	if len(stored) == 0 {
		return "", "", nil
	}
	s := &struct {
		Environment reference `json:"environment"`
		Build       string    `json:"buildcmd"`
	}{}
	if err := json.Unmarshal(stored, &s); err != nil || s == nil {
		return "", "", versionError(cmp.Or(err, errors.New("it is null")))
	}
	return s.Environment.Name, s.Build, nil
}

// ReadPackage returns the name of the package that a function's version names.
func ReadPackage(stored json.RawMessage) string {
	var s struct {
		Package struct {
			Ref reference `json:"packageref"`
		} `json:"package"`
	}
	_ = json.Unmarshal(stored, &s) // it was read before
	return s.Package.Ref.Name
}

// ReadNetwork reports whether a function may reach the network. Its version decides, or else the version of its
// environment, which may not exist.
func ReadNetwork(function, environment json.RawMessage) (bool, error) {
	for _, stored := range []json.RawMessage{function, environment} {
		var s struct {
			External *bool `json:"allowAccessToExternalNetwork"`
		}
		if len(stored) == 0 {
			continue
		}
		if err := json.Unmarshal(stored, &s); err != nil {
			return false, versionError(err)
		}
		if s.External != nil {
			return *s.External, nil
		}
	}
	return false, nil
}

// NetworkFunctions returns the names of the functions that may reach the network.
func NetworkFunctions(s *Spec) []string {
	environments := map[string]json.RawMessage{}
	for _, e := range s.Environments {
		environments[e.Name] = e.Spec
	}
	var names []string
	for _, f := range s.Functions {
		if network, err := ReadNetwork(f.Spec, environments[f.Environment]); err == nil && network {
			names = append(names, f.Name)
		}
	}
	return names
}

// ReadConfigVersion returns the configuration of an app as its functions get it: text as it is, everything else as
// JSON. Without a version it is empty.
func ReadConfigVersion(stored json.RawMessage) (map[string]string, error) {
	config := map[string]string{}
	if len(stored) == 0 {
		return config, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(stored, &values); err != nil {
		return nil, versionError(err)
	}
	for name, value := range values {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		config[name] = text
	}
	return config, nil
}

// WithResources returns the spec of a function's version with other resources. Zero fields change nothing, and
// Concurrency and KeepWarm stay. Invalid when they are out of bounds.
func WithResources(stored json.RawMessage, r landfall.Resources) (json.RawMessage, error) {
	function, err := ReadFunctionVersion(stored)
	if err != nil {
		return nil, err
	}
	r.Concurrency, r.KeepWarm = function.Resources.Concurrency, function.Resources.KeepWarm
	if r == function.Resources {
		return stored, nil
	}
	fields := map[string]any{}
	if err := DecodeNumbers(stored, &fields); err != nil {
		return nil, versionError(err)
	}
	for _, ours := range []string{"resources", "functionTimeout", "idletimeout"} {
		delete(fields, ours)
	}
	maps.Copy(fields, ResourceFields(r))
	data, err := Canonical(fields)
	if err != nil {
		return nil, versionError(err)
	}
	_, err = ReadFunctionVersion(data)
	return data, err
}

// ResourceFields returns resources in the form of the spec of a function or a trigger.
func ResourceFields(r landfall.Resources) map[string]any {
	fields, limits := map[string]any{}, map[string]any{}
	if r.Memory > 0 {
		limits["memory"] = strconv.FormatInt(r.Memory, 10)
	}
	if r.MilliCPU > 0 {
		limits["cpu"] = strconv.Itoa(r.MilliCPU) + "m"
	}
	if r.Disk > 0 {
		limits["ephemeral-storage"] = strconv.FormatInt(r.Disk, 10)
	}
	if len(limits) > 0 {
		fields["resources"] = map[string]any{"limits": limits}
	}
	if r.Timeout > 0 {
		fields["functionTimeout"] = int64(r.Timeout / time.Second)
	}
	if r.IdleTimeout > 0 {
		fields["idletimeout"] = int64(r.IdleTimeout / time.Second)
	}
	return fields
}

// ReadBuilder returns the command that builds the sources of an environment's packages when they name none; empty when
// there is none.
func ReadBuilder(stored json.RawMessage) string {
	var s struct {
		Builder struct {
			Command string `json:"command"`
		} `json:"builder"`
	}
	_ = json.Unmarshal(stored, &s) // it was read before
	return strings.TrimSpace(s.Builder.Command)
}

// ReadPullSecret returns the name of the secret with which an environment's image is pulled; empty when it names none.
func ReadPullSecret(stored json.RawMessage) string {
	var s struct {
		Secret string `json:"imagepullsecret"`
	}
	_ = json.Unmarshal(stored, &s) // it was read before
	return s.Secret
}

// ReadTriggerVersion reads the spec of a trigger's version. Invalid when it names no possible function; everything else
// that could be read is returned, too.
func ReadTriggerVersion(unit landfall.UnitID, stored json.RawMessage) (Trigger, error) {
	var s triggerSpec
	if err := json.Unmarshal(stored, &s); err != nil {
		return Trigger{Trigger: landfall.Trigger{Kind: unit.Kind}, Object: Object{Name: unit.Name}}, versionError(err)
	}
	read, _, err := s.trigger(unit.Kind)
	t := Trigger{Object: Object{Name: unit.Name, Spec: stored}, Trigger: read}
	if err != nil {
		return t, err
	}
	if s.Function.Type == byWeight {
		for _, written := range sortedKeys(s.Function.Weights) {
			ref, err := landfall.ParseReference(written)
			if err != nil {
				return t, versionError(err)
			}
			t.Weights = append(t.Weights, Weight{ref, int(s.Function.Weights[written])})
		}
		return t, nil
	}
	if s.Function.Type == byTag {
		t.Tag = s.Function.Name
		return t, nil
	}
	ref, err := landfall.ParseReference(s.Function.text())
	t.Function = ref
	return t, err
}

func versionError(err error) error {
	return landfall.Wrapf("spec.Stored", landfall.Invalid, err, "the spec of a version cannot be read")
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
	KeepWarm    int64 `json:"keep_warm"`
}

// resources returns what the fields ask for; limits come before requests. When a field is wrong, it is named, and the
// error is Invalid.
func (f resourceFields) resources() (r landfall.Resources, field string, err error) {
	const longest = 24 * 60 * 60 // seconds
	for _, seconds := range []struct {
		field string
		value int64
		to    *time.Duration
	}{{"functionTimeout", f.Timeout, &r.Timeout}, {"idletimeout", f.IdleTimeout, &r.IdleTimeout}} {
		if seconds.value < 0 || seconds.value > longest {
			return r, seconds.field, wrongf("%s is %d; it is a number of seconds from 0 to %d", seconds.field,
				seconds.value, longest)
		}
		*seconds.to = time.Duration(seconds.value) * time.Second
	}
	const most = 10_000
	if f.Concurrency < 0 || f.Concurrency > most {
		return r, "concurrency", wrongf("concurrency is %d; it is a number from 0 to %d", f.Concurrency, most)
	}
	r.Concurrency = int(f.Concurrency)
	if f.KeepWarm < 0 || f.KeepWarm > most {
		return r, keepWarm, wrongf("%s is %d; it is a number of processes from 0 to %d", keepWarm, f.KeepWarm, most)
	}
	if f.Concurrency > 0 && f.KeepWarm > f.Concurrency {
		return r, keepWarm, wrongf("%s is %d, and concurrency allows %d processes", keepWarm, f.KeepWarm, f.Concurrency)
	}
	r.KeepWarm = int(f.KeepWarm)
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

// These are our additions to Fission's fields.
const (
	keepWarm   = "keep_warm" // beside concurrency
	streamBody = "stream_body"
	maxBody    = "max_body"
)

// bodyFields say how a function gets the body of a request.
type bodyFields struct {
	Stream bool   `json:"stream_body"`
	Max    string `json:"max_body"`
}

// body returns how many bytes a body may have when the function gets it in parts; 0 when it gets bodies as a whole.
// When a field is wrong, it is named, and the error is Invalid.
func (f bodyFields) body() (most int64, field string, err error) {
	const usual = 1 << 30
	switch {
	case !f.Stream && f.Max != "":
		return 0, maxBody, wrongf("%s is the bound of a body that comes in parts; set %s: true, or leave it out", maxBody,
			streamBody)
	case !f.Stream:
		return 0, "", nil
	case f.Max == "":
		return usual, "", nil
	}
	v, ok := quantity(f.Max)
	if !ok || v < 1 {
		return 0, maxBody, wrongf("%s is %s; it is a quantity of bytes such as 100Mi or 2Gi", maxBody, f.Max)
	}
	return int64(v), "", nil
}

// retryFields say how often a call that nobody waits for is tried again when it fails.
type retryFields struct {
	Retries *int `json:"retries"`
}

// check returns an Invalid error when the number cannot be.
func (f retryFields) check() error {
	const most = 20 // the last of them more than an hour after the first
	if f.Retries != nil && (*f.Retries < 0 || *f.Retries > most) {
		return wrongf("retries is %d; it is a number from 0 to %d", *f.Retries, most)
	}
	return nil
}

// external is Fission's field of environments, which functions may have here, too.
const external = "allowAccessToExternalNetwork"

func wrongf(format string, args ...any) error {
	return landfall.Errorf("spec.Resources", landfall.Invalid, format, args...)
}

// quantity reads a positive quantity in the form of Kubernetes: 128Mi, 0.5, 500m, 1G.
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
