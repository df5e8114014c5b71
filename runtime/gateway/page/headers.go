package page

import (
	"net/http"
	"net/url"
)

// Uncached is the Cache-Control of everything that is no file of a release.
const Uncached = "no-store"

// Redirect sends the client to another path of the same host. The release may move, so nobody keeps the answer.
func Redirect(w http.ResponseWriter, path, query string) {
	w.Header().Set("Cache-Control", Uncached)
	w.Header().Set("Location", Location(path, query))
	w.WriteHeader(http.StatusPermanentRedirect)
}

// Location returns path, which is canonical, as it stands in a Location header. It names no scheme and no host.
func Location(path, query string) string {
	u := url.URL{Path: path, RawQuery: query}
	return u.String()
}

// The headers that name what answered: the last two are there when a function did.
const (
	ReleaseHeader   = "Landfall-Release"   // uid of the release
	VersionHeader   = "Landfall-Version"   // uid of the function's version
	ExecutionHeader = "Landfall-Execution" // what its log is found by
)

// Reads reports whether a request only reads: GET or HEAD.
func Reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }
