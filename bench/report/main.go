// Command report writes what the benchmarks measured as one page with plots.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // plots are files that end in .svg

	"landfall.dev/landfall/bench"
)

func main() {
	in := flag.String("in", "build/bench.json", "what the benchmarks kept")
	out := flag.String("out", "build/bench", "folder of the report: report.md, and a plot for each group of figures")
	flag.Parse()
	if err := report(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func report(in, out string) error {
	table, err := bench.Kept(in)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	var page strings.Builder
	fmt.Fprintf(&page, "# Benchmarks\n\n%s\n\n%s\n", table.Machine,
		"Sides took turns, and each ratio is of one pair: ours to the peer's. Shown are the median of all rounds, the "+
			"smallest and the\n"+
			"largest. In the plots, dots are rounds; the red line is the floor, the green line the target.")
	for _, g := range groups(table) {
		fmt.Fprintf(&page, "\n## %s\n\n%s", g.name, g.text())
		if err := g.plot(filepath.Join(out, g.file())); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		fmt.Fprintf(&page, "\n![%s](%s)\n", g.name, g.file())
	}
	page.WriteString("\n## Notes\n\n")
	for _, note := range table.Notes {
		fmt.Fprintf(&page, "- %s\n", note)
	}
	path := filepath.Join(out, "report.md")
	return errors.Join(os.WriteFile(path, []byte(page.String()), 0o600), said(path))
}

func said(path string) error {
	_, err := fmt.Fprintln(os.Stdout, "wrote", path)
	return err
}

// group is the rows of one figure: P1, or the first word of what has no number.
type group struct {
	name string
	rows []*bench.Row
}

func groups(t *bench.Table) []group {
	var all []group
	for _, r := range t.Measured() {
		name, _, _ := strings.Cut(r.Figure, " ")
		i := slices.IndexFunc(all, func(g group) bool { return g.name == name })
		if i < 0 {
			i = len(all)
			all = append(all, group{name: name})
		}
		all[i].rows = append(all[i].rows, r)
	}
	slices.SortStableFunc(all, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.number(), b.number()), cmp.Compare(a.name, b.name))
	})
	return all
}

// number is the one in the group's name; what has none comes last.
func (g group) number() int {
	var n int
	if _, err := fmt.Sscanf(g.name, "P%d", &n); err != nil {
		return math.MaxInt
	}
	return n
}

func (g group) file() string { return strings.ToLower(g.name) + ".svg" }

// text is the group's table.
func (g group) text() string {
	var text strings.Builder
	text.WriteString("| figure | peer | median (min-max) | floor | target | rounds | |\n|---|---|---|---|---|---|---|\n")
	for _, r := range g.rows {
		floor, target := r.Bounds()
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %d | %s |\n",
			r.Figure, cmp.Or(r.Peer, "-"), r.Spread(), floor, target, len(r.Ours), r.Verdict())
	}
	return text.String()
}

// plot writes the group's plot: a line for each row, on which its rounds are.
func (g group) plot(path string) error {
	p := plot.New()
	p.X.Label.Text = "ratio to the peer's, or the unit of the row (logarithmic)"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	labels := make([]string, len(g.rows))
	p.X.Min, p.X.Max = math.Inf(1), math.Inf(-1)
	for i, r := range g.rows {
		y := float64(len(g.rows) - 1 - i)
		labels[len(g.rows)-1-i] = label(r)
		if err := addRow(p, r, y); err != nil {
			return err
		}
	}
	p.NominalY(labels...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(g.rows))-0.5
	p.X.Min, p.X.Max = math.Pow(10, math.Floor(math.Log10(p.X.Min))), math.Pow(10, math.Ceil(math.Log10(p.X.Max)))
	if p.X.Min == p.X.Max {
		p.X.Max *= 10
	}
	const width, head, perRow = 11 * vg.Inch, 0.8 * vg.Inch, 0.4 * vg.Inch
	return p.Save(width, head+vg.Length(len(g.rows))*perRow, path)
}

func label(r *bench.Row) string {
	text := r.Figure
	switch {
	case r.Absolute:
		text += ", " + r.Unit
	case r.Peer != "":
		text += " / " + r.Peer
	}
	const longest = 78
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest-1]) + "…"
	}
	return text
}

// least stands for zero, for which a logarithmic scale has no place.
const least = 0.001

func addRow(p *plot.Plot, r *bench.Row, y float64) error {
	var rounds plotter.XYs
	for _, v := range r.Judged() {
		rounds = append(rounds, plotter.XY{X: max(v, least), Y: y})
	}
	line, dots, err := plotter.NewLinePoints(rounds)
	if err != nil {
		return err
	}
	dots.Shape = draw.CircleGlyph{}
	p.Add(line, dots)
	widen(p, rounds)
	floor, target := r.Bounded()
	for _, bound := range []struct {
		agreed bool
		at     float64
		color  color.Color
	}{{floor, r.Floor, color.RGBA{R: 200, A: 255}}, {target, r.Target, color.RGBA{G: 150, A: 255}}} {
		if !bound.agreed {
			continue
		}
		const half = 0.35
		x := max(bound.at, least)
		mark := plotter.XYs{{X: x, Y: y - half}, {X: x, Y: y + half}}
		stroke, err := plotter.NewLine(mark)
		if err != nil {
			return err
		}
		stroke.Color, stroke.Width = bound.color, vg.Points(2)
		p.Add(stroke)
		widen(p, mark)
	}
	return nil
}

// widen makes the plot's X axis hold the points.
func widen(p *plot.Plot, points plotter.XYs) {
	for _, point := range points {
		p.X.Min, p.X.Max = min(p.X.Min, point.X), max(p.X.Max, point.X)
	}
}
