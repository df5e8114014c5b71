package invoke

import (
	"maps"
	"net/http"
	"strings"
)

// Confined serves what functions answer at a host that is not theirs: it goes out with headers by which no browser runs
// it, and of those that the function says with no others than a client needs to read it. Others may act on the whole
// host, or on a proxy in front of it.
func Confined(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&confined{ResponseWriter: w, request: w.Header()[requestID]}, r)
	})
}

type confined struct {
	http.ResponseWriter

	request []string // its id, which no function says
	done    bool
}

const requestID = "X-Request-Id"

// WriteHeader implements http.ResponseWriter.
func (c *confined) WriteHeader(status int) {
	if !c.done {
		c.done = status >= http.StatusOK || status == http.StatusSwitchingProtocols // else another one follows
		confine(c.Header())
		if c.request != nil {
			c.Header()[requestID] = c.request
		}
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *confined) Write(p []byte) (int, error) {
	if !c.done {
		c.WriteHeader(http.StatusOK)
	}
	return c.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (c *confined) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// leaves reports whether a header, by its canonical name, may leave.
func leaves(name string) bool {
	switch name {
	case "Content-Type", "Content-Length", "Content-Encoding", "Content-Language", "Content-Disposition", "Content-Range",
		"Content-Digest", "Repr-Digest", "Cache-Control", "Expires", "Etag", "Last-Modified", "Vary", "Accept-Ranges",
		"Accept-Patch", "Accept-Post", "Allow", "Location", "Link", "Retry-After", "Preference-Applied", "Www-Authenticate",
		"Webhook-Allowed-Origin", "Webhook-Allowed-Rate", "Connection":
		return true
	}
	return strings.HasPrefix(name, "Landfall-") || strings.HasPrefix(name, "Ce-") ||
		strings.HasPrefix(name, "Access-Control-")
}

func confine(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool { return !leaves(name) })
	if !strings.HasPrefix(h.Get("WWW-Authenticate"), "Bearer") { // a browser would ask for the password of the host
		h.Del("WWW-Authenticate")
	}
	for name, value := range map[string]string{
		"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		h.Set(name, value)
	}
}
