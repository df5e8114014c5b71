package server

import (
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"strings"
	"time"

	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/web"
)

// previewSessions are those of this server's releases, by people who are signed in at its control host.
type previewSessions struct{ *shared }

var _ access.PreviewSessions = previewSessions{}

// origin returns how clients reach a host of releases.
func (s *state) origin(host string) string {
	if port := s.config.URL.Port(); port != "" {
		host = net.JoinHostPort(host, port)
	}
	return s.config.URL.Scheme + "://" + host
}

// SignIn implements access.PreviewSessions.
func (v previewSessions) SignIn(host, path, nonce string) string {
	return web.VisitAddress(v.config.URL, v.origin(host)+path, nonce)
}

// visitOf returns what an address of a release is; false for every other address.
func (s *shared) visitOf(address *url.URL) (web.Visit, bool) {
	const longest = 4 << 10
	path := address.RequestURI()
	host, ok := hostname.Canonical(address.Host)
	named := s.hosts.Classify(host)
	origin := s.origin(host)
	if !ok || named.Kind != hostname.Release || address.User != nil || origin != address.Scheme+"://"+address.Host ||
		!strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\") ||
		len(path) > longest {
		return web.Visit{}, false
	}
	return web.Visit{App: named.App, Host: host, Origin: origin, Begin: origin + access.PreviewPath + "?code=",
		Path: path}, true
}

// Begin implements access.PreviewSessions.
func (v previewSessions) Begin(ctx context.Context, host, code, nonce string) (secret, path string, expires time.Time,
	err error) {
	secret = rand.Text()
	err = v.db.Update(ctx, func(tx *store.Tx) error {
		path, expires, err = tx.BeginVisit(ctx, code, host, nonce, secret, time.Now())
		return err
	})
	return secret, path, expires, err
}

// Visitor implements access.PreviewSessions. It asks the database each time: whoever signs out, or whose token is
// gone, is so at once.
func (v previewSessions) Visitor(ctx context.Context, host, app, secret string) error {
	return auth.Visitor(ctx, v.db, host, app, secret, time.Now())
}
