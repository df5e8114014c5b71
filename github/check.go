package github

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// These bound a check run.
const (
	maxAnnotations  = 250 // of a check run
	someAnnotations = 50  // GitHub's maximum in one request
	maxMessage      = 500 // characters of an annotation
	maxLogLines     = 60
)

// CheckTitle returns the one line that stands beside the name of a check run.
func CheckTitle(report landfall.CheckReport) string {
	switch {
	case report.Live:
		return "live"
	case report.WasLive:
		return "not live any more"
	}
	return headline(report.AppReport, false)
}

// CheckSummary returns what a check run says, in GitHub's Markdown: what a comment says of the app, and how a commit is
// approved that waits for that. Texts of people appear as they were written, and are never read as markup.
func CheckSummary(report landfall.CheckReport) string {
	first, last := "", ""
	switch {
	case report.Live:
		first = "This release is live.\n\n"
	case report.WasLive:
		first = "This release was live, and is not any more.\n\n"
	}
	if _, left := annotations(report); left > 0 {
		last = "\n" + countNoun(left, "more error") + " with a file and a line in the run\n"
	}
	last += answers(report.Answers)
	rows := maxRows
	text := sectionBody(report.AppReport, false, rows)
	for len(first)+len(text)+len(last) > maxComment && rows > 0 {
		rows /= 4
		text = sectionBody(report.AppReport, false, rows)
	}
	return first + text + last
}

// CheckText returns the end of a run's log as code.
func CheckText(report landfall.CheckReport) string {
	var shown []string
	size := 0
	for i := len(report.Log) - 1; i >= 0 && len(shown) < maxLogLines; i-- {
		line := code(report.Log[i], maxReasonLine)
		if size += len(line) + len("<br>\n"); size > maxComment {
			break
		}
		shown = append([]string{line}, shown...)
	}
	return strings.Join(shown, "<br>\n")
}

// located matches a line of a reason that names a place in a file: "specs/app.yaml:7: there is no field".
var located = regexp.MustCompile(`^([^\s:][^:]*):(\d{1,7}): (.+)$`)

// annotations returns the errors of a run that failed at their places, and how many more there are.
func annotations(report landfall.CheckReport) (all []*gogithub.CheckRunAnnotation, left int) {
	if report.State != landfall.RunFailed {
		return nil, 0
	}
	for line := range strings.Lines(report.Reason) {
		m := located.FindStringSubmatch(strings.TrimSpace(line))
		if len(m) == 0 || path.IsAbs(m[1]) || path.Clean(m[1]) != m[1] || strings.HasPrefix(m[1], "..") {
			continue
		}
		if number, err := strconv.Atoi(m[2]); err == nil && number > 0 {
			if len(all) == maxAnnotations {
				left++
				continue
			}
			all = append(all, &gogithub.CheckRunAnnotation{
				Path: &m[1], StartLine: &number, EndLine: &number, AnnotationLevel: new("failure"),
				Message: new(printed(m[3], maxMessage)), // GitHub shows it as plain text
			})
		}
	}
	return all, left
}

// printed returns the printable characters of a text, at most limit.
func printed(text string, limit int) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text))
	return string(runes[:min(len(runes), limit)])
}

// conclude returns the conclusion of a check run; empty while it is in progress.
func conclude(state landfall.RunState) string {
	switch state {
	case landfall.RunQueued, landfall.RunRunning:
		return ""
	case landfall.RunWaiting:
		return "action_required"
	case landfall.RunSucceeded:
		return "success"
	case landfall.RunSkipped:
		return "neutral"
	case landfall.RunSuperseded, landfall.RunCancelled, landfall.RunDeclined:
		return "cancelled"
	case landfall.RunExpired:
		return "timed_out"
	case landfall.RunFailed, landfall.RunError:
	}
	return "failure"
}

// checkActions returns the buttons of a check run.
func checkActions(report landfall.CheckReport) []*gogithub.CheckRunAction {
	if report.State == landfall.RunWaiting {
		return []*gogithub.CheckRunAction{{
			Label: "Approve", Description: "Build and release this very commit", Identifier: string(landfall.ApproveAction)}}
	}
	if !report.State.Final() {
		return nil
	}
	actions := []*gogithub.CheckRunAction{{
		Label: "Re-run", Description: "Run this commit again", Identifier: string(landfall.RetryAction)}}
	if report.Promotable {
		actions = append(actions, &gogithub.CheckRunAction{
			Label: "Promote", Description: "Make this release live", Identifier: string(landfall.PromoteAction)})
	}
	return actions
}

// checkName returns by what we know a check run again. One that is completed is never in progress again at GitHub, so a
// run that waited for approval gets another one then, which GitHub shows in the place of the first.
func checkName(report landfall.CheckReport) string {
	if report.State == landfall.RunWaiting {
		return report.RunID + " waiting"
	}
	return report.RunID
}

// checkRun returns the request that makes a check run, with all of its annotations.
func checkRun(report landfall.CheckReport) gogithub.CreateCheckRunOptions {
	notes, _ := annotations(report)
	details := report.Run
	options := gogithub.CreateCheckRunOptions{
		Name: "landfall/" + report.App, HeadSHA: string(report.Commit), DetailsURL: &details,
		ExternalID: new(checkName(report)), Status: new("in_progress"),
		StartedAt: &gogithub.Timestamp{Time: report.Started.Truncate(time.Second)},
		Output: &gogithub.CheckRunOutput{
			Title: new(CheckTitle(report)), Summary: new(CheckSummary(report)), Text: new(CheckText(report)),
			Annotations: notes,
		},
		Actions: checkActions(report),
	}
	if conclusion := conclude(report.State); conclusion != "" {
		options.Status, options.Conclusion = new("completed"), &conclusion
		if !report.Finished.IsZero() {
			options.CompletedAt = &gogithub.Timestamp{Time: report.Finished.Truncate(time.Second)}
		}
	}
	return options
}

func checkSubject(check landfall.Check) subject {
	repository := nameOf(check.Report.Repository)
	return subject{
		noun: "check run", feature: landfall.ChecksFeature, id: check.Report.Repository.ID,
		repository: repository, attempts: check.Attempts,
		forbidden: fmt.Sprintf("The GitHub App may not make check runs of %s: it needs write access to checks. Commits get "+
			"their statuses all the same.", repository),
		refused: fmt.Sprintf("GitHub refused the check run: check that commit %s is still in %s.",
			check.Report.Commit.Short(), repository),
	}
}
