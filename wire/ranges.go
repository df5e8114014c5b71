package wire

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// maxRanges is the number of parts from which a Range header is ignored.
const maxRanges = 16

// NormalizeRange returns r with a Range header that http.ServeContent reads in the sense of RFC 9110, section 14: a
// suffix of zero bytes cannot be satisfied, and a number larger than any integer is after the end. It removes a header
// that this server ignores: with a method other than GET, with a unit other than bytes, in several lines, with very
// many parts, or for a file without bytes.
func NormalizeRange(r *http.Request, size int64) *http.Request {
	lines := r.Header["Range"]
	if lines == nil {
		return r
	}
	ranged := *r
	ranged.Header = maps.Clone(r.Header)
	delete(ranged.Header, "Range")
	unit, set, _ := strings.Cut(lines[0], "=")
	if r.Method != http.MethodGet || len(lines) > 1 || !strings.EqualFold(unit, "bytes") ||
		strings.Count(set, ",") >= maxRanges || size == 0 {
		return &ranged
	}
	var parts []string
	given := 0
	for part := range strings.SplitSeq(set, ",") {
		part = strings.Trim(part, " \t")
		if part == "" {
			continue
		}
		given++
		first, last, err := bounds(part, size)
		if err != nil {
			parts = nil
			break
		}
		if first <= last {
			parts = append(parts, fmt.Sprintf("%d-%d", first, last))
		}
	}
	switch {
	case given == 0:
		return &ranged
	case parts == nil:
		parts = []string{fmt.Sprintf("%d-", size)} // this range cannot be satisfied
	}
	ranged.Header["Range"] = []string{"bytes=" + strings.Join(parts, ",")}
	return &ranged
}

var errNoRange = errors.New("it is no range of bytes")

// bounds returns the first and the last byte of a part of a Range header for size bytes; the first is after the last
// when it has none.
func bounds(part string, size int64) (first, last int64, err error) {
	from, to, ok := strings.Cut(part, "-")
	if !ok || from == "" && to == "" || !decimal(from) || !decimal(to) {
		return 0, 0, errNoRange
	}
	last = size - 1
	if from == "" {
		return size - atMost(to, size), last, nil
	}
	if to != "" && less(to, from) {
		return 0, 0, errNoRange
	}
	if to != "" {
		last = atMost(to, last)
	}
	return atMost(from, size), last, nil
}

// decimal reports whether text has only digits.
func decimal(text string) bool { return strings.Trim(text, "0123456789") == "" }

// less compares numbers of any length.
func less(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return len(a) < len(b) || len(a) == len(b) && a < b
}

// atMost returns a number of any length, or most if it is larger.
func atMost(digits string, most int64) int64 {
	if less(strconv.FormatInt(most, 10), digits) {
		return most
	}
	var n int64
	for _, digit := range digits {
		n = n*10 + int64(digit-'0')
	}
	return n
}
