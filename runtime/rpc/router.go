package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/secret"
)

// Router sends events to processes that run functions. Its fields are set before the first call. It is safe for
// concurrent use.
type Router struct {
	// Runners are where to send to: HOST:PORT of runners, or of routers. A name is looked up again and again, and each of
	// its addresses is a runner.
	Runners []string

	Secret  secret.Text // that all roles share
	Logs    runner.Logs // takes what functions log that Call calls, as it comes; nil: nobody does
	Logger  *slog.Logger
	Timeout time.Duration                                                // of functions of which no timeout is known; 30 s
	Resolve func(ctx context.Context, host string) ([]net.IPAddr, error) // nil: as the system does

	once      sync.Once
	transport *http.Transport
	gate      gate
	check     chan struct{} // something is wrong: look now

	mu      sync.Mutex
	targets []*target
	turn    int // where the search for the next one begins
}

const (
	dialLimit = 2 * time.Second
	idleConns = 256 // to one process, and each is for one call
	idleLimit = time.Minute
	usual     = 30 * time.Second
	// It goes beyond a function's timeout, for what is before it: its package is unpacked by its first call.
	slack = time.Minute
)

func (r *Router) open() {
	r.once.Do(func() {
		r.transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialLimit, KeepAlive: dialLimit}).DialContext,
			MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleLimit, DisableCompression: true,
		}
		r.check = make(chan struct{}, 1)
		for _, address := range r.Runners { // until it is looked up, a name is an address
			r.targets = append(r.targets, newTarget(address, address))
		}
	})
}

// Close lets go of connections that nobody uses.
func (r *Router) Close() {
	r.open()
	r.transport.CloseIdleConnections()
}

var _ function.Caller = (*Router)(nil)

// Call implements function.Caller: it sends the call to the process that is best for it. What the function logs goes to
// Logs before Call returns. Unavailable when nobody is there who could run it; function.ReasonLost when nobody knows
// whether it ran.
func (r *Router) Call(ctx context.Context, c function.Call) (event.Event, error) {
	if c.Body != nil {
		defer c.Body.Stop()
	}
	q, err := newRequest(c)
	if err != nil {
		return event.Event{}, err
	}
	defer q.Over()
	limit := cmp.Or(c.Function.Resources.Timeout, r.Timeout, usual)
	limited, cancel := context.WithTimeout(ctx, limit+slack)
	defer cancel()
	answer, err := r.run(limited, q)
	return answer, late(ctx, limited, limit, err)
}

// run sends a call and reads its answer.
func (r *Router) run(ctx context.Context, q *request) (event.Event, error) {
	sent, err := r.send(ctx, q)
	if err != nil {
		return event.Event{}, err
	}
	answer, err := q.Answer(sent.Response, r.Logs)
	sent.close(err == nil)
	return answer, err
}

// late returns the error of a call, or why it was ended before: the caller gave it up, or nobody answered in time.
func late(ctx, limited context.Context, limit time.Duration, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return landfall.Wrapf("rpc.Call", landfall.Canceled, context.Cause(ctx), "the call was given up")
	case limited.Err() != nil:
		return landfall.Wrapf("rpc.Call", landfall.Internal, &function.Error{Reason: function.ReasonTimeout},
			"the function did not answer within %s", limit)
	}
	return err
}

// sent is a call that was answered, of which the answer is yet to be read.
type sent struct {
	*http.Response

	router *Router
	target *target
	hot    *hotness
}

// close ends the call. well says that the function answered: its process is there for the next one.
func (s *sent) close(well bool) {
	_ = s.Body.Close() // what was to be read of it was
	s.router.done(s.target, s.hot, well)
}

// drop ends a call that was refused. Its answer is short, and its connection can be used again when it was read.
func (s *sent) drop() {
	const most = 64 << 10
	_, _ = io.CopyN(io.Discard, s.Body, most)
	s.close(false)
}

// send sends a call to the best process, and to another one when it did not begin there. The caller closes what it
// returns. Its errors are those of Call.
func (r *Router) send(ctx context.Context, q *request) (_ *sent, failure error) {
	r.open()
	key := q.Header.Get(functionHeader)
	var refusal *sent
	var tried []*target
	for {
		t, hot := r.pick(key, tried)
		if t == nil {
			break
		}
		tried = append(tried, t)
		answer, err := r.try(ctx, t, q) //nolint:bodyclose // who takes what is sent closes it
		if err == nil {
			s := &sent{answer, r, t, hot}
			if refusal != nil {
				refusal.drop() // another one was asked
			}
			if !r.refused(s) || refusal != nil {
				return s, nil
			}
			refusal = s
			continue
		}
		r.done(t, hot, false)
		failure = r.failed(ctx, t, err)
		if landfall.KindOf(failure) != landfall.Unavailable {
			if refusal != nil {
				refusal.drop()
			}
			return nil, failure
		}
	}
	switch {
	case refusal != nil:
		return refusal, nil
	case failure == nil:
		failure = refused("the function cannot be run: nothing that runs functions answers", errNone)
	}
	return nil, failure
}

// refused reports whether a function did not begin.
func (r *Router) refused(s *sent) bool {
	why := s.Header.Get(refusedHeader)
	if why == stopping {
		r.down(s.target, errStops)
	}
	return why != ""
}

// These are causes for the log.
var (
	errNone  = errors.New("no runner is healthy")
	errStops = errors.New("it is stopping")
)

// isUnsent reports whether a call failed before anything of it was sent: there was no connection.
func isUnsent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// try sends a call to a process.
func (r *Router) try(ctx context.Context, t *target, q *request) (*http.Response, error) {
	request, err := q.To(ctx, t.address, r.Secret)
	if err != nil {
		return nil, err
	}
	return r.transport.RoundTrip(request)
}

// failed says what became of a call that was not answered.
func (r *Router) failed(ctx context.Context, t *target, err error) error {
	if ctx.Err() != nil {
		return landfall.Wrapf("rpc.send", landfall.Canceled, context.Cause(ctx), "the call was given up")
	}
	if isUnsent(err) {
		r.down(t, err)
		return refused("the function cannot be run: nothing that runs functions answers", err)
	}
	r.down(t, err) // whether only a connection broke is found out at once
	return lost(err)
}
