package githubtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// appHook is the path below which the webhook of the App is; that of a repository has its own.
const appHook = "app/hook"

func hookResources() map[string]func(*Server, call) reply {
	const all, one = "/repos/{owner}/{repo}/hooks", "/repos/{owner}/{repo}/hooks/{hook_id}"
	resources := map[string]func(*Server, call) reply{
		all: (*Server).serveHooks, one: (*Server).serveHook, one + "/config": (*Server).serveHookConfig,
		one + "/pings": (*Server).pingHook, "/" + appHook + "/config": (*Server).serveHookConfig,
	}
	for _, of := range []string{one, "/" + appHook} {
		resources[of+"/deliveries"] = (*Server).listDeliveries
		resources[of+"/deliveries/{delivery_id}"] = (*Server).showDelivery
		resources[of+"/deliveries/{delivery_id}/attempts"] = (*Server).redeliver
	}
	return resources
}

// Hook is one webhook: of a repository or, without one, of the App.
type Hook struct {
	Repository  string // owner/name; empty: the App's
	ID          int64
	URL         string
	ContentType string // json or form
	Secret      string
	InsecureSSL string // 0 or 1
	Events      []string
	Active      bool
	Deliveries  []Delivery // oldest first
}

// Delivery is one attempt at delivering an event.
type Delivery struct {
	ID         int64
	GUID       string // of the event
	Event      string
	Action     string
	Repository int64 // its id
	At         time.Time
	Redelivery bool
	Status     int // of the answer, or 502 and 504 without one
	Payload    json.RawMessage
}

// hooks are the webhooks of all repositories and of the App.
type hooks struct {
	list    []*Hook
	refused int // the status that the token gets; 0: it may administer webhooks
}

// Hooks returns the webhooks of a repository; those of the App when it is empty.
func (s *Server) Hooks(repository string) (all []Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hooks.list {
		if h.Repository == repository {
			all = append(all, *h)
		}
	}
	return all
}

// RefuseHooks lets the token administer no webhooks from now on: it gets 403, as a fine-grained one, or 404, as others.
// 0 ends that.
func (s *Server) RefuseHooks(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.refused = status
}

// AddHook adds a webhook, as a person does by hand, and returns its ID.
func (s *Server) AddHook(h Hook) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addHook(h).ID
}

func (s *Server) addHook(h Hook) *Hook {
	s.issued++
	h.ID = 30_000_000 + s.issued
	s.hooks.list = append(s.hooks.list, &h)
	return &h
}

// ChangeHook changes a webhook, as a person does by hand.
func (s *Server) ChangeHook(id int64, change func(*Hook)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hooks.list {
		if h.ID == id {
			change(h)
		}
	}
}

// DeleteHook deletes a webhook, as a person does by hand.
func (s *Server) DeleteHook(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.list = slices.DeleteFunc(s.hooks.list, func(h *Hook) bool { return h.ID == id })
}

// Deliver tells all active webhooks of a repository, and that of the App, of an event that they want. They get the
// same GUID.
func (s *Server) Deliver(repository, event string, payload []byte) (guid string) {
	guid = rand.Text()
	if event == "pull_request" {
		s.keepPull(repository, payload)
	}
	for _, h := range s.wanting(repository, event) {
		s.attempt(h, Delivery{GUID: guid, Event: event, Payload: payload})
	}
	return guid
}

// wanting returns the webhooks that are told of an event.
func (s *Server) wanting(repository, event string) (all []*Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hooks.list {
		if h.Active && (h.Repository == repository || h.Repository == "" && s.tellsApp(repository)) &&
			(slices.Contains(h.Events, event) || slices.Contains(h.Events, "*") || event == "ping") {
			all = append(all, h)
		}
	}
	return all
}

// attempt makes one attempt at a delivery, and records it.
func (s *Server) attempt(to *Hook, d Delivery) {
	var said struct {
		Action     string `json:"action"`
		Repository struct {
			ID int64 `json:"id"`
		} `json:"repository"`
	}
	_ = json.Unmarshal(d.Payload, &said) // what GitHub sends is JSON
	s.mu.Lock()
	h := *to
	s.issued++
	d.ID = 90_000_000 + s.issued
	s.mu.Unlock()
	d.Action, d.Repository, d.At = said.Action, said.Repository.ID, time.Now().UTC()
	d.Status = send(h, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Deliveries = append(to.Deliveries, d)
}

// send sends a delivery as GitHub does, and returns the status of the answer.
func send(h Hook, d Delivery) int {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	body, contentType := []byte(d.Payload), "application/json"
	if h.ContentType == "form" {
		body, contentType = []byte("payload="+url.QueryEscape(string(body))), "application/x-www-form-urlencoded"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return http.StatusBadGateway
	}
	r.Header = http.Header{
		"Content-Type": {contentType}, "User-Agent": {"GitHub-Hookshot/044aadd"}, "X-Github-Delivery": {d.GUID},
		"X-Github-Event": {d.Event},
	}
	if h.Secret != "" {
		mac := hmac.New(sha256.New, []byte(h.Secret))
		mac.Write(body)
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(r)
	switch {
	case ctx.Err() != nil:
		return http.StatusGatewayTimeout
	case err != nil:
		return http.StatusBadGateway
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// hookOf returns the webhook of a call, or the answer to a call that has none.
func (s *Server) hookOf(c call) (*Hook, *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	no := refuse(http.StatusNotFound, "Not Found")
	if s.hooks.refused != 0 && c.PathParams["repo"] != "" {
		no = refuse(s.hooks.refused, "Resource not accessible by personal access token")
		return nil, &no
	}
	id, _ := strconv.ParseInt(c.PathParams["hook_id"], 10, 64)
	for _, h := range s.hooks.list {
		if id != 0 && h.ID == id && h.Repository == c.repository || h.Repository == "" && c.PathParams["repo"] == "" {
			return h, nil
		}
	}
	if id == 0 && c.PathParams["repo"] != "" {
		return nil, nil
	}
	return nil, &no
}

// hookRequest is what a request says of a webhook.
type hookRequest struct {
	hookConfig

	Config hookConfig `json:"config"`
	Events []string   `json:"events"`
	Active *bool      `json:"active"`
}

type hookConfig struct {
	URL         *string `json:"url"`
	ContentType *string `json:"content_type"`
	Secret      *string `json:"secret"`
	InsecureSSL any     `json:"insecure_ssl"`
}

// apply changes what a request names.
func (c hookConfig) apply(h *Hook) {
	h.URL = *cmp.Or(c.URL, &h.URL)
	h.ContentType = *cmp.Or(c.ContentType, &h.ContentType)
	h.Secret = *cmp.Or(c.Secret, &h.Secret)
	if c.InsecureSSL != nil {
		h.InsecureSSL = fmt.Sprint(c.InsecureSSL)
	}
}

// readHook returns what a request says of a webhook, or the answer to a request that says nothing.
func readHook(c call) (in hookRequest, no *reply) {
	if err := json.NewDecoder(c.Request.Body).Decode(&in); err != nil {
		bad := refuse(http.StatusBadRequest, "Problems parsing JSON")
		return in, &bad
	}
	return in, nil
}

// serveHooks lists or makes webhooks.
func (s *Server) serveHooks(c call) reply {
	if _, no := s.hookOf(c); no != nil {
		return *no
	}
	if c.Route.Method == http.MethodGet {
		list := []map[string]any{}
		for _, h := range s.Hooks(c.repository) {
			list = append(list, hookObject(&h))
		}
		return s.page(c, list)
	}
	in, no := readHook(c)
	if no != nil {
		return *no
	}
	h := Hook{Repository: c.repository, ContentType: "form", InsecureSSL: "0", Events: []string{"push"}, Active: true}
	in.Config.apply(&h)
	if h.Active = in.Active == nil || *in.Active; in.Events != nil {
		h.Events = in.Events
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.hooks.list {
		if other.Repository == h.Repository && other.URL == h.URL {
			return refuse(http.StatusUnprocessableEntity, "Validation Failed: Hook already exists on this repository")
		}
	}
	if !strings.HasPrefix(h.URL, "http") {
		return refuse(http.StatusUnprocessableEntity, "Validation Failed: url is missing a scheme")
	}
	return say(http.StatusCreated, hookObject(s.addHook(h)))
}

// serveHook shows, edits or deletes a webhook.
func (s *Server) serveHook(c call) reply {
	h, no := s.hookOf(c)
	if no != nil {
		return *no
	}
	switch c.Route.Method {
	case http.MethodDelete:
		s.DeleteHook(h.ID)
		return reply{status: http.StatusNoContent}
	case http.MethodPatch:
		in, no := readHook(c)
		if no != nil {
			return *no
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if in.Config.URL != nil { // the configuration is replaced, the secret too
			h.ContentType, h.Secret, h.InsecureSSL = "form", "", "0"
		}
		in.Config.apply(h)
		if in.Events != nil {
			h.Events = in.Events
		}
		if in.Active != nil {
			h.Active = *in.Active
		}
		return say(http.StatusOK, hookObject(h))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return unlessKnown(c, say(http.StatusOK, hookObject(h)))
}

// unlessKnown is an answer, or 304 when the client has it already.
func unlessKnown(c call, got reply) reply {
	sum := sha256.Sum256(got.body)
	got.header = map[string]string{"Etag": `W/"` + hex.EncodeToString(sum[:]) + `"`}
	if c.Request.Header.Get("If-None-Match") == got.header["Etag"] {
		return reply{status: http.StatusNotModified, header: got.header}
	}
	return got
}

// serveHookConfig shows or edits the configuration of a webhook.
func (s *Server) serveHookConfig(c call) reply {
	h, no := s.hookOf(c)
	if no != nil {
		return *no
	}
	if c.Route.Method == http.MethodPatch {
		in, no := readHook(c)
		if no != nil {
			return *no
		}
		s.mu.Lock()
		in.apply(h)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return say(http.StatusOK, hookObject(h)["config"])
}

// pingHook delivers a ping.
func (s *Server) pingHook(c call) reply {
	h, no := s.hookOf(c)
	if no != nil {
		return *no
	}
	payload, err := json.Marshal(map[string]any{"zen": "Keep it logically awesome.", "hook_id": h.ID})
	if err != nil {
		return refuse(http.StatusInternalServerError, err.Error())
	}
	s.attempt(h, Delivery{GUID: rand.Text(), Event: "ping", Payload: payload})
	return reply{status: http.StatusNoContent}
}

// listDeliveries answers with one page, newest first, and says where the next one is.
func (s *Server) listDeliveries(c call) reply {
	h, no := s.hookOf(c)
	if no != nil {
		return *no
	}
	query := c.Request.URL.Query()
	size, from := 30, int64(0)
	if n, err := strconv.Atoi(query.Get("per_page")); err == nil {
		size = min(n, 100)
	}
	if n, err := strconv.ParseInt(strings.TrimPrefix(query.Get("cursor"), "v1_"), 10, 64); err == nil {
		from = n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []map[string]any{}
	for _, d := range slices.Backward(h.Deliveries) {
		outcome := "success"
		if d.Status >= http.StatusBadRequest {
			outcome = "failure"
		}
		if wanted := query.Get("status"); from != 0 && d.ID > from || wanted != "" && wanted != outcome {
			continue
		}
		if len(list) == size {
			query.Set("cursor", fmt.Sprintf("v1_%d", d.ID))
			got := say(http.StatusOK, list)
			got.header = map[string]string{"Link": fmt.Sprintf(`<%s%s?%s>; rel="next"`, s.URL, c.Request.URL.Path[1:],
				query.Encode())}
			return got
		}
		list = append(list, deliveryObject(d))
	}
	return say(http.StatusOK, list)
}

// deliveryOf returns the delivery of a call, or the answer to a call that has none.
func (s *Server) deliveryOf(c call) (*Hook, Delivery, *reply) {
	h, no := s.hookOf(c)
	if no != nil {
		return nil, Delivery{}, no
	}
	id, _ := strconv.ParseInt(c.PathParams["delivery_id"], 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(h.Deliveries, func(d Delivery) bool { return d.ID == id })
	if i < 0 {
		missing := refuse(http.StatusNotFound, "Not Found")
		return nil, Delivery{}, &missing
	}
	return h, h.Deliveries[i], nil
}

func (s *Server) showDelivery(c call) reply {
	h, d, no := s.deliveryOf(c)
	if no != nil {
		return *no
	}
	o := deliveryObject(d)
	o["url"] = h.URL
	o["request"] = map[string]any{"headers": map[string]any{"X-GitHub-Delivery": d.GUID}, "payload": d.Payload}
	o["response"] = map[string]any{"headers": map[string]any{}, "payload": ""}
	return say(http.StatusOK, o)
}

// redeliver delivers once more what was delivered under the same GUID.
func (s *Server) redeliver(c call) reply {
	h, d, no := s.deliveryOf(c)
	if no != nil {
		return *no
	}
	d.Redelivery = true
	s.attempt(h, d)
	return say(http.StatusAccepted, map[string]any{})
}

// hookObject returns a webhook as GitHub shows it.
func hookObject(h *Hook) map[string]any {
	address := fmt.Sprintf("https://api.github.com/repos/%s/hooks/%d", h.Repository, h.ID)
	at := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC).Format(time.RFC3339)
	last := map[string]any{"code": nil, "status": "unused", "message": nil}
	if n := len(h.Deliveries); n > 0 {
		status := h.Deliveries[n-1].Status
		last = map[string]any{"code": status, "status": "active", "message": http.StatusText(status)}
	}
	config := map[string]any{"url": h.URL, "content_type": h.ContentType, "insecure_ssl": h.InsecureSSL}
	if h.Secret != "" {
		config["secret"] = "********"
	}
	return map[string]any{
		"type": "Repository", "id": h.ID, "name": "web", "active": h.Active, "events": h.Events, "config": config,
		"updated_at": at, "created_at": at, "url": address, "test_url": address + "/test", "ping_url": address + "/pings",
		"deliveries_url": address + "/deliveries", "last_response": last,
	}
}

// deliveryObject returns a delivery as GitHub lists it.
func deliveryObject(d Delivery) map[string]any {
	var action, repository any
	if d.Action != "" {
		action = d.Action
	}
	if d.Repository != 0 {
		repository = d.Repository
	}
	status := http.StatusText(d.Status)
	switch d.Status {
	case http.StatusBadGateway:
		status = "failed to connect to host"
	case http.StatusGatewayTimeout:
		status = "timed out"
	}
	return map[string]any{
		"id": d.ID, "guid": d.GUID, "delivered_at": d.At.Format(time.RFC3339Nano), "redelivery": d.Redelivery,
		"duration": 0.03, "status": status, "status_code": d.Status, "event": d.Event, "action": action,
		"installation_id": nil, "repository_id": repository, "throttled_at": nil,
	}
}
