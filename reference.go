package landfall

import (
	"slices"
	"strings"
)

// Reference names a version of a unit: "name", "name:SELECTOR" or "namespace/name:SELECTOR".
type Reference struct {
	Namespace string // empty: the app's
	Name      string
	Selector  string // a uid, a number, a label, an alias, live, sha256:…; an empty one and "0" mean "latest"
}

// Latest is the selector of the version most recently applied on the production line.
const Latest = "latest"

// ParseReference parses s, or returns an Invalid error.
func ParseReference(s string) (Reference, error) {
	name, selector, _ := strings.Cut(s, ":")
	namespace, rest, ok := strings.Cut(name, "/")
	if ok {
		name = rest
	} else {
		namespace = ""
	}
	if name == "" || strings.Contains(name, "/") || (ok && namespace == "") {
		return Reference{}, &Error{Kind: Invalid, Message: "a reference is NAME, NAME:VERSION or NAMESPACE/NAME:VERSION"}
	}
	if selector == "" || selector == "0" {
		selector = Latest
	}
	return Reference{Namespace: namespace, Name: name, Selector: selector}, nil
}

// MeansRelease reports whether the reference, in a trigger, means the version that the trigger's release has.
func (r Reference) MeansRelease() bool {
	return slices.Contains([]string{"", "0", Latest, LivePointer}, r.Selector)
}

// String returns the reference as it is written.
func (r Reference) String() string {
	s := r.Name
	if r.Namespace != "" {
		s = r.Namespace + "/" + s
	}
	if r.Selector != "" && r.Selector != Latest {
		s += ":" + r.Selector
	}
	return s
}
