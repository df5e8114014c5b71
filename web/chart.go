package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// chart is a drawing of numbers, with the numbers beside it for whoever does not see it.
type chart struct {
	ID       string
	Title    string
	Headline string // the one number of it
	Note     string // what the headline is
	Legend   []legend
	Bars     []bar
	From, To string // what stands below the ends
	Heading  []string
	Rows     [][]string
}

// legend names the bars of a class.
type legend struct{ Class, Name string }

// bar is one rectangle; its numbers are those of the drawing.
type bar struct {
	X, Y, W, H string
	Class      string
	Title      string
}

// The drawing's size, and how many bars it has room for.
const (
	chartWidth  = 320.0
	chartHeight = 64.0
	chartSlots  = 30
	fewSlots    = 12 // bars of a chart that has less are as wide as if it had so many
)

// stack is one place of a chart: values on top of each other, the lowest first.
type stack struct {
	values  []float64
	classes []string
	title   string
}

// draw makes the bars of stacks, the last at the right edge.
func draw(stacks []stack, slots int) []bar {
	var highest float64
	for _, s := range stacks {
		var sum float64
		for _, v := range s.values {
			sum += v
		}
		highest = max(highest, sum)
	}
	if highest == 0 {
		highest = 1
	}
	step := chartWidth / float64(slots)
	bars := []bar{}
	for i, s := range stacks {
		x := chartWidth - step*float64(len(stacks)-i)
		top := chartHeight
		for j, v := range s.values {
			height := v / highest * chartHeight
			if v > 0 {
				height = max(height, 1)
			}
			top -= height
			bars = append(bars, bar{
				X: number(x + step*0.12), Y: number(max(top, 0)), W: number(step * 0.76), H: number(height), Class: s.classes[j],
				Title: s.title})
		}
	}
	return bars
}

func number(f float64) string { return fmt.Sprintf("%.2f", f) }

// charts draws what an app's newest runs did, given newest first. production is the branch that becomes live. A run
// that came to a release that was there, as a rebuild does, is no push that went live and no further release.
func charts(runs []client.Run, production string, now time.Time) []chart {
	var released, live []client.Run
	for _, r := range slices.Backward(runs) {
		if r.State != landfall.RunSucceeded || r.Release == "" || !r.Stats.New {
			continue
		}
		released = append(released, r)
		if r.Branch == production {
			live = append(live, r)
		}
	}
	var all []chart
	if len(live) > 0 {
		all = append(all, timeChart(newest(live)))
	}
	if len(released) > 0 {
		all = append(all, bytesChart(newest(released)), releasesChart(released, now))
	}
	return all
}

func newest(runs []client.Run) []client.Run { return runs[max(0, len(runs)-chartSlots):] }

func timeChart(runs []client.Run) chart {
	c := chart{ID: "chart-time", Title: "Push to live, from accepted to reachable", Note: "median",
		Heading: []string{"Commit", "When", "Took"}}
	stacks := []stack{}
	times := make([]time.Duration, 0, len(runs))
	for _, r := range runs {
		d := r.Finished.Sub(r.Created)
		times = append(times, d)
		stacks = append(stacks, stack{[]float64{d.Seconds()}, []string{"bar"}, r.Commit.Short() + ": " + took(d)})
		c.Rows = append(c.Rows, []string{r.Commit.Short(), date(r.Finished), took(d)})
	}
	slices.Sort(times)
	c.Headline = took(median(times))
	c.Bars = draw(stacks, max(fewSlots, len(stacks)))
	c.From, c.To = "older", "newest"
	return c
}

// median is the middle of sorted durations, of an even number the mean of the two in the middle.
func median(sorted []time.Duration) time.Duration {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func bytesChart(runs []client.Run) chart {
	c := chart{
		ID: "chart-bytes", Title: "Bytes of releases", Legend: []legend{{"bar", "uploaded"}, {"bar saved", "saved"}},
		Heading: []string{"Commit", "Uploaded", "Saved"},
	}
	stacks := []stack{}
	var all, uploaded int64
	for _, r := range runs {
		saved := max(0, r.Stats.Bytes-r.Stats.BytesUploaded)
		all, uploaded = all+r.Stats.BytesUploaded+saved, uploaded+r.Stats.BytesUploaded
		stacks = append(stacks, stack{
			[]float64{float64(r.Stats.BytesUploaded), float64(saved)}, []string{"bar", "bar saved"},
			fmt.Sprintf("%s: %s uploaded, %s saved", r.Commit.Short(), humanBytes(r.Stats.BytesUploaded), humanBytes(saved))})
		c.Rows = append(c.Rows, []string{r.Commit.Short(), humanBytes(r.Stats.BytesUploaded), humanBytes(saved)})
	}
	c.Headline = humanBytes(all - uploaded)
	c.Note = "saved, " + humanBytes(uploaded) + " uploaded"
	c.Bars = draw(stacks, max(fewSlots, len(stacks)))
	c.From, c.To = "older", "newest"
	return c
}

// releasesChart counts the releases of each of the last days.
func releasesChart(runs []client.Run, now time.Time) chart {
	c := chart{ID: "chart-releases", Title: "Releases", Heading: []string{"Day", "Releases"}}
	stacks, total := []stack{}, 0
	for i := chartSlots - 1; i >= 0; i-- {
		day := now.UTC().AddDate(0, 0, -i).Format(time.DateOnly)
		n := 0
		for _, r := range runs {
			if strings.HasPrefix(iso(r.Finished), day) {
				n++
			}
		}
		total += n
		stacks = append(stacks, stack{[]float64{float64(n)}, []string{"bar"}, day + ": " + count(n, "release")})
		if n > 0 {
			c.Rows = append(c.Rows, []string{day, strconv.Itoa(n)})
		}
	}
	c.Headline = thousands(total)
	c.Note = "in 30 days"
	c.Bars = draw(stacks, chartSlots)
	c.From, c.To = "30 days ago", "today"
	return c
}
