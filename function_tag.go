package landfall

import "time"

// FunctionTag is a name, within a namespace, for versions of functions: at most one of each function.
type FunctionTag struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Functions []TaggedFunction `json:"functionref"` // by name
	Moved     time.Time        `json:"moved"`
	Actor     string           `json:"actor"` // who moved it last
	Reason    string           `json:"-"`     // why, where it is moved; its moves say it
	// where the spec of production declares it, such as specs/app.yaml:12; empty: a person made it
	Declared string `json:"declared,omitempty"`
	App      string `json:"-"` // the id of the app whose spec that is
}

// TaggedFunction is the version of a function that a function tag names.
type TaggedFunction struct {
	Name   string `json:"name"`
	UID    UID    `json:"version"`
	Number int64  `json:"number"`
	Label  string `json:"label,omitempty"`

	Unit string `json:"-"` // the id of the function's row
	App  string `json:"-"` // the id of the function's app
}

// Reference returns the version by its uid.
func (f TaggedFunction) Reference() Reference {
	return Reference{Name: f.Name, Selector: string(f.UID)}
}
