package spec

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// These say how the programs of an environment read requests.
const (
	Events   = "events"   // they read events, and answer with events
	Requests = "requests" // they get requests as Fission's binary environment passes them
	Either   = "either"   // programs that know CloudEvents read events; the others get requests
)

// runtimeSpec is the runtime in a document or a stored version. The container of earlier versions may be anything,
// because it was not checked.
type runtimeSpec struct {
	Image     string          `json:"image"`
	Programs  string          `json:"programs"`
	Container json.RawMessage `json:"container"`
}

// variables returns the variables of the container, in their order. A stored container that cannot be read has none.
func (s runtimeSpec) variables() []variableSpec {
	var container struct {
		Env []variableSpec `json:"env"`
	}
	if json.Unmarshal(s.Container, &container) != nil {
		return nil
	}
	return container.Env
}

type variableSpec struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// environment returns what a version says about the environment with a name.
func (s runtimeSpec) environment(name string) landfall.Environment {
	r := landfall.Environment{Name: name, Image: s.Image, Programs: s.Programs}
	for _, v := range s.variables() {
		if containerVariable.MatchString(v.Name) {
			if r.Env == nil {
				r.Env = map[string]string{}
			}
			r.Env[v.Name] = v.Value
		}
	}
	return r
}

// containerVariable matches the names of variables that Kubernetes accepts.
var containerVariable = regexp.MustCompile(`^[-._A-Za-z][-._A-Za-z0-9]*$`)

// These are the names of Fission's binary environment: of an environment, and of an image.
var (
	binaryName  = regexp.MustCompile(`^binary([^a-z].*)?$`)
	binaryImage = regexp.MustCompile(`^binary-[a-z0-9-]*env`)
)

// fillPrograms says of a binary environment that its programs may be Fission's, if its image has an owner or a registry
// before its name, as Fission's images have. Programs of the image binary-env are ours, and read events.
func fillPrograms(name string, spec map[string]any) {
	runtime, _ := spec["runtime"].(map[string]any)
	image, _ := runtime["image"].(string)
	if said, _ := runtime["programs"].(string); said != "" || !strings.Contains(image, "/") {
		return
	}
	if binaryName.MatchString(name) || binaryImage.MatchString(path.Base(image)) {
		runtime["programs"] = Either
	}
}

// checkRuntime reports problems of a runtime.
func (d *document) checkRuntime(environment string, s runtimeSpec, n nodes) {
	switch s.Programs {
	case "", Events, Requests, Either:
	default:
		d.problemf(n.at("spec", "runtime", "programs"), "Environment %s: runtime.programs is %s; it must be %s, %s or %s",
			environment, quote(s.Programs), Events, Requests, Either)
	}
	for _, v := range s.variables() {
		switch at := n.at("spec", "runtime", "container", "env"); {
		case !containerVariable.MatchString(v.Name):
			d.problemf(at, "Environment %s: runtime.container.env: %s is no name of a variable", environment, quote(v.Name))
		case strings.HasPrefix(strings.ToUpper(v.Name), "LANDFALL_"):
			d.problemf(at, "Environment %s: runtime.container.env: %s begins with LANDFALL_, which only the server sets",
				environment, quote(v.Name))
		}
	}
}

// Environment returns the environment with a name. It has only the name when the spec does not define it, or it cannot
// be read.
func (s *Spec) Environment(name string) (e landfall.Environment, defined bool) {
	i := slices.IndexFunc(s.Environments, func(e Environment) bool { return e.Name == name })
	if i < 0 {
		return landfall.Environment{Name: name}, false
	}
	e, _, err := ReadEnvironmentVersion(name, s.Environments[i].Spec)
	return e, err == nil
}

// ReadEnvironmentVersion returns what a version says about the environment with a name, and the resources of functions
// that ask for none. Without a version only the name is known.
func ReadEnvironmentVersion(name string, stored json.RawMessage) (landfall.Environment, landfall.Resources, error) {
	if len(stored) == 0 {
		return landfall.Environment{Name: name}, landfall.Resources{}, nil
	}
	var s struct {
		resourceFields

		Runtime runtimeSpec `json:"runtime"`
	}
	if err := json.Unmarshal(stored, &s); err != nil {
		return landfall.Environment{Name: name}, landfall.Resources{}, versionError(err)
	}
	resources, _, err := s.resources()
	return s.Runtime.environment(name), resources, err
}
