package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// appHistory prints the history in the form that Skygear's design gives it.
func (c *Call) appHistory(ctx context.Context, cl *client.Client, in Operands) error {
	groups, err := client.List[client.Group](ctx, cl, appPath(in, "groups"), nil)
	if err != nil {
		return err
	}
	if c.output != "" {
		return c.Print(groups, nil)
	}
	fmt.Fprintf(c.Stdout, "App name: %s\nApp versions:\n", printable(in["app"]))
	w := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	for _, g := range groups {
		subject, _, _ := strings.Cut(g.Message, "\n")
		cells := []string{string(g.UID), Local(g.Created), g.Commit.Short(), g.Branch, subject}
		for i, cell := range cells {
			if cells[i] = printable(cell); cell == "" {
				cells[i] = "-"
			}
		}
		if _, err := io.WriteString(w, strings.Join(cells, "\t")+"\t "+printable(strings.TrimSpace("| "+releaseOf(g)))+
			"\n"); err != nil {
			return err
		}
	}
	return w.Flush()
}

// releaseOf says what a version's release is called; nothing when it has none.
func releaseOf(g client.Group) string {
	if !g.Release {
		return ""
	}
	words := []string{"Release " + string(g.UID)}
	if g.Expired {
		words = append(words, "expired")
	}
	if g.Latest {
		words = append(words, landfall.Latest)
	}
	for _, tag := range slices.Sorted(slices.Values(g.Tags)) {
		words = append(words, "tag: "+tag)
	}
	return strings.Join(words, ", ")
}

// versionDiff is what differs between two versions of an app.
type versionDiff struct {
	Units   []client.Change      `json:"units"`
	Files   []client.ChangedFile `json:"files"`
	Commits []client.Commit      `json:"commits"` // null where the server does not know them
}

// appDiff shows what differs between two versions: units, keys, files and commits.
func (c *Call) appDiff(ctx context.Context, cl *client.Client, in Operands) error {
	query := url.Values{"from": {in["a"]}, "to": {in["b"]}}
	var d versionDiff
	var err error
	if d.Units, err = client.List[client.Change](ctx, cl, appPath(in, "diff"), query); err != nil {
		return err
	}
	if d.Files, err = client.List[client.ChangedFile](ctx, cl, appPath(in, "diff", "files"), query); err != nil {
		return err
	}
	d.Commits, err = client.List[client.Commit](ctx, cl, appPath(in, "diff", "commits"), query)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	unchanged := 0
	printed := c.Print(d, func(t *Table) {
		t.Row(changesHeading()...)
		unchanged = showChanges(t, d.Units)
		showKeys(t, d.Units)
		showFiles(t, d.Files)
		showCommits(t, d.Commits)
	})
	if c.output == "" {
		fmt.Fprintf(c.Stderr, "%s unchanged\n", landfall.Count(unchanged, "unit"))
	}
	if err != nil { // it was NotFound: only the process with the mirror knows them
		fmt.Fprintf(c.Stderr, "the commits between the two are not known: %s\n", printable(landfall.MessageOf(err)))
	}
	return printed
}

// showKeys adds the keys that differ in the configuration, in triggers and functions.
func showKeys(t *Table, changes []client.Change) {
	heading := []string{"KIND", "UNIT", "KEY", "BEFORE", "AFTER"}
	for _, change := range changes {
		for _, key := range change.Keys {
			if heading != nil {
				t.section(heading...)
				heading = nil
			}
			t.Row(string(change.Unit.Kind), change.Unit.Name, key.Key, cellOf(key.Before), cellOf(key.After))
		}
	}
}

// cellOf is a value of a key in a cell.
func cellOf(value json.RawMessage) string {
	const most = 60
	if text := []rune(string(value)); len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return string(value)
}

// showFiles adds the files that differ, with their sizes.
func showFiles(t *Table, files []client.ChangedFile) {
	for i, f := range files {
		if i == 0 {
			t.section("FILE", "UNIT", "CHANGE", "BYTES BEFORE", "AFTER")
		}
		before, after := strconv.FormatInt(f.Before, 10), strconv.FormatInt(f.After, 10)
		if f.Change == landfall.Added {
			before = ""
		}
		if f.Change == landfall.Removed {
			after = ""
		}
		t.Row(f.Path, f.Unit.String(), string(f.Change), before, after)
	}
}

// showCommits adds the commits that one version has and the other has not.
func showCommits(t *Table, commits []client.Commit) {
	for i, commit := range commits {
		if i == 0 {
			t.section("COMMIT", "CHANGE", "TIME", "AUTHOR", "MESSAGE")
		}
		t.Row(commit.SHA.Short(), string(commit.Change), Local(commit.Time), commit.Author, commit.Message)
	}
}

// printChanges shows a diff, of which v is what programs get.
func (c *Call) printChanges(v any, changes []client.Change) error {
	unchanged := 0
	err := c.Print(v, func(t *Table) {
		t.Row(changesHeading()...)
		unchanged = showChanges(t, changes)
	})
	if err == nil && c.output == "" {
		fmt.Fprintf(c.Stderr, "%s unchanged\n", landfall.Count(unchanged, "unit"))
	}
	return err
}

func (c *Call) appState(ctx context.Context, cl *client.Client, in Operands) error {
	path := appPath(in, "state") + "?at=" + url.QueryEscape(client.StateAt(in["at"], zone()))
	return ask(ctx, cl, http.MethodGet, path, nil, func(state client.State) error {
		return c.Print(state, func(t *Table) {
			t.field("version", state.Metadata.Name)
			t.field("since", Local(state.At))
			t.field("commit", string(state.Spec.Git.Commit))
			t.field("branch", state.Spec.Git.Branch)
			t.field("live", string(state.Live))
			t.section("KIND", "NAME", "VERSION")
			for _, o := range state.Spec.Objects {
				t.Row(o.Type, o.Name, string(o.Version))
			}
		})
	})
}
