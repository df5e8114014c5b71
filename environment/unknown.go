package environment

import (
	"fmt"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// UnknownEnvironments finds the functions of a spec whose environment is not known, so that they cannot be run.
func UnknownEnvironments(s *spec.Spec) []spec.Problem {
	var problems []spec.Problem
	for _, f := range s.Functions {
		e, defined := s.Environment(f.Environment)
		if _, err := Of(e); err != nil {
			why := landfall.MessageOf(err)
			if !defined {
				why = fmt.Sprintf("the spec has no Environment %q, and %s", f.Environment, why)
			}
			problems = append(problems, spec.Problem{Pos: f.Pos,
				Message: fmt.Sprintf("Function %s will not run: %s", f.Name, why)})
		}
	}
	return problems
}

// WithoutNetwork warns about functions of a spec that ask for a network and get none, because they are modules.
func WithoutNetwork(s *spec.Spec) []spec.Problem {
	networked := spec.NetworkFunctions(s)
	var warnings []spec.Problem
	for _, f := range s.Functions {
		e, _ := s.Environment(f.Environment)
		env, err := Of(e)
		if err == nil && env.Modules() && slices.Contains(networked, f.Name) {
			warnings = append(warnings, spec.Problem{Pos: f.Pos,
				Message: fmt.Sprintf("Function %s will have no network: a WebAssembly module gets none", f.Name)})
		}
	}
	return warnings
}
