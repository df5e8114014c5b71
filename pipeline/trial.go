package pipeline

import (
	"context"
	"encoding/json"
	"strconv"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/spec"
)

// Trials runs functions that are not released yet, for the tests of their contracts.
type Trials interface {
	// Try calls a function with an event, and returns its answer. Each secret of the function has the value
	// secret.StandIn. Invalid, with a sentence, when the function gave no answer.
	Try(ctx context.Context, f landfall.Function, e event.Event) (event.Event, error)
	// Done ends the processes of the function with that ID.
	Done(id string)
}

// requireTests fails for a function without a test, if the installation only releases tested functions.
func (s source) requireTests() error {
	for _, f := range s.spec.Functions {
		tests, err := f.Contract.Tests()
		if err == nil && s.RequireTests && len(tests) == 0 {
			err = landfall.Errorf("pipeline.read", landfall.Invalid,
				"%s: Function %s has no test, and this installation releases only functions that pass one "+
					"(LANDFALL_REQUIRE_TESTS): "+"add one below spec.contract.tests", f.Pos, f.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// test runs the tests of the functions that have a new version. Nothing of the run is visible yet.
func (k storedPlan) test(ctx context.Context) error {
	for i := range k.spec.Functions {
		f := &k.spec.Functions[i]
		tests, err := f.Contract.Tests()
		if _, known := k.current[landfall.UnitID{Kind: landfall.FunctionUnit, Name: f.Name}]; err != nil || known ||
			len(tests) == 0 {
			continue // an existing version has passed them
		}
		if err := k.testFunction(ctx, f); err != nil {
			return err
		}
		k.logf("Function %s: %s passed", f.Name, landfall.Count(len(tests), "test"))
	}
	return nil
}

func (k storedPlan) testFunction(ctx context.Context, f *spec.Function) error {
	tests, err := f.Contract.Tests()
	if err != nil {
		return err
	}
	trial, err := k.trial(f)
	if err != nil {
		return err
	}
	defer k.Trials.Done(trial.ID)
	for i, t := range tests {
		e, err := t.Request()
		if err != nil {
			return err
		}
		answer, err := k.Trials.Try(ctx, trial, e)
		if err == nil {
			err = t.Judge(f.Contract, answer)
		} else if kind := landfall.KindOf(err); kind != landfall.Invalid && kind != landfall.NotFound &&
			kind != landfall.Conflict {
			return err // not the function's fault
		}
		if err != nil {
			return landfall.Errorf("pipeline.test", landfall.Invalid, "%s: Function %s: the test %s failed: %s", f.TestPos(i),
				f.Name, strconv.Quote(t.Name), landfall.MessageOf(err))
		}
	}
	return nil
}

// trial returns the function as it would be released, with an ID of its own, and secrets without a value.
func (k storedPlan) trial(declared *spec.Function) (landfall.Function, error) {
	f, err := spec.ReadFunctionVersion(declared.Spec)
	if err != nil {
		return f, err
	}
	f.ID = "test " + k.run.ID + " " + strconv.FormatInt(k.run.Attempt, 10) + " " + declared.Name
	f.Namespace, f.Name, f.Version = k.app.Namespace, declared.Name, k.run.UID
	for _, e := range k.spec.Environments {
		if e.Name != declared.Environment {
			continue
		}
		var resources landfall.Resources
		if f.Environment, resources, err = spec.ReadEnvironmentVersion(e.Name, e.Spec); err != nil {
			return f, err
		}
		f.Resources = f.Resources.Or(resources)
	}
	f.Resources.KeepWarm = 0
	var config json.RawMessage
	if k.spec.App != nil {
		config = k.spec.App.Config
	}
	if f.Config, err = spec.ReadConfigVersion(config); err != nil {
		return f, err
	}
	id := landfall.UnitID{Kind: landfall.PackageUnit, Name: declared.Package}
	content := k.current[id].content()
	if stored, ok := k.stored[id]; ok {
		content = stored.Content
	}
	archives, err := landfall.ReadContent[landfall.PackageContent](content)
	if archives.Deployment != nil {
		f.Package = *archives.Deployment
	}
	return f, err
}
