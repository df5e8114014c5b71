package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/spec"
)

type tokenKey struct{}

// As returns a context in which requests to the handler are made in the name of a token: for the rooms of this program
// that have checked who asks by themselves. What comes from outside brings its token in a header.
func As(ctx context.Context, token landfall.Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// authenticate admits requests whose token covers the operation's scope for some app; operations on one app check the
// app itself.
func (a *api) authenticate(h huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		refuse := func(kind landfall.Kind, message string) {
			if kind == landfall.Unauthorized {
				ctx.SetHeader(auth.Challenge())
			}
			p := toHTTP(landfall.Errorf("api", kind, "%s", message))
			ctx.SetHeader("Content-Type", "application/problem+json")
			ctx.SetStatus(p.GetStatus())
			_ = h.Marshal(ctx.BodyWriter(), "application/json", p)
		}
		token, err := a.asking(ctx)
		if err != nil {
			refuse(landfall.KindOf(err), landfall.MessageOf(err))
			return
		}
		scope, declared := ctx.Operation().Metadata[scopeKey].(landfall.Scope)
		if !declared || !token.Has(scope) {
			refuse(landfall.Forbidden, fmt.Sprintf("the token lacks the scope %s", scope))
			return
		}
		if query := ctx.URL().RawQuery; !wellFormed(query) {
			refuse(landfall.Invalid,
				fmt.Sprintf("the query %q cannot be read: write %%, ; and & in a value as %%25, %%3B and %%26", query))
			return
		}
		if err := checkQuery(ctx); err != nil {
			refuse(landfall.KindOf(err), landfall.MessageOf(err))
			return
		}
		next(huma.WithValue(ctx, tokenKey{}, token))
	}
}

// checkQuery fails with Invalid, and says what there is, when a query has a parameter that the operation has not: a
// misspelt one would change nothing, and nobody would know.
func checkQuery(ctx huma.Context) error {
	known := map[string]bool{}
	for _, p := range ctx.Operation().Parameters {
		if p.In == "query" {
			known[p.Name] = true
		}
	}
	address := ctx.URL()
	for _, name := range slices.Sorted(maps.Keys(address.Query())) {
		if known[name] {
			continue
		}
		if len(known) == 0 {
			return landfall.Errorf("api", landfall.Invalid, "there is no query parameter %q: there are none here", name)
		}
		hint := ""
		if near := spec.Nearest(name, known); near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		return landfall.Errorf("api", landfall.Invalid, "there is no query parameter %q%s; there are: %s", name, hint,
			strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return nil
}

// wellFormed reports whether all of a query can be read; what cannot would count as not said.
func wellFormed(query string) bool {
	_, err := url.ParseQuery(query)
	return err == nil
}

// asking returns the token in whose name a request is made.
func (a *api) asking(ctx huma.Context) (landfall.Token, error) {
	if token, known := ctx.Context().Value(tokenKey{}).(landfall.Token); known {
		return token, nil
	}
	secret := auth.Bearer(ctx.Header("Authorization"))
	if secret == "" {
		return landfall.Token{}, landfall.Errorf("api", landfall.Unauthorized,
			"send a token: Authorization: Bearer TOKEN (landfall login keeps one for the command line)")
	}
	return auth.Token(ctx.Context(), a.DB, secret)
}

// caller returns the token of a request.
func caller(ctx context.Context) landfall.Token {
	token, _ := ctx.Value(tokenKey{}).(landfall.Token)
	return token
}

// app returns an app by name for a request that needs the scope on it. NotFound when it was deleted.
func (a *api) app(ctx context.Context, name string, scope landfall.Scope) (landfall.App, error) {
	app, err := a.appOrNamespace(ctx, name, scope)
	if err == nil && scope != landfall.ScopeRead {
		err = noNamespace(app)
	}
	return app, err
}

// appOrNamespace is app, also for what a namespace has beside the apps of people.
func (a *api) appOrNamespace(ctx context.Context, name string, scope landfall.Scope) (landfall.App, error) {
	app, err := a.anyApp(ctx, name, scope)
	if err == nil && !app.Deleted.IsZero() {
		err = landfall.Errorf("api", landfall.NotFound, "the app %q was deleted", name)
	}
	return app, err
}

// noNamespace fails with Conflict for the app of a namespace: it changes with what people make by hand, and stays.
func noNamespace(app landfall.App) error {
	if !app.OfNamespace() {
		return nil
	}
	return landfall.Errorf("api", landfall.Conflict,
		"%s is a namespace, and no app: its functions and packages are made by hand (landfall function version create)",
		app.Name)
}

// anyApp is app, also for one that was deleted.
func (a *api) anyApp(ctx context.Context, name string, scope landfall.Scope) (landfall.App, error) {
	app, err := a.DB.AppByName(ctx, name)
	if err == nil && !caller(ctx).Allows(scope, app.ID) {
		err = forbidden(scope, name)
	}
	return app, err
}

func forbidden(scope landfall.Scope, what string) error {
	return landfall.Errorf("api", landfall.Forbidden, "the token lacks the scope %s for %s", scope, what)
}

// installation admits only tokens that are good for every app.
func installation(ctx context.Context, scope landfall.Scope) error {
	if !caller(ctx).Allows(scope, "") {
		return forbidden(scope, "the whole installation")
	}
	return nil
}

// readsAll fails with Forbidden unless the caller may read all apps: a list is of one app then.
func readsAll(ctx context.Context) error {
	if err := installation(ctx, landfall.ScopeRead); err != nil {
		return forbidden(landfall.ScopeRead, "the whole installation: name one of its apps")
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

// GetHeaders implements huma.HeadersError.
func (p *problem) GetHeaders() http.Header {
	if p.Kind != landfall.Unavailable.String() {
		return nil
	}
	return http.Header{"Retry-After": {"1"}}
}

func toHTTP(err error) *problem {
	kind := landfall.KindOf(err)
	status := kind.HTTPStatus()
	return &problem{Title: http.StatusText(status), Status: status, Detail: landfall.MessageOf(err), Kind: kind.String()}
}
