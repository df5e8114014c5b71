package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// newTokens fails the test unless a token that is made ends with its maker at the latest, is made for what was said
// alone, and takes no name of one that its maker does not see.
func newTokens(t *testing.T, w *world) {
	t.Helper()
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	w.update(func(ctx context.Context, tx *store.Tx) error {
		return tx.PutToken(ctx, landfall.Token{Hash: landfall.DigestOf([]byte("ending")), Name: "ending",
			Scope: landfall.ScopeAdmin, Created: time.Now(), Expires: ends})
	})
	const path = "/api/v1/tokens"
	for body, outlives := range map[string]bool{
		`{"name":"for-ever","scope":"read"}`:                     true,
		`{"name":"later","scope":"admin","expires":"2h"}`:        true,
		`{"name":"earlier","scope":"deploy","expires":"30m"}`:    false,
		`{"name":"of-one","scope":"read","app":"shop"}`:          true,
		`{"name":"of-all","scope":"read","namespace":"default"}`: true,
	} {
		a := w.ask("ending", http.MethodPost, path, body)
		testkit.Equal(t, a.String(), a.status, http.StatusCreated)
		made := testkit.Decode[client.MadeToken](t, []byte(a.body))
		testkit.Equal(t, a.String()+": ends with its maker", made.Expires.Equal(ends), outlives)
		testkit.Equal(t, a.String()+": ends not later", made.Expires.After(ends), false)
		testkit.Equal(t, a.String()+": says so", strings.Contains(made.Note, "expires with the token ending"), outlives)
		stored := testkit.Must(w.db.Token(t.Context(), made.Text, time.Now()))(t)
		testkit.Equal(t, a.String()+": as it is stored", stored.Expires.Equal(made.Expires), true)
	}
	ofShop := tokenOf(landfall.ScopeAdmin, shopID)
	for _, r := range []struct {
		token, body string
		status      int
		says        string
	}{
		{"ending", `{"name":"x","scope":"read","app":""}`, http.StatusUnprocessableEntity, "body.app"},
		{"ending", `{"name":"x","scope":"read","namespace":""}`, http.StatusUnprocessableEntity, "body.namespace"},
		{"ending", `{"name":"x","scope":"read","expires":""}`, http.StatusUnprocessableEntity, "body.expires"},
		{ofShop, `{"name":"readshop-id","scope":"read","app":"shop"}`, http.StatusConflict,
			"there is a token with the name readshop-id"},
		{ofShop, `{"name":"readbakery-id","scope":"read","app":"shop"}`, http.StatusConflict,
			`"the name is taken: choose another"`},
		{ofShop, `{"name":"admin","scope":"read","app":"shop"}`, http.StatusConflict, `"the name is taken: choose another"`},
		{ofShop, `{"name":"roles","scope":"read","app":"shop"}`, http.StatusConflict, `"the name is taken: choose another"`},
		{ofShop, `{"name":"x","scope":"read"}`, http.StatusForbidden, "more than its own apps"},
	} {
		before := len(testkit.Must(w.db.Tokens(t.Context()))(t))
		a := w.ask(r.token, http.MethodPost, path, r.body)
		testkit.Equal(t, a.String(), a.status, r.status)
		testkit.Contains(t, a, r.says)
		testkit.Equal(t, a.String()+": tokens", len(testkit.Must(w.db.Tokens(t.Context()))(t)), before)
	}
}

// firstOfNamespace fails the test unless a token for a namespace makes the first function of it, from which the
// namespace has an app, and no token for anything else does.
func firstOfNamespace(t *testing.T, w *world) {
	t.Helper()
	const path = "/api/v1/functions/first/versions?namespace=lone"
	const body = `{"environment":"python","code":{"name":"first.py","literal":"ZGVmIG1haW4oZSk6IHJldHVybiAx"}}`
	for _, bound := range []string{ownNamespace, shopID} {
		wantProblem(t, w.ask(tokenOf(landfall.ScopeDeploy, bound), http.MethodPost, path, body), http.StatusForbidden,
			"forbidden", "the token lacks the scope deploy for function first")
	}
	wantProblem(t, w.ask(tokenOf(landfall.ScopeRead, otherNamespace), http.MethodPost, path, body),
		http.StatusForbidden, "forbidden", "the token lacks the scope deploy")
	a := w.ask(tokenOf(landfall.ScopeDeploy, otherNamespace), http.MethodPost, path, body)
	testkit.Equal(t, a.String(), a.status, http.StatusAccepted)
	testkit.Contains(t, a, `"state":"queued"`)
}

// namesWhatGoes fails the test unless what is taken away for good is named: 0 is the latest version for reading alone.
func namesWhatGoes(t *testing.T, w *world) {
	t.Helper()
	before, admin := w.state(), tokenOf(landfall.ScopeAdmin, "")
	for _, r := range [][3]string{
		{http.MethodDelete, "/api/v1/functions/hello/versions/0"},
		{http.MethodDelete, "/api/v1/functions/unneeded/versions/0"},
		{http.MethodDelete, "/api/v1/functions/unneeded/versions/0?dry_run=true"},
		{http.MethodDelete, "/api/v1/packages/unneeded-pkg/versions/0"},
		{http.MethodPost, "/api/v1/apps/shop/secrets/UNUSED_KEY/revoke", `{"version":"0"}`},
	} {
		wantProblem(t, w.ask(admin, r[0], r[1], r[2]), http.StatusBadRequest, "invalid", `"0" names no version of`,
			"a number from 1")
	}
	testkit.Equal(t, "what is stored", w.state(), before)
	a := w.ask(admin, http.MethodGet, "/api/v1/functions/hello/versions/0", "")
	testkit.Equal(t, a.String(), a.status, http.StatusOK)
}
