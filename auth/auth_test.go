package auth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// A request's token stands behind Bearer, or is a password of whatever user.
func TestTokenOfARequest(t *testing.T) {
	t.Parallel()
	basic := func(user, password string) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	for header, want := range map[string][2]string{ // the bearer token, the password
		"": {}, "Bearer": {}, "Bearer ": {}, "Bearer abc": {"abc", "abc"}, "bearer abc": {}, "Token abc": {},
		"Bearer  abc":     {" abc", " abc"},
		basic("x", "abc"): {"", "abc"}, basic("", "abc"): {"", "abc"}, basic("abc", ""): {},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", header)
		if got := [2]string{auth.BearerOf(r), auth.Password(r)}; got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	auth.SetBearer(r, "abc")
	testkit.Equal(t, "the token that was set", auth.BearerOf(r), "abc")
}

// Nothing is an empty secret.
func TestEqual(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given, want string
		equal       bool
	}{{"a", "a", true}, {"a", "b", false}, {"ab", "a", false}, {"", "a", false}, {"a", "", false}, {"", "", false}} {
		if got := auth.Equal(c.given, c.want); got != c.equal {
			t.Errorf("%q and %q: got %t", c.given, c.want, got)
		}
	}
}

// What a token may do depends on its scope and its app; who is told what, on what they may know.
func TestWhatATokenMayDo(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t))
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(t.Context(), landfall.DefaultNamespace, 1); err != nil {
			return err
		}
		for _, name := range []string{"shop", "blog"} {
			app := landfall.App{ID: name + "-id", Name: name, Namespace: landfall.DefaultNamespace, Created: time.Now()}
			if err := tx.CreateApp(t.Context(), app); err != nil {
				return err
			}
		}
		for name, token := range map[string]landfall.Token{
			"reads": {Scope: landfall.ScopeRead}, "invokes": {Scope: landfall.ScopeInvoke},
			"shop-invokes": {Scope: landfall.ScopeInvoke, App: "shop-id"},
			"shop-reads":   {Scope: landfall.ScopeRead, App: "shop-id"}, "admin": {Scope: landfall.ScopeAdmin},
		} {
			token.Name, token.Hash, token.Created = name, landfall.DigestOf([]byte(name)), time.Now()
			if err := tx.PutToken(t.Context(), token); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const fine = landfall.Kind(255)
	call := func(access landfall.Access, app string) func(token string) error {
		return func(token string) error {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			auth.SetBearer(r, token)
			return auth.MayCall(r, db, app, access)
		}
	}
	use := func(scope landfall.Scope, f *landfall.Function) func(token string) error {
		return func(token string) error { return auth.MayUse(t.Context(), db, token, scope, f) }
	}
	for what, c := range map[string]struct {
		try  func(token string) error
		want map[string]landfall.Kind
	}{
		"calls a route of the shop that takes tokens": {call(landfall.AccessToken, "shop"), map[string]landfall.Kind{
			"": landfall.Unauthorized, "nobody": landfall.Unauthorized, "reads": landfall.Forbidden,
			"shop-reads": landfall.Forbidden, "invokes": fine, "shop-invokes": fine, "admin": fine}},
		"calls a route of the blog that takes tokens": {call(landfall.AccessToken, "blog"), map[string]landfall.Kind{
			"shop-invokes": landfall.Forbidden, "invokes": fine}},
		"sees the blog as who signed in": {call(landfall.AccessSignedIn, "blog"), map[string]landfall.Kind{
			"": landfall.Unauthorized, "invokes": landfall.Forbidden, "shop-reads": landfall.Forbidden, "reads": fine,
			"admin": fine}},
		"uses a function of the blog": {use(landfall.ScopeInvoke, &landfall.Function{App: "blog-id"}),
			map[string]landfall.Kind{
				"nobody": landfall.Unauthorized, "reads": landfall.Forbidden, "shop-invokes": landfall.NotFound, "invokes": fine}},
		"uses functions": {use(landfall.ScopeInvoke, nil),
			map[string]landfall.Kind{"shop-invokes": fine, "shop-reads": landfall.Forbidden}},
	} {
		for token, want := range c.want {
			got, err := fine, c.try(token)
			if err != nil {
				got = landfall.KindOf(err)
			}
			if got != want {
				t.Errorf("who has the token %q %s: got %v, want the kind %v", token, what, err, want)
			}
		}
	}
}
