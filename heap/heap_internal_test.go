package heap

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// The heap of a busy process grows, and is small again when there is nothing to do. It is that of all tests: none runs
// beside it.
func TestHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(usualPercent))
	Watch()
	deadline := time.Now().Add(time.Minute)
	var kept [][]byte
	for percent() == usualPercent && time.Now().Before(deadline) {
		for range 100 {
			kept = append(kept[:0], make([]byte, 64<<10))
		}
	}
	if len(kept) != 1 || percent() == usualPercent {
		t.Fatal("the heap of a busy process does not grow")
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for percent() != usualPercent && time.Now().Before(deadline) {
		<-tick.C
	}
	if percent() != usualPercent {
		t.Errorf("the heap of an idle process still grows by %d percent", percent())
	}
}

func TestPercentFor(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		live, roots uint64
		want        int
	}{
		{0, 0, 5000}, {4 * mib, 0, 699}, {4 * mib, 3 * mib, 399}, {16 * mib, 0, usualPercent}, {roomy, 0, usualPercent},
		{1 << 40, 0, usualPercent},
	} {
		if got := percentFor(c.live, c.roots); got != c.want {
			t.Errorf("%d bytes that live and %d of roots: got %d percent, want %d", c.live, c.roots, got, c.want)
		}
	}
}
