package invoke

import (
	"net/http"
	"strings"
)

// Confined serves what functions answer at a host that is not theirs: it goes out with headers by which no browser runs it, and
// without those by which it would act on the whole host.
func Confined(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&confined{ResponseWriter: w}, r) })
}

type confined struct {
	http.ResponseWriter

	done bool
}

// WriteHeader implements http.ResponseWriter.
func (c *confined) WriteHeader(status int) {
	if !c.done {
		c.done = true
		confine(c.Header())
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

func confine(h http.Header) {
	for _, name := range []string{
		"Set-Cookie", "Service-Worker-Allowed", "Clear-Site-Data",
		"Alt-Svc", "Strict-Transport-Security", "Nel", "Report-To", "Reporting-Endpoints",
	} {
		h.Del(name)
	}
	if !strings.HasPrefix(h.Get("WWW-Authenticate"), "Bearer") { // a browser would ask for the password of the host
		h.Del("WWW-Authenticate")
	}
	for name, value := range map[string]string{
		"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		h.Set(name, value)
	}
}
