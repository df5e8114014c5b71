package github_test

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/test/testkit"
)

// payloads are texts that do something where they come through: in Markdown, HTML, or a terminal.
func payloads(t *testing.T) []string {
	t.Helper()
	file := testkit.Must(os.Open("testdata/payloads.txt"))(t)
	defer file.Close()
	var all []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		all = append(all, testkit.Must(strconv.Unquote(lines.Text()))(t))
	}
	if len(all) < 100 {
		t.Fatalf("got %d payloads, want 100 or more", len(all))
	}
	return all
}

// Wherever a repository can write something, it is code without a character of markup in comments and check runs, and a
// line of plain text in statuses. There is no address, mention or image of theirs.
func TestPayloadsAreInert(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, payload := range payloads(t) {
		said := shopReport()
		said.App, said.Base, said.Reason, said.State = payload, payload, payload, landfall.RunFailed
		made := shopReport()
		for n := range made.Changes {
			made.Changes[n].Unit.Name = payload
		}
		made.Base = payload
		for _, app := range []landfall.AppReport{said, made} {
			comment := github.Text(landfall.PullRequestReport{Apps: []landfall.AppReport{app}, Answers: []string{payload}},
				installation)
			check := landfall.CheckReport{AppReport: app, Log: []string{payload}}
			check.App, check.Preview, check.PreviewCommit = "shop", "", ""
			for where, text := range map[string]string{"comment": comment, "summary": github.CheckSummary(check),
				"text": github.CheckText(check)} {
				rest := ownPiece.ReplaceAllString(codePiece.ReplaceAllString(text, "C"), "")
				// S29: nothing of a payload is markup
				if !ownText.MatchString(rest) || strings.Contains(text, "\u202e") || !utf8.ValidString(text) {
					t.Errorf("payload %d in the %s: something comes through: %q", i+1, where, rest)
				}
			}
		}
		b.outbox.owe(commitA, landfall.StatusFailure, payload)
	}
	b.flush(t)
	statuses := b.server.Statuses(commitA)
	testkit.Equal(t, "statuses", len(statuses), len(payloads(t)))
	for i, s := range statuses {
		// S29: a status is one line of text, which leads to us
		if strings.ContainsFunc(s.Description, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }) ||
			s.Target != b.outbox.reports[i].Target || utf8.RuneCountInString(s.Description) > 140 {
			t.Errorf("payload %d as a status: %q to %s", i+1, s.Description, s.Target)
		}
	}
}
