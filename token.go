package landfall

import (
	"slices"
	"time"
)

// Scope is what a token may do. Admin includes every scope.
type Scope string

// The scopes.
const (
	ScopeRead   Scope = "read"
	ScopeInvoke Scope = "invoke"
	ScopeDeploy Scope = "deploy"
	ScopeAdmin  Scope = "admin"
)

// Token is what the store knows of a bearer token: never the token itself, only its digest. It is valid for one app,
// for the apps of one namespace, or, without both, for the whole installation.
type Token struct {
	Hash      Digest    `json:"hash"`
	Name      string    `json:"name"`
	Scope     Scope     `json:"scope"`
	App       string    `json:"app,omitempty"` // id
	Namespace string    `json:"namespace,omitempty"`
	Apps      []string  `json:"-"` // ids of the apps that Namespace had when the token was read
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"` // zero: never
	Used      time.Time `json:"used,omitzero"`    // last, to some minutes; zero: never
}

// Bound reports whether the token is valid for some apps only.
func (t Token) Bound() bool { return t.App != "" || t.Namespace != "" }

// Has reports whether the token has the scope, for whatever it is valid.
func (t Token) Has(scope Scope) bool {
	return t.Scope == ScopeAdmin || t.Scope == scope || t.Scope == ScopeDeploy && scope == ScopeRead
}

// Allows reports whether the token has the scope for an app; an empty app stands for the whole installation.
func (t Token) Allows(scope Scope, app string) bool {
	return t.Has(scope) && (!t.Bound() || app != "" && (t.App == app || slices.Contains(t.Apps, app)))
}

// AllowsNamespace reports whether the token has the scope for what a namespace has beside the apps of people.
func (t Token) AllowsNamespace(scope Scope, namespace string) bool {
	return t.Has(scope) && (!t.Bound() || t.Namespace == namespace)
}

// Within reports whether a token is valid for nothing for which the other one is not.
func (t Token) Within(other Token) bool {
	return !other.Bound() || t.App != "" && (t.App == other.App || slices.Contains(other.Apps, t.App)) ||
		t.Namespace != "" && t.Namespace == other.Namespace
}
