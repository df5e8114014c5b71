package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
)

// Trials runs functions that are not released yet, for the tests of their contracts.
type Trials interface {
	// Try gives an event to a function and returns its answer. Invalid, with a sentence, when the function gave none.
	Try(ctx context.Context, t Trial, e event.Event) (event.Event, error)
	// Done ends what runs of the trial with that ID.
	Done(id string)
}

// Trial is a function that is not released yet.
type Trial struct {
	ID         string // of this trial alone
	Namespace  string
	Name       string
	Version    landfall.UID // that it would be
	Env        string       // its environment
	Runtime    spec.Runtime // of that
	Package    ArchiveContent
	Entrypoint string
	Resources  landfall.Resources
	Body       int64 // as a version has it: the function takes bodies in parts
	Config     map[string]string
	Secrets    []string // names of those that it gets, each with the value StandInSecret
	Folders    []string // as a version has them
}

// StandInSecret is what a function gets for each of its secrets while it is tested: what comes of a test is shown.
const StandInSecret secret.Text = "test"

// requireTests fails for a function without a test where the installation releases none such.
func (w *worker) requireTests() error {
	for _, f := range w.spec.Functions {
		tests, err := f.Contract.Tests()
		if err == nil && w.RequireTests && len(tests) == 0 {
			err = &landfall.Error{Op: "pipeline.read", Kind: landfall.Invalid, Message: fmt.Sprintf(
				"%s: Function %s has no test, and this installation releases only functions that pass one (LANDFALL_REQUIRE_TESTS): "+
					"add one below spec.contract.tests", f.Pos, f.Name)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// test runs the tests of the functions of which there is a new version. Nothing of it is visible yet.
func (w *worker) test(ctx context.Context) error {
	for i := range w.spec.Functions {
		f := &w.spec.Functions[i]
		tests, err := f.Contract.Tests()
		if _, known := w.current[landfall.UnitID{Kind: landfall.FunctionUnit, Name: f.Name}]; err != nil || known || len(tests) == 0 {
			continue // a version that there is has passed them
		}
		if err := w.testFunction(ctx, f); err != nil {
			return err
		}
		w.sayf("Function %s: %s passed", f.Name, count(len(tests), "test"))
	}
	return nil
}

func (w *worker) testFunction(ctx context.Context, f *spec.Function) error {
	tests, err := f.Contract.Tests()
	if err != nil {
		return err
	}
	trial, err := w.trial(f)
	if err != nil {
		return err
	}
	defer w.Trials.Done(trial.ID)
	for i, t := range tests {
		e, err := t.Request()
		if err != nil {
			return err
		}
		answer, err := w.Trials.Try(ctx, trial, e)
		if err == nil {
			err = t.Judge(f.Contract, answer)
		} else if kind := landfall.KindOf(err); kind != landfall.Invalid && kind != landfall.NotFound && kind != landfall.Conflict {
			return err // not the function's fault
		}
		if err != nil {
			return &landfall.Error{Op: "pipeline.test", Kind: landfall.Invalid, Message: fmt.Sprintf(
				"%s: Function %s: the test %s failed: %s", f.TestPos(i), f.Name, strconv.Quote(t.Name), landfall.MessageOf(err))}
		}
	}
	return nil
}

// trial returns the function as it would be released, but for its secrets.
func (w *worker) trial(f *spec.Function) (Trial, error) {
	stored, err := spec.ReadFunctionVersion(f.Spec)
	if err != nil {
		return Trial{}, err
	}
	t := Trial{
		ID: "test " + w.run.ID + " " + strconv.FormatInt(w.run.Attempt, 10) + " " + f.Name, Namespace: w.app.Namespace, Name: f.Name, Version: w.run.UID,
		Env: f.Environment, Entrypoint: f.FunctionName, Resources: stored.Resources, Folders: stored.Folders,
		Body: stored.Body,
	}
	for _, e := range w.spec.Environments {
		if e.Name != f.Environment {
			continue
		}
		var resources landfall.Resources
		if t.Runtime, resources, err = spec.ReadEnvironmentVersion(e.Spec); err != nil {
			return t, err
		}
		t.Resources = t.Resources.Or(resources)
	}
	t.Resources.KeepWarm = 0
	var config json.RawMessage
	if w.spec.App != nil {
		config = w.spec.App.Config
	}
	if t.Config, err = spec.ReadConfigVersion(config); err != nil {
		return t, err
	}
	for _, s := range f.Secrets {
		t.Secrets = append(t.Secrets, s.Name)
	}
	id := landfall.UnitID{Kind: landfall.PackageUnit, Name: f.Package}
	content := w.current[id].Content
	if stored, ok := w.stored[id]; ok {
		content = stored.Content
	}
	var archives PackageContent
	if len(content) > 0 {
		if err := json.Unmarshal(content, &archives); err != nil {
			return t, err
		}
	}
	if archives.Deployment != nil {
		t.Package = *archives.Deployment
	}
	return t, nil
}
