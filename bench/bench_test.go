package bench_test

import (
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
	median, least, most := r.Ratio()
	if got, want := [3]float64{median, least, most}, [3]float64{0.5, 0.1, 0.9}; got != want {
		t.Errorf("got median, least and most %v, want %v", got, want)
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

// A table says of each row whether it is below its floor, and leaves out what was not measured.
func TestTable(t *testing.T) {
	t.Parallel()
	var tab bench.Table
	for _, row := range []struct {
		figure               string
		floor, target, ratio float64
	}{{"slow", 0.5, 0.2, 0.6}, {"fair", 0.5, 0.2, 0.4}, {"fast", 0.5, 0.2, 0.1}, {"heavy", 0, 1.5, 2}} {
		tab.Row(bench.Row{Figure: row.figure, Peer: "a peer", Floor: row.floor, Target: row.target}).Add(row.ratio, 1)
	}
	tab.Row(bench.Row{Figure: "unmeasured"})
	var text strings.Builder
	if _, err := tab.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]string{}
	for l := range strings.Lines(text.String()) {
		for _, verdict := range []string{"BELOW THE FLOOR", "above the floor", "target reached", "short of the target"} {
			if strings.Contains(l, verdict) {
				verdicts[strings.Fields(l)[0]] = verdict
			}
		}
	}
	for figure, want := range map[string]string{
		"slow": "BELOW THE FLOOR", "fair": "above the floor", "fast": "target reached", "heavy": "short of the target",
	} {
		if got := verdicts[figure]; got != want {
			t.Errorf("%s: got %q, want %q in\n%s", figure, got, want, &text)
		}
	}
	if strings.Contains(text.String(), "unmeasured") {
		t.Errorf("a row without rounds is shown:\n%s", &text)
	}
}
