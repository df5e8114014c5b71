package environment

import (
	"fmt"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// Unknown warns of the functions of a spec whose environment is none of ours: they are versioned, and cannot be run.
func Unknown(s *spec.Spec) []spec.Problem {
	images := map[string]string{}
	for _, e := range s.Environments {
		image, _, err := spec.ReadEnvironmentVersion(e.Spec)
		if err == nil {
			images[e.Name] = image
		}
	}
	var warnings []spec.Problem
	for _, f := range s.Functions {
		if _, err := Of(f.Environment, images[f.Environment]); err != nil {
			warnings = append(warnings, spec.Problem{Pos: f.Pos, Message: fmt.Sprintf("Function %s will not run: %s", f.Name, landfall.MessageOf(err))})
		}
	}
	return warnings
}
