package event_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
)

const filtered = `{"specversion":"1.0","id":"7","source":"/shop","type":"com.example.order.created","subject":"orders/eu/7",
"datacontenttype":"application/json","region":"eu","priority":3,"urgent":true,"time":"2026-11-20T15:00:00Z","data":{"total":1}}`

func filters(t testing.TB, text string) event.Filters {
	t.Helper()
	all, err := event.ParseFilters([]byte(text))
	if err != nil {
		t.Fatalf("ParseFilters(%s): %v", text, err)
	}
	return all
}

func TestFilters(t *testing.T) {
	t.Parallel()
	e := parse(t, filtered)
	for text, want := range map[string]bool{
		``:   true,
		`[]`: true,
		`[{"exact":{"type":"com.example.order.created"}}]`:                                    true,
		`[{"exact":{"type":"com.example.order.Created"}}]`:                                    false,
		`[{"exact":{"type":"com.example.order.created","source":"/shop"}}]`:                   true,
		`[{"exact":{"type":"com.example.order.created","source":"/zoo"}}]`:                    false,
		`[{"exact":{"nothing":"eu"}}]`:                                                        false,
		`[{"exact":{"region":"eu","priority":"3","urgent":"true"}}]`:                          true,
		`[{"exact":{"id":"7","specversion":"1.0","datacontenttype":"application/json"}}]`:     true,
		`[{"exact":{"time":"2026-11-20T15:00:00Z"}}]`:                                         true,
		`[{"exact":{"dataschema":"http://example.com/"}}]`:                                    false,
		`[{"prefix":{"type":"com.example.","subject":"orders/"}}]`:                            true,
		`[{"prefix":{"type":"com.example.","subject":"returns/"}}]`:                           false,
		`[{"suffix":{"type":".created"}}]`:                                                    true,
		`[{"suffix":{"type":".deleted"}}]`:                                                    false,
		`[{"not":{"suffix":{"type":".deleted"}}}]`:                                            true,
		`[{"not":{"exact":{"nothing":"eu"}}}]`:                                                true,
		`[{"all":[{"prefix":{"type":"com."}},{"exact":{"region":"eu"}}]}]`:                    true,
		`[{"all":[{"prefix":{"type":"com."}},{"exact":{"region":"us"}}]}]`:                    false,
		`[{"any":[{"prefix":{"type":"org."}},{"exact":{"region":"eu"}}]}]`:                    true,
		`[{"any":[{"prefix":{"type":"org."}},{"exact":{"region":"us"}}]}]`:                    false,
		`[{"exact":{"region":"eu"}},{"exact":{"region":"us"}}]`:                               false,
		`[{"any":[{"not":{"exact":{"region":"eu"}}},{"all":[{"suffix":{"subject":"/7"}}]}]}]`: true,
	} {
		if got := filters(t, text).Pass(e); got != want {
			t.Errorf("%s: got %t, want %t", text, got, want)
		}
	}
}

// What is wrong is found where it stands.
func TestFiltersRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                                          "",
		`[{"sql":"type = 'a'"}]`:                      "",
		`[{"exact":{"type":7}}]`:                      "",
		`[{"exact":{"type":"a"}},{}]`:                 "[1]",
		`[{"exact":{"type":"a"},"not":{}}]`:           "[0]",
		`[{"exact":{}}]`:                              "[0].exact",
		`[{"prefix":{"Type":"a"}}]`:                   "[0].prefix.Type",
		`[{"suffix":{"type":""}}]`:                    "[0].suffix.type",
		`[{"all":[]}]`:                                "[0].all",
		`[{"any":[{"exact":{"id":"1"}},{"not":{}}]}]`: "[0].any[1].not",
		`[` + strings.Repeat(`{"not":`, 50) + `{"exact":{"id":"1"}}` + strings.Repeat(`}`, 50) + `]`: "[0]" +
			strings.Repeat(".not", 40),
	} {
		_, err := event.ParseFilters([]byte(text))
		if landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("%s: got %v, want an Invalid error", text, err)
		}
		place := ""
		if wrong, ok := errors.AsType[*event.FilterError](err); ok {
			place = strings.TrimPrefix(wrong.Error(), "filters")
		}
		if place != want {
			t.Errorf("%s: the fault is at %q, want %q", text, place, want)
		}
	}
}

// A filter lets pass what its parts let pass, whatever they are.
func TestFiltersCompose(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := event.New()
		e.SetID("1")
		word := rapid.StringMatching(`[ab]{1,3}`)
		e.SetSource("/" + word.Draw(t, "source"))
		e.SetType(word.Draw(t, "type"))
		e.SetExtension("region", word.Draw(t, "region"))
		name := rapid.SampledFrom([]string{"type", "region", "subject"})
		leaf := func() (event.Filter, bool) {
			attribute, value := name.Draw(t, "attribute"), word.Draw(t, "value")
			has := map[string]string{"type": e.Type(), "region": e.Extensions()["region"].(string)}[attribute]
			of := map[string]string{attribute: value}
			switch rapid.IntRange(0, 2).Draw(t, "dialect") {
			case 0:
				return event.Filter{Exact: of}, has == value
			case 1:
				return event.Filter{Prefix: of}, strings.HasPrefix(has, value)
			}
			return event.Filter{Suffix: of}, strings.HasSuffix(has, value)
		}
		var some []event.Filter
		var passes []bool
		for range rapid.IntRange(1, 4).Draw(t, "filters") {
			f, pass := leaf()
			if rapid.Bool().Draw(t, "not") {
				inner := f
				f, pass = event.Filter{Not: &inner}, !pass
			}
			some, passes = append(some, f), append(passes, pass)
		}
		all, one := !slices.Contains(passes, false), slices.Contains(passes, true)
		for i, f := range some {
			if got := (event.Filters{f}).Pass(e); got != passes[i] {
				t.Fatalf("%+v: got %t", f, got)
			}
		}
		if got := (event.Filters(some)).Pass(e); got != all {
			t.Fatalf("the list: got %t", got)
		}
		if got := (event.Filters{{All: some}}).Pass(e); got != all {
			t.Fatalf("all: got %t", got)
		}
		if got := (event.Filters{{Any: some}}).Pass(e); got != one {
			t.Fatalf("any: got %t", got)
		}
	})
}
