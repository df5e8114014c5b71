package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// A trigger that is fired by its name answers as at its route, whatever app, release or trigger there is or was.
func TestFire(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := shop(content, files{})
	greet := routeTo(greeter(), "greet", "").Trigger
	closed := routeTo(greeter(), "closed", landfall.AccessSignedIn).Trigger
	nightly := &registry.Trigger{Trigger: landfall.Trigger{Kind: landfall.TimeTrigger,
		HTTP: landfall.HTTPSource{Access: landfall.AccessToken}}, Namespace: "team", AppName: "shop", Name: "nightly",
		Function: greeter()}
	gone := routeTo(nil, "gone", "").Trigger
	app.Releases[0].Triggers = []*registry.Trigger{nightly, greet, closed, gone,
		{Trigger: landfall.Trigger{Kind: landfall.TimeTrigger}, Namespace: "team", Name: "greet"}}
	var got event.Event
	answered := map[string]int{}
	s := newSite(t, content, func(c *gateway.Config) {
		c.Functions = plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
			got = e
			return textOf(e, "hello", event.Protocol{}), nil
		})
		c.Allowed = func(r *http.Request, app string, access landfall.Access) error {
			switch {
			case access != landfall.AccessToken || app != "shop":
				return &landfall.Error{Kind: landfall.Forbidden}
			case r.Header.Get("Authorization") == "":
				return &landfall.Error{Kind: landfall.Unauthorized}
			}
			return nil
		}
		c.Answered = func(app string, status int, _ int64) { answered[app] = status }
	}, app, registry.App{ID: "2", Name: "gone", Deleted: true}, registry.App{ID: "3", Name: "empty"})
	s.tables.expired = map[string]landfall.UID{"shop.xxxxxxx2": "xxxxxxx2"}
	fire := func(method, path string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://"+domain+path, http.NoBody)
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.gateway.Fire(w, r)
		return w
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/r/team/shop/greet", http.StatusOK},
		{"BREW", "/r/team/shop:aaaaaaa2/greet", http.StatusOK},
		{"GET", "/r/team/shop/closed", http.StatusUnauthorized},
		{"GET", "/r/team/shop/gone", http.StatusBadGateway},
		{"GET", "/r/team/shop/nightly", http.StatusMethodNotAllowed},
		{"POST", "/r/team/shop/nightly", http.StatusUnauthorized},
		{"GET", "/r/team/shop/nobody", http.StatusNotFound},
		{"GET", "/r/team/shop:nobody/greet", http.StatusNotFound},
		{"GET", "/r/team/shop:xxxxxxx2/greet", http.StatusGone},
		{"GET", "/r/default/shop/greet", http.StatusNotFound},
		{"GET", "/r/team/gone/greet", http.StatusGone},
		{"GET", "/r/team/empty/greet", http.StatusNotFound},
		{"GET", "/r/team/nobody/greet", http.StatusNotFound},
		{"GET", "/r/team", http.StatusNotFound},
	} {
		if w := fire(c.method, c.path); w.Code != c.status {
			t.Errorf("%s %s: got %d, want %d", c.method, c.path, w.Code, c.status)
		}
	}
	w := fire("POST", "/r/team/shop/nightly", "Authorization", "Bearer token", "Content-Type", "text/plain")
	if w.Code != http.StatusOK || w.Header().Get(page.ReleaseHeader) != "aaaaaaa2" ||
		got.Type() != "dev.landfall.schedule" || event.ExecutionOf(got) == "" {
		t.Errorf("got %d with %v for %v, want the schedule's event answered", w.Code, w.Header(), got)
	}
	for _, host := range []string{domain, "trigger-1:8080", "127.0.0.1"} { // processes with a role are reached by any name
		r := httptest.NewRequest(http.MethodGet, "http://"+host+"/r/team/shop/greet", http.NoBody)
		r.Header.Set("Authorization", "Bearer token")
		s.gateway.Fire(httptest.NewRecorder(), r)
		if p, err := event.ProtocolOf(got); err != nil || p.Headers["Authorization"] != nil ||
			got.Source() != "/r/team/shop/greet" {
			t.Errorf("the function got %v, %v at %s, and must not get what is for the control host", p.Headers, err, host)
		}
	}
	if answered["shop"] != http.StatusOK || answered["empty"] != http.StatusNotFound || answered["gone"] != 0 {
		t.Errorf("counted as %v", answered)
	}
	s.tables.Store(nil)
	if w := fire("GET", "/r/team/shop/greet"); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("without a table: got %d", w.Code)
	}
}

// Who wants the event that a function answers with needs a token, however public the trigger is, and learns of an error
// what visitors do not. What a contract refuses has no execution, in either form.
func TestFireForEvent(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := shop(content, files{})
	app.Releases[0].Triggers = []*registry.Trigger{routeTo(greeter(), "greet", "").Trigger}
	preview := content.release("bbbbbbb2", files{})
	preview.Triggers = app.Releases[0].Triggers
	app.Releases, app.SignedIn = append(app.Releases, preview), true
	errs := map[string]error{
		"/late": &landfall.Error{Message: "it took too long",
			Err: &function.Error{Reason: function.ReasonTimeout, Trace: "line 7"}},
		"/refused": &landfall.Error{Kind: landfall.Invalid, Message: "it does not fit", Err: &contract.MismatchError{}},
	}
	s := newSite(t, content, func(c *gateway.Config) {
		c.Functions = plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
			p, _ := event.ProtocolOf(e)
			_, query, _ := strings.Cut(p.RequestURL, "?")
			if err := errs[query]; err != nil {
				return event.Event{}, err
			}
			return textOf(e, "hello", event.Protocol{}), nil
		})
		c.Allowed = func(r *http.Request, _ string, _ landfall.Access) error {
			if r.Header.Get("Authorization") == "" {
				return &landfall.Error{Kind: landfall.Unauthorized}
			}
			return nil
		}
	}, app)
	const eventType, html, bearer = "application/cloudevents+json", "text/html", "Bearer token"
	for _, c := range []struct {
		target, accept, authorization string
		status                        int
		executed                      bool
		body, not                     string
	}{
		{"shop/greet", html, "", http.StatusOK, true, "hello", "specversion"},
		{"shop/greet", eventType, "", http.StatusUnauthorized, false, "", "hello"},
		{"shop/greet", eventType, bearer, http.StatusOK, true, `"data":"hello"`, "error"},
		{"shop:bbbbbbb2/greet", html, "", http.StatusUnauthorized, false, "", "hello"},
		{"shop:bbbbbbb2/greet", html, bearer, http.StatusOK, true, "hello", ""},
		{"shop/greet?/late", html, "", http.StatusGatewayTimeout, true, "took too long", "line 7"},
		{"shop/greet?/late", eventType, bearer, http.StatusGatewayTimeout, true, `"trace":"line 7"`, `"data"`},
		{"shop/greet?/refused", html, "", http.StatusBadRequest, false, "The data does not fit", ""},
		{"shop/greet?/refused", eventType, bearer, http.StatusBadRequest, false, "it does not fit", `"execution"`},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://"+domain+"/r/team/"+c.target, http.NoBody)
		r.Header.Set("Accept", c.accept)
		r.Header.Set("Authorization", c.authorization)
		w := httptest.NewRecorder()
		s.gateway.Fire(w, r)
		body := strings.ReplaceAll(w.Body.String(), `\"`, `"`) // an error is JSON within JSON
		if executed := w.Header().Get(page.ExecutionHeader) != ""; w.Code != c.status || executed != c.executed ||
			!strings.Contains(body, c.body) || c.not != "" && strings.Contains(body, c.not) {
			t.Errorf("%s for %s with %q: got %d %v %s, want %d, executed %t, with %q and without %q", c.target, c.accept,
				c.authorization, w.Code, w.Header(), body, c.status, c.executed, c.body, c.not)
		}
	}
	if log := s.log.String(); !strings.Contains(log, "it took too long") || strings.Contains(log, "line 7") {
		t.Errorf("the operator's log has to say what failed, and not what the function logged: %s", log)
	}
}
