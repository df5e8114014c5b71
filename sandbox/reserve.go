package sandbox

import (
	"context"
	"sync"
	"time"

	"landfall.dev/landfall/sandbox/inner"
)

// reserve keeps inits that were started and wait to be told what to run: in namespaces and groups of their own, with nothing in
// them. A program that takes one waits for its root only. None was anybody's before, and none is used again.
type reserve struct {
	sandbox   *Sandbox
	count     int
	idleLimit time.Duration // how long after the last start they are kept
	ready     chan *directInit
	ctx       context.Context //nolint:containedctx // it ends the goroutines of an object, and no call

	mutex   sync.Mutex
	keeping int
	wanted  time.Time // when a program was started last
	keepers sync.WaitGroup
}

// Reserve lets programs begin in half the time while others do: from the first on, so many empty sandboxes wait for the next, until
// none was started for half a minute. It is called before the first Start; release ends those that wait, and comes after the last.
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

// take returns a spare one for a program, or nil when there is none now. None has a way to the proxy, or a root of its own.
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

// fill begins to keep some ready, or keeps them for longer.
func (r *reserve) fill() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.wanted = time.Now()
	for r.keeping < r.count && r.ctx.Err() == nil {
		r.keeping++
		r.keepers.Go(r.keep)
	}
}

// wantsMore reports whether one more is to be kept ready; if not, there is a keeper less.
func (r *reserve) wantsMore() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	goes := r.isWanted()
	if !goes {
		r.keeping--
	}
	return goes
}

// isWanted reports whether a program was started not long ago. The mutex is held.
func (r *reserve) isWanted() bool { return r.ctx.Err() == nil && time.Since(r.wanted) <= r.idleLimit }

// keep keeps one ready.
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

// offer waits until somebody takes it, and reports whether somebody did before it ended, or was not wanted any more.
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
			if !wanted || !spare.lives() { // somebody may have killed it
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
