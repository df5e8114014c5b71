package githubtest

import (
	"net/http"
	"strings"
	"time"
)

// limits counts requests as GitHub's secondary limits do, see
// https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api.
type limits struct {
	on       bool
	points   []time.Time // one for each point of the last minute
	contents []time.Time // comments made or edited in the last hour
	refused  int
}

// EnforceLimits lets the server refuse what is beyond GitHub's secondary limits: 900 points a minute, of which a
// request that writes takes five, and 80 comments a minute or 500 an hour.
func (s *Server) EnforceLimits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.on = true
}

// Refused returns how many requests were beyond the limits.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.refused
}

// limit counts a request, and returns the answer to one that is beyond the limits; nil to others.
func (s *Server) limit(r *http.Request, now time.Time) *reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.limits
	if !l.on {
		return nil
	}
	points := 1
	if r.Method != http.MethodGet {
		points = 5
	}
	for range points {
		l.points = append(l.points, now)
	}
	if points > 1 && strings.Contains(r.URL.Path, "/comments") {
		l.contents = append(l.contents, now)
	}
	since := func(times []time.Time, d time.Duration) (n int) {
		for _, at := range times {
			if now.Sub(at) < d {
				n++
			}
		}
		return n
	}
	if since(l.points, time.Minute) <= 900 && since(l.contents, time.Minute) <= 80 && since(l.contents, time.Hour) <= 500 {
		return nil
	}
	l.refused++
	no := refuse(http.StatusForbidden,
		"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
	no.header = map[string]string{"Retry-After": "60"}
	return &no
}
