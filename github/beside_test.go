package github_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github/githubtest"
)

// meeting lets requests through alone until some were sent, and then no one before so many are under way.
type meeting struct {
	next http.RoundTripper

	mu    sync.Mutex
	alone int // so many are let through yet
	size  int
	there []chan struct{}
	most  int // that were under way in one moment
	under int
}

func (m *meeting) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.under++
	m.most = max(m.most, m.under)
	gone := make(chan struct{})
	switch {
	case m.alone > 0:
		m.alone--
		close(gone)
	default:
		if m.there = append(m.there, gone); len(m.there) == m.size {
			for _, waits := range m.there {
				close(waits)
			}
			m.there = nil
		}
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.under--
	}()
	select {
	case <-gone:
		return m.next.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// The final states of many commits do not wait for each other's answers, once GitHub has taken a few.
func TestFinalStatesGoBesideEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const few, beside = 1 + 2 + 4, 8
	m := &meeting{next: b.round, alone: few, size: beside}
	b.round = m
	for n := range few + 3*beside {
		b.outbox.owe(landfall.CommitSHA(fmt.Sprintf("%040x", n+1)), landfall.StatusSuccess, "Released")
	}
	b.flush(t)
	// L-027: each of the apps of a repository has its status without waiting for those of the others
	if n := len(b.server.Statuses("")); n != few+3*beside || b.outbox.owed() != 0 || m.most != beside {
		t.Errorf("%d statuses, %d owed, %d requests at once; want all, and %d at once", n, b.outbox.owed(), m.most, beside)
	}
}

// A pending state goes alone, and so does what follows an answer that says no.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := &meeting{next: b.round, alone: 1000}
	b.round = m
	for n := range 20 {
		b.outbox.owe(landfall.CommitSHA(fmt.Sprintf("%040x", n+1)), landfall.StatusPending, "Queued")
	}
	b.flush(t)
	if m.most != 1 || b.outbox.owed() != 0 {
		t.Errorf("%d pending states at once, %d owed", m.most, b.outbox.owed())
	}
	b.restart(t)
	for n := range 20 {
		b.server.Fail(n+1, githubtest.Fault{Status: http.StatusBadGateway})
		b.outbox.owe(landfall.CommitSHA(fmt.Sprintf("%040x", n+100)), landfall.StatusSuccess, "Released")
	}
	b.flush(t)
	// N-018: while GitHub is down, it is not asked for more than one thing at once
	if m.most != 1 || b.outbox.owed() != 20 {
		t.Errorf("%d requests at once while GitHub is down, %d owed", m.most, b.outbox.owed())
	}
}

// roundTrip is a function that sends a request.
type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Of several answers that ask for a pause, the longest counts.
func TestPausesBesideEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const few, beside = 1 + 2 + 4, 8
	next := b.round
	m := &meeting{alone: few, size: beside}
	b.round = m
	for n := range few + beside {
		b.outbox.owe(landfall.CommitSHA(fmt.Sprintf("%040x", n+1)), landfall.StatusSuccess, "Released")
	}
	last := fmt.Sprintf("%040x", few+beside)
	m.next = roundTrip(func(r *http.Request) (*http.Response, error) {
		commit := path.Base(r.URL.Path)
		answer := httptest.NewRecorder()
		switch {
		case commit <= fmt.Sprintf("%040x", few):
			return next.RoundTrip(r)
		case commit == last:
			answer.Header().Set("Retry-After", "60")
		default:
			answer.Header().Set("Retry-After", "600")
		}
		answer.WriteHeader(http.StatusTooManyRequests)
		response := answer.Result()
		response.Request = r
		return response, nil
	})
	b.flush(t)
	b.round = next
	asked := b.server.Requests()
	if err := b.clock.Wait(t.Context(), 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	b.flush(t)
	// N-018: nothing is sent before GitHub wants it again, whichever answer came last
	if n := b.server.Requests() - asked; n != 0 {
		t.Errorf("%d requests within the pause of ten minutes", n)
	}
	b.settle(t)
}
