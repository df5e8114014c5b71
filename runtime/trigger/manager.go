// Package trigger is the trigger manager, the one way in for events: it finds the triggers that an event is for, tells the event
// what app and trigger are configured to, and has their functions run.
package trigger

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/trace"
)

// Functions runs functions.
type Functions interface {
	// Run gives an event to a function and returns its answer. Its errors are those of runner.Runner.Run. It keeps nothing of
	// the event's data.
	Run(ctx context.Context, f *landfall.Function, e event.Event) (event.Event, error)
}

// Invoker fires triggers. It is how every event source reaches functions.
type Invoker interface {
	// Invoke gives an event to the function of a trigger, or to one of its functions as their weights say, and returns the
	// answer. The function finds the configuration of app and trigger in the event. The caller's event stays as it is.
	//
	// Its errors are those of Functions.Run. NotFound when the version that the trigger names is gone; Invalid, with a
	// *contract.MismatchError in the chain, when the function's contract refuses the event, of which nothing is run.
	Invoke(ctx context.Context, t *registry.Trigger, e event.Event) (event.Event, error)
}

// Manager is the Invoker. Its fields are set before the first call. It is safe for concurrent use.
type Manager struct {
	Functions Functions
	Table     func() *registry.Table                // the newest; nil until it was read
	Address   func(f *landfall.Function) string     // the URL of a function's version
	Tracer    *trace.Tracer                         // may be nil
	Contracts *contract.Cache                       // nil: none is remembered
	Unfit     func(f *landfall.Function, side Side) // is told of data that does not fit a contract; nil: nobody is

	// Release says what the host of an address means. Only Find needs it.
	Release func(host string) (app, selector string, joined bool, known bool)

	made atomic.Pointer[preparations]
}

var _ Invoker = (*Manager)(nil)

// Invoke implements Invoker.
func (m *Manager) Invoke(ctx context.Context, t *registry.Trigger, e event.Event) (event.Event, error) {
	e.Context = e.Context.Clone()
	return m.Run(ctx, t, t.Draw(), e)
}

// Run is Invoke with a function that the caller chose of those of the trigger, and with an event of which nobody else has the
// attributes: they change.
func (m *Manager) Run(ctx context.Context, t *registry.Trigger, f *landfall.Function, e event.Event) (event.Event, error) {
	if f == nil {
		return event.Event{}, &landfall.Error{
			Op: "trigger.Run", Kind: landfall.NotFound, Message: "the version of the function that the trigger " + t.Name + " names is gone",
		}
	}
	target := m.target(t, f)
	target.added.AddTo(&e)
	return m.call(ctx, t.Kind, target, e)
}

// Side is a side of a contract.
type Side string

// The sides.
const (
	Input  Side = "input"  // such an event is refused
	Output Side = "output" // such an answer is passed on: what runs goes on running
)

// call has a function run, unless its contract refuses the event: then nothing is started.
func (m *Manager) call(ctx context.Context, by landfall.UnitKind, t target, e event.Event) (event.Event, error) {
	if err := t.contract.Take(e); err != nil {
		m.unfit(t.function, Input)
		return event.Event{}, err
	}
	answer, err := m.run(ctx, by, t.function, e)
	if err == nil && t.contract.Gave(answer) != nil {
		m.unfit(t.function, Output)
	}
	return answer, err
}

func (m *Manager) unfit(f *landfall.Function, side Side) {
	if m.Unfit != nil {
		m.Unfit(f, side)
	}
}

// run has a function run. Where spans are made it is one, and the function is told of it, unless its event is of a trace already.
func (m *Manager) run(ctx context.Context, by landfall.UnitKind, f *landfall.Function, e event.Event) (event.Event, error) {
	if m.Tracer == nil {
		return m.Functions.Run(ctx, f, e)
	}
	ctx, span := m.Tracer.Call(ctx, event.TraceOf(e), f.Name, trace.Function(f.Namespace, f.Name, f.Version, event.ExecutionOf(e), by)...)
	event.SetTrace(&e, trace.Parent(ctx))
	answer, err := m.Functions.Run(ctx, f, e)
	if fault, is, unlike := event.ErrorOf(answer); err == nil && (is || unlike != nil) {
		span.Failed(cmp.Or(fault.Type, "error"))
	}
	span.End(err)
	return answer, err
}

// Call gives an event to a function that no trigger binds it to: its sender stands for one, with the configuration that the event
// has already. The sender's event stays as it is. Invalid when that is no configuration; else its errors are those of Functions.Run.
func (m *Manager) Call(ctx context.Context, f *landfall.Function, e event.Event) (event.Event, error) {
	config, err := event.ConfigOf(e)
	if err != nil {
		return event.Event{}, err
	}
	e.Context = e.Context.Clone()
	target := m.prepare(&registry.Trigger{Trigger: landfall.Trigger{Config: config}}, f)
	target.added.AddTo(&e)
	return m.call(ctx, "", target, e)
}

// prepared is what is made of a trigger once.
type prepared struct {
	targets []target
	filters event.Filters
	broken  bool // the filters cannot be read
}

// target is a function as a trigger runs it.
type target struct {
	of       *landfall.Function
	function *landfall.Function // with the trigger's resources
	contract *contract.Contract // nil: it takes and answers anything
	added    event.Addition
}

// preparations are what is made of the triggers that got an event while a table was the newest. They go with it, and what they keep of
// triggers that are in no table any more goes, too.
type preparations struct {
	table *registry.Table
	all   sync.Map // of *registry.Trigger to *prepared
}

// prepared returns what is made of a trigger, which it makes for the first event.
func (m *Manager) prepared(t *registry.Trigger) *prepared {
	made, table := m.made.Load(), m.Table()
	if made == nil || made.table != table {
		made = &preparations{table: table}
		m.made.Store(made)
	}
	known, _ := made.all.Load(t)
	if p, ok := known.(*prepared); ok {
		return p
	}
	filters, err := event.ParseFilters(t.Filters)
	p := &prepared{filters: filters, broken: err != nil}
	for _, function := range t.Functions() {
		p.targets = append(p.targets, m.prepare(t, function))
	}
	made.all.Store(t, p)
	return p
}

// pass reports whether the trigger takes an event. When it is not known, it takes none.
func (p *prepared) pass(e event.Event) bool { return !p.broken && p.filters.Pass(e) }

// target returns a function as a trigger runs it.
func (m *Manager) target(t *registry.Trigger, f *landfall.Function) target {
	for _, target := range m.prepared(t).targets {
		if target.of == f {
			return target
		}
	}
	return m.prepare(t, f) // it is none of the trigger's
}

func (m *Manager) prepare(t *registry.Trigger, f *landfall.Function) target {
	config := maps.Clone(f.Config)
	if config == nil {
		config = map[string]string{}
	}
	maps.Copy(config, t.Config)
	function := *f
	function.Resources = t.Resources.Or(f.Resources)
	function.Origin = landfall.Origin{Release: t.Release, Trigger: t.Name}
	return target{f, &function, m.Contracts.Of(f.Contract), event.NewAddition(event.Trigger{FunctionURL: m.Address(f), Config: config})}
}
