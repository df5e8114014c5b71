package environment

import (
	"fmt"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// Unknown finds the functions of a spec that cannot be run because their environment is none of ours.
func Unknown(s *spec.Spec) []spec.Problem {
	runtimes := runtimesOf(s)
	var problems []spec.Problem
	for _, f := range s.Functions {
		runtime, defined := runtimes[f.Environment]
		if _, err := Of(f.Environment, runtime); err != nil {
			why := landfall.MessageOf(err)
			if !defined {
				why = fmt.Sprintf("the spec has no Environment %q, and %s", f.Environment, why)
			}
			problems = append(problems, spec.Problem{Pos: f.Pos, Message: fmt.Sprintf("Function %s will not run: %s", f.Name, why)})
		}
	}
	return problems
}

// runtimesOf returns the runtimes of the environments that a spec defines, by their names.
func runtimesOf(s *spec.Spec) map[string]spec.Runtime {
	runtimes := map[string]spec.Runtime{}
	for _, e := range s.Environments {
		if runtime, _, err := spec.ReadEnvironmentVersion(e.Spec); err == nil {
			runtimes[e.Name] = runtime
		}
	}
	return runtimes
}

// Offline warns of the functions of a spec that ask for a network and get none: those that are modules.
func Offline(s *spec.Spec) []spec.Problem {
	runtimes, networked := runtimesOf(s), spec.Networked(s)
	var warnings []spec.Problem
	for _, f := range s.Functions {
		env, err := Of(f.Environment, runtimes[f.Environment])
		if err == nil && env.Modules() && slices.Contains(networked, f.Name) {
			warnings = append(warnings, spec.Problem{Pos: f.Pos, Message: fmt.Sprintf("Function %s will have no network: a WebAssembly module gets none", f.Name)})
		}
	}
	return warnings
}
