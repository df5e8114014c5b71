package api

import (
	"context"
	"crypto/rand"
	"net/http"
	"regexp"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

func (a *api) registerTokens(h huma.API) {
	register(h, administering("list-tokens", http.MethodGet, "/tokens", "The tokens, by name, without their text"),
		a.listTokens)
	register(h, administering("create-token", http.MethodPost, "/tokens",
		"Make a token; its text is in this answer alone").answering(http.StatusCreated).making("{name}"), a.createToken)
	register(h, administering("delete-token", http.MethodDelete, "/tokens/{token}",
		"Revoke a token; whoever signed in with it is signed out").answering(http.StatusNoContent), a.deleteToken)
}

// tokenPrefix begins the text of every token that is made here, so that scanners of repositories find those that leak.
const tokenPrefix = "landfall_"

var tokenName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// ofSettings are the tokens that the server's settings name: each start writes them again.
func ofSettings(name string) bool { return name == "admin" || name == "roles" }

// tokens returns the tokens that are valid for nothing for which the request's token is not.
func (a *api) tokens(ctx context.Context, q interface {
	Tokens(ctx context.Context) ([]landfall.Token, error)
}) ([]landfall.Token, error) {
	tokens, err := q.Tokens(ctx)
	return slices.DeleteFunc(tokens, func(t landfall.Token) bool { return !t.Within(caller(ctx)) }), err
}

// listTokens pages by the names, which no two tokens share.
func (a *api) listTokens(ctx context.Context, in *Paging) (*body[page[client.Token]], error) {
	tokens, err := a.tokens(ctx, a.DB)
	if err != nil {
		return nil, err
	}
	apps, err := a.DB.Apps(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, app := range apps {
		names[app.ID] = app.Name
	}
	return paged(*in, tokens, func(t landfall.Token) string { return t.Name },
		func(t landfall.Token) (client.Token, bool, error) { return tokenOf(t, names[t.App]), true, nil })
}

func tokenOf(t landfall.Token, app string) client.Token {
	return client.Token{Name: t.Name, Scope: t.Scope, App: app, Namespace: t.Namespace, Created: t.Created,
		Expires: t.Expires, Used: t.Used}
}

func (a *api) createToken(ctx context.Context, in *struct{ Body client.NewToken }) (*body[client.MadeToken], error) {
	n, now := in.Body, a.now()
	text := tokenPrefix + a.tokenText(ctx)
	t := landfall.Token{Hash: landfall.DigestOf([]byte(text)), Name: n.Name, Scope: n.Scope, Namespace: n.Namespace,
		Created: now}
	if !tokenName.MatchString(n.Name) {
		return nil, landfall.Errorf("api", landfall.Invalid,
			"%q is no name of a token; right would be small letters, digits and hyphens, such as ci-shop", n.Name)
	}
	if n.App != "" && n.Namespace != "" {
		return nil, landfall.Errorf("api", landfall.Invalid, "a token is for an app or for a namespace, not both")
	}
	if n.Expires != "" {
		age, err := landfall.ParseAge(string(n.Expires))
		if err != nil || age.Duration() == 0 {
			return nil, landfall.Errorf("api", landfall.Invalid,
				"expires is %q; right would be a length of time such as 24h or 90d", n.Expires)
		}
		t.Expires = now.Add(age.Duration())
	}
	note := outlived(&t, caller(ctx))
	if n.App != "" {
		app, err := a.app(ctx, n.App, landfall.ScopeAdmin)
		if err != nil {
			return nil, err
		}
		t.App = app.ID
	} else if !t.Within(caller(ctx)) {
		return nil, forbidden(landfall.ScopeAdmin, "more than its own apps: name one of them with app")
	}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		if n.Namespace != "" && n.Namespace != landfall.DefaultNamespace {
			if _, err := tx.Namespace(ctx, n.Namespace); err != nil {
				return err
			}
		}
		tokens, err := tx.Tokens(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(tokens, func(made landfall.Token) bool { return made.Hash == t.Hash })
		if mayBeMade(ctx) && at >= 0 {
			t = tokens[at]
			return nil
		}
		if err := untaken(ctx, n.Name, tokens); err != nil {
			return err
		}
		return tx.PutToken(ctx, t)
	})
	return answer(client.MadeToken{Token: tokenOf(t, n.App), Text: text, Note: note}, err)
}

// outlived lets a new token end with the one that makes it, where it would end later, and says so.
func outlived(t *landfall.Token, maker landfall.Token) (note string) {
	if maker.Expires.IsZero() || !t.Expires.IsZero() && !t.Expires.After(maker.Expires) {
		return ""
	}
	t.Expires = maker.Expires
	return "it expires with the token " + maker.Name + ", which made it"
}

// untaken fails with Conflict when a token has a name. Of one that the request's token does not see, nothing more is
// said.
func untaken(ctx context.Context, name string, tokens []landfall.Token) error {
	at := slices.IndexFunc(tokens, func(t landfall.Token) bool { return t.Name == name })
	switch {
	case at < 0 && !ofSettings(name):
		return nil
	case at < 0 || !tokens[at].Within(caller(ctx)):
		return landfall.Errorf("api", landfall.Conflict, "the name is taken: choose another")
	}
	return landfall.Errorf("api", landfall.Conflict,
		"there is a token with the name %s: choose another name, or delete it first", name)
}

// tokenText returns what is random in a token's text. For a request with a key it follows from that and from the
// server's key, so that the request gets the same token when it comes again.
func (a *api) tokenText(ctx context.Context) string {
	if id := identityOf(ctx); id != "" {
		return idOf(string(a.Editor.Secrets.Fingerprint(secret.Owner{Name: "token"}, secret.Text(id))), "token")
	}
	return rand.Text()
}

func (a *api) deleteToken(ctx context.Context, in *struct {
	Token string `path:"token" doc:"name of the token"`
}) (*struct{}, error) {
	if ofSettings(in.Token) && !caller(ctx).Bound() {
		return nil, landfall.Errorf("api", landfall.Conflict,
			"the token %s is a setting of the server (LANDFALL_TOKEN, LANDFALL_ROLE_SECRET): change it there", in.Token)
	}
	return nil, a.DB.Update(ctx, func(tx *store.Tx) error {
		tokens, err := a.tokens(ctx, tx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(tokens, func(t landfall.Token) bool { return t.Name == in.Token }) {
			return landfall.Errorf("api", landfall.NotFound, "there is no token %q", in.Token)
		}
		return tx.ForgetToken(ctx, in.Token)
	})
}
