package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/web"
)

// visits are those of this server's releases, by people who are signed in at its control host.
type visits struct{ *server }

var _ gateway.Visits = visits{}

// origin returns how clients reach a host of releases.
func (s *server) origin(host string) string {
	if port := s.config.URL.Port(); port != "" {
		host = net.JoinHostPort(host, port)
	}
	return s.config.URL.Scheme + "://" + host
}

// SignIn implements gateway.Visits.
func (v visits) SignIn(host, path, nonce string) string {
	return web.VisitAddress(v.config.URL, v.origin(host)+path, nonce)
}

// visitOf returns what an address of a release is; false for every other address.
func (s *server) visitOf(address *url.URL) (web.Visit, bool) {
	const longest = 4 << 10
	path := address.RequestURI()
	host, ok := gateway.CanonicalHost(address.Host)
	named := s.hosts.Classify(host)
	origin := s.origin(host)
	if !ok || named.Kind != gateway.ReleaseHost || address.User != nil || origin != address.Scheme+"://"+address.Host ||
		!strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\") || len(path) > longest {
		return web.Visit{}, false
	}
	return web.Visit{App: named.App, Host: host, Origin: origin, Begin: origin + gateway.VisitPath + "?code=", Path: path}, true
}

// Begin implements gateway.Visits.
func (v visits) Begin(ctx context.Context, host, code, nonce string) (secret, path string, expires time.Time, err error) {
	secret = rand.Text()
	err = v.db.Update(ctx, func(tx *store.Tx) error {
		path, expires, err = tx.BeginVisit(ctx, code, host, nonce, secret, time.Now())
		return err
	})
	return secret, path, expires, err
}

// Visitor implements gateway.Visits. It asks the database each time: whoever signs out, or whose token is gone, is so at once.
func (v visits) Visitor(ctx context.Context, host, app, secret string) error {
	token, err := v.db.VisitToken(ctx, secret, host, time.Now())
	if err != nil {
		if landfall.KindOf(err) == landfall.NotFound {
			return &landfall.Error{Op: "visits", Kind: landfall.Unauthorized, Message: "nobody is signed in", Err: err}
		}
		return err
	}
	return v.mayRead(ctx, token, app)
}

// mayRead returns an error unless a token may read an app.
func (s *server) mayRead(ctx context.Context, token store.Token, app string) error {
	owner, err := s.db.AppByName(ctx, app)
	if err == nil && !owner.Deleted.IsZero() {
		err = &landfall.Error{Op: "functions", Kind: landfall.NotFound, Message: fmt.Sprintf("the app %q was deleted", app)}
	}
	if err == nil && !token.Allows(store.ScopeRead, owner.ID) {
		err = &landfall.Error{Op: "functions", Kind: landfall.Forbidden, Message: "the token may not read the app " + app}
	}
	return err
}
