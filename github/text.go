package github

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"landfall.dev/landfall"
)

// maxComment is in bytes, and less than the 65,536 characters that GitHub accepts.
const maxComment = 65_000

// These bound texts of people in a comment, in characters and lines.
const (
	maxName        = 100
	maxReasonLine  = 200
	maxReasonLines = 10
	maxRows        = 100 // of one app; fewer when many apps have many
)

// marker returns the first line of the comments of the installation at an address. It is invisible.
func marker(installation string) string { return "<!-- landfall " + installation + " -->" }

// Text returns a comment in GitHub's Markdown: a section for each app, below a line that only the installation at the
// given address writes. Texts of people appear as they were written, and are never read as markup, mention or link. The
// comment is shorter than GitHub's limit; what does not fit is counted.
func Text(report landfall.PullRequestReport, installation string) string {
	last := answers(report.Answers)
	for rows := maxRows; ; rows /= 4 {
		var b strings.Builder
		b.WriteString(marker(installation) + "\n")
		for i, app := range report.Apps {
			section := sectionOf(app, report.Closed, rows)
			if rows == 0 && b.Len()+len(section)+len(last) > maxComment-100 {
				fmt.Fprintf(&b, "\n%s left out.\n", countNoun(len(report.Apps)-i, "more app"))
				break
			}
			b.WriteString(section)
		}
		b.WriteString(last)
		if rows == 0 || b.Len() <= maxComment {
			return b.String()
		}
	}
}

// maxAnswers is how many answers to commands a comment has: the last ones.
const maxAnswers = 10

// answers returns the answers to commands as a list.
func answers(all []string) string {
	var b strings.Builder
	for i, answer := range all[max(0, len(all)-maxAnswers):] {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString("- " + code(answer, maxReasonLine) + "\n")
	}
	return b.String()
}

// sectionOf returns the section of one app, with a limit of rows for its changes.
func sectionOf(app landfall.AppReport, closed bool, rows int) string {
	return "\n### " + literal(app.App) + " · " + headline(app, closed) + "\n" + sectionBody(app, closed, rows)
}

// sectionBody is a section without its heading.
func sectionBody(app landfall.AppReport, closed bool, rows int) string {
	var b strings.Builder
	if app.Deleted {
		b.WriteString("The app was deleted: its addresses answer no more.\n")
		return b.String()
	}
	b.WriteString("| | |\n|---|---|\n")
	field := func(name, value string) {
		if value != "" {
			b.WriteString("| " + name + " | " + value + " |\n")
		}
	}
	if closed {
		field("Commit", app.Commit.Short())
		b.WriteString("\nThe address of the pull request ended with it; those of its releases end with its branch, unless " +
			"something else holds them.\n")
		return b.String()
	}
	field("Release", address(app.Release))
	preview := address(app.Preview)
	if preview != "" && app.PreviewCommit != app.Commit {
		preview += " (still " + app.PreviewCommit.Short() + ")"
	}
	field("This pull request", preview)
	field("Commit", app.Commit.Short())
	if app.Release == "" {
		field("Run", address(app.Run))
	}
	switch {
	case app.State == landfall.RunSucceeded:
		b.WriteString(changes(app, rows))
	case app.State == landfall.RunWaiting:
		b.WriteString(approval(app))
	case app.Reason != "":
		b.WriteString("\n" + lines(app.Reason, min(maxReasonLines, rows+1)) + "\n")
	}
	return b.String()
}

// approval says how the commit of a fork is approved.
func approval(app landfall.AppReport) string {
	return "\nThis pull request comes from another repository: nothing of it is fetched, built or run before a person " +
		"with write access approves the commit " + app.Commit.Short() + ", in one of these ways:\n" +
		"- the button on the page of the run\n" +
		"- the label `" + landfall.ApprovalLabel + "` on this pull request\n" +
		"- a comment `/landfall approve " + string(app.Commit) + "`\n" +
		"- `landfall run approve " + app.RunID + "`\n" +
		"\nIt then runs without secrets and without a network. Without an approval it ends after " +
		countNoun(int(landfall.ApprovalWait/(24*time.Hour)), "day") + ".\n"
}

// headline returns the state of an app in a few words.
func headline(app landfall.AppReport, closed bool) string {
	switch {
	case app.Deleted:
		return "deleted"
	case closed && app.Merged:
		return "merged"
	case closed:
		return "closed"
	}
	switch app.State {
	case landfall.RunQueued, landfall.RunRunning:
		return "building"
	case landfall.RunWaiting:
		return "waiting for approval"
	case landfall.RunSucceeded:
		if app.Release == "" {
			return "no release"
		}
		if countChanged(app.Changes) == 0 && len(app.Changes) > 0 {
			return "preview ready, unchanged"
		}
		return "preview ready"
	case landfall.RunFailed:
		return "failed"
	case landfall.RunError:
		return "error"
	case landfall.RunSuperseded:
		return "superseded"
	case landfall.RunSkipped:
		return "skipped"
	case landfall.RunCancelled:
		return "cancelled"
	case landfall.RunDeclined:
		return "declined"
	case landfall.RunExpired:
		return "expired"
	}
	return "nothing was released"
}

// changes returns the table of the units that differ from those that the base branch serves, and the line below it.
func changes(app landfall.AppReport, rows int) string {
	var b strings.Builder
	all := countChanged(app.Changes)
	shown := 0
	sorted := slices.Clone(app.Changes)
	slices.SortStableFunc(sorted, func(a, b landfall.UnitChange) int { return cmp.Compare(weight(b), weight(a)) })
	for _, c := range sorted {
		if c.Change == landfall.Unchanged || shown == rows {
			continue
		}
		if shown == 0 {
			b.WriteString("\n| unit | change | version |\n|---|---|---|\n")
		}
		shown++
		b.WriteString("| " + string(c.Unit.Kind) + " " + literal(c.Unit.Name) + " | " + change(c) + " | " +
			version(c) + " |\n")
	}
	var parts []string
	if shown < all {
		parts = append(parts, countNoun(all-shown, "more unit")+" changed")
	}
	if unchanged := len(app.Changes) - all; unchanged > 0 {
		parts = append(parts, countNoun(unchanged, "unit")+" unchanged")
	}
	if app.Base != "" {
		parts = append(parts, "compared with "+literal(app.Base))
	}
	if app.Stats.Files > 0 {
		parts = append(parts, thousands(int64(app.Stats.FilesUploaded))+" of "+countNoun(app.Stats.Files, "file")+" uploaded")
	}
	parts = append(parts, strconv.FormatFloat(app.Took.Round(100*time.Millisecond).Seconds(), 'f', 1, 64)+" s")
	b.WriteString("\n" + strings.Join(parts, " · ") + "\n")
	return b.String()
}

// weight returns how important a change is: less important ones are left out first.
func weight(c landfall.UnitChange) int {
	switch {
	case c.Network:
		return 2
	case c.Contract:
		return 1
	}
	return 0
}

// countChanged returns how many of the units have changed.
func countChanged(changes []landfall.UnitChange) int {
	n := 0
	for _, c := range changes {
		if c.Change != landfall.Unchanged {
			n++
		}
	}
	return n
}

// change returns what happened to a unit, with the number of its files if they were counted.
func change(c landfall.UnitChange) string {
	f := c.Files
	if notes := c.Notes(); len(notes) > 0 {
		return string(c.Change) + ": " + strings.Join(notes, ", ")
	}
	if f == nil {
		return string(c.Change)
	}
	var parts []string
	for _, part := range []struct {
		n    int
		verb string
	}{{f.Changed, "changed"}, {f.Added, "added"}, {f.Removed, "removed"}} {
		switch {
		case part.n == 0:
		case len(parts) == 0:
			parts = append(parts, countNoun(part.n, "file")+" "+part.verb)
		default:
			parts = append(parts, thousands(int64(part.n))+" "+part.verb)
		}
	}
	if len(parts) == 0 {
		return string(c.Change)
	}
	text := strings.Join(parts, ", ") + " (" + signedBytes(f.Bytes) + ")"
	if c.Change != landfall.Changed {
		return string(c.Change) + ": " + text
	}
	return text
}

// version returns the version after the change, or the one that was removed.
func version(c landfall.UnitChange) string {
	uid := string(cmp.Or(c.After, c.Before))
	if uid == "" || c.Unit.Kind == landfall.StaticUnit || c.Unit.Kind == landfall.ConfigUnit {
		return uid
	}
	text := literal(c.Unit.Name) + "-" + uid
	if c.Number > 0 {
		text += " (no. " + strconv.FormatInt(c.Number, 10) + ")"
	}
	return text
}

// address returns an address of ours in the form that people copy. GitHub makes a link of it.
func address(url string) string { return strings.TrimSuffix(url, "/") }

// countNoun returns a number with its noun: "1 file", "1,204 files".
func countNoun(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return thousands(int64(n)) + " " + noun
}

// thousands returns a number with commas.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// signedBytes returns a difference in bytes, in a unit that suits its size: "+14 kB".
func signedBytes(bytes int64) string {
	sign, n := "+", bytes
	if n < 0 {
		sign, n = "−", -n
	}
	for _, unit := range []string{"B", "kB", "MB"} {
		if n < 1000 {
			return sign + strconv.FormatInt(n, 10) + " " + unit
		}
		n = (n + 500) / 1000
	}
	return sign + thousands(n) + " GB"
}

// plain matches names that have no meaning for GitHub; linkable matches what looks like a commit or an issue.
var (
	plain    = regexp.MustCompile(`^[a-z0-9-]+$`)
	linkable = regexp.MustCompile(`^[0-9a-f]{7,}$|-\d+$`)
)

// literal returns text of people so that GitHub shows it as it is, in one line of limited length. Names that match
// plain stay as they are. Everything else is code in which each character other than letters and digits is written by
// its number, and addresses are broken up.
func literal(text string) string {
	if plain.MatchString(text) && !linkable.MatchString(text) && len(text) <= maxName {
		return text
	}
	return code(text, maxName)
}

// code returns text as code, cut to limit characters.
func code(text string, limit int) string {
	text = text[:min(len(text), 8*limit)] // more than is looked at
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	var b strings.Builder
	b.WriteString("<code>")
	left := limit
	for _, r := range text {
		if !unicode.IsPrint(r) {
			continue // the character would be invisible, or turn the text around
		}
		if left == 0 {
			b.WriteString("…")
			break
		}
		left--
		switch {
		case r == ' ', r > unicode.MaxASCII, unicode.IsLetter(r), unicode.IsDigit(r):
			b.WriteRune(r)
		case r == '.', r == ':', r == '@':
			// A character that is written by its number is no markup, but GitHub then still looks for addresses.
			fmt.Fprintf(&b, "&#%d;<!-- -->", r)
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	b.WriteString("</code>")
	return b.String()
}

// lines returns text of several lines as code, cut to limit lines.
func lines(text string, limit int) string {
	var shown []string
	left := 0
	for line := range strings.Lines(text) {
		switch {
		case strings.TrimSpace(line) == "":
		case len(shown) == limit:
			left++
		default:
			shown = append(shown, code(line, maxReasonLine))
		}
	}
	if left > 0 {
		shown = append(shown, countNoun(left, "more line")+" in the run")
	}
	return strings.Join(shown, "<br>\n")
}
