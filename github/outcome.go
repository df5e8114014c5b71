package github

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

const (
	firstBackoff = time.Second
	maxBackoff   = 10 * time.Minute

	// credentialsWait is how long a report waits for correct credentials.
	credentialsWait = 10 * time.Minute

	// limitWait is how long we wait at a rate limit when GitHub does not say how long.
	limitWait = time.Minute

	// maxLimitWait is more than GitHub ever asks for: its longest window is an hour.
	maxLimitWait = 24 * time.Hour
)

// outcome is the result of one attempt at a report: it was sent unless there is a problem.
type outcome struct {
	problem string    // for people
	drop    bool      // another attempt would have the same result
	at      time.Time // when to try again
	pause   bool      // nothing at all may be sent before that time
	refused bool      // we may not do it
	cause   error     // for the log, when there was no answer; answers are not logged
}

// subject is what an attempt sent.
type subject struct {
	noun       string           // of one, for the log
	feature    landfall.Feature // what everything else does without; empty: nothing does
	id         int64            // of the repository
	repository string           // owner/name
	attempts   int              // earlier ones
	forbidden  string           // the message when we may not do it
	refused    string           // the message when GitHub finds it wrong
}

func nameOf(r landfall.GitHubRepository) string { return r.Owner + "/" + r.Name }

func statusSubject(report landfall.Report) subject {
	repository := nameOf(report.Repository)
	return subject{
		repository: repository, attempts: report.Attempts,
		forbidden: fmt.Sprintf("The token may not set commit statuses of %s: it needs write access to them.", repository),
		refused: fmt.Sprintf(
			"GitHub refused the status: check that commit %s is still in %s, and that the commit has fewer than 1,000 statuses.",
			report.Commit.Short(), repository),
	}
}

func commentSubject(comment landfall.Comment) subject {
	repository := nameOf(comment.Repository)
	return subject{
		noun: "comment", repository: repository, attempts: comment.Attempts,
		forbidden: fmt.Sprintf("The token may not comment on pull request %d of %s: it needs write access to pull requests, "+
			"and the conversation must not be locked.", comment.Number, repository),
		refused: fmt.Sprintf("GitHub refused the comment on pull request %d of %s.", comment.Number, repository),
	}
}

// classify returns the outcome of one attempt from GitHub's answer. It drops only what can never succeed.
func classify(what subject, response *gogithub.Response, err error, now time.Time) outcome {
	backoff := now.Add(min(firstBackoff<<min(what.attempts, 20), maxBackoff))
	if response == nil {
		if landfall.KindOf(err) == landfall.Forbidden { // the App may not
			_, lacks := errors.AsType[lacksError](err)
			return outcome{problem: landfall.MessageOf(err), at: now.Add(credentialsWait), refused: lacks}
		}
		return outcome{problem: "GitHub could not be reached; it is tried again.", at: backoff, cause: err}
	}
	status := response.StatusCode
	until, limited := limit(response, err, now)
	switch {
	case status >= 200 && status <= 299: // even when the rest of the answer was lost
		return outcome{}
	case limited:
		return outcome{
			problem: fmt.Sprintf("GitHub wants no requests before %s.", until.UTC().Format(time.DateTime+" MST")),
			at:      until, pause: true,
		}
	case status == http.StatusUnauthorized:
		return outcome{
			problem: "GitHub does not accept the credentials: the administrator has to renew the token.",
			at:      now.Add(credentialsWait), pause: true,
		}
	case status == http.StatusForbidden:
		return outcome{problem: what.forbidden, at: now.Add(credentialsWait), refused: true}
	case status == http.StatusNotFound || status == http.StatusGone:
		return outcome{drop: true, problem: fmt.Sprintf(
			"GitHub does not show %s to us: check that it still exists under this name, and that the token may see it.",
			what.repository)}
	case status == http.StatusUnprocessableEntity:
		return outcome{drop: true, problem: what.refused}
	default:
		at := backoff
		if wait, ok := retryAfter(response.Header, now); ok && wait.After(at) {
			at = wait
		}
		return outcome{problem: fmt.Sprintf("GitHub answered %d; it is tried again.", status), at: at}
	}
}

// limit reports whether an answer is about a rate limit, and until when. See
// https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api.
func limit(response *gogithub.Response, err error, now time.Time) (time.Time, bool) {
	if response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusTooManyRequests {
		return time.Time{}, false
	}
	if until, ok := retryAfter(response.Header, now); ok {
		return until, true
	}
	// go-github recognises the answers with a rate limit in their body, and answers by itself while it remembers one.
	until := now.Add(limitWait)
	primary, isPrimary := errors.AsType[*gogithub.RateLimitError](err)
	secondary, isSecondary := errors.AsType[*gogithub.AbuseRateLimitError](err)
	switch {
	case isPrimary:
		until = primary.Rate.Reset.Time
	case isSecondary && secondary.RetryAfter != nil:
		until = now.Add(*secondary.RetryAfter)
	case isSecondary:
	case response.StatusCode == http.StatusForbidden:
		return time.Time{}, false
	case response.Rate.Remaining == 0 && !response.Rate.Reset.IsZero():
		until = response.Rate.Reset.Time
	}
	return clamp(until, now), true
}

// retryAfter returns the time in a Retry-After header, which has seconds.
func retryAfter(header http.Header, now time.Time) (time.Time, bool) {
	seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 32)
	if err != nil || seconds < 0 {
		return time.Time{}, false
	}
	return clamp(now.Add(time.Duration(seconds)*time.Second), now), true
}

// clamp bounds a time that GitHub named.
func clamp(until, now time.Time) time.Time {
	earliest, latest := now.Add(time.Second), now.Add(maxLimitWait)
	switch {
	case until.Before(earliest):
		return earliest
	case until.After(latest):
		return latest
	}
	return until
}
