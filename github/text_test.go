package github_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const installation = "https://landfall.example.com"

// shopReport is what is said of an app whose release is ready.
func shopReport() landfall.AppReport {
	return landfall.AppReport{
		App: "shop", State: landfall.RunSucceeded, Reason: "Released owf2k7qa", Commit: "3f9c1ab0d2",
		Run: installation + "/runs/r1", Release: "https://shop--owf2k7qa.example.com/",
		Preview: "https://shop--pr-12.example.com/", PreviewCommit: "3f9c1ab0d2", Took: 2100 * time.Millisecond,
		Stats: landfall.RunStats{Files: 1204, FilesUploaded: 3}, Base: "main",
		Changes: append([]landfall.UnitChange{
			{Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: "hello"}, Change: landfall.Changed, After: "owf2k7qa",
				Number: 4},
			{
				Unit: landfall.UnitID{Kind: landfall.StaticUnit, Name: "/"}, Change: landfall.Changed, After: "owf2k7qa", Number: 2,
				Files: &landfall.FileChange{Changed: 2, Added: 1, Bytes: 14_200},
			},
		}, unchanged(7)...),
	}
}

func unchanged(n int) (all []landfall.UnitChange) {
	for i := range n {
		all = append(all, landfall.UnitChange{
			Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: fmt.Sprintf("same-%d", i)}, Change: landfall.Unchanged,
			After: "a2345678"})
	}
	return all
}

// ended is what is said of an app whose run came to no release.
func ended(state landfall.RunState, reason string) landfall.AppReport {
	return landfall.AppReport{App: "shop", State: state, Reason: reason, Commit: "3f9c1ab0d2",
		Run: installation + "/runs/r1"}
}

const hostile = "`x`|<img src=x>[a](http://evil.test) @everyone #1\n\n# www.evil.test a@evil.test --> " +
	"</code>\x00\x1b[31m\u202e&lt;"

// reports are the values of the golden files.
func reports() map[string]landfall.PullRequestReport {
	one := func(apps ...landfall.AppReport) landfall.PullRequestReport {
		return landfall.PullRequestReport{Apps: apps}
	}
	building := ended(landfall.RunRunning, "")
	network := shopReport()
	network.Changes[0].Network = true
	promise := shopReport()
	promise.Changes[0].Contract = true
	promise.Changes = append(promise.Changes, landfall.UnitChange{
		Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: "pay"}, Change: landfall.Changed, After: "owf2k7qa",
		Number: 2, Network: true, Contract: true,
	})
	building.Preview, building.PreviewCommit = "https://shop--pr-12.example.com/", "1a2b3c4d5e"
	second := ended(landfall.RunFailed,
		"specs/app.yaml:7: there is no field \"colour\"\n\nright would be one of:\n  config, static")
	second.App = "admin"
	same := shopReport()
	same.Changes, same.Stats.FilesUploaded = unchanged(9), 0
	superseded := ended(landfall.RunSuperseded, "Superseded by 1a2b3c4")
	cancelled := ended(landfall.RunCancelled, "Cancelled by admin")
	cancelled.App = "admin"
	waiting := ended(landfall.RunWaiting, "")
	waiting.RunID = "0199e0c4-7b1c-7c3e-9d6f-5a1b2c3d4e5f"
	closed := ended(landfall.RunSucceeded, "Released owf2k7qa")
	merged := shopReport()
	merged.App, merged.Preview, merged.Merged = "admin", "", true
	many := shopReport()
	many.Changes = unchanged(300)
	for i := range 250 {
		many.Changes = append(many.Changes, landfall.UnitChange{
			Unit: landfall.UnitID{Kind: landfall.PackageUnit, Name: fmt.Sprintf("pack-%da", i)}, Change: landfall.Added,
			After: "owf2k7qa", Number: 1, Files: &landfall.FileChange{Added: 1 + i, Bytes: int64(i) * 100_000},
		})
	}
	many.Changes = append(many.Changes, landfall.UnitChange{
		Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: "zeta"}, Change: landfall.Added, After: "owf2k7qa",
		Number: 1, Network: true,
	})
	bad := shopReport()
	bad.Base = hostile
	bad.Changes = []landfall.UnitChange{
		{Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: hostile}, Change: landfall.Removed, Before: "owf2k7qa",
			Number: 4},
		{Unit: landfall.UnitID{Kind: landfall.StaticUnit, Name: "/" + strings.Repeat("long/", 100)}, Change: landfall.Added,
			After: "owf2k7qa"},
		{Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: "deadbeef"}, Change: landfall.Added, After: "owf2k7qa",
			Number: 1, Network: true},
	}
	worse := ended(landfall.RunFailed, strings.Repeat(hostile+"\n", 20))
	worse.App = "zoo"
	return map[string]landfall.PullRequestReport{
		"ready": one(shopReport()), "network": one(network), "contract": one(promise), "several": one(second, shopReport()),
		"building": one(building), "waiting": one(waiting),
		"declined": one(ended(landfall.RunDeclined, "Declined by mira: the build script sends files away")),
		"expired":  one(ended(landfall.RunExpired, "Expired: nobody approved it within 7 days")),
		"failed": one(ended(landfall.RunFailed,
			"the build command of the app ended with exit code 1: npm ERR! missing script: build")),
		"skipped":   one(ended(landfall.RunSkipped, "only paths of release.skip_paths changed (3 files)")),
		"unchanged": one(same), "superseded": one(cancelled, superseded),
		"closed": {Closed: true, Apps: []landfall.AppReport{merged, closed}},
		"many":   one(many), "hostile": {Apps: []landfall.AppReport{bad, worse}, Answers: []string{"ada asked to " + hostile}},
		"deleted": one(landfall.AppReport{App: "admin", Deleted: true}, shopReport()),
		"commands": {Apps: []landfall.AppReport{shopReport()}, Answers: []string{
			"ada asked to promote: shop: promote needs the role maintain in harbor/shop, and ada has write",
			"bob asked to retry: shop: 3f9c1ab is queued again",
		}},
	}
}

// What a comment says, as GitHub gets it.
func TestText(t *testing.T) {
	t.Parallel()
	for name, report := range reports() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := github.Text(report, installation)
			path := filepath.Join("testdata", name+".md")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// P-008, L-006, L-007, L-026: the addresses of previews; a text of its own for what needs approval, was declined,
			// has expired, is superseded or cancelled; units that did not change are counted, and never listed
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// The pieces that a comment consists of beside what is code and the addresses of the installation.
var (
	codePiece = regexp.MustCompile(`<code>([A-Za-z0-9 …]|[^\x00-\x7f]|&#\d+;|<!-- -->)*</code>`)
	ownPiece  = regexp.MustCompile(
		`https://[a-z0-9.-]+\.example\.com(/runs/r1)?|<!-- landfall https://landfall\.example\.com -->|<br>\n`)
	ownText = regexp.MustCompile(`^[A-Za-z0-9 |\n#·(),:+−.-]*$`)
)

// Whatever people write, it stands in a comment as code that has no character of markup; nothing else in it is theirs.
func TestTextIsInert(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) string {
			return rapid.OneOf(rapid.String(),
				rapid.SampledFrom([]string{hostile, "a|b", "www.x.y", "@a", "#1", "GH-1", "x\ny"})).Draw(t, what)
		}
		app := shopReport()
		app.App, app.Base, app.Reason = draw("app"), draw("base"), draw("reason")
		app.State = rapid.SampledFrom([]landfall.RunState{landfall.RunSucceeded, landfall.RunFailed, ""}).Draw(t, "state")
		app.Changes[0].Unit.Name, app.Changes[1].Unit.Name = draw("function"), draw("path")
		text := github.Text(landfall.PullRequestReport{Apps: []landfall.AppReport{app}, Answers: []string{draw("answer")}},
			installation)
		if !utf8.ValidString(text) {
			t.Fatalf("it is not UTF-8: %q", text)
		}
		rest := ownPiece.ReplaceAllString(codePiece.ReplaceAllString(text, "C"), "")
		if !ownText.MatchString(rest) {
			t.Fatalf("something comes through: %q\nof %q", rest, text)
		}
		if strings.Contains(rest, "\n#") != strings.Contains(rest, "\n### ") || strings.Count(rest, "\n#") != 1 {
			t.Fatalf("there is another heading: %q", rest)
		}
		for line := range strings.SplitSeq(rest, "\n") {
			if n := strings.Count(line, "|"); n != 0 && n != 3 && n != 4 {
				t.Fatalf("the row %q has other cells", line)
			}
		}
	})
}

// However much there is to say, GitHub takes it, and what has no room is counted.
func TestTextHasRoom(t *testing.T) {
	t.Parallel()
	name, reason := strings.Repeat("😀@.", 400), strings.Repeat(strings.Repeat("@.", 1000)+"\n", 100)
	for apps, want := range map[int]string{1: "9,999 more units changed", 40: "more units changed",
		2000: "more apps left out."} {
		report := landfall.PullRequestReport{Answers: slices.Repeat([]string{reason}, 20)}
		for i := range apps {
			app := shopReport()
			app.App = fmt.Sprintf("app%d", i)
			app.Changes = nil
			for range 10_000 / apps {
				app.Changes = append(app.Changes, landfall.UnitChange{
					Unit: landfall.UnitID{Kind: landfall.FunctionUnit, Name: name}, Change: landfall.Added, After: "owf2k7qa"})
			}
			if i%2 == 1 {
				app.State, app.Release, app.Reason = landfall.RunFailed, "", reason
			}
			report.Apps = append(report.Apps, app)
		}
		text := github.Text(report, installation)
		if n := utf8.RuneCountInString(text); n >= 65_536 {
			t.Errorf("%d apps: %d characters, want fewer than 65,536", apps, n)
		}
		if apps != 1 && !strings.Contains(text, want) || strings.Count(text, "\n### ") == 0 {
			t.Errorf("%d apps: got no %q in %.2000s", apps, want, text)
		}
	}
}
