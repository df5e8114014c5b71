package bench_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall/bench"
)

// The ratio is taken of each pair, and not of two medians.
func TestRatioIsOfPairs(t *testing.T) {
	t.Parallel()
	r := bench.Row{Peer: "a peer"}
	for _, pair := range [][2]float64{{1, 10}, {9, 10}, {2, 4}} {
		r.Add(pair[0], pair[1])
	}
	if got, want := r.Judged(), []float64{0.1, 0.9, 0.5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := r.Spread(), "0.50 (0.10-0.90)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		samples []float64
		q, want float64
	}{
		{[]float64{3}, 0.5, 3},
		{[]float64{3, 1}, 0.5, 2},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 3, 2, 1}, 0.99, 4},
		{[]float64{4, 3, 2, 1}, 0, 1},
	} {
		if got := bench.Quantile(test.samples, test.q); got != test.want {
			t.Errorf("quantile %v of %v: got %v, want %v", test.q, test.samples, got, test.want)
		}
	}
}

// A row says whether it is below its floor, be that the most or the least, a ratio or a figure of our own. Zero is a
// floor where figures are absolute.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		row        bench.Row
		ours, peer float64
		want       string
	}{
		{bench.Row{Floor: 0.5, Target: 0.2}, 0.6, 1, "BELOW THE FLOOR"},
		{bench.Row{Floor: 0.5, Target: 0.2}, 0.4, 1, "above the floor"},
		{bench.Row{Floor: 0.5, Target: 0.2}, 0.1, 1, "target reached"},
		{bench.Row{Target: 1.5}, 2, 1, "short of the target"},
		{bench.Row{}, 2, 1, ""},
		{bench.Row{More: true, Floor: 2, Target: 4}, 3, 2, "BELOW THE FLOOR"},
		{bench.Row{More: true, Floor: 2, Target: 4}, 6, 2, "above the floor"},
		{bench.Row{More: true, Floor: 2, Target: 4}, 8, 2, "target reached"},
		{bench.Row{Absolute: true, Floor: 80, Target: 40}, 81, 1, "BELOW THE FLOOR"},
		{bench.Row{Absolute: true, Floor: 80, Target: 40}, 40, math.NaN(), "target reached"},
		{bench.Row{Absolute: true, Target: 2}, 3, 0, "short of the target"},
		{bench.Row{Absolute: true}, 0, 0, "target reached"},
		{bench.Row{Absolute: true}, 1, 0, "BELOW THE FLOOR"},
	} {
		test.row.Peer = "a peer"
		test.row.Add(test.ours, test.peer)
		if got := test.row.Verdict(); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.row, got, test.want)
		}
	}
}

// What several runs kept is one table, without what was not measured; figures are shown only where their floor is one.
func TestTable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results")
	for _, figure := range []string{"first", "second"} {
		var tab bench.Table
		tab.Row(bench.Row{Figure: figure, Peer: "a peer", Unit: "ms", Floor: 0.5}).Add(123, 1000)
		tab.Row(bench.Row{Figure: figure + " memory", Unit: "MiB", Absolute: true, Floor: 80}).Add(77, 0)
		tab.Row(bench.Row{Figure: "unmeasured"})
		tab.Notef("The same machine.")
		if err := tab.Keep(path); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := bench.Kept(path)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := kept.Print(&text); err != nil {
		t.Fatal(err)
	}
	if got := len(kept.Rows); got != 4 {
		t.Errorf("got %d rows, want 4:\n%s", got, &text)
	}
	for _, want := range []string{"first ", "second ", "0.12 (0.12-0.12)", "77 (77-77) MiB", "cores"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("want %q in\n%s", want, &text)
		}
	}
	for _, not := range []string{"123", "unmeasured"} {
		if strings.Contains(text.String(), not) {
			t.Errorf("want no %q in\n%s", not, &text)
		}
	}
	if n := strings.Count(text.String(), "The same machine."); n != 1 {
		t.Errorf("the note stands there %d times, want once:\n%s", n, &text)
	}
}
