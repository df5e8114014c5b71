package environment

import (
	"fmt"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// Unknown warns of the functions of a spec that do not get what they ask for: those whose environment is none of ours are versioned, and
// cannot be run; those that are modules have no network.
func Unknown(s *spec.Spec) []spec.Problem {
	images, networked := map[string]string{}, spec.Networked(s)
	for _, e := range s.Environments {
		image, _, err := spec.ReadEnvironmentVersion(e.Spec)
		if err == nil {
			images[e.Name] = image
		}
	}
	var warnings []spec.Problem
	for _, f := range s.Functions {
		image, defined := images[f.Environment]
		env, err := Of(f.Environment, image)
		if err != nil {
			why := landfall.MessageOf(err)
			if !defined {
				why = fmt.Sprintf("the spec has no Environment %q, and %s", f.Environment, why)
			}
			warnings = append(warnings, spec.Problem{Pos: f.Pos, Message: fmt.Sprintf("Function %s will not run: %s", f.Name, why)})
			continue
		}
		if env.Modules() && slices.Contains(networked, f.Name) {
			warnings = append(warnings, spec.Problem{Pos: f.Pos, Message: fmt.Sprintf("Function %s will have no network: a WebAssembly module gets none", f.Name)})
		}
	}
	return warnings
}
