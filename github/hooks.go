package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// Host returns where the repositories are whose API is at an address: that of GitHub itself, or of an Enterprise
// server.
func Host(api string) string {
	u, err := url.Parse(api)
	if err != nil {
		return ""
	}
	if host, ok := strings.CutPrefix(u.Host, "api."); ok && strings.Trim(u.Path, "/") == "" {
		return host
	}
	return u.Host
}

// Hooks administers webhooks at GitHub, and lets what could not be delivered be delivered again. Its errors are
// NotFound for what is not there, or not for us; Forbidden; Invalid for what GitHub refuses, with its reason; and
// Unavailable for what may be tried again. While GitHub wants a pause, everything is Unavailable. All fields except the
// optional ones must be set.
type Hooks struct {
	Client *gogithub.Client
	Pace   *Pace // shared with all that calls GitHub by the same credentials
	Now    func() time.Time
	// called right before each request, and its error prevents the request; nil: not called
	Allowed func(ctx context.Context) error

	mu     sync.Mutex
	paused time.Time
}

// hookObject is a webhook in requests and answers.
type hookObject struct {
	ID     int64      `json:"id,omitempty"`
	Name   string     `json:"name,omitempty"`
	Active bool       `json:"active"`
	Events []string   `json:"events"`
	Config hookConfig `json:"config"`
}

type hookConfig struct {
	URL         string `json:"url"`
	ContentType string `json:"content_type"`
	Secret      string `json:"secret,omitempty"`
	InsecureSSL any    `json:"insecure_ssl"` // a text or a number
}

func (o hookObject) parse(tag string) landfall.ForgeHook {
	return landfall.ForgeHook{ID: o.ID, URL: o.Config.URL, Events: o.Events, JSON: o.Config.ContentType == "json",
		Verified: fmt.Sprint(o.Config.InsecureSSL) == "0", Signed: o.Config.Secret != "", Active: o.Active, Tag: tag}
}

// Hook returns a webhook of a repository. changed is false, and nothing else is known, when its tag is still this one.
func (h *Hooks) Hook(ctx context.Context, of landfall.GitHubRepository, id int64, tag string) (hook landfall.ForgeHook,
	changed bool, err error) {
	var o hookObject
	response, err := h.call(ctx, http.MethodGet, hookPath(of, id), tag, nil, &o)
	if response != nil && response.StatusCode == http.StatusNotModified {
		return hook, false, nil
	}
	if err != nil {
		return hook, false, err
	}
	return o.parse(response.Header.Get("ETag")), true, nil
}

// FindHook returns the webhook of a repository that leads to an address, without an ID when there is none. NotFound
// when the webhooks of the repository are not shown to us.
func (h *Hooks) FindHook(ctx context.Context, of landfall.GitHubRepository,
	address string) (landfall.ForgeHook, error) {
	for path := fmt.Sprintf("%s?per_page=%d", hookPath(of, 0), pageSize); ; {
		var page []hookObject
		response, err := h.call(ctx, http.MethodGet, path, "", nil, &page)
		if err != nil {
			return landfall.ForgeHook{}, err
		}
		if i := slices.IndexFunc(page, func(o hookObject) bool { return o.Config.URL == address }); i >= 0 {
			return page[i].parse(""), nil
		}
		if response.NextPage == 0 {
			return landfall.ForgeHook{}, nil
		}
		path = fmt.Sprintf("%s?per_page=%d&page=%d", hookPath(of, 0), pageSize, response.NextPage)
	}
}

// PutHook makes a webhook, or changes the one with its ID, with this secret, and returns it.
func (h *Hooks) PutHook(ctx context.Context, of landfall.GitHubRepository, hook landfall.ForgeHook,
	secret string) (landfall.ForgeHook, error) {
	in := hookObject{Name: "web", Active: hook.Active, Events: hook.Events,
		Config: hookConfig{URL: hook.URL, ContentType: "json", Secret: secret, InsecureSSL: "0"}}
	method := http.MethodPost
	if hook.ID != 0 {
		method, in.Name = http.MethodPatch, ""
	}
	var out hookObject
	_, err := h.call(ctx, method, hookPath(of, hook.ID), "", in, &out)
	return out.parse(""), err
}

// DeleteHook deletes a webhook of a repository; one that is not there is deleted.
func (h *Hooks) DeleteHook(ctx context.Context, of landfall.GitHubRepository, id int64) error {
	_, err := h.call(ctx, http.MethodDelete, hookPath(of, id), "", nil, nil)
	return landfall.Ignore(err, landfall.NotFound)
}

// hookPath is where a webhook of a repository is; with the id 0, where all are; of no repository, where the App's is.
func hookPath(of landfall.GitHubRepository, id int64) string {
	if of.Name == "" {
		return "app/hook"
	}
	owner, name := pathNames(of)
	path := "repos/" + owner + "/" + name + "/hooks"
	if id != 0 {
		path += fmt.Sprintf("/%d", id)
	}
	return path
}

// maxDeliveries is how many deliveries are looked through.
const maxDeliveries = 5000

// Deliveries returns the deliveries of a webhook since a time, newest first: of a repository or, without one, of the
// App.
func (h *Hooks) Deliveries(ctx context.Context, of landfall.GitHubRepository, id int64,
	since time.Time) (all []landfall.ForgeDelivery, err error) {
	path := fmt.Sprintf("%s/deliveries?per_page=%d", hookPath(of, id), pageSize)
	for first := path; len(all) < maxDeliveries; {
		var page []struct {
			ID           int64     `json:"id"`
			GUID         string    `json:"guid"`
			DeliveredAt  time.Time `json:"delivered_at"`
			StatusCode   int       `json:"status_code"`
			Event        string    `json:"event"`
			Action       string    `json:"action"`
			RepositoryID int64     `json:"repository_id"`
		}
		response, err := h.call(ctx, http.MethodGet, path, "", nil, &page)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			if d.DeliveredAt.Before(since) {
				return all, nil
			}
			all = append(all, landfall.ForgeDelivery{ID: d.ID, Delivery: d.GUID, Event: d.Event, Action: d.Action,
				Repository: d.RepositoryID, At: d.DeliveredAt, Status: d.StatusCode})
		}
		if response.Cursor == "" {
			return all, nil
		}
		path = first + "&cursor=" + url.QueryEscape(response.Cursor)
	}
	return all, nil
}

// Redeliver lets GitHub deliver once more what it delivered in an attempt, under the same id of the delivery.
func (h *Hooks) Redeliver(ctx context.Context, of landfall.GitHubRepository, id, attempt int64) error {
	path := fmt.Sprintf("%s/deliveries/%d/attempts", hookPath(of, id), attempt)
	_, err := h.call(ctx, http.MethodPost, path, "", nil, nil)
	return err
}

// call makes one request, when its time has come.
func (h *Hooks) call(ctx context.Context, method, path, tag string, in, out any) (*gogithub.Response, error) {
	const op landfall.Op = "github.Hooks"
	now := h.Now()
	h.mu.Lock()
	paused := h.paused
	h.mu.Unlock()
	if now.Before(paused) {
		return nil, landfall.Errorf(op, landfall.Unavailable, "GitHub wants no requests before %s",
			paused.UTC().Format(time.DateTime+" MST"))
	}
	what := writes
	if method == http.MethodGet {
		what = reads
	}
	if err := sleep(ctx, h.Pace.take(what, now)); err != nil {
		return nil, &landfall.Error{Op: op, Kind: landfall.Canceled, Err: err}
	}
	if h.Allowed != nil {
		if err := h.Allowed(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := h.Client.NewRequest(method, path, in)
	if err != nil {
		return nil, err
	}
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	response, err := h.Client.Do(ctx, r, out)
	if _, accepted := errors.AsType[*gogithub.AcceptedError](err); err == nil || accepted {
		return response, nil
	}
	if response == nil && landfall.Is(err, landfall.Forbidden) { // the App may not
		return nil, err
	}
	if ctx.Err() != nil && response == nil {
		return nil, &landfall.Error{Op: op, Kind: landfall.Unavailable, Message: "GitHub did not answer in time", Err: err}
	}
	v := classify(subject{repository: "the repository", forbidden: "forbidden"}, response, err, now)
	if v.pause {
		h.mu.Lock()
		h.paused = v.at
		h.mu.Unlock()
	}
	return response, h.errorOf(response, v, err)
}

// errorOf returns the error of an answer.
func (h *Hooks) errorOf(response *gogithub.Response, v outcome, cause error) error {
	kind, message := landfall.Unavailable, strings.TrimSuffix(v.problem, ".")
	if response == nil || v.pause {
		return landfall.Wrapf("github.Hooks", kind, cause, "%s", message)
	}
	refused, said := errors.AsType[*gogithub.ErrorResponse](cause)
	switch response.StatusCode {
	case http.StatusForbidden:
		kind, message = landfall.Forbidden, "the token may not do this"
	case http.StatusNotFound, http.StatusGone:
		kind, message = landfall.NotFound, "GitHub does not show it to the token"
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		kind, message = landfall.Invalid, "GitHub refuses it"
		if said {
			reasons := []string{message, refused.Message}
			for _, e := range refused.Errors {
				reasons = append(reasons, e.Message)
			}
			message = landfall.Printable(strings.Join(reasons, ": "))
		}
	}
	return landfall.Wrapf("github.Hooks", kind, cause, "%s", message)
}

// sleep returns after d, or with ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
