package trigger

import (
	"cmp"
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/trace"
)

// Side is a side of a contract.
type Side string

// The sides.
const (
	Input  Side = "input"  // such an event is refused
	Output Side = "output" // such an answer is passed on: what runs goes on running
)

// Checked returns a Caller that lets next take no event that the contract of a call refuses, which is Invalid with a
// *contract.MismatchError in the chain. unfit is told of data that does not fit.
func Checked(unfit func(f *landfall.Function, side Side), next function.Caller) function.Caller {
	return &checked{unfit, next}
}

type checked struct {
	unfit func(f *landfall.Function, side Side)
	next  function.Caller
}

// Call implements function.Caller.
func (k *checked) Call(ctx context.Context, c function.Call) (event.Event, error) {
	if err := c.Contract.CheckInput(c.Event); err != nil {
		k.unfit(c.Function, Input)
		return event.Event{}, err
	}
	answer, err := k.next.Call(ctx, c)
	if err == nil && c.Contract.CheckOutput(answer) != nil {
		k.unfit(c.Function, Output)
	}
	return answer, err
}

// Traced returns a Caller by which each call of next is a span. The function is told of it, unless its event is of a
// trace already. Without a tracer it is next.
func Traced(tracer *trace.Tracer, next function.Caller) function.Caller {
	if tracer == nil {
		return next
	}
	return function.CallerFunc(func(ctx context.Context, c function.Call) (event.Event, error) {
		var by landfall.UnitKind
		if c.Trigger != nil {
			by = c.Trigger.Kind
		}
		f := c.Function
		ctx, span := tracer.Call(ctx, event.TraceOf(c.Event), f.Name,
			trace.Function(f.Namespace, f.Name, f.Version, event.ExecutionOf(c.Event), by)...)
		event.SetTrace(&c.Event, trace.Parent(ctx))
		answer, err := next.Call(ctx, c)
		if fault, is, unlike := event.ErrorOf(answer); err == nil && (is || unlike != nil) {
			span.Failed(cmp.Or(fault.Type, "error"))
		}
		span.End(err)
		return answer, err
	})
}
