package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"landfall.dev/landfall"
)

// Print writes v as the user wants it: as JSON or YAML with REST's field names, or as people fills the table.
func (c *Call) Print(v any, people func(t *Table)) error {
	if c.output == "" {
		t := newTable(c.Stdout)
		people(t)
		return t.w.Flush()
	}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return err
	}
	text := data.Bytes()
	if c.output == "yaml" {
		var err error
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	}
	_, err := c.Stdout.Write(text)
	return err
}

// printRows prints the items of a list, for people a row for each below the heading, unless err says that there are
// none.
func printRows[T any](c *Call, items []T, err error, heading []string, row func(T) []string) error {
	if err != nil {
		return err
	}
	return c.Print(items, func(t *Table) {
		t.Row(heading...)
		for _, item := range items {
			t.Row(row(item)...)
		}
	})
}

// printDeleted says that something is gone.
func (c *Call) printDeleted(what, name string) error {
	return c.Print(map[string]string{"deleted": name}, func(t *Table) { t.Row("deleted the " + what + " " + name) })
}

// Table writes rows in columns. What servers and repositories said is made printable.
type Table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) *Table { return &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Row adds a row; an empty cell is shown as "-".
func (t *Table) Row(cells ...string) {
	for i, cell := range cells {
		if cell == "" {
			cell = "-"
		}
		cells[i] = printable(cell)
	}
	_, _ = io.WriteString(t.w, strings.Join(cells, "\t")+"\n") // Flush returns the error
}

// field adds a line of something shown by itself; nothing when the value is empty.
func (t *Table) field(name, value string) {
	if value = strings.TrimSpace(value); value == "" {
		return
	}
	name += ":"
	for line := range strings.SplitSeq(value, "\n") {
		t.Row(name, line)
		name = " " // of a text of several lines they stand below each other
	}
}

// inShort is a text of one or several lines in one cell.
func inShort(text string) string {
	first, rest, more := strings.Cut(strings.TrimSpace(text), "\n")
	if !more {
		return first
	}
	return first + " (and " + strconv.Itoa(strings.Count(rest, "\n")+1) + " more)"
}

// section begins another table below what was written.
func (t *Table) section(heading ...string) {
	_ = t.w.Flush() // its error stays, and the next Flush returns it
	_, _ = io.WriteString(t.w, "\n")
	t.Row(heading...)
}

// printable is landfall.Printable: what comes from somebody else goes to a terminal.
func printable(s string) string { return landfall.Printable(s) }

// printableLines is printable for a text of several lines, which may have tabs.
func printableLines(s string) string {
	var b strings.Builder
	for s != "" {
		end := strings.IndexAny(s, "\n\t")
		if end < 0 {
			return b.String() + printable(s)
		}
		b.WriteString(printable(s[:end]) + s[end:end+1])
		s = s[end+1:]
	}
	return b.String()
}

// Local returns a time as people read it: in the zone of this machine, and nothing for a zero time.
func Local(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(zone()).Format(time.DateTime)
}

// zone is the time zone in which people are shown times.
func zone() *time.Location {
	local, err := time.LoadLocation("Local")
	if err != nil {
		return time.UTC
	}
	return local
}

// showChanges adds a diff: a row for each unit that is not the same. It returns how many are.
func showChanges(t *Table, changes []landfall.UnitChange) (unchanged int) {
	for _, change := range changes {
		if change.Change == landfall.Unchanged {
			unchanged++
			continue
		}
		version := string(cmp.Or(change.After, change.Before))
		if version != "" && change.Unit.Kind != landfall.StaticUnit && change.Unit.Kind != landfall.ConfigUnit {
			version = change.Unit.Name + "-" + version
		}
		number, files := "", ""
		if change.Number > 0 {
			number = strconv.FormatInt(change.Number, 10)
		}
		if f := change.Files; f != nil {
			files = filesChanged(*f)
		}
		if notes := change.Notes(); len(notes) > 0 { // of functions, which have no files
			files = strings.Join(notes, ", ")
		}
		t.Row(string(change.Unit.Kind), change.Unit.Name, string(change.Change), version, number, files)
	}
	return unchanged
}

func filesChanged(f landfall.FileChange) string {
	return strconv.Itoa(f.Added) + " added, " + strconv.Itoa(f.Changed) + " changed, " +
		strconv.Itoa(f.Removed) + " removed"
}

// changesHeading is the heading above showChanges.
func changesHeading() []string {
	return []string{"KIND", "UNIT", "CHANGE", "VERSION", "NUMBER", "FILES"}
}

// IsTerminal reports whether a stream is a person's terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
