package github

import (
	"time"

	"golang.org/x/time/rate"
)

// request says what a request counts for in GitHub's limits.
type request int

const (
	reads    request = iota // it changes nothing
	writes                  // it changes something that no person is told of, such as a commit status
	comments                // it makes or edits a comment, which is content for people
)

// These are the points of a request in GitHub's limit of points.
const (
	readPoints  = 1
	writePoints = 5
)

// pace keeps requests within the limits that GitHub has beside that of all requests in an hour: 900 points a minute
// and, of content for people, 80 requests a minute and 500 an hour. Which requests are content, the description of each
// endpoint says. See https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api. A burst and what
// follows it are not more than that together.
type pace struct{ points, minute, hour *rate.Limiter }

// Pace is shared by all that calls GitHub by the same credentials, to which the limits apply.
type Pace = pace

// NewPace returns a pace at which nothing was sent yet.
func NewPace() *Pace { return newPace() }

func newPace() *pace {
	const points, burst, longBurst = 300, 20, 100
	return &pace{
		points: rate.NewLimiter(rate.Every(time.Minute/(900-points)), points),
		minute: rate.NewLimiter(rate.Every(time.Minute/(80-burst)), burst),
		hour:   rate.NewLimiter(rate.Every(time.Hour/(500-longBurst)), longBurst),
	}
}

// take counts a request, and returns how long it has to wait.
func (p *pace) take(what request, now time.Time) time.Duration {
	if what == reads {
		return p.points.ReserveN(now, readPoints).DelayFrom(now)
	}
	wait := p.points.ReserveN(now, writePoints).DelayFrom(now)
	if what == comments {
		wait = max(wait, p.minute.ReserveN(now, 1).DelayFrom(now), p.hour.ReserveN(now, 1).DelayFrom(now))
	}
	return wait
}

// allows reports whether so many writes would not have to wait.
func (p *pace) allows(n int, now time.Time) bool {
	return p.points.TokensAt(now) >= float64(n*writePoints)
}

// busy reports whether a write has to wait.
func (p *pace) busy(now time.Time) bool { return p.points.TokensAt(now) < writePoints }

// spare reports whether something can be written that may wait, and leaves room for what may not.
func (p *pace) spare(now time.Time) bool { return p.points.TokensAt(now) > 20*writePoints }
