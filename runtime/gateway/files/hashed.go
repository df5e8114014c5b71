package files

import (
	"regexp"
	"strings"
)

// hashLength is how many characters the hash in a file's name has, as most bundlers write it; and the fewest of one in
// hexadecimal.
const hashLength = 8

// hashed reports whether the name of path certainly carries a hash of its content, as bundlers write it, so that other
// bytes would have another name: "main.3f2a1b4c.chunk.js", "index-B7cSm1tF.css", "chunk-RX4V3J3S.js",
// "start.DQOfsvGe.js", "Bjy-W4x2.js". Words, dates, numbers and UUIDs are no hashes, and pages never have one. When in
// doubt it says no, which costs a revalidation.
func hashed(path string) bool {
	ext := extension(path)
	if ext == "" || ext == "html" || ext == "htm" {
		return false
	}
	stem := path[strings.LastIndexByte(path, '/')+1 : len(path)-len(ext)-1]
	for part := range strings.SplitSeq(stem, ".") {
		if len(part) < hashLength {
			continue
		}
		if hasHexHash(part) {
			return true
		}
		named := len(part) < len(stem)
		if cut := len(part) - hashLength; cut > 1 && part[cut-1] == '-' {
			named, part = true, part[cut:]
		} else if astroImage(part) && named {
			part = part[:hashLength]
		}
		if len(part) == hashLength && isRandom(part, named) {
			return true
		}
	}
	return false
}

var uuidForm = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// hasHexHash reports whether part has a hash in hexadecimal digits of one case between separators. The number of its
// digits is even, and not all of them are decimal: that is a date.
func hasHexHash(part string) bool {
	for token := range strings.FieldsFuncSeq(part, func(c rune) bool { return c == '-' || c == '_' || c == '~' }) {
		if len(token) >= hashLength && len(token)%2 == 0 && strings.Trim(token, "0123456789abcdef") == "" &&
			strings.Trim(token, "0123456789") != "" {
			return !uuidForm.MatchString(part)
		}
	}
	return false
}

// astroImage reports whether part is the hash of an image and that of what Astro made of it: "DP1ZGegi_2aM1JQ".
func astroImage(part string) bool {
	const fewest, most = 3, 7 // characters of the second
	rest := len(part) - hashLength - 1
	return rest >= fewest && rest <= most && part[hashLength] == '_'
}

// isRandom reports whether the 8 characters of s are those of a hash: digits, letters, "-" and "_" in no order that a
// person would write. named is whether other parts of a name stand before it; one that stands alone has capitals.
func isRandom(s string, named bool) bool {
	small, capital, digit, other := false, false, false, false
	base32 := true
	for i := range len(s) {
		c := s[i]
		switch classOf(c) {
		case 'a':
			small = true
		case 'A':
			capital = true
		case '0':
			digit = true
			base32 = base32 && c >= '2' && c <= '7'
		case '-':
			other = true
		default:
			return false
		}
	}
	switch {
	case small && capital:
		return surprise(s) > hashLength*randomBase64-14
	case !digit:
		return false
	case capital && other:
		return surprise(s) > hashLength*randomBase64+110
	case capital && base32:
		return surprise(s) > hashLength*randomBase32+61
	case capital:
		return surprise(s) > hashLength*randomBase64+61
	}
	return named && small && !other && surprise(s) > hashLength*randomBase36+37
}

// classOf returns 'A', 'a', '0' or '-' for the characters of base64 in URLs, and 0 for all others.
func classOf(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return 'A'
	case c >= 'a' && c <= 'z':
		return 'a'
	case c >= '0' && c <= '9':
		return '0'
	case c == '-' || c == '_':
		return '-'
	}
	return 0
}

// What a random character is worth, and what it costs people to write one, in tenths of a bit. The costs, and by how
// much isRandom wants them to be more, were fitted to the names of files in npm packages and to those that bundlers
// make.
const (
	randomBase64, randomBase36, randomBase32 = 60, 52, 50

	firstSmall, firstCapital, firstDigit, firstOther = 67, 52, 103, 60

	capitalThenSmall, capitalThenCapital = 5, 65
	smallThenCapital                     = 82
	digitThenDigit, thenDigit, digitThen = 40, 90, 77
	thenOther, otherThen                 = 65, 87

	shortWord    = 15 // a word of fewer than three letters
	knownTwo     = 35 // less for two letters that often stand as a word in names
	shortestWord = 3
)

// pairs has a row for each letter, and in it how surprising each letter is behind it in English words, in bits.
const pairs = "" + "74449758597353859343667768" + "36673779359278369447387869" +
	"39683983594488289463599969" + "47652668278586479547579879" +
	"47435568789453757234867579" + "48783399298488399465488958" +
	"47772754397464479356499978" + "26782898388666378564597968" +
	"56455559998442459544959796" + "49673666567667356627366667" +
	"45762667377676567635697959" + "37752878397388369855578939" +
	"25872889389557339858589869" + "48433628487776479833668979" +
	"65557669686442559345455789" + "39773985499378348354588889" +
	"77678687887668547766188668" + "37562769396656369544578969" +
	"57473794397667448842487969" + "48582784299678479345598959" +
	"54564658599443749333899798" + "37981778299789599777699778" +
	"26873764377674378447887888" + "57463785387656628652978758" +
	"44554667476453539635775766" + "49691677357696477659697744"

// twoLetters are words of two letters that often stand in names.
const twoLetters = " is to px js ui by of on no id ts in it up go my at as or do be an "

// surprise returns how many tenths of a bit it takes to write s as words, numbers and abbreviations: few for what
// people write.
func surprise(s string) int {
	total := 0
	for i := range len(s) {
		total += step(s, i)
	}
	for from := 0; from < len(s); {
		to := wordEnd(s, from)
		word := s[from:to]
		if len(word) == shortestWord-1 && strings.Contains(twoLetters, " "+strings.ToLower(word)+" ") {
			total -= knownTwo
		}
		if len(word) < shortestWord && classOf(word[len(word)-1]) == 'a' {
			total += shortWord
		}
		from = to
	}
	return total
}

// step returns what it costs to go on with the character at i.
func step(s string, i int) int {
	class := classOf(s[i])
	if i == 0 {
		switch class {
		case 'a':
			return firstSmall
		case 'A':
			return firstCapital
		case '0':
			return firstDigit
		}
		return firstOther
	}
	before := classOf(s[i-1])
	letters := func() int { return 10 * int(pairs[26*int(s[i-1]|' '-'a')+int(s[i]-'a')]-'0') }
	switch {
	case class == 'a' && before == 'a':
		return letters()
	case class == 'a' && before == 'A':
		return letters() + capitalThenSmall
	case class == 'A' && before == 'A':
		return capitalThenCapital
	case class == 'A' && before == 'a':
		return smallThenCapital
	case class == '0' && before == '0':
		return digitThenDigit
	case class == '0':
		return thenDigit
	case class == '-':
		return thenOther
	case before == '-':
		return otherThen
	}
	return digitThen
}

// wordEnd returns where the word ends that begins at from: a capital and small letters, capitals alone, or one other
// character.
func wordEnd(s string, from int) int {
	to := from + 1
	is := func(class byte) bool { return to < len(s) && classOf(s[to]) == class }
	class := classOf(s[from])
	if class == 'A' && is('a') {
		class = 'a'
	}
	for (class == 'a' || class == 'A') && is(class) {
		to++
	}
	return to
}
