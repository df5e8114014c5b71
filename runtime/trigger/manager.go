// Package trigger is the trigger manager, the one way in for events: it finds the triggers that an event is for, tells
// the event what app and trigger are configured to, and has their functions called.
package trigger

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
)

// Manager is the Caller by which every source of events has functions called. Its fields are set before the first call.
// It is safe for concurrent use.
type Manager struct {
	Functions function.Caller                   // takes the calls that are ready
	Table     func() *registry.Table            // the newest; nil until it was read
	Address   func(f *landfall.Function) string // the URL of a function's version
	Contracts *contract.Cache                   // nil: none is remembered

	// Release says what the host of an address means. Only Find needs it.
	Release func(host string) (app, selector string, joined bool, known bool)

	made atomic.Pointer[preparations]
}

var _ function.Caller = (*Manager)(nil)

// Call implements function.Caller. The function finds the configuration of app and trigger in the event. Where there is
// no trigger, the sender of the event stands for one, with the configuration that the event has already: Invalid when
// that is none. NotFound when the call has no function, because the version that its trigger names is gone.
func (m *Manager) Call(ctx context.Context, c function.Call) (event.Event, error) {
	t, err := m.target(&c)
	if err != nil {
		return event.Event{}, err
	}
	t.added.AddTo(&c.Event)
	c.Function, c.Contract = t.function, t.contract
	return m.Functions.Call(ctx, c)
}

// prepared is what is made of a trigger once.
type prepared struct {
	targets []*target
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

// preparations are what is made of the triggers that got an event while a table was the newest. They go with it, and
// what they keep of triggers that are in no table any more goes, too.
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
	for _, f := range t.Functions() {
		p.targets = append(p.targets, m.prepare(t, f))
	}
	made.all.Store(t, p)
	return p
}

// pass reports whether the trigger takes an event. When it is not known, it takes none.
func (p *prepared) pass(e event.Event) bool { return !p.broken && p.filters.Pass(e) }

// target returns the function of a call as its trigger runs it.
func (m *Manager) target(c *function.Call) (*target, error) {
	if c.Trigger == nil {
		config, err := event.ConfigOf(c.Event)
		return m.prepare(&registry.Trigger{Trigger: landfall.Trigger{Config: config}}, c.Function), err
	}
	if c.Function == nil {
		return nil, &landfall.Error{
			Op: "trigger.Call", Kind: landfall.NotFound,
			Message: "the version of the function that the trigger " + c.Trigger.Name + " names is gone",
		}
	}
	if c.Trigger.Webhook { // it is in no table, and nothing is kept of it
		return m.prepare(c.Trigger, c.Function), nil
	}
	for _, target := range m.prepared(c.Trigger).targets {
		if target.of == c.Function {
			return target, nil
		}
	}
	return m.prepare(c.Trigger, c.Function), nil // it is none of the trigger's
}

func (m *Manager) prepare(t *registry.Trigger, f *landfall.Function) *target {
	config := maps.Clone(f.Config)
	if config == nil {
		config = map[string]string{}
	}
	maps.Copy(config, t.Config)
	own := *f
	own.Resources = t.Resources.Or(f.Resources)
	return &target{f, &own, m.Contracts.Of(f.Contract),
		event.NewAddition(event.Trigger{FunctionURL: m.Address(f), Config: config})}
}
