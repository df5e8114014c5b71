package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
)

// Makes reports whether a POST to a path below /api/v1 makes something, and may have a key: then it can be sent again,
// and nothing is made twice.
func Makes(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	elements := strings.Split(strings.Trim(path, "/"), "/")
	switch last := elements[len(elements)-1]; len(elements) {
	case 1:
		return slices.Contains([]string{"apps", "executions", "function-tags", "jobs", "tokens", "uploads", "webhooks"}, last)
	case 2:
		return elements[0] == "github" && last == "connections"
	case 3: // a function, a package or an app, and what it has
		return last == "versions" || last == "aliases" && elements[0] == "functions" || last == "canaries"
	}
	return false
}

// sendAgain is send, which, for what makes something, goes on while the answer is lost on its way.
func (c *Client) sendAgain(ctx context.Context, method, path string, body any) (*http.Response, error) {
	const attempts, pause = 5, 200 * time.Millisecond
	accept := http.Header{"Accept": {"application/json"}}
	if method != http.MethodPost || !Makes(path) {
		return c.send(ctx, method, path, body, "application/json")
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	accept.Set("Content-Type", "application/json")
	accept.Set("Idempotency-Key", rand.Text())
	sent := false
	var broke error // of the first attempt that left and has no answer
	for attempt := 1; ; attempt++ {
		resp, err := c.askWith(ctx, method, "/api/v1"+path, strings.NewReader(string(data)), accept)
		lost := err != nil && (sent || !refused(err))
		if err == nil {
			// an earlier attempt is still being carried out
			lost = resp.StatusCode == http.StatusConflict && resp.Header.Get("Retry-After") != ""
		}
		sent = sent || lost
		if broke == nil && !refused(err) {
			broke = err
		}
		if err != nil {
			err = cmp.Or(broke, err)
		}
		if !lost || attempt == attempts || ctx.Err() != nil {
			return answered(resp, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		timer := time.NewTimer(pause << attempt)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// refused reports whether a request did not leave: there is no server.
func refused(err error) bool {
	failure, ok := errors.AsType[*net.OpError](err)
	return ok && failure.Op == "dial" || landfall.Is(err, landfall.Invalid, landfall.NotFound)
}
