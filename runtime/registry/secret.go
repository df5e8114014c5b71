package registry

// Secret is a secret that a function names, as a release has it.
type Secret struct {
	Name   string
	Number int64  // of the version; 0: the release has none
	Sealed []byte // nil: it was revoked, or there is none
}
