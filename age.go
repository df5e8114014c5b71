package landfall

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Age is a length of time as people write it: "24h", "90m", "7d", or "0". The empty Age says nothing.
type Age string

// ParseAge returns text as an Age. It returns Invalid, with a sentence, when text is not one.
func ParseAge(text string) (Age, error) {
	if d, err := parseAge(text); err != nil || d < 0 {
		return "", &Error{Op: "landfall.ParseAge", Kind: Invalid, Message: fmt.Sprintf(
			"%.40q is no length of time; right would be one such as 24h or 7d, or 0", text), Err: err}
	}
	return Age(text), nil
}

// Duration returns the length of time. It returns 0 for a text that ParseAge refuses.
func (a Age) Duration() time.Duration {
	d, err := parseAge(string(a))
	if err != nil {
		return 0
	}
	return max(d, 0)
}

func parseAge(text string) (time.Duration, error) {
	const day, most = 24 * time.Hour, 100 * 365 // a longer time does not fit into a Duration
	number, inDays := strings.CutSuffix(text, "d")
	if !inDays {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err == nil && n > most {
		err = strconv.ErrRange
	}
	return time.Duration(n) * day, err
}
