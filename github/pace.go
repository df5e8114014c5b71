package github

import (
	"time"

	"golang.org/x/time/rate"
)

// request says what a request counts for in GitHub's limits.
type request int

const (
	reads    request = iota // it changes nothing, and the main limit alone counts it
	writes                  // it sets a status
	comments                // it makes or edits a comment
)

// pace keeps requests within the limits that GitHub has for what is written: 80 a minute and, of content for people,
// 500 an hour. See https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api. A burst and what
// follows it are not more than that together.
type pace struct{ minute, hour *rate.Limiter }

func newPace() *pace {
	const burst, longBurst = 20, 100
	return &pace{
		minute: rate.NewLimiter(rate.Every(time.Minute/(80-burst)), burst),
		hour:   rate.NewLimiter(rate.Every(time.Hour/(500-longBurst)), longBurst),
	}
}

// take counts a request, and returns how long it has to wait.
func (p *pace) take(what request, now time.Time) (wait time.Duration) {
	if what >= writes {
		wait = p.minute.ReserveN(now, 1).DelayFrom(now)
	}
	if what == comments {
		wait = max(wait, p.hour.ReserveN(now, 1).DelayFrom(now))
	}
	return wait
}
