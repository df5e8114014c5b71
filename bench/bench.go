// Package bench puts Landfall beside what people use today, on the same work, in turns, in one run.
package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// Row is one figure: what it cost in every round, of Landfall and of its peer. Fields are set before the first Add.
type Row struct {
	Figure string  // what was measured: "P6 upload, 100 of 10,000 files"
	Peer   string  // what does the same work; empty when nothing does, and the figure stands alone
	Unit   string  // of the samples
	Floor  float64 // the largest ratio to ship; 0: none was agreed
	Target float64 // the ratio aimed at; 0: none

	ours, theirs []float64
}

// Add adds one round. theirs is ignored when there is no peer.
func (r *Row) Add(ours, theirs float64) {
	r.ours = append(r.ours, ours)
	if r.Peer != "" {
		r.theirs = append(r.theirs, theirs)
	}
}

// Ratio returns the ratio of each round, ours to the peer's: the median, the smallest and the largest. All are NaN
// without a peer.
func (r *Row) Ratio() (median, least, most float64) {
	if len(r.theirs) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	ratios := make([]float64, len(r.ours))
	for i := range ratios {
		ratios[i] = r.ours[i] / r.theirs[i]
	}
	return Quantile(ratios, 0.5), slices.Min(ratios), slices.Max(ratios)
}

// Quantile returns the smallest sample that at least the share q of all samples does not exceed; the median of an even
// number is the mean of the two in the middle. There is at least one sample.
func Quantile(samples []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	if n := len(sorted); q == 0.5 && n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// verdict says what the median ratio comes to.
func (r *Row) verdict() string {
	median, _, _ := r.Ratio()
	switch {
	case math.IsNaN(median) || r.Floor == 0 && r.Target == 0:
		return ""
	case r.Floor != 0 && median > r.Floor:
		return "BELOW THE FLOOR"
	case r.Target != 0 && median <= r.Target:
		return "target reached"
	case r.Floor == 0:
		return "short of the target"
	}
	return "above the floor"
}

// Table is all rows of a run, in their order, and what has to be known beside them.
type Table struct {
	rows  []*Row
	notes []string
}

// Row adds a row, and returns it for its rounds.
func (t *Table) Row(r Row) *Row {
	t.rows = append(t.rows, &r)
	return &r
}

// Notef adds a sentence that stands below the table; one that is there already is not repeated.
func (t *Table) Notef(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(t.notes, note) {
		t.notes = append(t.notes, note)
	}
}

// WriteTo writes the table: the machine, a line for each row that has rounds, the notes. It writes nothing when no row
// has any.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	var text bytes.Buffer
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "FIGURE\tUNIT\tLANDFALL\tPEER'S\tRATIO (MIN-MAX)\tFLOOR\tTARGET\tROUNDS\t\tPEER")
	measured := false
	for _, r := range t.rows {
		if len(r.ours) == 0 {
			continue
		}
		measured = true
		theirs, ratio := "-", "-"
		if median, least, most := r.Ratio(); !math.IsNaN(median) {
			theirs = figure(Quantile(r.theirs, 0.5))
			ratio = fmt.Sprintf("%.2f (%.2f-%.2f)", median, least, most)
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.Figure, r.Unit, figure(Quantile(r.ours, 0.5)), theirs, ratio,
			bound(r.Floor), bound(r.Target), len(r.ours), r.verdict(), cmp.Or(r.Peer, "-"))
	}
	if !measured {
		return 0, nil
	}
	if err := columns.Flush(); err != nil {
		return 0, err
	}
	for _, note := range t.notes {
		fmt.Fprintf(&text, "  %s\n", note)
	}
	header := Machine() + "\nEvery figure is the median of its rounds; the sides took turns; the ratio is ours to the peer's, pair by pair.\n\n"
	n, err := io.WriteString(w, header+text.String()+"\n")
	return int64(n), err
}

// Report writes the table to w, and adds it to the end of the file at path unless path is empty.
func (t *Table) Report(w io.Writer, path string) error {
	if _, err := t.WriteTo(w); err != nil || path == "" {
		return err
	}
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = t.WriteTo(f)
	return err
}

// figure writes a sample with as many digits as mean something.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func bound(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", ratio)
}

// Machine describes the machine as far as it matters: processor, cores, memory, kernel, Go.
func Machine() string {
	return fmt.Sprintf("%s, %d cores, not pinned; %s memory; Linux %s; %s",
		cmp.Or(field("/proc/cpuinfo", "model name"), "processor unknown"), runtime.NumCPU(), cmp.Or(field("/proc/meminfo", "MemTotal"), "unknown"),
		cmp.Or(line("/proc/sys/kernel/osrelease"), "unknown"), runtime.Version())
}

// field returns the first value of a name in a file of "name: value" lines.
func field(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func line(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// PeakMemory returns the most memory that a process ever held at once, in MiB; pid may be "self". It is 0 when the
// kernel does not tell.
func PeakMemory(pid string) float64 {
	var kib float64
	if _, err := fmt.Sscanf(field("/proc/"+pid+"/status", "VmHWM"), "%f kB", &kib); err != nil {
		return 0
	}
	return kib / (1 << 10)
}
