package web

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How often an address may fail to sign in: so often at once, and then once in so long.
const (
	failuresAtOnce = 10
	failureEvery   = time.Minute
	maxAddresses   = 10_000
)

// attempts counts failed sign-ins by address.
type attempts struct {
	mu    sync.Mutex
	known map[string]*rate.Limiter
}

// failed counts a failure, and returns how long to wait when there were too many; what comes too soon is not counted.
func (a *attempts) failed(remote string, now time.Time) time.Duration {
	address, _, err := net.SplitHostPort(remote)
	if err != nil {
		address = remote
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) > maxAddresses { // tokens are long: what is forgotten here helps nobody who guesses
		a.known = map[string]*rate.Limiter{}
	}
	limit := a.known[address]
	if limit == nil {
		limit = rate.NewLimiter(rate.Every(failureEvery), failuresAtOnce)
		a.known[address] = limit
	}
	taken := limit.ReserveN(now, 1)
	wait := taken.DelayFrom(now)
	if wait > 0 {
		taken.CancelAt(now)
	}
	return wait
}
