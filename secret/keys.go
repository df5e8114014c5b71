package secret

import (
	"encoding/json"
	"regexp"
)

var fileName = regexp.MustCompile(`^[-._A-Za-z0-9]{1,253}$`)

// IsFileName reports whether a key can be the name of a file with a part of a value.
func IsFileName(key string) bool { return fileName.MatchString(key) && key != "." && key != ".." }

// wholeKey is the key of a value that is not a JSON object.
const wholeKey = "value"

// Keys returns a value by its keys, as functions find it in files. For a JSON object it returns each value whose key
// can be a file name, text as it is and everything else as JSON. For anything else it returns the value itself, as
// "value".
func Keys(value Text) map[string]Text {
	var parts map[string]json.RawMessage
	if json.Unmarshal([]byte(value.Reveal()), &parts) != nil || parts == nil {
		return map[string]Text{wholeKey: value}
	}
	keys := make(map[string]Text, len(parts))
	for key, part := range parts {
		if !IsFileName(key) {
			continue
		}
		var text string
		if json.Unmarshal(part, &text) != nil {
			text = string(part)
		}
		keys[key] = Text(text)
	}
	return keys
}
