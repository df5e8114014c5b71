package rpc

import (
	"testing"
	"time"
)

// A process is hot while one of a function's waits there: not when all are busy, and not when it has waited for so long
// that it is gone.
func TestHot(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		calls, most int
		ago         time.Duration
		want        bool
	}{{0, 1, 0, true}, {1, 2, warmFor - 1, true}, {1, 1, 0, false}, {0, 0, 0, false}, {0, 1, warmFor, false}} {
		if h := (&hotness{calls: c.calls, most: c.most, last: now.Add(-c.ago)}); h.isHot(now) != c.want {
			t.Errorf("%d calls under way of %d, the last one %s ago: hot is %t, want %t", c.calls, c.most, c.ago,
				!c.want, c.want)
		}
	}
	var unknown *hotness
	if unknown.isHot(now) {
		t.Error("a function that is not known there is hot")
	}
}
