package github

import (
	"context"
	"errors"
	"slices"
	"sync"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/trace"
)

// mostBeside is how many statuses are sent beside each other, at most: GitHub takes 100 requests at once from one of
// us, and asks for no more than are needed. After each that it does not take, it begins with one again.
const mostBeside = 8

// sending is one attempt at a report.
type sending struct {
	report   landfall.Report
	response *gogithub.Response
	err      error
}

// besideEachOther returns the reports that are sent next: the first, and the final states of others beside a final
// state, as many as GitHub took lately and as do not have to wait for a limit. Two of one commit and context are never
// among them, also when they are of two apps, of which one was made anew under the name of the other.
func (s *Sender) besideEachOther(due []landfall.Report) []landfall.Report {
	n := 1
	for n < len(due) && n < s.beside && due[0].State != landfall.StatusPending && due[n].State != landfall.StatusPending &&
		s.limits().allows(n+1, s.Now()) && !slices.ContainsFunc(due[:n], func(r landfall.Report) bool {
		return r.Commit == due[n].Commit && r.Context == due[n].Context
	}) {
		n++
	}
	return due[:n]
}

// send makes one attempt at each of some reports, beside each other, and records the results.
func (s *Sender) send(ctx context.Context, reports []landfall.Report) error {
	all := make([]sending, len(reports))
	var group sync.WaitGroup
	for i, report := range reports {
		all[i].report = report
		if all[i].err = s.turn(ctx, writes); all[i].err != nil {
			continue
		}
		group.Go(func() {
			traced, span := s.Tracer.Resume(ctx, report.Trace, string(landfall.StepReport), trace.Report(report)...)
			all[i].response, all[i].err = limited(traced, func(ctx context.Context) (*gogithub.Response, error) {
				return s.post(ctx, report)
			})
			span.End(all[i].err)
		})
	}
	group.Wait()
	// What GitHub has received is recorded even while we are stopping.
	recording := context.WithoutCancel(ctx)
	var sent []int64
	var errs []error
	for _, a := range all {
		if err := notSent(ctx, a.err); err != nil {
			errs = append(errs, err)
			continue
		}
		took, err := s.record(recording, a)
		if errs = append(errs, err); took {
			sent = append(sent, a.report.ID)
		}
	}
	if len(sent) > 0 {
		errs = append(errs, s.Outbox.Sent(recording, s.Now(), sent...))
		crashpoint.Here("report.after")
	}
	s.beside = min(2*max(1, s.beside), mostBeside)
	if len(sent) < len(all) {
		s.beside = 1
	}
	return errors.Join(errs...)
}
