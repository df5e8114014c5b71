package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/runtime/invoke"
)

const (
	checkEvery = time.Second
	checkLimit = 5 * time.Second // for an answer: a machine that has much to do is healthy
	downFor    = 10 * time.Second
	lookEvery  = 5 * time.Second
	lookLimit  = 5 * time.Second
)

// Watch finds out who is there and healthy, until ctx ends. It returns nil. Without it every runner is taken for
// healthy, but for a while after a call to it failed.
func (r *Router) Watch(ctx context.Context) error {
	r.open()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.look(ctx) })
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		for _, t := range r.unchecked() {
			group.Go(func() { r.examine(ctx, t) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-r.check:
		}
	}
}

// unchecked returns the processes that nobody is asking for their health, and says that somebody does.
func (r *Router) unchecked() (all []*target) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.targets {
		if !t.checking {
			t.checking = true
			all = append(all, t)
		}
		t.forget(now)
	}
	return all
}

// examine asks a process for its health.
func (r *Router) examine(ctx context.Context, t *target) {
	err := r.ask(ctx, t)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.down(t, err)
	}
	r.mu.Lock()
	t.checking = false
	back := err == nil && !t.down.IsZero()
	if back {
		t.down = time.Time{}
	}
	r.mu.Unlock()
	if back {
		r.Logger.Info("a runner gets events again", "runner", t.address)
	}
}

// ask returns an error unless a process is healthy.
func (r *Router) ask(ctx context.Context, t *target) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.address+invoke.RunPath, nil)
	if err != nil {
		return err
	}
	auth.SetBearer(request, r.Secret.Reveal())
	answer, err := r.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	const most = 64 << 10
	_, _ = io.CopyN(io.Discard, answer.Body, most) // so that the connection can be used again
	switch {
	case answer.Header.Get(refusedHeader) == stopping:
		return errStops
	case answer.StatusCode == http.StatusUnauthorized:
		return errors.New("it does not know the role secret of this process")
	case answer.StatusCode != http.StatusOK:
		return errors.New("it answers " + answer.Status)
	}
	return nil
}

// down says that a process gets no events for a while, or until it answers again.
func (r *Router) down(t *target, why error) {
	now := time.Now()
	r.mu.Lock()
	was := now.Before(t.down)
	t.down = now.Add(downFor)
	r.mu.Unlock()
	if was {
		return
	}
	r.Logger.Warn("a runner gets no events until it answers", "runner", t.address, "error", why)
	select {
	case r.check <- struct{}{}:
	default: // that is asked for already
	}
}

// healthy returns an error when nobody is.
func (r *Router) healthy() error {
	r.open()
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.targets {
		if !now.Before(t.down) {
			return nil
		}
	}
	return refused("nothing that runs functions answers", errNone)
}

// look looks names up, again and again.
func (r *Router) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		for _, name := range r.Runners {
			r.lookUp(ctx, name)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lookUp lets the addresses of a name be the runners of that name. While nobody knows the name, they stay.
func (r *Router) lookUp(ctx context.Context, name string) {
	host, port, err := net.SplitHostPort(name)
	if err != nil || net.ParseIP(host) != nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	resolve := r.Resolve
	if resolve == nil {
		resolve = net.DefaultResolver.LookupIPAddr
	}
	found, err := resolve(limited, host)
	if err != nil || len(found) == 0 {
		if ctx.Err() == nil {
			r.Logger.WarnContext(ctx, "the name of runners cannot be looked up; those that are known stay", "name", host,
				"error", err)
		}
		return
	}
	var addresses []string
	for _, ip := range oneFamily(found) {
		addresses = append(addresses, net.JoinHostPort(ip.String(), port))
	}
	r.replace(name, addresses)
}

// oneFamily returns addresses of one family: a machine that has both is one runner, and not two.
func oneFamily(all []net.IPAddr) []net.IPAddr {
	old := slices.DeleteFunc(slices.Clone(all), func(ip net.IPAddr) bool { return ip.IP.To4() == nil })
	if len(old) > 0 {
		return old
	}
	return all
}

// replace lets the runners of a name be those of some addresses.
func (r *Router) replace(name string, addresses []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next []*target
	known := map[string]bool{}
	for _, t := range r.targets {
		if t.name != name || slices.Contains(addresses, t.address) {
			next = append(next, t)
			known[t.address] = true
		}
	}
	for _, address := range addresses {
		if !known[address] {
			next = append(next, newTarget(name, address))
			known[address] = true
			r.Logger.Info("a runner was found", "name", name, "runner", address)
		}
	}
	r.targets = next
}
