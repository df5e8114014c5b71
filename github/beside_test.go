package github_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

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
