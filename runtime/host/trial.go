package host

import (
	"context"
	"errors"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/secret"
)

// Trials run functions for the tests of their contracts, apart from what is released.
type Trials struct{ host *Host }

// NewTrials returns trials that nothing else shares the runner and the packages of. They have secrets of their own:
// each is secret.StandIn. The caller closes them.
func NewTrials(c Config) (*Trials, error) {
	key, err := secret.NewKey() // nothing real is sealed with it
	if err != nil {
		return nil, err
	}
	c.Secrets, err = secret.ParseKey(key)
	return &Trials{New(c)}, err
}

// Try gives an event to a function, whose secrets all have the value secret.StandIn, and returns its answer. Invalid,
// with a sentence, when the function gave none.
func (t *Trials) Try(ctx context.Context, f landfall.Function, e event.Event) (event.Event, error) {
	f.Secrets = slices.Clone(f.Secrets)
	for i, s := range f.Secrets {
		sealed, err := t.host.Secrets.Seal(secret.Owner{Name: s.Name}, secret.StandIn)
		if err != nil {
			return event.Event{}, err
		}
		f.Secrets[i].Number, f.Secrets[i].Sealed = 1, sealed
	}
	event.NewAddition(event.Trigger{FunctionURL: invoke.AddressOf(&f), Config: f.Config}).AddTo(&e)
	answer, err := t.host.Call(ctx, function.Call{Function: &f, Event: e})
	fault, ok := errors.AsType[*function.Error](err)
	if !ok || fault.Reason == function.ReasonBusy {
		return answer, err
	}
	message := landfall.MessageOf(err)
	if logged := strings.TrimSpace(fault.Trace); logged != "" {
		message += ": " + logged
	}
	return answer, &landfall.Error{Op: "trials.Try", Kind: landfall.Invalid, Message: message, Err: err}
}

// Done ends what runs of the function with that ID.
func (t *Trials) Done(id string) {
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	t.host.forget(id)
}

// Tidy removes the packages of what was tried, until ctx ends.
func (t *Trials) Tidy(ctx context.Context) error {
	none := registry.New(nil)
	return t.host.Tidy(ctx, func() *registry.Table { return none })
}

// Close ends what runs. Nothing may be tried any more.
func (t *Trials) Close() { t.host.Close() }
