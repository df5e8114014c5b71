package landfall_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
)

func TestTopics(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]struct{ topic, pattern bool }{
		"orders":                 {true, true},
		"orders.EU-west.new_1":   {true, true},
		"":                       {},
		"orders.":                {},
		".orders":                {},
		"a..b":                   {},
		"or ders":                {},
		"orders/new":             {},
		"ordérs":                 {},
		"$JS.API":                {},
		"orders.*":               {false, true},
		"*.new":                  {false, true},
		"orders.>":               {false, true},
		">":                      {false, true},
		">.new":                  {},
		"orders.n*":              {},
		strings.Repeat("a", 200): {true, true},
		strings.Repeat("a", 201): {},
	} {
		if got := landfall.CheckTopic(topic) == nil; got != want.topic {
			t.Errorf("%q as a topic: got %t", topic, got)
		}
		if got := landfall.CheckTopicPattern(topic) == nil; got != want.pattern {
			t.Errorf("%q as a pattern: got %t", topic, got)
		}
	}
}

func TestTopicPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b                  string
		covers, covered, meet bool
	}{
		{"a", "a", true, true, true},
		{"a", "b", false, false, false},
		{"a", "a.b", false, false, false},
		{"a.*", "a.b", true, false, true},
		{"a.*", "a.b.c", false, false, false},
		{"a.*", "a", false, false, false},
		{"a.>", "a.b.c", true, false, true},
		{"a.>", "a", false, false, false},
		{"a.>", "a.*", true, false, true},
		{"a.*", "*.b", false, false, true},
		{"*.a", "*.b", false, false, false},
		{">", "a.>", true, false, true},
		{"*", "*", true, true, true},
		{"a.*.c", "a.>", false, true, true},
	} {
		if got := landfall.TopicCovers(c.a, c.b); got != c.covers {
			t.Errorf("%s covers %s: got %t", c.a, c.b, got)
		}
		if got := landfall.TopicCovers(c.b, c.a); got != c.covered {
			t.Errorf("%s covers %s: got %t", c.b, c.a, got)
		}
		if got := landfall.TopicsOverlap(c.a, c.b) && landfall.TopicsOverlap(c.b, c.a); got != c.meet {
			t.Errorf("%s and %s meet: got %t", c.a, c.b, got)
		}
	}
}
