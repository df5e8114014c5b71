package githubtest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"landfall.dev/landfall/github/githubtest"
)

// receiver takes deliveries, and answers with a status.
type receiver struct {
	*httptest.Server

	status int
	got    []*http.Request
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	to := &receiver{status: http.StatusAccepted}
	to.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to.got = append(to.got, r)
		w.WriteHeader(to.status)
	}))
	t.Cleanup(to.Close)
	return to
}

// A webhook is made, shown without its secret, edited and deleted, as at GitHub.
func TestHooks(t *testing.T) {
	t.Parallel()
	s := start(t)
	const list = "repos/harbor/shop/hooks"
	status, made := call(t, s, http.MethodPost, list, `{"name":"web","events":["push","pull_request"],
		"config":{"url":"https://landfall.example/webhooks/github/1","content_type":"json","secret":"one"}}`)
	if status != http.StatusCreated || strings.Contains(fmt.Sprint(made), "one") {
		t.Fatalf("got %d %v, want a webhook without its secret", status, made)
	}
	if status, _ := call(t, s, http.MethodPost, list,
		`{"config":{"url":"https://landfall.example/webhooks/github/1"}}`); status != http.StatusUnprocessableEntity {
		t.Errorf("the same address again: got %d, want 422", status)
	}
	h := s.Hooks("harbor/shop")[0]
	if h.Secret != "one" || h.ContentType != "json" || !h.Active || len(h.Events) != 2 {
		t.Errorf("got %+v, want what was asked for", h)
	}
	one := fmt.Sprintf("%s/%d", list, h.ID)
	if status, _ := call(t, s, http.MethodPatch, one, `{"active":false,"config":{"url":"https://x.example/"}}`); status != 200 {
		t.Errorf("an edit got %d, want 200", status)
	}
	// The secret goes with a configuration that does not name it.
	if h := s.Hooks("harbor/shop")[0]; h.Active || h.Secret != "" || h.ContentType != "form" {
		t.Errorf("got %+v, want what the edit says, and the defaults", h)
	}
	if status, _ := call(t, s, http.MethodPatch, one+"/config", `{"secret":"two"}`); status != 200 {
		t.Errorf("an edit of the configuration got %d, want 200", status)
	}
	if h := s.Hooks("harbor/shop")[0]; h.Secret != "two" || h.URL != "https://x.example/" {
		t.Errorf("got %+v, want the new secret", h)
	}
	for path, want := range map[string]int{one: 200, list: 200, "repos/harbor/other/hooks/1": 404, list + "/7": 404} {
		if status, _ := call(t, s, http.MethodGet, path, ""); status != want {
			t.Errorf("%s: got %d, want %d", path, status, want)
		}
	}
	for _, refused := range []int{http.StatusForbidden, http.StatusNotFound} {
		s.RefuseHooks(refused)
		if status, _ := call(t, s, http.MethodGet, list, ""); status != refused {
			t.Errorf("without the right: got %d, want %d", status, refused)
		}
	}
	s.RefuseHooks(0)
	s.DeleteHook(h.ID)
	if got := s.Hooks("harbor/shop"); len(got) != 0 {
		t.Errorf("got %+v, want none", got)
	}
}

// What did not change is not sent again.
func TestHookUnchanged(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.AddHook(githubtest.Hook{Repository: "harbor/shop", URL: "https://x.example/", Active: true, Events: []string{"push"},
		ContentType: "json", InsecureSSL: "0"})
	ask := func(tag string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%srepos/harbor/shop/hooks/%d", s.URL, id),
			http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "If-None-Match": {tag}}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response
	}
	tag := ask("").Header.Get("ETag")
	if got := ask(tag).StatusCode; tag == "" || got != http.StatusNotModified {
		t.Errorf("got %d for the tag %q, want 304", got, tag)
	}
	s.ChangeHook(id, func(h *githubtest.Hook) { h.Active = false })
	if got := ask(tag).StatusCode; got != http.StatusOK {
		t.Errorf("got %d after a change, want 200", got)
	}
}

// Deliveries are signed, recorded with the answer, listed in pages, and made again under the same GUID.
func TestHookDeliveries(t *testing.T) {
	t.Parallel()
	s, to := start(t), newReceiver(t)
	id := s.AddHook(githubtest.Hook{Repository: "harbor/shop", URL: to.URL, Secret: "one", ContentType: "json", Active: true,
		InsecureSSL: "0", Events: []string{"push", "pull_request"}})
	app := s.AddHook(githubtest.Hook{URL: to.URL, ContentType: "form", Active: true, Events: []string{"push"}})
	to.status = http.StatusServiceUnavailable
	payload := []byte(`{"action":"opened","repository":{"id":7}}`)
	guid := s.Deliver("harbor/shop", "push", payload)
	s.Deliver("harbor/shop", "star", payload)
	if len(to.got) != 2 || to.got[0].Header.Get("X-Github-Delivery") != guid ||
		!strings.HasPrefix(to.got[0].Header.Get("X-Hub-Signature-256"), "sha256=") ||
		to.got[1].Header.Get("X-Github-Delivery") != guid || to.got[1].Header.Get("X-Hub-Signature-256") != "" ||
		to.got[1].Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Fatalf("got %+v, want one signed delivery to the repository's webhook and one to the App's", to.got)
	}
	for _, c := range []struct {
		id   int64
		path string
	}{{id, fmt.Sprintf("repos/harbor/shop/hooks/%d", id)}, {app, "app/hook"}} {
		to.status = http.StatusAccepted
		_, value := call(t, s, http.MethodGet, c.path+"/deliveries?status=failure", "")
		failed, ok := value.([]any)
		if !ok || len(failed) != 1 {
			t.Fatalf("%s: got %v, want the delivery that failed", c.path, value)
		}
		first, _ := failed[0].(map[string]any)
		if first["guid"] != guid || first["status_code"] != float64(503) || first["repository_id"] != float64(7) {
			t.Errorf("%s: got %v, want the delivery that failed", c.path, first)
		}
		one := fmt.Sprintf("%s/deliveries/%.0f", c.path, first["id"])
		if status, _ := call(t, s, http.MethodGet, one, ""); status != http.StatusOK {
			t.Errorf("%s: got %d, want the delivery", one, status)
		}
		if status, _ := call(t, s, http.MethodPost, one+"/attempts", ""); status != http.StatusAccepted {
			t.Errorf("%s: got %d, want 202", one, status)
		}
		if last := to.got[len(to.got)-1]; last.Header.Get("X-Github-Delivery") != guid {
			t.Errorf("%s: got %v again, want the same GUID", c.path, last.Header)
		}
		_, value = call(t, s, http.MethodGet, c.path+"/deliveries?per_page=1", "")
		if page, ok := value.([]any); !ok || len(page) != 1 {
			t.Errorf("%s: got %v, want a page of one", c.path, value)
		}
		if status, _ := call(t, s, http.MethodGet, c.path+"/deliveries/5", ""); status != http.StatusNotFound {
			t.Errorf("%s: got %d for another delivery, want 404", c.path, status)
		}
	}
	if status, _ := call(t, s, http.MethodPatch, "app/hook/config", `{"secret":"two"}`); status != http.StatusOK ||
		s.Hooks("")[0].Secret != "two" {
		t.Errorf("the App's configuration: got %d %+v, want the new secret", status, s.Hooks(""))
	}
	to.Close()
	s.Deliver("harbor/shop", "push", payload)
	if all := s.Hooks("harbor/shop")[0].Deliveries; all[len(all)-1].Status != http.StatusBadGateway {
		t.Errorf("got %+v, want 502 of a server that is down", all)
	}
}
