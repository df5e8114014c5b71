package github_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
)

// checkReports are the values of the golden files of check runs.
func checkReports() map[string]landfall.CheckReport {
	of := func(app landfall.AppReport, log ...string) landfall.CheckReport {
		app.Preview, app.PreviewCommit, app.RunID = "", "", "r1"
		return landfall.CheckReport{AppReport: app, Log: log}
	}
	all := reports()
	failed := ended(landfall.RunFailed, "specs/app.yaml:7: there is no field \"colour\"\nspecs/app.yaml:9: \"hello\" is "+
		"declared twice\n\nright would be one of:\n  config, static")
	promise := ended(landfall.RunFailed, "functions/pay/contract.yaml:4: the answer has no field \"total\"")
	waiting := ended(landfall.RunWaiting, "")
	answered := of(all["unchanged"].Apps[0])
	answered.Answers = []string{"ada asked to promote: shop: promote needs the role maintain in harbor/shop, and ada has write"}
	live, replaced := of(all["ready"].Apps[0]), of(all["ready"].Apps[0])
	live.Live, live.Base, replaced.WasLive, replaced.Base = true, "abcd2345", true, ""
	return map[string]landfall.CheckReport{
		"live": live, "replaced": replaced, "answered": answered,
		"ready":      of(all["ready"].Apps[0], "plan: 2 of 9 units changed", "succeeded: Released owf2k7qa"),
		"unchanged":  of(all["unchanged"].Apps[0]),
		"building":   of(ended(landfall.RunRunning, ""), "build: npm ci"),
		"spec":       of(failed, "failed"),
		"contract":   of(promise, "failed: functions/pay/contract.yaml:4: the answer has no field \"total\""),
		"build":      of(all["failed"].Apps[0], "npm ERR! missing script: build", "failed: exit code 1"),
		"skipped":    of(all["skipped"].Apps[0]),
		"superseded": of(all["superseded"].Apps[1]),
		"waiting":    of(waiting),
		"hostile":    of(all["hostile"].Apps[1], hostile, strings.Repeat("@everyone ", 100)),
	}
}

// checkOf is a check run as people read it.
func checkOf(report landfall.CheckReport) string {
	return "# " + github.CheckTitle(report) + "\n" + github.CheckSummary(report) + "\n---\n" + github.CheckText(report) + "\n"
}

// What a check run says, as GitHub gets it.
func TestCheckText(t *testing.T) {
	t.Parallel()
	for name, report := range checkReports() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, path := checkOf(report), filepath.Join("testdata", "check", name+".md")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Whatever people and builds write, a check run shows it as code that has no character of markup.
func TestCheckTextIsInert(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{hostile, "a|b", "www.x.y", "@a", "#1", "x\ny"}))
		report := checkReports()["ready"]
		report.Base, report.Changes[0].Unit.Name = draw.Draw(t, "base"), draw.Draw(t, "function")
		report.Log = []string{draw.Draw(t, "first"), draw.Draw(t, "second")}
		text := github.CheckSummary(report) + github.CheckText(report)
		rest := ownPiece.ReplaceAllString(codePiece.ReplaceAllString(text, "C"), "")
		// N-042: markup, mentions and control characters are inert in a check run
		if !ownText.MatchString(rest) || strings.Contains(rest, "#") || !utf8.ValidString(text) {
			t.Fatalf("something comes through: %q\nof %q", rest, text)
		}
	})
}

// However much there is to say, GitHub takes it.
func TestCheckTextHasRoom(t *testing.T) {
	t.Parallel()
	report := checkReports()["ready"]
	long := strings.Repeat("😀@.", 400)
	for range 10_000 {
		report.Changes = append(report.Changes, landfall.UnitChange{
			Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: long}, Change: landfall.Added, After: "owf2k7qa"})
		report.Log = append(report.Log, long)
	}
	worst := checkReports()["spec"]
	worst.Reason = ""
	for i := range 400 {
		worst.Reason += fmt.Sprintf("specs/app.yaml:%d: %s\n", i+1, long)
	}
	for _, r := range []landfall.CheckReport{report, worst} {
		if s, text := github.CheckSummary(r), github.CheckText(r); len(s) > 65535 || len(text) > 65535 || s == "" {
			t.Errorf("%d bytes and %d, want at most 65,535", len(s), len(text))
		}
	}
	if got := github.CheckSummary(worst); !strings.Contains(got, "150 more errors with a file and a line in the run") {
		t.Errorf("got %s, want the number of what has no room", got)
	}
}
