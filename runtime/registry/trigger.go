package registry

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
)

// Function is one version of a function of a release: what is needed to run it.
type Function struct {
	ID          string // of this version with this configuration, and of no other
	App         string // the id of the app that owns it; empty for one made by hand
	Namespace   string
	Name        string
	Version     landfall.UID
	Number      int64
	Group       landfall.UID // a group version in which it has this configuration
	Origin      Origin       // what it runs for
	Environment Environment
	Package     Archive
	Entrypoint  string // within the package, as the environment understands it; may be empty
	Resources   landfall.Resources
	Config      map[string]string  // of the app
	Secrets     []Secret           // that it names
	Folders     []string           // in which it finds secrets and parts of Config as files: /secrets/NAMESPACE/NAME and /configs/NAMESPACE/NAME
	Network     bool               // its spec lets it reach the network
	Body        int64              // bytes of a request's body at most, which it gets in parts; 0: it gets bodies as a whole
	Contract    *contract.Contract // nil: it takes and answers anything
}

// Origin is what a function runs for; zero: for no release.
type Origin struct {
	Release landfall.UID
	Trigger string // its name
}

// Environment is what a function runs in, as its document has it.
type Environment struct {
	Name     string
	Image    string            // of its runtime; empty when no document defines the environment
	Env      map[string]string // that its functions get, below Config
	Programs string            // how programs are spoken to, as spec.Runtime has it
}

// Archive is a package as it is stored: a zip of files.
type Archive struct {
	Key    string
	Digest landfall.Digest
	Size   int64
}

// Access says who may call a route.
type Access string

// The kinds of access.
const (
	Public   Access = "public"
	Token    Access = "token"     // with a bearer token that may invoke the app's functions
	SignedIn Access = "signed-in" // from a browser that signed in
)

// Trigger binds an event source to a function, as a release has it. It is immutable.
type Trigger struct {
	Kind      landfall.UnitKind // HTTPTrigger, TimeTrigger or QueueTrigger
	Name      string            // within its app and kind
	App       string            // the id of its app
	AppName   string
	Namespace string
	Release   landfall.UID       // the release that it is of
	Version   landfall.UID       // of the trigger
	Function  *Function          // nil: the version that it names is gone
	Shares    []Share            // in place of Function, when it names functions with weights, which sum to 100
	Config    map[string]string  // over the app's
	Filters   json.RawMessage    // which event.ParseFilters takes; nil: it takes every event of its source
	Resources landfall.Resources // over the function's

	// HTTP only.
	Access Access // empty: public
	Trim   string // how the path begins that the function does not see

	// Time only.
	Cron, TimeZone  string
	Method, Subpath string // of the request that the event stands for

	// Queue only.
	Topic, RespTopic, ErrorTopic string
	MaxRetries                   int
	ContentType                  string

	// Prepared is what the trigger manager makes of the trigger for its first event, for the others.
	Prepared atomic.Value
}

// Share is a function that gets some of the events of a trigger.
type Share struct {
	Function *Function // nil: it is gone
	Percent  int
}

// TriggerPath begins the addresses of triggers.
const TriggerPath = "/r/"

// Source returns what the events of the trigger have as their source: the address at which it is fired by hand.
func (t *Trigger) Source() string {
	return TriggerPath + t.Namespace + "/" + t.AppName + "/" + t.Name
}

// Choose returns the function that gets an event, by a number from 0 to 99 that is drawn for it; nil when that one is gone.
func (t *Trigger) Choose(drawn int) *Function {
	for _, s := range t.Shares {
		if drawn < s.Percent {
			return s.Function
		}
		drawn -= s.Percent
	}
	return t.Function
}

// Draw returns the function that gets an event: by chance, as the weights say; nil when that one is gone.
func (t *Trigger) Draw() *Function {
	const percent = 100
	return t.Choose(rand.IntN(percent))
}

// Functions returns the functions that the trigger leads to and that are not gone.
func (t *Trigger) Functions() []*Function {
	var all []*Function
	for _, share := range slices.Concat(t.Shares, []Share{{Function: t.Function}}) {
		if share.Function != nil {
			all = append(all, share.Function)
		}
	}
	return all
}

// Named returns the triggers of a release that have a name: of each kind there may be one. An HTTP trigger stands first, then a
// time trigger.
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

// Trigger returns a trigger of an accessible release that leads to the function of that ID, or nil.
func (t *Table) Trigger(of Origin, function string) *Trigger {
	for _, s := range t.ids {
		for _, r := range s.app.Releases {
			if r.ID != of.Release || s.app.Deleted {
				continue
			}
			for _, trigger := range r.Triggers {
				if trigger.Name == of.Trigger && slices.ContainsFunc(trigger.Functions(), func(f *Function) bool { return f.ID == function }) {
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
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.AppName, b.AppName), strings.Compare(a.Name, b.Name))
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
