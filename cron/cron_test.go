package cron_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/cron"
)

func parse(t testing.TB, expression, zone string) *cron.Schedule {
	t.Helper()
	s, err := cron.Parse(expression, zone)
	if err != nil {
		t.Fatalf("%s in %s: %s", expression, zone, landfall.MessageOf(err))
	}
	return s
}

func moment(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// What is due after a moment, one after the other, also where clocks change.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, expression, zone, after string
		want                          string // separated by blanks
	}{
		{"every day at eight", "0 8 * * *", "", "2026-11-22T15:00:00Z", "2026-11-23T08:00:00Z 2026-11-24T08:00:00Z"},
		{"exactly then: the next one", "0 8 * * *", "", "2026-11-22T08:00:00Z", "2026-11-23T08:00:00Z"},
		{"just before", "0 8 * * *", "", "2026-11-22T07:59:59.999999Z", "2026-11-22T08:00:00Z"},
		{"six fields: seconds first", "*/20 0 8 * * *", "", "2026-11-22T07:00:00Z",
			"2026-11-22T08:00:00Z 2026-11-22T08:00:20Z 2026-11-22T08:00:40Z 2026-11-23T08:00:00Z"},
		{"a zone beside it", "0 8 * * *", "Asia/Tokyo", "2026-11-22T15:00:00Z", "2026-11-23T08:00:00+09:00"},
		{"a zone in it", "CRON_TZ=Asia/Tokyo 0 8 * * *", "", "2026-11-22T15:00:00Z", "2026-11-23T08:00:00+09:00"},
		{"a zone in it", "TZ=America/St_Johns 0 8 * * *", "", "2026-11-22T00:00:00Z", "2026-11-22T08:00:00-03:30"},
		{"a name", "@daily", "Europe/Berlin", "2026-11-22T15:00:00Z", "2026-11-23T00:00:00+01:00"},
		{"names of days and months", "0 0 1 JAN,jul MON", "", "2026-11-22T00:00:00Z",
			"2027-01-01T00:00:00Z 2027-01-04T00:00:00Z"},
		{"a question mark is a star", "0 0 ? * 0", "", "2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"blanks", "  0\t8  * * * ", "", "2026-11-22T15:00:00Z", "2026-11-23T08:00:00Z"},
		{"every", "@every 90m", "", "2026-11-22T15:00:00Z", "2026-11-22T16:30:00Z 2026-11-22T18:00:00Z"},
		{"every, with a zone that changes nothing", "@every 1h", "Asia/Kolkata", "2026-11-22T15:20:00Z",
			"2026-11-22T16:00:00Z"},
		{"less than a second is a second", "@every 10ms", "", "2026-11-22T15:00:00.5Z",
			"2026-11-22T15:00:01Z 2026-11-22T15:00:02Z"},
		{"29 February", "0 0 29 2 *", "", "2026-11-22T00:00:00Z", "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z"},

		// R16: the clock leaves out 2:00 to 3:00 in Berlin on 29 March 2026: what falls there is due once, when it
		// leaps
		{"left out", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			"2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"left out, with what is due then anyway", "*/15 2,3 * * *", "Europe/Berlin", "2026-03-29T00:50:00Z",
			"2026-03-29T03:00:00+02:00 2026-03-29T03:15:00+02:00"},
		{"left out, on that day only", "30 2 29 3 *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			"2026-03-29T03:00:00+02:00 2027-03-29T02:30:00+02:00"},
		{"not left out", "0 3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			"2026-03-29T03:00:00+02:00 2026-03-30T03:00:00+02:00"},
		{"every hour goes on", "30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			"2026-03-29T01:30:00+01:00 2026-03-29T03:30:00+02:00"},
		{"midnight is left out", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z",
			"2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00"},
		{"half an hour is left out", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z",
			"2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{"a day is left out", "0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z",
			"2011-12-31T00:00:00+14:00 2011-12-31T12:00:00+14:00"},

		// R16: the clock shows 2:00 to 3:00 twice in Berlin on 25 October 2026: what falls there is due the first time
		// only
		{"twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			"2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"twice, asked in between", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-26T02:30:00+01:00"},
		{"twice, up to its end", "0 2,3 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z",
			"2026-10-25T02:00:00+02:00 2026-10-25T03:00:00+01:00"},
		{"every hour goes on", "30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
			"2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-25T03:30:00+01:00"},
		{"every quarter goes on", "*/30 * * * *", "America/New_York", "2026-11-01T05:00:00Z",
			"2026-11-01T01:30:00-04:00 2026-11-01T01:00:00-05:00 2026-11-01T01:30:00-05:00 2026-11-01T02:00:00-05:00"},
		{"half an hour twice", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z",
			"2026-04-05T01:45:00+11:00 2026-04-06T01:45:00+10:30"},
	} {
		s, at := parse(t, c.expression, c.zone), moment(t, c.after)
		for want := range strings.FieldsSeq(c.want) {
			next := s.Next(at)
			if !next.Equal(moment(t, want)) {
				t.Errorf("%s: %s in %q after %s: got %s, want %s", c.what, c.expression, c.zone, at.Format(time.RFC3339),
					next.Format(time.RFC3339), want)
				break
			}
			at = next
		}
	}
}

// Whatever the zone and the moment: what is due is after it, and nothing that is due lies in between.
func TestNextIsNext(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca",
		"America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu"}
	expressions := []string{"30 2 * * *", "*/15 1-3 * * *", "0 * * * *", "*/20 * * * *", "0 0 * * *", "15 0 1 */3 *",
		"@every 7m", "5 0 29 2 *"}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		s, err := cron.Parse(rapid.SampledFrom(expressions).Draw(t, "expression"), zone)
		if err != nil {
			t.Fatal(err)
		}
		const from, until = 1_000_000_000, 2_000_000_000
		at := time.Unix(rapid.Int64Range(from, until).Draw(t, "at"), 0)
		next := s.Next(at)
		if !next.After(at) {
			t.Fatalf("after %s comes %s", at, next)
		}
		between := at.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(at))-1).Draw(t, "between")))
		if again := s.Next(between); !again.Equal(next) {
			t.Fatalf("after %s comes %s, but after %s comes %s", at, next, between, again)
		}
	})
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, zone, want string }{
		{"", "", "at character 1: a field is missing"},
		{"* * * *", "", "at character 8: a field is missing: there are 4"},
		{"0 25 * * *", "", `at character 3: "25" is no hour: it is a number from 0 to 23`},
		{"0 0 25 * * *", "", `at character 5: "25" is no hour`},
		{"60 * * * *", "", `at character 1: "60" is no minute`},
		{"  0 8 * * MOO", "", `at character 11: "MOO" is no day of the week`},
		{"* * * * 7", "", "0 (Sunday) to 6"},
		{"é 8 * * *", "", `at character 1: "é" is no minute`},
		{"0 é 0 * *", "", `at character 3`},
		{"0 , * * *", "", `at character 3: "," is no hour`},
		{"*/0 * * * *", "", "at character 1"},
		{"5-1 * * * *", "", "at character 1"},
		{"* * * * * * 2026", "", "at character 13: there is no seventh field"},
		{"0 0 30 2 *", "", `at character 5: no month of "2" has a day of "30"`},
		{"0 0 31 2,4,6,9,11 ?", "", "never due"},
		{"@reboot", "", `at character 1: "@reboot" is none of`},
		{"@every", "", "at character 7: @every is followed by a duration"},
		{"@every soon", "", "at character 8"},
		{"@every -1h", "", "at character 8"},
		{"@every 0s", "", "at character 8"},
		{"@every 1h * *", "", "at character 11: nothing may follow"},
		{"@daily 5", "", "at character 8: nothing may follow"},
		{"TZ=Mars/Olympus 0 8 * * *", "", `at character 1: there is no time zone "Mars/Olympus"`},
		{"TZ=", "", `at character 1: there is no time zone ""`},
		{"TZ=UTC", "", "at character 7: a field is missing"},
		{"CRON_TZ=UTC 0 8 * * x", "", "at character 21"},
		{"TZ=UTC 0 8 * * *", "UTC", "give it once"},
		{"0 8 * * *", "Mars/Olympus", `there is no time zone "Mars/Olympus"`},
		{"0 8 * * *", "../etc/passwd", "there is no time zone"},
		{"0 8 * * *", "Local", "there is no time zone"},
	} {
		_, err := cron.Parse(c.expression, c.zone)
		if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), c.want) {
			t.Errorf("%q in %q: got %q, want Invalid with %q", c.expression, c.zone, landfall.MessageOf(err), c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0 8 * * *", "@every 1s", "TZ=Europe/Berlin */5 * * * * *", "TZ=", "@", "0 0 30 2 *",
		"1-5/2,7 * ? JAN-DEC SUN"} {
		f.Add(seed, "")
	}
	at := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression, zone string) {
		s, err := cron.Parse(expression, zone)
		if err != nil {
			if landfall.KindOf(err) != landfall.Invalid {
				t.Fatal(err)
			}
			return
		}
		if next := s.Next(at); !next.After(at) {
			t.Fatalf("%q is due at %s, not after %s", expression, next, at)
		}
	})
}
