package functions

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/wire"
)

// maxHeaders is how many bytes the headers of an answer may have: clients and proxies take no more of them.
const maxHeaders = 64 << 10

// heldBody is from where on a body is not in the kernel's hands at once, and a client that reads nothing holds it in
// memory.
const heldBody = 64 << 10

// reply answers with a function's answer, of which the head is there.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, status int, answer event.Event) {
	data := answer.Data()
	if !bodiless(status) {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(data))}
	}
	w.WriteHeader(status)
	if bodiless(status) || r.Method == http.MethodHead {
		return
	}
	if len(data) > heldBody {
		c := http.NewResponseController(w)
		_ = c.SetWriteDeadline(time.Now().Add(s.config.BodyTimeout))
		defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	}
	wire.WriteWhole(w, r, data)
}

// bodiless reports whether an answer with a status has no body.
func bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusResetContent || status == http.StatusNotModified
}

// head sets the headers of a function's answer, but for the length, and returns its status. Its errors are a
// function.Error for what HTTP cannot answer with, and an answeredError for an event with an error; then it sets
// nothing.
func (s *Server) head(h http.Header, asked, answer event.Event) (int, error) {
	p, err := protocolOf(asked, answer)
	if err != nil {
		return 0, err
	}
	fault, failed, err := event.ErrorOf(answer)
	switch {
	case err != nil:
		return 0, illegal("its error is not like one: %s", landfall.MessageOf(err))
	case failed && p.Status >= http.StatusBadRequest:
		return 0, &answeredError{fault: fault, status: p.Status}
	case failed:
		return 0, &answeredError{fault: fault}
	}
	mediaType := answer.DataContentType()
	if !httpguts.ValidHeaderFieldValue(mediaType) {
		return 0, illegal("its content type has control characters")
	}
	setHeaders(h, p.Headers)
	if mediaType != "" {
		h["Content-Type"] = []string{mediaType}
	} else if h["Content-Type"] == nil && (p.Streaming || len(answer.Data()) > 0) {
		h["Content-Type"] = []string{implied(answer)}
	}
	if h["Cache-Control"] == nil && h["Expires"] == nil {
		// Without a word, caches guess. What a function answers may be for one person, and is as fresh as the call.
		h["Cache-Control"] = s.answered
	}
	return cmp.Or(p.Status, http.StatusOK), nil
}

// opReply is that of the errors with which the gateway itself refuses an answer.
const opReply landfall.Op = "gateway.reply"

// illegal returns the error for an answer that is an event, but none that HTTP can answer with.
func illegal(format string, args ...any) error {
	return &landfall.Error{
		Op: opReply, Message: "the function's answer is not possible in HTTP: " + fmt.Sprintf(format, args...),
		Err: &function.Error{Reason: function.ReasonProtocol},
	}
}

// protocolOf returns what an answer says about status and headers, which are legal. A function that hands back its
// request's says nothing about either.
func protocolOf(asked, answer event.Event) (event.Protocol, error) {
	if event.SameProtocol(answer, asked) {
		return event.Protocol{}, nil // which need not be read
	}
	p, err := event.ProtocolOf(answer)
	if err != nil {
		return p, illegal("%s", landfall.MessageOf(err))
	}
	if p.Method != "" || p.RequestURL != "" {
		return event.Protocol{}, nil
	}
	const lowest, highest = 200, 599 // an answer is final, and three digits alone do not make a status
	if p.Status != 0 && (p.Status < lowest || p.Status > highest) {
		return p, illegal("its status is %d, and must be between %d and %d", p.Status, lowest, highest)
	}
	size := 0
	for name, values := range p.Headers {
		if !httpguts.ValidHeaderFieldName(name) {
			return p, illegal("%.80q is no name of a header", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return p, illegal("the header %.80q has a value with control characters", name)
			}
			size += len(name) + len(value) + len(": \r\n")
		}
	}
	if size > maxHeaders {
		return p, landfall.Wrapf(opReply, landfall.Internal, &function.Error{Reason: function.ReasonTooLarge},
			"the limit %q of a function's answer is %d, and these are %d", limitHeaders, maxHeaders, size)
	}
	return p, nil
}

// setHeaders adds the headers of a function's answer, which are legal, but for those that are not its to say.
func setHeaders(h http.Header, given map[string][]string) {
	for name, values := range given {
		name = http.CanonicalHeaderKey(name)
		switch {
		case hopByHop(name) || strings.HasPrefix(name, ownPrefix) || name == "Content-Length" ||
			name == "X-Content-Type-Options" || forProxies(name):
		case name == "X-Robots-Tag" && h[name] != nil: // only the live address is for search engines
		case name == "Set-Cookie":
			for _, cookie := range values {
				if ownName(cookie) {
					continue
				}
				h[name] = append(h[name], hostOnly(cookie))
			}
		default:
			h[name] = append(h[name], values...)
		}
	}
}

// forProxies reports whether a header, by its canonical name, is an order to a proxy in front of the server, which
// would send a file of its own in place of the answer, or keep the answer for as long as the function says. To some of
// them _ is -.
func forProxies(name string) bool {
	if !strings.HasPrefix(name, "X") {
		return false
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	orders := []string{"x-accel-", "x-sendfile", "x-lighttpd-", "x-reproxy-", "x-litespeed-"}
	return slices.ContainsFunc(orders, func(order string) bool { return strings.HasPrefix(name, order) })
}

// hostOnly returns a cookie for the host alone that sets it: below the same domain there are other apps.
func hostOnly(cookie string) string {
	if !strings.Contains(strings.ToLower(cookie), "domain") {
		return cookie
	}
	parts := strings.Split(cookie, ";")
	attributes := slices.DeleteFunc(parts[1:], func(attribute string) bool {
		name, _, _ := strings.Cut(attribute, "=")
		return strings.EqualFold(strings.TrimSpace(name), "domain")
	})
	return strings.Join(parts[:1+len(attributes)], ";")
}

// implied returns the content type of data that has none: an event's data is JSON then, unless it is bytes.
func implied(answer event.Event) string {
	if answer.DataBase64 {
		return "application/octet-stream"
	}
	return "application/json"
}
