package api

import (
	"context"
	"sync"

	"landfall.dev/landfall"
)

// Waiters bounds how many requests of one token wait at a time for what is yet to come: each of them asks the database
// again and again. Its zero value is ready, and safe for concurrent use.
type Waiters struct {
	mu sync.Mutex
	of map[landfall.Digest]int // by the hashes of tokens
}

// mostWaiting is how many requests of one token may wait.
const mostWaiting = 100

// Enter counts a request of a token until its context ends. Unavailable when as many wait as may.
func (w *Waiters) Enter(ctx context.Context, token landfall.Token) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[token.Hash] >= mostWaiting {
		return landfall.Errorf("api", landfall.Unavailable,
			"%d requests of the token %q wait for a log or an execution, which is the limit; try again when one of them is over",
			mostWaiting, token.Name)
	}
	if w.of == nil {
		w.of = map[landfall.Digest]int{}
	}
	w.of[token.Hash]++
	context.AfterFunc(ctx, func() { w.leave(token.Hash) })
	return nil
}

func (w *Waiters) leave(token landfall.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[token]--
	if w.of[token] == 0 {
		delete(w.of, token)
	}
}
