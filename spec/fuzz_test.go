package spec_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/test/testkit"
)

var problem = regexp.MustCompile(`^(specs/a\.yaml:\d+: .+|and \d+ more|spec files: .+)$`)

// Whatever the text, Parse returns: a spec that is the same when parsed again, or an Invalid error with a place on each
// line.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"valid", "invalid"} {
		for _, path := range fixtures(f, folder) {
			for _, s := range readFixture(f, path).sources {
				f.Add(s.Data)
			}
		}
	}
	for _, text := range []string{"", "---", "...", "\ufeff", "%YAML", "\r\r", "a: !!int x", "? ", "- - -", "&a *a", "\f%",
		"... a", "... # a\nb: 1", "--- |\n ---\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		source := spec.Source{Name: "specs/a.yaml", Data: data}
		original := bytes.Clone(data)
		s, err := spec.Parse([]spec.Source{source}, spec.Limits{Bytes: 64 << 10})
		if !bytes.Equal(data, original) {
			t.Error("the text was changed")
		}
		if err == nil {
			testkit.Equal(t, "spec parsed again", dump(t, mustParse(t, source)), dump(t, s))
			return
		}
		if kind := landfall.KindOf(err); kind != landfall.Invalid {
			t.Errorf("kind: got %v, want %v", kind, landfall.Invalid)
		}
		for line := range strings.SplitSeq(landfall.MessageOf(err), "\n") {
			if !problem.MatchString(line) {
				t.Errorf("message: got line %q, want one with a place", line)
			}
		}
	})
}
