package functions

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// What every event of a request says.
const (
	requestType        = "dev.landfall.http.request"
	requestTypeVersion = "1.0"
)

// event returns the event that a request becomes. Its source is the address of the trigger, its data the body, and its
// protocol has the rest, with the values of the pattern's wildcards.
func (s *Server) event(r *http.Request, t *registry.Trigger, by access.Identity, execution string,
	data []byte) event.Event {
	if t.Kind == landfall.TimeTrigger || t.Kind == landfall.QueueTrigger {
		return byHand(r, t, execution, data)
	}
	e := event.Of(uuid.NewString(), t.Source(), requestType, time.Now())
	event.SetTypeVersion(&e, requestTypeVersion)
	setData(&e, r, data)
	event.SetExecution(&e, execution)
	scheme, params := s.schemeOf(r), paramsOf(r)
	headers := headersOf(r, scheme)
	if by == access.Holder || headers["Authorization"] != nil && s.config.Hosts.Classify(r.Host).Kind != hostname.Release {
		delete(headers, "Authorization") // it is for Landfall, also where it came to a process by a name of its own
	}
	for name, value := range params {
		headers[http.CanonicalHeaderKey(paramPrefix+name)] = []string{value}
	}
	event.SetProtocol(&e, event.Protocol{
		Type: "http", Method: r.Method, RequestURL: addressOf(r, scheme, t.HTTP.Trim), Headers: headers, Params: params,
	})
	return e
}

// setData gives an event the body of a request.
func setData(e *event.Event, r *http.Request, data []byte) {
	if mediaType := mediaTypeOf(r.Header["Content-Type"], data); mediaType != "" {
		event.SetMediaType(e, mediaType)
	}
	if len(data) > 0 {
		e.DataEncoded = data
	}
}

// mediaTypeOf returns the content type of an event's data. Without one, an event's data is JSON; what is no content
// type is not passed on as one.
func mediaTypeOf(given []string, data []byte) string {
	if len(given) > 0 && (given[0] == "application/json" || given[0] == "text/plain") {
		return given[0] // most, at no cost
	}
	if len(given) > 0 {
		if _, _, err := mime.ParseMediaType(given[0]); err == nil {
			return given[0]
		}
	}
	if len(data) > 0 {
		return "application/octet-stream"
	}
	return ""
}

// schemeOf returns the scheme of the address that the client sees.
func (s *Server) schemeOf(r *http.Request) string {
	switch {
	case s.config.Scheme != "":
		return s.config.Scheme
	case r.TLS != nil:
		return "https"
	}
	return "http"
}

// addressOf returns the address of a request, in ASCII, without the beginning of its path that the function does not
// see.
func addressOf(r *http.Request, scheme, trim string) string {
	path := r.URL.EscapedPath()
	if trim != "" {
		prefix := &url.URL{Path: strings.TrimSuffix(trim, "/")}
		if rest, ok := strings.CutPrefix(path, prefix.EscapedPath()); ok && (rest == "" || rest[0] == '/') {
			path = "/" + strings.TrimPrefix(rest, "/")
		}
	}
	address := scheme + "://" + r.Host + path
	if r.URL.RawQuery == "" {
		return address
	}
	return address + "?" + escaped(r.URL.RawQuery)
}

// escaped returns a query with what is not ASCII in percent.
func escaped(query string) string {
	if !strings.ContainsFunc(query, func(r rune) bool { return r > '~' }) {
		return query
	}
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for _, c := range []byte(query) {
		if c > '~' {
			out.Write([]byte{'%', hex[c>>4], hex[c&15]})
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

// headersOf returns the headers of a request for a function: without those of the connection, without what nobody
// vouches for, and without the session at Landfall's own pages. Where the request came from is what the connection
// says.
func headersOf(r *http.Request, scheme string) map[string][]string {
	const added = 3
	headers := make(map[string][]string, len(r.Header)+added)
	for name, values := range r.Header {
		if !hopByHop(name) && !forwarded(name) && !reserved(name) && name != "Expect" {
			headers[name] = values
		}
	}
	for _, options := range r.Header["Connection"] {
		for option := range strings.SplitSeq(options, ",") {
			delete(headers, http.CanonicalHeaderKey(strings.TrimSpace(option)))
		}
	}
	withoutSession(headers)
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		client = r.RemoteAddr
	}
	values := [added]string{client, scheme, r.Host}
	headers["X-Forwarded-For"], headers["X-Forwarded-Proto"], headers["X-Forwarded-Host"] = values[:1:1],
		values[1:2:2], values[2:]
	return headers
}

// reserved reports whether only Landfall may send a function a header of this name. One with an underscore looks in CGI
// and WSGI like one with a hyphen, and could stand in its place.
func reserved(name string) bool {
	return strings.HasPrefix(name, ownPrefix) || strings.HasPrefix(name, paramPrefix) || strings.Contains(name, "_")
}

// paramPrefix begins the names of the headers in which a function that was written for Fission finds the values of its
// route's wildcards. A client cannot send them.
const paramPrefix = "X-Fission-Params-"

// ownPrefix begins the names of Landfall's own headers.
const ownPrefix = "Landfall-"

// hopByHop reports whether a header is the connection's, and not the message's (RFC 9110, section 7.6.1).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// forwarded reports whether a header says where a request came from: whoever sends it may say anything.
func forwarded(name string) bool {
	return name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-")
}

// ownName reports whether a cookie, as NAME=VALUE with whatever follows, is one of Landfall's own.
func ownName(cookie string) bool {
	name, _, _ := strings.Cut(cookie, "=")
	name = strings.TrimSpace(name)
	rest, own := strings.CutPrefix(name, access.CookiePrefix)
	return own && (rest == "" || rest[0] == '-') || name == plainSideCookie
}

// withoutSession takes Landfall's own cookies away, in a line of its own.
func withoutSession(headers map[string][]string) {
	lines := headers["Cookie"]
	all := strings.Join(lines, "")
	if !strings.Contains(all, access.CookiePrefix) && !strings.Contains(all, plainSideCookie) {
		return
	}
	var rest []string
	for _, line := range lines {
		for cookie := range strings.SplitSeq(line, ";") {
			cookie = strings.TrimSpace(cookie)
			if !ownName(cookie) {
				rest = append(rest, cookie)
			}
		}
	}
	delete(headers, "Cookie")
	if len(rest) > 0 {
		headers["Cookie"] = []string{strings.Join(rest, "; ")}
	}
}

// paramsOf returns the values of the wildcards in the pattern that took a request, or nothing.
func paramsOf(r *http.Request) map[string]string {
	var params map[string]string
	for rest, more := r.Pattern, true; more; {
		if _, rest, more = strings.Cut(rest, "{"); !more {
			break
		}
		var name string
		name, rest, _ = strings.Cut(rest, "}")
		name = strings.TrimSuffix(name, "...")
		if name == "$" {
			continue
		}
		if params == nil {
			params = map[string]string{}
		}
		params[name] = r.PathValue(name)
	}
	return params
}

// input is the body of a request.
type input struct {
	data  []byte
	taken int64 // of what all bodies may take together
}

// release gives back what the body took. It may be called again.
func (in *input) release(bodies *atomic.Int64) {
	bodies.Add(-in.taken)
	in.data, in.taken = nil, 0
}

// atFirst is the room for a body of which nothing came yet: many slow senders must not use up what all bodies may take.
const atFirst = 16 << 10

// read reads the body of a request to its end. When it cannot, it returns the page that says why; else one with status
// 0.
func (s *Server) read(r *http.Request, in *input) page.Page {
	if r.ContentLength == 0 {
		return page.Page{}
	}
	if r.ContentLength > s.config.MaxRequest {
		return pageTooLarge(s.config.MaxRequest)
	}
	most := s.config.MaxRequest + 1 // one byte more says that it is too large, or that it ends
	if r.ContentLength > 0 {
		most = r.ContentLength + 1
	}
	for {
		if len(in.data) == cap(in.data) {
			if int64(len(in.data)) > s.config.MaxRequest {
				return pageTooLarge(s.config.MaxRequest)
			}
			if !s.grow(in, min(max(atFirst, 2*int64(cap(in.data))), most)) {
				return pageBodies()
			}
		}
		n, err := r.Body.Read(in.data[len(in.data):cap(in.data)])
		in.data = in.data[:len(in.data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return page.Page{}
		case errors.Is(err, os.ErrDeadlineExceeded):
			return pageSlow(s.config.BodyTimeout)
		case err != nil:
			return pageHalf()
		}
	}
}

// grow makes room for so many bytes, unless all bodies would take too many then.
func (s *Server) grow(in *input, to int64) bool {
	if more := to - in.taken; s.bodies.Add(more) > s.config.MaxRequests {
		s.bodies.Add(-more)
		return false
	}
	in.taken = to
	in.data = append(make([]byte, 0, to), in.data...)
	return true
}
