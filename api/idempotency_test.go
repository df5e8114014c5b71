package api_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// making are the operations that make something: those that take a key.
func making(t *testing.T) (all []operation) {
	t.Helper()
	for _, o := range operations(t) {
		if p := o.described.Parameters.GetByInAndName("header", "Idempotency-Key"); p != nil && o.id != "publish" {
			all = append(all, o)
		}
		// The client sends keys to the same operations as take them.
		path, _ := strings.CutPrefix(o.path(o.template), "/api/v1")
		takes := len(all) > 0 && all[len(all)-1].id == o.id
		if sends := o.method == http.MethodPost && client.Makes(path); sends != takes {
			t.Errorf("%s: the client sends a key: %t, and the operation takes one: %t", o.id, sends, takes)
		}
	}
	return all
}

// keyed sends the request of an operation with a key.
func (w *world) keyed(o operation, token, key, path, body string) answer {
	w.t.Helper()
	return w.askWith(http.Header{"Idempotency-Key": {key}}, token, o.method, path, body)
}

// claimed returns what is stored of a key.
func (w *world) claimed(token, key string) (r store.KeyedRequest) {
	w.t.Helper()
	w.update(func(ctx context.Context, tx *store.Tx) (err error) {
		r, err = tx.ClaimKey(ctx, store.KeyedRequest{Token: landfall.DigestOf([]byte(token)),
			Key: landfall.DigestOf([]byte(key)), Created: time.Now()}, time.Time{}, 9)
		return err
	})
	return r
}

// Whatever makes something makes it once for a key, wherever the server was killed or the answer was lost.
func TestKeys(t *testing.T) {
	t.Parallel()
	all := making(t)
	s := newSeed(t)
	admin := tokenOf(landfall.ScopeAdmin, "")
	for _, o := range all {
		t.Run(o.id, func(t *testing.T) {
			t.Parallel()
			w := s.copy(t)
			path, body := o.request(s, "")
			first := w.keyed(o, admin, "once", path, body)
			if first.status >= http.StatusMultipleChoices {
				t.Fatalf("got %s, want success", first)
			}
			state, sent := w.state(), w.sent()
			unchanged := func(what string) {
				t.Helper()
				if w.state() != state || w.sent() != sent {
					t.Errorf("%s made something again", what)
				}
			}
			same := func(what string, got answer) {
				t.Helper()
				testkit.Equal(t, what, got.status, first.status)
				testkit.Equal(t, what, got.body, first.body)
				unchanged(what)
			}
			again := w.keyed(o, admin, "once", path, body)
			same("the same request", again)
			testkit.Equal(t, "its header", again.header.Get("Idempotency-Replayed"), "true")

			other := w.keyed(o, admin, "once", path, strings.TrimSuffix(body, "}")+" }")
			wantProblem(t, other, http.StatusUnprocessableEntity, "invalid", "another request had this Idempotency-Key")
			unchanged("another request with the key")
			for _, bad := range []string{strings.Repeat("k", 256)} {
				wantProblem(t, w.keyed(o, admin, bad, path, body), http.StatusBadRequest, "invalid", "it has at most 255")
			}
			unchanged("a request with a key that is too long")

			stored := w.claimed(admin, "once")
			text, err := base64.StdEncoding.DecodeString(stored.Answer)
			if err != nil || len(text) == 0 || strings.Contains(string(text), first.body[:10]) {
				t.Errorf("the answer is stored in clear, or not at all: %q, %v", text, err)
			}
			// The server was killed when the thing was there, and its answer was not stored.
			stored.Status, stored.Answer = 0, ""
			w.update(func(ctx context.Context, tx *store.Tx) error { return tx.AnswerKey(ctx, stored) })
			same("the request after a kill", w.keyed(o, admin, "once", path, body))
			same("the request after that", w.keyed(o, admin, "once", path, body))
		})
		t.Run(o.id+" after a kill before anything was made", func(t *testing.T) {
			t.Parallel()
			w := s.copy(t)
			path, body := o.request(s, "")
			w.update(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.ClaimKey(ctx, store.KeyedRequest{Token: landfall.DigestOf([]byte(admin)),
					Key: landfall.DigestOf([]byte("once")), Created: time.Now().Add(-time.Hour),
					Request: landfall.DigestOf([]byte(o.method + " " + path + "\n" + body))}, time.Time{}, 9)
				return err
			})
			a := w.keyed(o, admin, "once", path, body)
			if a.status >= http.StatusMultipleChoices {
				t.Errorf("got %s, want that it is made now", a)
			}
		})
	}
}

// A key is its token's, ends after a day, and is free again when the request changed nothing.
func TestKeyIsWhose(t *testing.T) {
	t.Parallel()
	w := newSeed(t).copy(t)
	admin, ofShop := tokenOf(landfall.ScopeAdmin, ""), tokenOf(landfall.ScopeDeploy, shopID)
	job := operation{method: http.MethodPost}
	ask := func(token, body string) answer { return w.keyed(job, token, "k", "/api/v1/jobs", body) }
	const once = `{"function":"hello","pattern":"0 3 * * *"}`
	wrong := ask(admin, `{"function":"hello","pattern":"never"}`)
	testkit.Equal(t, wrong.String(), wrong.status, http.StatusBadRequest)
	first, second := ask(admin, once), ask(ofShop, once)
	testkit.Equal(t, first.String(), first.status, http.StatusCreated)
	if second.status != http.StatusCreated || second.body == first.body {
		t.Errorf("got %s for another token, want another job than %s", second, first)
	}
	old := w.claimed(admin, "k")
	old.Created = old.Created.Add(-25 * time.Hour)
	w.update(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.ReleaseKey(ctx, old); err != nil {
			return err
		}
		_, err := tx.ClaimKey(ctx, old, time.Time{}, 9)
		return err
	})
	if late := ask(admin, once); late.status != http.StatusCreated || late.body == first.body {
		t.Errorf("got %s after a day, want another job", late)
	}
	refused := w.keyed(operation{method: http.MethodPost}, admin, "k", "/api/v1/apps/shop/rollback", "{}")
	wantProblem(t, refused, http.StatusBadRequest, "invalid", "this request takes no Idempotency-Key")
}

// Of many at once with one key, one is carried out.
func TestKeyAtOnce(t *testing.T) {
	t.Parallel()
	w := newSeed(t).copy(t)
	admin := tokenOf(landfall.ScopeAdmin, "")
	answers := make([]answer, 8)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			answers[i] = w.keyed(operation{method: http.MethodPost}, admin, "k", "/api/v1/executions",
				`{"function":"hello","sync":false}`)
		})
	}
	group.Wait()
	bodies := map[string]bool{}
	for _, a := range answers {
		if a.status == http.StatusConflict && a.header.Get("Retry-After") == "1" {
			continue
		}
		testkit.Equal(t, a.String(), a.status, http.StatusCreated)
		bodies[a.body] = true
	}
	testkit.Equal(t, "different answers", len(bodies), 1)
	list := w.ask(admin, http.MethodGet, "/api/v1/executions?state=queued", "")
	testkit.Equal(t, "executions", strings.Count(list.body, `"id":"`)/2, 1) // of the execution and of its event
}

// losing loses the first answers of the server.
type losing struct {
	http.RoundTripper
	left *int
}

// RoundTrip implements http.RoundTripper.
func (l losing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	*l.left--
	if err == nil && *l.left >= 0 {
		return nil, errors.Join(io.ErrUnexpectedEOF, resp.Body.Close())
	}
	return resp, err
}

// The command line's client sends again what makes something when the answer is lost, and gets what was made.
func TestClientSendsAgain(t *testing.T) {
	t.Parallel()
	w := newSeed(t).copy(t)
	left := 2
	cl := client.Client{URL: w.server.URL, Token: tokenOf(landfall.ScopeAdmin, ""),
		HTTP: &http.Client{Transport: losing{w.server.Client().Transport, &left}}}
	var token client.MadeToken
	if err := cl.Do(t.Context(), http.MethodPost, "/tokens", client.NewToken{Name: "ci", Scope: landfall.ScopeRead},
		&token); err != nil {
		t.Fatal(err)
	}
	a := w.ask(token.Text, http.MethodGet, "/api/v1/apps", "")
	testkit.Equal(t, "what the token may do", a.status, http.StatusOK)
	left = 1
	err := cl.Do(t.Context(), http.MethodPost, "/apps/shop/rollback", map[string]string{}, nil)
	testkit.Kind(t, "what makes nothing is not sent again", err, landfall.Unavailable)
}

// A token cannot fill the database with answers that are kept for its keys: the oldest go.
func TestKeysAreCounted(t *testing.T) {
	t.Parallel()
	w := newSeed(t).copy(t)
	admin, ofShop := tokenOf(landfall.ScopeAdmin, ""), tokenOf(landfall.ScopeDeploy, shopID)
	ask := func(token, key string) answer {
		return w.keyed(operation{method: http.MethodPost}, token, key, "/api/v1/jobs",
			`{"function":"hello","pattern":"0 3 * * *"}`)
	}
	first, second := ask(admin, "first"), ask(ofShop, "first")
	w.update(func(ctx context.Context, tx *store.Tx) error {
		const most = 10_000
		for n := range most - 1 {
			claim := store.KeyedRequest{Token: landfall.DigestOf([]byte(admin)), Created: time.Now(),
				Key: landfall.DigestOf(fmt.Append(nil, n))}
			if _, err := tx.ClaimKey(ctx, claim, time.Time{}, most); err != nil {
				return err
			}
		}
		return nil
	})
	testkit.Equal(t, "the first one again", ask(admin, "first").body, first.body)
	one, same := ask(admin, "one more"), ask(admin, "one more")
	testkit.Equal(t, one.String(), one.status, http.StatusCreated)
	testkit.Equal(t, "what is kept of one more", same.body, one.body)
	if again := ask(admin, "first"); again.status != http.StatusCreated || again.body == first.body {
		t.Errorf("got %s for the oldest key, want that it is not kept any more", again)
	}
	testkit.Equal(t, "another token's", ask(ofShop, "first").body, second.body)
}

// An answer that is too long to be kept makes nothing twice, and says where what was made is.
func TestLongAnswersOfKeys(t *testing.T) {
	t.Parallel()
	w := newSeed(t).copy(t)
	admin := tokenOf(landfall.ScopeAdmin, "")
	post := operation{method: http.MethodPost}
	body := `{"function":"hello","pattern":"0 3 * * *","function_input":"` + strings.Repeat("x", 20<<10) + `"}`
	first := w.keyed(post, admin, "k", "/api/v1/jobs", body)
	testkit.Equal(t, first.String()[:80], first.status, http.StatusCreated)
	state := w.state()
	again := w.keyed(post, admin, "k", "/api/v1/jobs", body) // follows the answer to the job
	testkit.Equal(t, "its status", again.status, http.StatusOK)
	testkit.Equal(t, "what it leads to", again.body, first.body)
	testkit.Equal(t, "what there is", w.state(), state)
	job := testkit.Decode[client.Job](t, []byte(first.body))
	w.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	again = w.keyed(post, admin, "k", "/api/v1/jobs", body)
	testkit.Equal(t, "its status by itself", again.status, http.StatusSeeOther)
	testkit.Equal(t, "its address", again.header.Get("Location"), "/api/v1/jobs/"+job.ID)
}
