package runner_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"landfall.dev/landfall/runtime/runner"
)

// An object ends where JSON says, however it is cut into pieces.
func FuzzFrame(f *testing.F) {
	for _, text := range []string{`{}`, ` {"a":"}\"{\\"}x`, `{"a":[{},"]"]} {}`, `{"a"`, `x`, `[]`, " 0",
		"\n{\"\\u007b\":1}\n"} {
		f.Add([]byte(text), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		whole, ok := runner.FrameEnd(text)
		at := max(0, min(cut, len(text)))
		if end, same := runner.FrameEnd(text[:at], text[at:]); end != whole || same != ok {
			t.Fatalf("%q ends at %d, cut at %d it ends at %d", text, whole, at, end)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		var value map[string]any
		if decoder.Decode(&value) == nil && value != nil && (!ok || int64(whole) != decoder.InputOffset()) {
			t.Fatalf("%q ends at %d, %t; want %d", text, whole, ok, decoder.InputOffset())
		}
	})
}

// A part that was read together with a large answer is not cut when the room of that answer is given back.
func TestPartBehindLargeAnswer(t *testing.T) {
	t.Parallel()
	want := `{"data":"` + strings.Repeat("x", 20_000) + `"}`
	if part, err := runner.PartBehind([]byte(want + "\n")); err != nil || string(part) != want {
		t.Errorf("got %d bytes, %v; want %d", len(part), err, len(want))
	}
}
