package environment_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

func TestUnknown(t *testing.T) {
	t.Parallel()
	function := func(name, environment string) spec.Function {
		return spec.Function{Object: spec.Object{Name: name, Pos: spec.Position{File: "specs/a.yaml", Line: 7}},
			Environment: environment}
	}
	got := environment.UnknownEnvironments(&spec.Spec{
		Functions: []spec.Function{function("a", "python"), function("b", "pyhton"), function("c", "mine"),
			function("d", "ruby")},
		Environments: []spec.Environment{
			{Object: spec.Object{Name: "mine", Spec: []byte(`{"runtime":{"image":"fission/node-env:1"}}`)}},
			{Object: spec.Object{Name: "ruby", Spec: []byte(`{"runtime":{"image":"fission/ruby-env"}}`)}},
		},
	})
	if len(got) != 2 || !strings.HasPrefix(got[0].String(),
		`specs/a.yaml:7: Function b will not run: the spec has no Environment "pyhton", and functions cannot run in the environment "pyhton"`) ||
		!strings.Contains(got[1].String(), "Function d will not run: functions cannot") {
		t.Errorf("got %v, want problems of b and d", got)
	}
}
