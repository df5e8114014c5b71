package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/bench"
)

// A report has every figure, in the order of their numbers, with a plot for each group; also where a figure is zero.
func TestReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var table bench.Table
	table.Row(bench.Row{Figure: "P12 failed", Unit: "requests", Absolute: true}).Add(0, 0)
	uploads := table.Row(bench.Row{Figure: "P6 upload", Peer: "rclone", Floor: 0.5, Target: 0.1})
	uploads.Add(1, 4)
	uploads.Add(2, 4)
	table.Notef("rclone flushes nothing.")
	in := filepath.Join(dir, "bench.json")
	if err := table.Keep(in); err != nil {
		t.Fatal(err)
	}
	if err := report(in, dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{"| P6 upload | rclone | 0.38 (0.25-0.50) | ≤ 0.50 | ≤ 0.10 | 2 | above the floor |",
		"0 (0-0) requests", "flushes nothing", "cores"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Index(text, "## P6") > strings.Index(text, "## P12") {
		t.Errorf("P12 stands before P6:\n%s", text)
	}
	for _, name := range []string{"p6.svg", "p12.svg"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(data), "<svg") {
			t.Errorf("%s is no plot: %v", name, err)
		}
	}
}
