package sandbox

import (
	"context"
	"sync"
	"time"

	"landfall.dev/landfall/sandbox/inner"
)

// reserve keeps started inits that wait for a program: in namespaces and groups of their own, with nothing in them. A
// program that takes one only waits for its root. Each init is used once.
type reserve struct {
	sandbox   *Sandbox
	count     int
	idleLimit time.Duration // how long they are kept after the last start
	ready     chan *directInit
	ctx       context.Context //nolint:containedctx // it ends the goroutines of an object, and no call

	mutex   sync.Mutex
	keeping int
	wanted  time.Time // when the last program was started
	keepers sync.WaitGroup
}

// Reserve halves the time in which programs start while others do: from the first start on, count empty sandboxes wait
// for the next programs, until none was started for half a minute. It is called before the first Start; release ends
// the waiting sandboxes, and is called after the last Start.
func (s *Sandbox) Reserve(count int) (release func()) {
	const rest = 30 * time.Second
	return s.reserveFor(count, rest)
}

func (s *Sandbox) reserveFor(count int, rest time.Duration) (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reserve{sandbox: s, count: count, idleLimit: rest, ready: make(chan *directInit), ctx: ctx}
	if s.Kind() != "off" && s.direct {
		s.reserve = r
	}
	return func() {
		r.mutex.Lock()
		cancel()
		r.mutex.Unlock()
		r.keepers.Wait()
	}
}

// take returns a waiting init for a program, or nil when there is none now. A waiting init has no connection to the
// proxy, and no root of its own.
func (s *Sandbox) take(p Program) *directInit {
	r := s.reserve
	if r == nil || p.Proxy != nil || p.Root != "" {
		return nil
	}
	r.fill()
	select {
	case spare := <-r.ready:
		return spare
	default:
		return nil
	}
}

// fill begins to keep inits ready, or keeps them for longer.
func (r *reserve) fill() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.wanted = time.Now()
	for r.keeping < r.count && r.ctx.Err() == nil {
		r.keeping++
		r.keepers.Go(r.keep)
	}
}

// wantsMore reports whether another one must be kept ready; if not, there is a keeper less.
func (r *reserve) wantsMore() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	goes := r.isWanted()
	if !goes {
		r.keeping--
	}
	return goes
}

// isWanted reports whether a program was started not long ago. The caller holds the mutex.
func (r *reserve) isWanted() bool { return r.ctx.Err() == nil && time.Since(r.wanted) <= r.idleLimit }

// keep keeps one init ready.
func (r *reserve) keep() {
	for r.wantsMore() {
		spare, err := r.sandbox.startIdle(inner.Spare, Command{Limits: Limits{CPU: 1}})
		if err != nil {
			r.pause()
			continue
		}
		if !r.offer(spare) {
			spare.drop()
		}
	}
}

// offer waits until somebody takes the init, and reports whether somebody did before it ended, or was not wanted any
// more.
func (r *reserve) offer(spare *directInit) bool {
	const look = time.Second
	tick := time.NewTicker(min(look, r.idleLimit))
	defer tick.Stop()
	for {
		select {
		case r.ready <- spare:
			return true
		case <-tick.C:
			r.mutex.Lock()
			wanted := r.isWanted()
			r.mutex.Unlock()
			if !wanted || !spare.lives() { // it may have been killed
				return false
			}
		case <-r.ctx.Done():
			return false
		}
	}
}

// pause waits after a failure.
func (r *reserve) pause() {
	select {
	case <-time.After(time.Second):
	case <-r.ctx.Done():
	}
}
