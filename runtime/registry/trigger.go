package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// Trigger binds an event source to functions, as a release has it. It is immutable.
type Trigger struct {
	landfall.Trigger

	Name      string // within its app and kind
	App       string // the id of its app
	AppName   string
	Namespace string
	Release   landfall.UID       // the release that it is of
	Version   landfall.UID       // of the trigger
	Function  *landfall.Function // nil: the version that it names is gone
	Webhook   bool               // a person made it of a function: it is of no release, and in no table
	// in place of Function, when it names functions with weights, which sum to 100; in an order that stays when weights
	// move
	Shares []Share
	Alias  string // of a function, which has these weights; empty: the trigger has

	Sticky   landfall.Sticky // by what a client is known, which stays on one of Shares
	StickyID string          // of what has the weights

	Tag    string               // in place of Function: the function tag that it names
	Tagged []*landfall.Function // what Tag names: each gets every event; nil stands for one of another app
}

// Share is a function that gets some of the events of a trigger.
type Share struct {
	Function *landfall.Function // nil: it is gone
	Percent  int
}

// TriggerPath begins the addresses of triggers.
const TriggerPath = landfall.TriggerPath

// Source returns what the events of the trigger have as their source: the address at which it is fired by hand; of a
// webhook, which belongs to no release, the one at which it is shown.
func (t *Trigger) Source() string {
	if t.Webhook {
		return "/api/v1/webhooks/" + t.Name
	}
	return TriggerPath + t.Namespace + "/" + t.AppName + "/" + t.Name
}

// Choose returns the function that gets an event, by a number from 0 to 99 that is drawn for it; nil when that one is
// gone.
func (t *Trigger) Choose(drawn int) *landfall.Function {
	for _, s := range t.Shares {
		if drawn < s.Percent {
			return s.Function
		}
		drawn -= s.Percent
	}
	return t.Function
}

// Draw returns the function that gets an event: by chance, as the weights say; nil when that one is gone.
func (t *Trigger) Draw() *landfall.Function {
	const percent = 100
	return t.Choose(rand.IntN(percent))
}

// ChooseFor returns the function that a client gets, by the key that it is known by: always the same one while the
// weights stay. When the weight of one grows, those who got it before still do. Nothing is remembered.
func (t *Trigger) ChooseFor(key string) *landfall.Function {
	const percent = 100
	sum := sha256.Sum256([]byte(t.StickyID + "\x00" + key))
	return t.Choose(int(binary.BigEndian.Uint64(sum[:]) % percent))
}

// Targets returns the functions that get an event: all of a function tag, else the one that is drawn; nil stands for
// one that cannot be called.
func (t *Trigger) Targets() []*landfall.Function {
	if len(t.Tagged) > 0 {
		return t.Tagged
	}
	return []*landfall.Function{t.Draw()}
}

// Functions returns the functions that the trigger leads to and that are not gone.
func (t *Trigger) Functions() []*landfall.Function {
	all := slices.DeleteFunc(slices.Clone(t.Tagged), func(f *landfall.Function) bool { return f == nil })
	for _, share := range slices.Concat(t.Shares, []Share{{Function: t.Function}}) {
		if share.Function != nil {
			all = append(all, share.Function)
		}
	}
	return all
}

// Named returns the triggers of a release that have a name: of each kind there may be one. An HTTP trigger stands
// first, then a time trigger.
func (r *Release) Named(name string) []*Trigger {
	var all []*Trigger
	for _, trigger := range r.Triggers {
		if trigger.Name == name {
			all = append(all, trigger)
		}
	}
	slices.SortFunc(all, func(a, b *Trigger) int {
		return slices.Index(landfall.UnitKinds(), a.Kind) - slices.Index(landfall.UnitKinds(), b.Kind)
	})
	return all
}

// Trigger returns the trigger of that name of an accessible release that leads to the function of that ID, or nil.
func (t *Table) Trigger(release landfall.UID, name, function string) *Trigger {
	for _, s := range t.ids {
		for _, r := range s.app.Releases {
			if r.ID != release || s.app.Deleted {
				continue
			}
			for _, trigger := range r.Triggers {
				if trigger.Name == name && slices.ContainsFunc(trigger.Functions(), func(f *landfall.Function) bool {
					return f.ID == function
				}) {
					return trigger
				}
			}
		}
	}
	return nil
}

// Triggers returns the triggers of a kind that live releases have, sorted by namespace, app and name.
func (t *Table) Triggers(kind landfall.UnitKind) []*Trigger {
	var all []*Trigger
	for _, s := range t.ids {
		if s.live == nil || s.app.Deleted {
			continue
		}
		for _, trigger := range s.live.Triggers {
			if trigger.Kind == kind {
				all = append(all, trigger)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Trigger) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.AppName, b.AppName),
			strings.Compare(a.Name, b.Name))
	})
	return all
}

// Deleted returns the deleted apps, sorted by id.
func (t *Table) Deleted() []App {
	var all []App
	for _, s := range t.ids {
		if s.app.Deleted {
			all = append(all, s.app)
		}
	}
	slices.SortFunc(all, func(a, b App) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
