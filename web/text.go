package web

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"landfall.dev/landfall"
)

// functions are what templates can call.
func functions() template.FuncMap {
	return template.FuncMap{
		"text": text, "whole": whole, "short": landfall.CommitSHA.Short, "bytes": humanBytes, "signed": signedBytes,
		"took": took, "iso": iso, "date": date, "clock": func(t time.Time) string {
			return t.UTC().Format(time.TimeOnly)
		}, "count": count, "escape": url.PathEscape,
		"add": func(a, b int) int {
			return a + b
		}, "word": func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "-", " ") },
		"dict": dict, "why": why, "pointer": func(p string) string { return text(strings.TrimPrefix(p, "tag ")) },
	}
}

// why is the reason of a move, empty where it only says again that it was one back.
func why(m landfall.Move) string {
	if m.Back && m.Reason == "rolled back" {
		return ""
	}
	return text(m.Reason)
}

// dict makes the values that a template hands on to another: names and values in turn.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

// maxText is how much is shown of what somebody wrote.
const maxText = 300

// text is what somebody else wrote: printable, and not endless.
func text(s any) string {
	t := fmt.Sprint(s)
	if utf8.RuneCountInString(t) > maxText {
		t = string([]rune(t)[:maxText]) + "…"
	}
	return whole(t)
}

// whole is text without an end: printable lines. The end of a build's output may be in it, whose colours go.
func whole(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = ""
		for _, span := range spans(line) {
			lines[i] += span.Text
		}
	}
	return strings.Join(lines, "\n")
}

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// date is a time as it is read without JavaScript, which knows the reader's clock.
func date(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

// took is how long something took.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// humanBytes is a size.
func humanBytes(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	size, i := float64(n)/unit, 0
	for ; size >= 999.5 && i < 4; i++ {
		size /= unit
	}
	format := "%.0f %s"
	if size < 9.95 {
		format = "%.1f %s"
	}
	return fmt.Sprintf(format, size, []string{"kB", "MB", "GB", "TB", "PB"}[i])
}

// signedBytes is a difference in size.
func signedBytes(n int64) string {
	if n < 0 {
		return "−" + humanBytes(-n)
	}
	return "+" + humanBytes(n)
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
