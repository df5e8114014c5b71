package builder

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"landfall.dev/landfall"
)

// exchange is the transport of one fetch from one remote. It checks every request's target, sends the credentials only
// to the remote's own origin, and counts the bytes that it receives. It keeps its own error, because callers in between
// lose the chain of errors.
type exchange struct {
	base   http.RoundTripper
	dialer *Dialer
	remote Remote
	origin *url.URL
	limit  int64 // bytes

	keepsHeader bool // requests may have an Authorization of their own, which goes before the credentials
	received    atomic.Int64

	mu      sync.Mutex
	refusal error // the first error that exchange itself returned
	answer  int   // the status of the last answer
}

// maxAnswer bounds the body of an error answer, which goes to the operator's log.
const maxAnswer = 16 * kib

// RoundTrip implements http.RoundTripper.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := x.dialer.checkTarget("builder.fetch", r.URL); err != nil {
		return nil, x.refuse(err)
	}
	r = r.Clone(r.Context())
	own := x.keepsHeader && r.Header.Get("Authorization") != ""
	if !own {
		r.Header.Del("Authorization")
	}
	atOrigin := x.origin != nil && r.URL.Scheme == x.origin.Scheme && strings.EqualFold(r.URL.Host, x.origin.Host)
	if !own && x.remote.Password != "" && atOrigin {
		r.SetBasicAuth(cmp.Or(x.remote.Username, "x-access-token"), x.remote.Password.Reveal())
	}
	res, err := x.base.RoundTrip(r)
	if err != nil {
		if landfall.KindOf(err) != landfall.Internal {
			err = x.refuse(err)
		}
		return nil, err
	}
	x.mu.Lock()
	x.answer = res.StatusCode
	x.mu.Unlock()
	if res.StatusCode >= http.StatusMultipleChoices {
		res.Body = &limitedBody{io.LimitReader(res.Body, maxAnswer), res.Body}
	}
	res.Body = &meteredBody{ReadCloser: res.Body, x: x}
	return res, nil
}

func (x *exchange) refuse(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.refusal == nil {
		x.refusal = err
	}
	return err
}

// outcome returns the status of the last answer, and the error that exchange itself returned.
func (x *exchange) outcome() (answer int, refusal error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answer, x.refusal
}

// limitedBody is the beginning of a body.
type limitedBody struct {
	io.Reader
	io.Closer
}

// meteredBody counts a body's bytes.
type meteredBody struct {
	io.ReadCloser
	x *exchange
}

func (m *meteredBody) Read(b []byte) (int, error) {
	n, err := m.ReadCloser.Read(b)
	if m.x.received.Add(int64(n)) > m.x.limit {
		return 0,
			m.x.refuse(overLimit("builder.fetch", fmt.Sprintf("%s sent more than %d bytes", m.x.remote.name(), m.x.limit),
				bytes(m.x.limit), "LANDFALL_MAX_RECEIVED_BYTES"))
	}
	return n, err
}
