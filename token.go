package landfall

import "time"

// Scope is what a token may do. Admin includes every scope.
type Scope string

// The scopes.
const (
	ScopeRead   Scope = "read"
	ScopeInvoke Scope = "invoke"
	ScopeDeploy Scope = "deploy"
	ScopeAdmin  Scope = "admin"
)

// Token is what the store knows of a bearer token: never the token itself, only its digest.
type Token struct {
	Hash    Digest    `json:"hash"`
	Name    string    `json:"name"`
	Scope   Scope     `json:"scope"`
	App     string    `json:"app,omitempty"` // id of the only app for which it is valid; empty: every app
	Created time.Time `json:"created"`
}

// Allows reports whether the token has the scope for an app; an empty app stands for the whole installation.
func (t Token) Allows(scope Scope, app string) bool {
	if t.App != "" && t.App != app {
		return false
	}
	return t.Scope == ScopeAdmin || t.Scope == scope || (t.Scope == ScopeDeploy && scope == ScopeRead)
}
