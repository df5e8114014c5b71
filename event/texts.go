package event

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// span is a piece of the text of an event.
type span struct{ from, to int }

// scanStrings is scan for an event in which every member is a string, in a third of the time, because every call has an
// answer, and most answers are such. It returns false for all other events, and for malformed ones. For an answer it
// skips what Strip removes, and makes one string of all texts, because the reader of an answer keeps nothing of it.
func scanStrings(data []byte, members []member, answer bool) ([]member, bool) {
	var room [1 << 10]byte
	var spans [commonMembers]span
	texts := room[:0]
	rest, ok := cutByte(data, '{')
	if !ok {
		return nil, false
	}
	for more := true; more; {
		m, behind, escaped := cutMember(rest)
		if behind == nil || len(members) == commonMembers || slices.ContainsFunc(members, func(before member) bool {
			return before.name == m.name
		}) {
			return nil, false
		}
		from := len(texts)
		switch isData := m.name == "data" || m.name == "data_base64"; {
		case escaped && (isData || !answer) && !m.value.IsValid():
			return nil, false
		case isData:
		case !answer:
			m.text = text(m.value)
		default:
			var err error
			if texts, err = jsontext.AppendUnquote(texts, m.value); err != nil {
				return nil, false
			}
			if m.private = isPrivate(m.name); m.private {
				texts = texts[:from]
			}
			spans[len(members)] = span{from, len(texts)}
		}
		members = append(members, m)
		rest, more = cutByte(behind, ',')
	}
	if rest, ok = cutByte(rest, '}'); !ok || len(trimSpace(rest)) > 0 {
		return nil, false
	}
	if answer {
		all := string(texts)
		for i := range members {
			members[i].text = all[spans[i].from:spans[i].to]
		}
	}
	return members, true
}

// cutMember returns the member at the beginning of data, the rest, and whether its value has escapes, which may be
// wrong. rest is nil when there is no member with a string.
func cutMember(data []byte) (m member, rest []byte, escaped bool) {
	name, rest, escaped := cutText(data)
	rest, ok := cutByte(rest, ':')
	if !ok || escaped {
		return member{}, nil, false
	}
	m.name = memberName(name)
	m.value, rest, escaped = cutText(rest)
	return m, rest, escaped
}

// cutText returns the JSON string at the beginning of data, the rest, and whether it has escapes, which may be wrong.
// rest is nil when there is no string.
func cutText(data []byte) (quoted jsontext.Value, rest []byte, escaped bool) {
	data = trimSpace(data)
	if len(data) == 0 || data[0] != '"' {
		return nil, nil, false
	}
	for end := 1; end < len(data); {
		quote := bytes.IndexByte(data[end:], '"')
		if quote < 0 {
			break
		}
		if escape := bytes.IndexByte(data[end:end+quote], '\\'); escape >= 0 {
			escaped = true
			end += escape + len(`\"`)
			continue
		}
		end += quote + 1
		if !isText(data[:end]) {
			break
		}
		return data[:end:end], data[end:], escaped
	}
	return nil, nil, false
}

// isText reports whether there are no control characters and nothing but UTF-8.
func isText(p []byte) bool {
	const word, highs, spaces = 8, 0x8080808080808080, 0x2020202020202020
	for len(p) >= word {
		w := binary.LittleEndian.Uint64(p)
		if (w|(w-spaces))&highs != 0 {
			break // one of them may not be ASCII, or may be a control character
		}
		p = p[word:]
	}
	ascii := true
	for _, c := range p {
		if c < ' ' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.Valid(p)
}

// cutByte returns the data after a character and the white space before it; it returns data when there is another
// character.
func cutByte(data []byte, c byte) ([]byte, bool) {
	rest := trimSpace(data)
	if len(rest) == 0 || rest[0] != c {
		return data, false
	}
	return rest[1:], true
}

// trimSpace returns data without the white space at its beginning.
func trimSpace(data []byte) []byte {
	for len(data) > 0 && (data[0] == ' ' || data[0] == '\n' || data[0] == '\r' || data[0] == '\t') {
		data = data[1:]
	}
	return data
}
