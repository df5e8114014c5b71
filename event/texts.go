package event

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// span is a piece of the texts of an event.
type span struct{ from, to int }

// scanStrings is scan for an event of which every member is a string, in a third of its time: every call has an answer, and most are
// such. It returns false for all others, and for what is no event. Of an answer it does not say what Strip takes away, and makes one
// string of all that it says: who reads an answer keeps nothing of it.
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
		if behind == nil || len(members) == commonMembers || slices.ContainsFunc(members, func(before member) bool { return before.name == m.name }) {
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

// cutMember returns the member at the beginning of data, what comes after it, and whether its value has escapes, which may be wrong.
// Without a rest, there is none whose value is a string.
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

// cutText returns the JSON string at the beginning of data, what comes after it, and whether there are escapes in it, which may be
// wrong. Without a rest, there is none.
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
			break // one of them may be none of ASCII, or before the space
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

// cutByte returns what comes after a character and the white space before it, and data when there is another character.
func cutByte(data []byte, c byte) ([]byte, bool) {
	rest := trimSpace(data)
	if len(rest) == 0 || rest[0] != c {
		return data, false
	}
	return rest[1:], true
}

// trimSpace returns data without the white space before it.
func trimSpace(data []byte) []byte {
	for len(data) > 0 && (data[0] == ' ' || data[0] == '\n' || data[0] == '\r' || data[0] == '\t') {
		data = data[1:]
	}
	return data
}
