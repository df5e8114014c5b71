// Package cron reads cron expressions and computes when they are due, in any time zone.
//
// # Expressions
//
// Expressions are those of Fission: five fields (minute, hour, day and month, day of the week), or six with the second
// first, or @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, or @every with a duration. The time zone
// is that of a prefix (TZ=Europe/Berlin or CRON_TZ=…), else the one given with the expression, else UTC. The program
// contains the time zones.
//
// # Clocks that change
//
// An expression that is due in every hour follows elapsed time: it is due whenever the clock shows a matching time. Any
// other expression follows the wall clock: a time in an hour that the clock skips is due once, at the moment of the
// skip, and a time in an hour that the clock repeats is due the first time only.
//
// @every follows neither: it is due at the multiples of its duration since 1970 in UTC, so that all servers and all
// starts agree.
package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine, even on one that has none
	"unicode/utf8"

	robfig "github.com/robfig/cron/v3"

	"landfall.dev/landfall"
)

// Schedule says when something is due. It is immutable.
type Schedule struct {
	every     time.Duration // of @every; else 0
	fields    *robfig.SpecSchedule
	everyHour bool // it is due in every hour
	zone      *time.Location
}

// Zone returns a time zone by its name; UTC for the empty one. Invalid when there is none.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, invalid("there is no time zone %s; it is a name such as Europe/Berlin", strconv.Quote(name))
	}
	return zone, nil
}

// Parse reads an expression. zone is the name of the time zone that is given with it; empty: there is none. An error is
// Invalid, and says which character of the expression is wrong.
func Parse(expression, zone string) (*Schedule, error) {
	rest, s := scan(expression), &Schedule{}
	first := rest.peek()
	prefix, written, prefixed := strings.Cut(first.text, "=")
	if prefixed = prefixed && (prefix == "TZ" || prefix == "CRON_TZ"); prefixed {
		rest.words = rest.words[1:]
	}
	if prefixed && zone != "" {
		return nil, first.invalid("the time zone is given here and beside the expression; give it once")
	}
	var err error
	if s.zone, err = Zone(zone); err != nil {
		return nil, err
	}
	if prefixed {
		if s.zone, err = Zone(written); err != nil || written == "" {
			return nil, first.invalid("there is no time zone %s; it is a name such as Europe/Berlin", strconv.Quote(written))
		}
	}
	if strings.HasPrefix(rest.peek().text, "@") {
		err = s.parseDescriptor(rest)
	} else {
		err = s.parseFields(rest)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// word is a piece of an expression without blanks.
type word struct {
	text string
	at   int // number of its first character, from 1
}

func (w word) invalid(format string, args ...any) error {
	return invalid("at character %d: %s", w.at, fmt.Sprintf(format, args...))
}

func invalid(format string, args ...any) error {
	return &landfall.Error{Op: "cron.Parse", Kind: landfall.Invalid, Message: fmt.Sprintf(format, args...)}
}

// words are the rest of an expression.
type words struct {
	words []word
	end   word // the end of the expression
}

func scan(expression string) words {
	w := words{end: word{at: utf8.RuneCountInString(expression) + 1}}
	for at := 0; ; {
		rest := expression[at:]
		at += len(rest) - len(strings.TrimLeft(rest, " \t"))
		if at == len(expression) {
			return w
		}
		text := expression[at:]
		if i := strings.IndexAny(text, " \t"); i >= 0 {
			text = text[:i]
		}
		w.words = append(w.words, word{text, utf8.RuneCountInString(expression[:at]) + 1})
		at += len(text)
	}
}

// peek returns the first word, or an empty one at the end.
func (w words) peek() word {
	if len(w.words) == 0 {
		return w.end
	}
	return w.words[0]
}

// parseDescriptor reads an expression that begins with @.
func (s *Schedule) parseDescriptor(rest words) error {
	name, arguments := rest.words[0], words{rest.words[1:], rest.end}
	if name.text == "@every" {
		d, err := time.ParseDuration(arguments.peek().text)
		if err != nil || d <= 0 {
			return arguments.peek().invalid("@every is followed by a duration such as 90s, 5m or 1h30m")
		}
		s.every = max(time.Second, d.Truncate(time.Second))
		arguments.words = arguments.words[1:]
	} else {
		parsed, err := robfig.NewParser(robfig.Descriptor).Parse(name.text)
		fields, ok := parsed.(*robfig.SpecSchedule)
		if err != nil || !ok {
			return name.invalid("%s is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every",
				strconv.Quote(name.text))
		}
		s.setFields(fields)
	}
	if len(arguments.words) > 0 {
		return arguments.peek().invalid("nothing may follow here")
	}
	return nil
}

// field is one of the six fields, and its possible values.
type field struct{ name, values string }

func fields() []field {
	return []field{
		{"second", "a number from 0 to 59"},
		{"minute", "a number from 0 to 59"},
		{"hour", "a number from 0 to 23"},
		{"day of the month", "a number from 1 to 31"},
		{"month", "a number from 1 to 12, or JAN to DEC"},
		{"day of the week", "a number from 0 (Sunday) to 6, or SUN to SAT"},
	}
}

const five = "minute, hour, day and month, day of the week"

// parseFields reads five or six fields.
func (s *Schedule) parseFields(rest words) error {
	all, given := fields(), rest.words
	if len(given) == len(all)-1 {
		given = append([]word{{text: "0", at: rest.peek().at}}, given...)
	}
	if len(given) < len(all) {
		return rest.end.invalid("a field is missing: there are %d, of %s", len(rest.words), five)
	}
	if len(given) > len(all) {
		return given[len(all)].invalid("there is no seventh field; six are second, %s", five)
	}
	parser := robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)
	texts := make([]string, len(all))
	for i, f := range all {
		alone := []string{"*", "*", "*", "*", "*", "*"} // for finding the wrong field
		texts[i], alone[i] = given[i].text, given[i].text
		if _, err := parser.Parse(strings.Join(alone, " ")); err != nil || strings.Trim(given[i].text, ",") == "" {
			return given[i].invalid("%s is no %s: it is %s, *, a range such as 1-5, a step such as */2, or a list of these "+
				"with commas",
				strconv.Quote(given[i].text), f.name, f.values)
		}
	}
	parsed, err := parser.Parse(strings.Join(texts, " "))
	fields, ok := parsed.(*robfig.SpecSchedule)
	if err != nil || !ok {
		return given[0].invalid("%v", err)
	}
	s.setFields(fields)
	const day, month = 3, 4
	if s.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() { // it includes two leap years
		return given[day].invalid("no month of %s has a day of %s, so this is never due", strconv.Quote(texts[month]),
			strconv.Quote(texts[day]))
	}
	return nil
}

// setFields makes s due by fields.
func (s *Schedule) setFields(fields *robfig.SpecSchedule) {
	const hours = 1<<24 - 1
	fields.Location = time.UTC // the time zone is applied here: wall clock times are computed as if they were UTC
	s.fields, s.everyHour = fields, fields.Hour&hours == hours
}

// horizon is how many years Next looks ahead: two leap years can be eight years apart.
const horizon = 9

// Next returns the first time after the given one at which s is due; zero when there is none within the horizon.
func (s *Schedule) Next(after time.Time) time.Time {
	if s.every > 0 {
		return s.nextMultiple(after)
	}
	at := after.In(s.zone)
	wall, last := onWall(at, at), at.AddDate(horizon, 0, 0)
	for {
		start, end := at.ZoneBounds()
		if shown := s.repeatedUntil(start); wall.Before(shown) {
			wall = shown.Add(-1)
		}
		next := s.fields.Next(wall)
		if next.IsZero() {
			return time.Time{}
		}
		due := next.Add(-offset(at))
		switch {
		case end.IsZero() || due.Before(end):
			return due.In(s.zone)
		case !s.everyHour && next.Before(onWall(end, end)):
			return end // the clock skips it
		case end.After(last):
			return time.Time{}
		}
		at, wall = end, onWall(end, end).Add(-1)
	}
}

// repeatedUntil returns the wall clock time that the clock had reached before it was set back at start: until then it
// shows times a second time. It is zero where that does not matter.
func (s *Schedule) repeatedUntil(start time.Time) time.Time {
	if s.everyHour || start.IsZero() {
		return time.Time{}
	}
	return onWall(start, start.Add(-1))
}

// onWall returns the wall clock time of a moment, as if it were UTC, with the offset that is in force at another one.
func onWall(at, inForce time.Time) time.Time { return at.UTC().Add(offset(inForce)) }

func offset(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

func (s *Schedule) nextMultiple(after time.Time) time.Time {
	seconds := int64(s.every / time.Second)
	return time.Unix((after.Unix()/seconds+1)*seconds, 0).In(s.zone)
}
