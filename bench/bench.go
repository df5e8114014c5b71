// Package bench puts Landfall beside what people use today, on the same work, in turns, in one run.
package bench

import (
	"cmp"
	"encoding/json"
	"errors"
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

// Row is one figure: what it came to in every round, for Landfall and for its peer. Add fills the last two fields.
type Row struct {
	Figure string `json:"figure"` // what was measured: "P6 upload, 100 of 10,000 files"
	Peer   string `json:"peer"`   // what does the same work; empty when nothing does
	Unit   string `json:"unit"`   // of the samples
	More   bool   `json:"more"`   // more is better: Floor and Target are the least to reach, and not the most

	// Absolute: Floor and Target are of our own figure, which is shown. Otherwise they are of the ratio, ours to the
	// peer's, nothing else is shown, and 0 means that none was agreed. So it does for the Floor of a figure that has a
	// Target.
	Absolute bool    `json:"absolute"`
	Floor    float64 `json:"floor"`
	Target   float64 `json:"target"`

	Ours   []float64 `json:"ours"`
	Theirs []float64 `json:"theirs"`
}

// Add adds one round. theirs is ignored when there is no peer.
func (r *Row) Add(ours, theirs float64) {
	r.Ours = append(r.Ours, ours)
	if r.Peer != "" {
		r.Theirs = append(r.Theirs, theirs)
	}
}

// Judged returns what Floor and Target are bounds of, round by round: our figures, or the ratios, ours to the peer's.
func (r *Row) Judged() []float64 {
	if r.Absolute {
		return r.Ours
	}
	ratios := make([]float64, len(r.Theirs))
	for i := range ratios {
		ratios[i] = r.Ours[i] / r.Theirs[i]
	}
	return ratios
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

// Bounded reports whether a floor and a target were agreed.
func (r *Row) Bounded() (floor, target bool) {
	return r.Absolute && r.Target == 0 || r.Floor != 0, r.Absolute || r.Target != 0
}

// Verdict says what the median comes to; nothing when there is nothing to compare it with.
func (r *Row) Verdict() string {
	floor, target := r.Bounded()
	if len(r.Judged()) == 0 || !floor && !target {
		return ""
	}
	median := Quantile(r.Judged(), 0.5)
	reaches := func(bound float64) bool { return r.More && median >= bound || !r.More && median <= bound }
	switch {
	case floor && !reaches(r.Floor):
		return "BELOW THE FLOOR"
	case target && reaches(r.Target):
		return "target reached"
	case !floor:
		return "short of the target"
	}
	return "above the floor"
}

// Spread writes the median, the smallest and the largest of what is judged.
func (r *Row) Spread() string {
	judged := r.Judged()
	text := fmt.Sprintf("%s (%s-%s)", Figure(Quantile(judged, 0.5)), Figure(slices.Min(judged)),
		Figure(slices.Max(judged)))
	if r.Absolute {
		text += " " + r.Unit
	}
	return text
}

// Figure writes a figure with as many digits as mean something.
func Figure(v float64) string {
	switch {
	case v == math.Trunc(v) || v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// Bounds writes the row's floor and target.
func (r *Row) Bounds() (floor, target string) {
	sign := "≤ "
	if r.More {
		sign = "≥ "
	}
	floor, target = "-", "-"
	f, t := r.Bounded()
	if f {
		floor = sign + Figure(r.Floor)
	}
	if t {
		target = sign + Figure(r.Target)
	}
	return floor, target
}

// Table is all rows of a run, in their order, and what has to be known beside them.
type Table struct {
	Machine string   `json:"machine"`
	Rows    []*Row   `json:"rows"`
	Notes   []string `json:"notes"`
}

// Row adds a row, and returns it for its rounds.
func (t *Table) Row(r Row) *Row {
	t.Rows = append(t.Rows, &r)
	return &r
}

// Notef adds a sentence that stands below the table; one that is there already is not repeated.
func (t *Table) Notef(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(t.Notes, note) {
		t.Notes = append(t.Notes, note)
	}
}

// Measured returns the rows that have rounds.
func (t *Table) Measured() []*Row {
	var rows []*Row
	for _, r := range t.Rows {
		if len(r.Judged()) > 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

// Print writes the table for a terminal; nothing when nothing was measured.
func (t *Table) Print(w io.Writer) error {
	if len(t.Measured()) == 0 {
		return nil
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(columns, "%s\n\nFIGURE\tMEDIAN (MIN-MAX)\tFLOOR\tTARGET\tROUNDS\t\tPEER\n", cmp.Or(t.Machine, Machine()))
	for _, r := range t.Measured() {
		floor, target := r.Bounds()
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.Figure, r.Spread(), floor, target, len(r.Ours), r.Verdict(),
			cmp.Or(r.Peer, "-"))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n  %s\n\n", strings.Join(t.Notes, "\n  "))
	return err
}

// Keep adds what was measured to the end of the file at path.
func (t *Table) Keep(path string) error {
	if len(t.Measured()) == 0 {
		return nil
	}
	data, err := json.Marshal(Table{Machine: Machine(), Rows: t.Measured(), Notes: t.Notes})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Close())
}

// Kept returns what was kept in a file, by one or several calls of Keep, as one table.
func Kept(path string) (*Table, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := &Table{}
	for d := json.NewDecoder(f); ; {
		var t Table
		if err := d.Decode(&t); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all.Machine = t.Machine
		all.Rows = append(all.Rows, t.Rows...)
		for _, note := range t.Notes {
			all.Notef("%s", note)
		}
	}
}

// Machine describes the machine as far as it matters: processor, cores, memory, kernel, Go.
func Machine() string {
	return fmt.Sprintf("%s, %d cores; %s memory; Linux %s; %s",
		cmp.Or(field("/proc/cpuinfo", "model name"), "processor unknown"), runtime.NumCPU(),
		cmp.Or(field("/proc/meminfo", "MemTotal"), "unknown"),
		cmp.Or(line("/proc/sys/kernel/osrelease"), "unknown"), runtime.Version())
}

// field returns the first value of a name in a file of "name: value" lines.
func field(path, name string) string {
	data, err := os.ReadFile(filepath.Clean(path))
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
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// PeakMemory returns the most memory that a process ever held at once, in MiB; pid may be "self". It is 0 when the
// kernel does not tell.
func PeakMemory(pid string) float64 { return mebibytes(pid, "VmHWM") }

// Memory returns the memory that a process holds now, in MiB. It is 0 when the kernel does not tell.
func Memory(pid string) float64 { return mebibytes(pid, "VmRSS") }

// MappedFiles returns how much of Memory are pages of files, such as the program's own: the kernel maps more or fewer
// of them around what is used, as they happen to lie in its cache. In MiB.
func MappedFiles(pid string) float64 { return mebibytes(pid, "RssFile") }

func mebibytes(pid, name string) float64 {
	var kib float64
	if _, err := fmt.Sscanf(field("/proc/"+pid+"/status", name), "%f kB", &kib); err != nil {
		return 0
	}
	return kib / (1 << 10)
}
