package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/secret"
)

// trials run functions for the tests of their contracts, apart from what is released: with a runner and a cache of its own.
type trials struct{ *functionHost }

var _ pipeline.Trials = trials{}

// newTrials returns what runs the tests of this process's pipeline.
func (s *server) newTrials() (*functionHost, error) {
	unpacked, err := packages.New(filepath.Join(s.config.Data, "cache", "trials"), gateway.Stored{Objects: s.objects, Manifests: s.manifests}, packages.Limits{})
	if err != nil {
		return nil, err
	}
	key, err := secret.NewKey() // nothing real is sealed with it
	if err != nil {
		return nil, err
	}
	none := registry.New(nil)
	h := newFunctionHost(&runner.Runner{Sandbox: s.sandbox, Modules: s.modules}, unpacked, func() *registry.Table { return none }, s.logger)
	h.secrets, err = secret.ParseKey(key)
	return h, err
}

// Try implements pipeline.Trials.
func (t trials) Try(ctx context.Context, f landfall.Function, e event.Event) (event.Event, error) {
	f.Secrets = slices.Clone(f.Secrets)
	for i, s := range f.Secrets {
		sealed, err := t.secrets.Seal(secret.Owner{Name: s.Name}, pipeline.StandInSecret)
		if err != nil {
			return event.Event{}, err
		}
		f.Secrets[i].Number, f.Secrets[i].Sealed = 1, sealed
	}
	event.NewAddition(event.Trigger{FunctionURL: invoke.AddressOf(&f), Config: f.Config}).AddTo(&e)
	answer, err := t.run(ctx, &f, e)
	fault, ok := errors.AsType[*runner.FunctionError](err)
	if !ok || fault.Reason == runner.Busy {
		return answer, err
	}
	message := landfall.MessageOf(err)
	if logged := strings.TrimSpace(fault.Trace); logged != "" {
		message += ": " + logged
	}
	return answer, &landfall.Error{Op: "trials.Try", Kind: landfall.Invalid, Message: message, Err: err}
}

// Done implements pipeline.Trials.
func (t trials) Done(id string) {
	t.runner.Forget(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ready, id)
}
