// Package github talks to GitHub: it sends the commit statuses and the comments on pull requests that are due. Nothing
// else in the project calls GitHub's API.
package github

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// Token authenticates us to GitHub. Printed, logged or encoded in any way, it is "[token]".
type Token string

const hidden = "[token]"

// String hides the token.
func (Token) String() string { return hidden }

// Format hides the token under every verb.
func (Token) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, hidden) }

// MarshalText hides the token from encoders.
func (Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the token from logs.
func (Token) LogValue() slog.Value { return slog.StringValue(hidden) }

// NewClient returns a client of the API at baseURL that uses client for its requests. It sends the token to that
// address only, and follows no redirect to another one. It returns Invalid when baseURL is not the address of an API.
func NewClient(baseURL string, token Token, client *http.Client) (*gogithub.Client, error) {
	own := *client
	return newClient(baseURL, &own, func(api *url.URL) http.RoundTripper {
		return &transport{next: client.Transport, api: api, token: token}
	})
}

// newClient is NewClient for requests that go through a transport to the API.
func newClient(baseURL string, own *http.Client, through func(api *url.URL) http.RoundTripper) (*gogithub.Client,
	error) {
	base, err := url.Parse(strings.TrimSuffix(baseURL, "/") + "/")
	if err != nil || (base.Scheme != "https" && base.Scheme != "http") || base.Host == "" || base.User != nil ||
		base.RawQuery != "" || base.Fragment != "" {
		return nil, landfall.Errorf("github.NewClient", landfall.Invalid,
			"the address of GitHub's API must be like https://api.github.com/, without a user or a query")
	}
	own.Transport = through(base)
	own.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if !sameHost(r.URL, base) || r.Method != via[0].Method || len(via) > 3 {
			return http.ErrUseLastResponse
		}
		return nil
	}
	c := gogithub.NewClient(own)
	c.BaseURL = base
	c.UserAgent = "landfall"
	return c, nil
}

// transport adds the token to requests to the API.
type transport struct {
	next  http.RoundTripper // nil: http.DefaultTransport
	api   *url.URL
	token Token
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if sameHost(r.URL, t.api) && t.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(t.token))
	}
	if t.next == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return t.next.RoundTrip(r)
}

func sameHost(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
