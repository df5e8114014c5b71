package github

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/trace"
)

// DefaultInterval is how often a Sender looks into the outbox.
const DefaultInterval = 200 * time.Millisecond

const requestTimeout = 30 * time.Second // of one request, including its answer

// Outbox is the queue of reports that must be sent.
type Outbox interface {
	// Due returns at most limit reports that must be sent and whose NextAt is not after now: final states first, and then
	// in order of ID. For each repository, commit and context it returns only the oldest that is neither sent nor
	// dropped, and none while that one waits.
	Due(ctx context.Context, now time.Time, limit int) ([]landfall.Report, error)

	// Sent records that GitHub has reports.
	Sent(ctx context.Context, at time.Time, ids ...int64) error

	// Postpone adds one to a report's attempts, and sets when it is due again and what the problem is.
	Postpone(ctx context.Context, id int64, at time.Time, problem string) error

	// Drop gives up a report for ever. The next one of its commit and context becomes the oldest.
	Drop(ctx context.Context, id int64, problem string) error
}

// Sender sends the reports in the outbox, and then what is due for commands, check runs, comments and deployments, at a
// pace that keeps within GitHub's limits. It has one request under way at a time, and several only with final states of
// commits, while GitHub takes all of them and none has to wait for a limit. Reports of one commit and context arrive in
// the order of their IDs; one that cannot be sent holds back only those. While requests have to wait for the limits, no
// pending state is sent that a later report follows already. It never gives up a report because GitHub is down, and
// waits as long as GitHub asks.
//
// Each report arrives at least once: when an answer is lost, or the process ends before the outbox records it, the same
// status is posted again. That changes nothing but the history of the commit's statuses, because no later one of its
// context was sent meanwhile. A pull request has one comment: before the Sender makes one, it looks for it.
//
// All fields except the optional ones must be set. A Sender is for one goroutine, and an outbox for one Sender.
type Sender struct {
	Client   *gogithub.Client // from NewClient or Tokens
	Outbox   Outbox
	Commands Commands // nil: there are none
	Comments Comments // nil: pull requests get none
	URL      string   // of this installation, which finds its own comments and deployments by it
	Now      func() time.Time
	Logger   *slog.Logger

	Deployments Deployments // nil: GitHub is told of none
	Checks      Checks      // nil: there are no check runs
	Refusals    Refusals    // set when Deployments or Checks is

	PullQuestions PullQuestions // nil: GitHub is asked for none

	Interval time.Duration                                    // between two queries of the outbox; 0: DefaultInterval
	Wait     func(ctx context.Context, d time.Duration) error // returns after d, or with ctx's error; nil: a timer is used
	// called while requests have to wait for GitHub's limits, to give up the pending states that have a later report of
	// their commit and context in the outbox; nil: all are sent
	DropOvertaken func(ctx context.Context) error
	// called right before each request, and its error prevents the request; nil: not called
	Allowed func(ctx context.Context) error

	Tracer *trace.Tracer // may be nil
	Pace   *Pace         // shared with what else calls GitHub; nil: nothing does

	// AppLogin returns the user in whose name the App writes; empty: requests are sent with a person's token. May be nil.
	AppLogin func(ctx context.Context) (string, error)

	pace   *pace     // nil until the first request
	paused time.Time // the time until which GitHub wants no request at all
	beside int       // how many final states are sent beside each other next, if any
	self   int64     // our user at GitHub; 0 until it is known
}

// Run sends reports until ctx ends, and returns nil then. It logs errors of the outbox and goes on.
func (s *Sender) Run(ctx context.Context) error {
	interval := cmp.Or(s.Interval, DefaultInterval)
	s.forgive(ctx)
	for ctx.Err() == nil {
		if err := s.Flush(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Error("commit statuses cannot be sent", "error", err)
		}
		_ = s.wait(ctx, interval)
	}
	return nil
}

// Flush sends what is due, until nothing more is due or GitHub wants a pause. Its error is the outbox's, or ctx's.
func (s *Sender) Flush(ctx context.Context) error {
	for !s.Now().Before(s.paused) {
		more, err := s.flushReport(ctx)
		if err == nil && !more {
			more, err = s.flushCommand(ctx)
		}
		if err == nil && !more && s.Checks != nil {
			more, err = s.flushCheck(ctx)
		}
		if err == nil && !more && s.Comments != nil {
			more, err = flush(ctx, s, s.Comments, s.sendComment)
		}
		if err == nil && !more && s.Deployments != nil && s.limits().spare(s.Now()) {
			more, err = flush(ctx, s, s.Deployments, s.sendDeployment)
		}
		if err == nil && !more && s.PullQuestions != nil {
			more, err = s.flushPullQuestion(ctx)
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// flushReport sends the report that is due first, with others beside it. It reports whether there was one.
func (s *Sender) flushReport(ctx context.Context) (bool, error) {
	due, err := s.Outbox.Due(ctx, s.Now(), max(1, s.beside))
	if err == nil && len(due) > 0 && due[0].State == landfall.StatusPending && s.DropOvertaken != nil &&
		s.limits().busy(s.Now()) {
		if err = s.DropOvertaken(ctx); err == nil {
			due, err = s.Outbox.Due(ctx, s.Now(), 1)
		}
	}
	if err != nil || len(due) == 0 {
		return false, err
	}
	return true, s.send(ctx, s.besideEachOther(due))
}

// record records the result of an attempt at a report that has one. It returns whether GitHub has it.
func (s *Sender) record(ctx context.Context, a sending) (bool, error) {
	report := a.report
	v := s.classify(statusSubject(report), a.response, a.err)
	log := s.Logger.With("app", report.AppName, "app_id", report.App, "run", report.Run, "commit", report.Commit, "report",
		report.ID, "state", report.State)
	if report.Delivery != "" {
		log = log.With("delivery", report.Delivery)
	}
	switch {
	case v.problem == "":
		log.Info("commit status sent")
		return true, nil
	case v.drop:
		log.Warn("commit status dropped", "problem", v.problem)
		return false, s.Outbox.Drop(ctx, report.ID, v.problem)
	default:
		log.Warn("commit status postponed", "until", v.at, "problem", v.problem, "cause", v.cause)
		return false, s.Outbox.Postpone(ctx, report.ID, v.at, v.problem)
	}
}

// call makes one request, when its time has come.
func (s *Sender) call(ctx context.Context, what request, send func(ctx context.Context) (*gogithub.Response,
	error)) (*gogithub.Response, error) {
	if err := s.turn(ctx, what); err != nil {
		return nil, err
	}
	return limited(ctx, send)
}

// turn returns when the time of a request has come.
func (s *Sender) turn(ctx context.Context, what request) error {
	if err := s.wait(ctx, s.limits().take(what, s.Now())); err != nil {
		return err
	}
	if s.Allowed != nil {
		if err := s.Allowed(ctx); err != nil {
			return disallowedError{err}
		}
	}
	return nil
}

// limited makes one request, which has a limit of time.
func limited(ctx context.Context, send func(ctx context.Context) (*gogithub.Response, error)) (*gogithub.Response,
	error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return send(ctx)
}

func (s *Sender) limits() *pace {
	if s.pace == nil {
		s.pace = cmp.Or(s.Pace, newPace())
	}
	return s.pace
}

// disallowedError is the reason why Allowed prevented a request.
type disallowedError struct{ error }

// Unwrap returns the error of Allowed.
func (k disallowedError) Unwrap() error { return k.error }

// notSent returns the error when a request was not sent for a reason of ours; nil otherwise.
func notSent(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if kept, ok := errors.AsType[disallowedError](err); ok {
		return kept.error
	}
	return nil
}

// classify returns the outcome of GitHub's answer, and records the pause that it may ask for. Of the answers to
// requests that were sent beside each other, the one that asks for the longest pause counts.
func (s *Sender) classify(what subject, response *gogithub.Response, err error) outcome {
	v := classify(what, response, err, s.Now())
	if v.pause && v.at.After(s.paused) {
		s.paused = v.at
	}
	return v
}

// post asks GitHub to set one status.
func (s *Sender) post(ctx context.Context, report landfall.Report) (*gogithub.Response, error) {
	status := &gogithub.RepoStatus{
		State:       new(string(report.State)),
		Context:     new(report.Context),
		Description: new(landfall.CutDescription(report.Description)),
	}
	if report.Target != "" {
		status.TargetURL = new(report.Target)
	}
	owner, name := pathNames(report.Repository)
	crashpoint.Here("report.before")
	_, response, err := s.Client.Repositories.CreateStatus(ctx, owner, name, string(report.Commit), status)
	crashpoint.Here("report.sent")
	return response, err
}

// pathNames returns a repository's owner and name escaped for go-github, which puts them into the path as they are.
func pathNames(r landfall.GitHubRepository) (owner, name string) {
	return url.PathEscape(r.Owner), url.PathEscape(r.Name)
}

// wait returns after d, or with ctx's error.
func (s *Sender) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	if s.Wait != nil {
		return s.Wait(ctx, d)
	}
	return sleep(ctx, d)
}
