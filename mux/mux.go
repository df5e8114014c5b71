// Package mux routes the requests of the control host: gin, with the settings that every part of the host counts on,
// and the chain that each request goes through.
package mux

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// Mux is gin's engine, which matches paths as they are written, and sends nobody on to another one. What no route takes
// is answered by the part of the host whose path it is below, in that part's own words.
type Mux struct {
	*gin.Engine

	parts []part
}

// part is a path, which has all that is below it when it ends in "/".
type part struct {
	path    string
	handler http.Handler
}

// New returns a Mux without routes.
func New(logger *slog.Logger) *Mux {
	gin.SetMode(gin.ReleaseMode) // or it prints routes
	m := &Mux{Engine: gin.New()}
	m.HandleMethodNotAllowed, m.RedirectTrailingSlash = true, false
	m.UseEscapedPath, m.UnescapePathValues = true, false // gin would read + as a blank
	_ = m.SetTrustedProxies(nil)                         // which fails for addresses only
	m.Use(answered, identified, logged(logger), recovered(logger), m.parameters)
	m.NoRoute(m.rest)
	m.NoMethod(func(c *gin.Context) {
		h := c.Writer.Header()
		allowed := strings.Split(h.Get("Allow"), ", ")
		slices.Sort(allowed)
		h.Set("Allow", strings.Join(allowed, ", "))
		m.rest(c)
	})
	return m
}

// Serve answers requests of a method at a path of gin's, whose parameters are path values; with GET, those of HEAD,
// too.
func (m *Mux) Serve(method, path string, h http.Handler) {
	m.Handle(method, path, gin.WrapH(h))
	if method == http.MethodGet {
		m.HEAD(path, gin.WrapH(h))
	}
}

// Get is Serve for a path that is a part by itself, which has GET and HEAD only.
func (m *Mux) Get(path string, h http.Handler) {
	m.Serve(http.MethodGet, path, h)
	m.Rest(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
	}))
}

// Mount gives h every request at a path; below it, too, when it ends in "/". The path is the request's Pattern.
func (m *Mux) Mount(path string, h http.Handler) {
	route := path
	if strings.HasSuffix(path, "/") {
		route += "*rest"
	}
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = path
		h.ServeHTTP(w, r)
	})
	m.Any(route, gin.WrapH(named))
	m.Rest(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // of a method that gin does not know
		w.Header().Del("Allow")
		named(w, r)
	}))
}

// Rest answers what no route takes at a path; below it, too, when it ends in "/". When a route would take another
// method, the answer's header Allow names those it would.
func (m *Mux) Rest(path string, h http.Handler) { m.parts = append(m.parts, part{path, h}) }

func (m *Mux) rest(c *gin.Context) {
	path, found := c.Request.URL.EscapedPath(), part{handler: http.NotFoundHandler()}
	for _, p := range m.parts {
		below := strings.HasSuffix(p.path, "/") && strings.HasPrefix(path+"/", p.path)
		if (path == p.path || below) && len(p.path) > len(found.path) {
			found = p
		}
	}
	c.Status(http.StatusOK) // until the part says what it is
	found.handler.ServeHTTP(c.Writer, c.Request)
}

// parameters reads what stands in the path. A segment that is empty names nothing.
func (m *Mux) parameters(c *gin.Context) {
	for i, p := range c.Params {
		value, err := url.PathUnescape(p.Value)
		if err != nil || value == "" {
			m.rest(c)
			c.Abort()
			return
		}
		c.Params[i].Value = value
		c.Request.SetPathValue(p.Key, value)
	}
}
