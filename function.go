package landfall

import "encoding/json"

// Function is one version of a function with everything that is needed to run it. Rooms and processes pass it on in
// this form.
type Function struct {
	ID string `json:"id"` // of this version with this configuration, and of no other
	// the id of the app that owns it; empty when a person made it by hand
	App         string      `json:"app,omitempty"`
	Namespace   string      `json:"namespace"`
	Name        string      `json:"name"`
	Version     UID         `json:"version"`
	Number      int64       `json:"number"`
	Group       UID         `json:"group,omitempty"` // a group version in which it has this configuration
	Environment Environment `json:"environment"`
	Package     Archive     `json:"package"` // without a key when it is not stored
	// within the package, in the form that the environment expects; may be empty
	Entrypoint string            `json:"entrypoint,omitempty"`
	Resources  Resources         `json:"resources"`
	Config     map[string]string `json:"config,omitempty"`  // of the app
	Secrets    []SealedSecret    `json:"secrets,omitempty"` // secrets that the function names
	// of secrets and parts of Config as files: /secrets/NAMESPACE/NAME and /configs/NAMESPACE/NAME
	Folders []string `json:"folders,omitempty"`
	Network bool     `json:"network,omitempty"` // its spec lets it reach the network
	// limit of a body that it reads in parts; 0: it gets bodies as a whole
	Body     int64           `json:"body,omitempty"`
	Retries  int             `json:"retries,omitempty"` // of a call that is accepted before it runs, when it fails
	Alias    string          `json:"-"`                 // with weights, by which this call found it; empty: by none
	Contract json.RawMessage `json:"-"`                 // in the form that contract.Of takes; nil: the function takes and answers anything
}

// Environment is what a function runs in, as its document says.
type Environment struct {
	Name string `json:"name"`
	// of its runtime; empty when no document defines the environment
	Image string `json:"image,omitempty"`
	// variables that its functions get, below the configuration of the app
	Env map[string]string `json:"env,omitempty"`
	// how programs read requests: spec.Events, Requests or Either; empty: Events
	Programs string `json:"programs,omitempty"`
}

// SealedSecret is a secret that a function names, in the version that a release uses.
type SealedSecret struct {
	Name   string `json:"name"`
	Number int64  `json:"number"`           // of the version; 0: the release has none
	Sealed []byte `json:"sealed,omitempty"` // nil: it was revoked, or does not exist
}
