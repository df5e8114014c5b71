package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

type tokenKey struct{}

// authenticate admits requests whose token covers the operation's scope for some app; operations on one app check the
// app itself.
func (a *api) authenticate(h huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		refuse := func(kind landfall.Kind, message string) {
			if kind == landfall.Unauthorized {
				ctx.SetHeader("WWW-Authenticate", `Bearer realm="landfall"`)
			}
			p := toHTTP(&landfall.Error{Op: "api", Kind: kind, Message: message})
			ctx.SetHeader("Content-Type", "application/problem+json")
			ctx.SetStatus(p.GetStatus())
			_ = h.Marshal(ctx.BodyWriter(), "application/json", p)
		}
		secret, ok := strings.CutPrefix(ctx.Header("Authorization"), "Bearer ")
		if !ok || secret == "" {
			refuse(landfall.Unauthorized, "send a token: Authorization: Bearer TOKEN (landfall login keeps one for the command line)")
			return
		}
		token, err := a.DB.Token(ctx.Context(), secret)
		switch {
		case err != nil && landfall.KindOf(err) == landfall.NotFound:
			refuse(landfall.Unauthorized, "the token is not known")
			return
		case err != nil:
			refuse(landfall.KindOf(err), "the token cannot be checked now")
			return
		}
		scope, declared := ctx.Operation().Metadata[scopeKey].(store.Scope)
		if !declared || !token.Allows(scope, token.App) {
			refuse(landfall.Forbidden, fmt.Sprintf("the token lacks the scope %s", scope))
			return
		}
		next(huma.WithValue(ctx, tokenKey{}, token))
	}
}

// caller returns the token of a request.
func caller(ctx context.Context) store.Token {
	token, _ := ctx.Value(tokenKey{}).(store.Token)
	return token
}

// app returns an app by name for a request that needs the scope on it.
func (a *api) app(ctx context.Context, name string, scope store.Scope) (landfall.App, error) {
	app, err := a.DB.AppByName(ctx, name)
	if err != nil {
		return app, err
	}
	if !caller(ctx).Allows(scope, app.ID) {
		return app, forbidden(scope, name)
	}
	if !app.Deleted.IsZero() && scope != store.ScopeRead {
		return app, &landfall.Error{Op: "api", Kind: landfall.NotFound, Message: fmt.Sprintf("the app %q was deleted", name)}
	}
	return app, nil
}

func forbidden(scope store.Scope, what string) error {
	return &landfall.Error{Op: "api", Kind: landfall.Forbidden, Message: fmt.Sprintf("the token lacks the scope %s for %s", scope, what)}
}

// installation admits only tokens that are good for every app.
func installation(ctx context.Context, scope store.Scope) error {
	if !caller(ctx).Allows(scope, "") {
		return forbidden(scope, "the whole installation")
	}
	return nil
}

// problem is an error as RFC 9457 wants it, with our kind.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Kind   string `json:"kind"`
}

// Error implements error.
func (p *problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *problem) ContentType(string) string { return "application/problem+json" }

// statusOf is the HTTP status of each kind.
func statusOf(k landfall.Kind) int {
	switch k {
	case landfall.Invalid:
		return http.StatusBadRequest
	case landfall.NotFound:
		return http.StatusNotFound
	case landfall.Conflict:
		return http.StatusConflict
	case landfall.Unauthorized:
		return http.StatusUnauthorized
	case landfall.Forbidden:
		return http.StatusForbidden
	case landfall.Unavailable, landfall.Canceled:
		return http.StatusServiceUnavailable
	case landfall.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

func toHTTP(err error) *problem {
	kind := landfall.KindOf(err)
	status := statusOf(kind)
	return &problem{Title: http.StatusText(status), Status: status, Detail: landfall.MessageOf(err), Kind: kind.String()}
}
