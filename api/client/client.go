package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"landfall.dev/landfall"
)

// Client speaks to one server.
type Client struct {
	URL   string // of the control host: http://localhost:8080
	Token string
	HTTP  *http.Client // nil: one that knows that *.localhost is this machine
}

// problem is an error as the server answers it (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Kind   string `json:"kind"`
	Errors []struct {
		Message  string `json:"message"`
		Location string `json:"location"`
	} `json:"errors"`
}

// Do sends a request with an optional JSON body and decodes the JSON answer into out, if out is not nil. path begins
// with "/" and is below /api/v1. An error is the server's *landfall.Error, with its Kind; Unavailable when the server
// cannot be reached.
//
// What makes something has a key, and is sent again when the connection breaks: nothing is made twice by it.
func (c *Client) Do(ctx context.Context, method, path string, body, out any) error {
	resp, err := c.sendAgain(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return decode(resp.Body, out)
}

// Create is Do of a PUT of what must be new: a Conflict when it is there.
func (c *Client) Create(ctx context.Context, path string, body, out any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	headers := http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}, "If-None-Match": {"*"}}
	return c.exchange(ctx, http.MethodPut, "/api/v1"+path, data, headers, out)
}

// decode reads the JSON of an answer; into nothing for nil.
func decode(answer io.Reader, out any) error {
	if out == nil {
		_, err := io.Copy(io.Discard, answer)
		return err
	}
	if err := json.NewDecoder(answer).Decode(out); err != nil {
		return landfall.Wrapf("client", landfall.Internal, err, "the server's answer is not what its API promises")
	}
	return nil
}

// Stream opens an answer that is no JSON. The caller closes it. Errors are those of Do.
func (c *Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, http.MethodGet, path, nil, "*/*")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Download opens a file, which the caller closes, and returns the name that the server gives it, without folders.
func (c *Client) Download(ctx context.Context, path string) (file io.ReadCloser, name string, err error) {
	response, err := c.send(ctx, http.MethodGet, path, nil, "*/*")
	if err != nil {
		return nil, "", err
	}
	_, parameters, _ := mime.ParseMediaType(response.Header.Get("Content-Disposition")) // none has no parameters
	return response.Body, filepath.Base(parameters["filename"]), nil
}

// Call gives a CloudEvent as JSON to a function, and returns the event that answers it, which may be one that says what
// went wrong. Other errors are those of Do. The reference names the namespace.
func (c *Client) Call(ctx context.Context, function landfall.Reference, event []byte) ([]byte, error) {
	path := "/functions/" + url.PathEscape(function.Namespace) + "/" + url.PathEscape(function.Name+":"+function.Selector)
	return c.answered(ctx, http.MethodPost, path, "application/json", event)
}

// Fire sends a request with data to the address of a trigger, /r/NAMESPACE/APP/TRIGGER or
// /r/NAMESPACE/APP:RELEASE/TRIGGER, and returns what Call does. A content type may be empty.
func (c *Client) Fire(ctx context.Context, method, trigger, contentType string, data []byte) ([]byte, error) {
	return c.answered(ctx, method, (&url.URL{Path: trigger}).EscapedPath(), contentType, data)
}

// answered sends a request, and returns the event that answers it.
func (c *Client) answered(ctx context.Context, method, path, contentType string, data []byte) ([]byte, error) {
	resp, err := c.askWith(ctx, method, path, bytes.NewReader(data),
		http.Header{"Accept": {eventType}, "Content-Type": {contentType}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), eventType) {
		return nil, problemOf(resp)
	}
	const most = 64 << 20
	return io.ReadAll(io.LimitReader(resp.Body, most))
}

// FireEvent gives a CloudEvent as JSON to all triggers that its source means, and returns what each answers, as Call
// does.
func (c *Client) FireEvent(ctx context.Context, event []byte) ([]json.RawMessage, error) {
	const batch = "application/cloudevents-batch+json" // so is the answer then, however many triggers there are
	body := append(append([]byte{'['}, event...), ']')
	resp, err := c.askWith(ctx, http.MethodPost, "/fire", bytes.NewReader(body),
		http.Header{"Accept": {batch}, "Content-Type": {batch}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), batch) {
		return nil, problemOf(resp)
	}
	var answers []json.RawMessage
	err = decode(resp.Body, &answers)
	return answers, err
}

// Publish stores a message at a topic of an app. A key, if there is one, makes that it is stored once; a content type
// may be empty. Errors are those of Do.
func (c *Client) Publish(ctx context.Context, app, topic, key, contentType string, data []byte) (Stored, error) {
	var stored Stored
	path := "/api/v1/apps/" + url.PathEscape(app) + "/messages/" + url.PathEscape(topic)
	headers := http.Header{"Content-Type": {contentType}, "Idempotency-Key": {key}}
	err := c.exchange(ctx, http.MethodPost, path, data, headers, &stored)
	return stored, err
}

// eventType is the media type of an event as JSON.
const eventType = "application/cloudevents+json"

// exchange sends a request, and decodes the JSON answer into out.
func (c *Client) exchange(ctx context.Context, method, path string, data []byte, headers http.Header, out any) error {
	resp, err := c.accepted(ctx, method, path, bytes.NewReader(data), headers)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return decode(resp.Body, out)
}

// send sends a request below /api/v1, whose body, if any, becomes JSON.
func (c *Client) send(ctx context.Context, method, path string, body any, accept string) (*http.Response, error) {
	headers := http.Header{"Accept": {accept}}
	if body == nil {
		return c.accepted(ctx, method, "/api/v1"+path, nil, headers)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	headers.Set("Content-Type", "application/json")
	return c.accepted(ctx, method, "/api/v1"+path, bytes.NewReader(data), headers)
}

// accepted is askWith, with the server's error for an answer that is one.
func (c *Client) accepted(ctx context.Context, method, path string, body io.Reader,
	headers http.Header) (*http.Response, error) {
	return answered(c.askWith(ctx, method, path, body, headers))
}

// answered returns the server's error for an answer that is one.
func answered(resp *http.Response, err error) (*http.Response, error) {
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		defer func() { _ = resp.Body.Close() }()
		return nil, problemOf(resp)
	}
	return resp, err
}

// askWith sends a request with headers; what of them is empty is left out.
func (c *Client) askWith(ctx context.Context, method, path string, body io.Reader,
	headers http.Header) (*http.Response, error) {
	written, _, _ := strings.Cut(path, "?")
	for element := range strings.SplitSeq(written, "/") {
		if element == "." || element == ".." {
			return nil, landfall.Errorf("client", landfall.NotFound, "nothing has the name %q", element)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, body)
	if err != nil {
		return nil, landfall.Wrapf("client", landfall.Invalid, err, "%q is no server's address", c.URL)
	}
	for name := range headers {
		if value := headers.Get(name); value != "" {
			r.Header.Set(name, value)
		}
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	resp, err := c.client().Do(r)
	if err != nil && method != http.MethodGet && !refused(err) {
		return nil, landfall.Wrapf("client", landfall.Unavailable, err,
			"the server %s broke off; what you asked for may be done, or be done yet: look before you ask again", c.URL)
	}
	if err != nil {
		return nil, landfall.Wrapf("client", landfall.Unavailable, err,
			"the server %s cannot be reached; start it with landfall serve, or name another with LANDFALL_SERVER", c.URL)
	}
	return resp, nil
}

// problemOf reads the server's error.
func problemOf(resp *http.Response) error {
	const maxProblem = 1 << 20
	var p problem
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil || json.Unmarshal(data, &p) != nil || (p.Detail == "" && p.Title == "") {
		return &landfall.Error{Op: "client", Message: "the server answered " + resp.Status}
	}
	lines := []string{cmp.Or(p.Detail, p.Title)}
	for _, e := range p.Errors {
		lines = append(lines, e.Location+": "+e.Message)
	}
	return landfall.Errorf("client", kindNamed(p.Kind, resp.StatusCode), "%s", strings.Join(lines, "\n"))
}

// kindNamed is the kind of a problem; what the framework itself and the gateway refuse has a status only.
func kindNamed(name string, status int) landfall.Kind {
	for _, k := range landfall.Kinds() {
		if k.String() == name {
			return k
		}
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return landfall.Invalid
	case http.StatusNotFound, http.StatusGone:
		return landfall.NotFound
	case http.StatusUnauthorized:
		return landfall.Unauthorized
	case http.StatusForbidden:
		return landfall.Forbidden
	case http.StatusServiceUnavailable:
		return landfall.Unavailable
	}
	return landfall.Internal
}

// Follow calls line for each line of a run's log behind number after, until the run is over or ctx ends. With once it
// returns at the end of what there is.
func (c *Client) Follow(ctx context.Context, run string, after int64, once bool,
	line func(landfall.LogLine) error) error {
	return follow(ctx, c, fmt.Sprintf("/runs/%s/log?after=%d&follow=%t", url.PathEscape(run), after, !once), line)
}

// FollowExecutions calls piece for each piece of the log at a path of an execution or of a function, as it comes, until
// there will be no more or ctx ends.
func (c *Client) FollowExecutions(ctx context.Context, path string, piece func(landfall.ExecutionLog) error) error {
	return follow(ctx, c, path, piece)
}

// follow calls hand for each server-sent event at a path.
func follow[T any](ctx context.Context, c *Client, path string, hand func(T) error) error {
	resp, err := c.send(ctx, http.MethodGet, path, nil, "text/event-stream")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	const maxLine = 1 << 20
	scanner := bufio.NewScanner(resp.Body)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		data, ok := strings.CutPrefix(scanner.Text(), "data:")
		if !ok {
			continue
		}
		var v T
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return err
		}
		if err := hand(v); err != nil {
			return err
		}
	}
	return scanner.Err()
}

func (c *Client) client() *http.Client {
	if c.HTTP != nil {
		return c.HTTP
	}
	return &http.Client{Transport: LocalTransport()}
}

// LocalTransport is a transport that knows, as browsers and curl do, that every name below localhost is this machine.
func LocalTransport() *http.Transport {
	var dialer net.Dialer
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err == nil && (host == "localhost" || strings.HasSuffix(host, ".localhost")) {
				if conn, err := dialer.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port)); err == nil {
					return conn, nil
				}
				address = net.JoinHostPort("::1", port)
			}
			return dialer.DialContext(ctx, network, address)
		},
	}
}
