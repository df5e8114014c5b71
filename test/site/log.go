package site

import (
	"encoding/json"
	"strings"

	"landfall.dev/landfall/test/testkit"
)

// Entry is one line of the server's log.
type Entry map[string]any

// Logged returns what the server has logged.
func (s *Site) Logged() []Entry {
	s.T.Helper()
	var lines []Entry
	for line := range strings.Lines(s.Log.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		lines = append(lines, testkit.Decode[Entry](s.T, []byte(line)))
	}
	return lines
}

// Mentions reports whether any attribute of the line names the text.
func (l Entry) Mentions(text string) bool {
	data, err := json.Marshal(l)
	return err == nil && strings.Contains(string(data), text)
}
