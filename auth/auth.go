// Package auth takes the caller from a request, and says what they may do: who sends a bearer token or a password, has
// a session of a browser, or knows the secret that the roles of an installation share.
package auth

import (
	"context"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"landfall.dev/landfall"
)

// Bearer returns the bearer token of an Authorization header (RFC 6750, section 2.1); empty when it has none.
func Bearer(authorization string) string {
	token, found := strings.CutPrefix(authorization, scheme)
	if !found {
		return ""
	}
	return token
}

const scheme = "Bearer "

// BearerOf returns the bearer token of a request; empty when it has none.
func BearerOf(r *http.Request) string { return Bearer(r.Header.Get("Authorization")) }

// Password returns the password of a request, of whatever user (RFC 7617), as git and the clients of registries send
// tokens; without one it returns the bearer token.
func Password(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	return BearerOf(r)
}

// SetBearer lets a request have a bearer token.
func SetBearer(r *http.Request, token string) { r.Header.Set("Authorization", scheme+token) }

// Challenge is the header of an answer with 401 that asks for a bearer token.
func Challenge() (name, value string) { return "WWW-Authenticate", `Bearer realm="landfall"` }

// Equal reports whether a secret is the one that it should be, in a time that tells nothing. Nothing equals an empty
// one.
func Equal(given, want string) bool {
	return want != "" && subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// Tokens are those that an installation knows. A store is one.
type Tokens interface {
	// Token returns the token with a secret: a NotFound error when there is none, and Unauthorized, as of the others,
	// when it has expired.
	Token(ctx context.Context, secret string, now time.Time) (landfall.Token, error)
	// VisitToken returns the token of somebody who signed in to see the releases at a host, or a NotFound error.
	VisitToken(ctx context.Context, secret, host string, now time.Time) (landfall.Token, error)
	// AppByName returns an app, also a deleted one, or a NotFound error.
	AppByName(ctx context.Context, name string) (landfall.App, error)
}

const op landfall.Op = "auth"

// Token returns the token with a secret. Unauthorized when there is none; every other error says that it cannot be
// checked now.
func Token(ctx context.Context, tokens Tokens, secret string) (landfall.Token, error) {
	token, err := tokens.Token(ctx, secret, time.Now())
	switch {
	case landfall.Is(err, landfall.NotFound):
		err = landfall.Wrapf(op, landfall.Unauthorized, err, "the token is not known")
	case err != nil && !landfall.Is(err, landfall.Unauthorized):
		err = landfall.Wrapf(op, landfall.KindOf(err), err, "the token cannot be checked now")
	}
	return token, err
}

// Scoped is Token, and Forbidden when the token has a scope on no app.
func Scoped(ctx context.Context, tokens Tokens, secret string, scope landfall.Scope) (landfall.Token, error) {
	if secret == "" {
		return landfall.Token{}, landfall.Errorf(op, landfall.Unauthorized, "send a token: Authorization: Bearer TOKEN")
	}
	token, err := Token(ctx, tokens, secret)
	if err == nil && !token.Has(scope) {
		err = landfall.Errorf(op, landfall.Forbidden, "the token lacks the scope %s", scope)
	}
	return token, err
}

// Visitor fails unless somebody signed in to see the releases at a host, by the secret of their cookie, and may read
// the app. It asks each time: whoever signs out, or whose token is gone, is so at once.
func Visitor(ctx context.Context, tokens Tokens, host, app, secret string, now time.Time) error {
	token, err := tokens.VisitToken(ctx, secret, host, now)
	if landfall.Is(err, landfall.NotFound) {
		return landfall.Wrapf(op, landfall.Unauthorized, err, "nobody is signed in")
	}
	if err != nil {
		return err
	}
	return MayRead(ctx, tokens, token, app)
}

// MayRead fails unless a token may read the app with a name: NotFound when it was deleted, Forbidden when it may not.
func MayRead(ctx context.Context, tokens Tokens, token landfall.Token, app string) error {
	owner, err := tokens.AppByName(ctx, app)
	if err == nil && !owner.Deleted.IsZero() {
		err = landfall.Errorf(op, landfall.NotFound, "the app %q was deleted", app)
	}
	if err == nil && !token.Allows(landfall.ScopeRead, owner.ID) {
		err = landfall.Errorf(op, landfall.Forbidden, "the token may not read the app %s", app)
	}
	return err
}

// MayCall fails unless the bearer token of a request lets it through to what an app has behind an access that is not
// public. Unauthorized without a token that is known, and Forbidden with one that is not for it.
func MayCall(r *http.Request, tokens Tokens, app string, access landfall.Access) error {
	if access == landfall.AccessSignedIn {
		token, err := Scoped(r.Context(), tokens, BearerOf(r), landfall.ScopeRead)
		if err != nil {
			return err
		}
		return MayRead(r.Context(), tokens, token, app)
	}
	owner, err := tokens.AppByName(r.Context(), app)
	if err != nil {
		return err
	}
	token, err := Scoped(r.Context(), tokens, BearerOf(r), landfall.ScopeInvoke)
	if err == nil && !token.Allows(landfall.ScopeInvoke, owner.ID) {
		err = landfall.Errorf(op, landfall.Forbidden, "the token is for another app")
	}
	return err
}

// MayUse fails unless a secret is a token that has a scope on a function's app; without a function, on any app. Of a
// function that it may not use, it says that there is none: NotFound.
func MayUse(ctx context.Context, tokens Tokens, secret string, scope landfall.Scope, f *landfall.Function) error {
	token, err := Scoped(ctx, tokens, secret, scope)
	if err == nil && f != nil && !token.Allows(scope, f.App) {
		err = landfall.Errorf(op, landfall.NotFound, "there is no function %s in the namespace %q", f.Name, f.Namespace)
	}
	return err
}
