package github

import (
	"context"
	"encoding/json"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
	"landfall.dev/landfall/trace"
)

// Checks is the queue of check runs of which GitHub must be told.
type Checks interface {
	Queue[landfall.Check]

	// Record stores what GitHub has: Repository, Run, ID and Body.
	Record(ctx context.Context, check landfall.Check) error
}

// flushCheck tells GitHub of the check run that is due first, when that takes no room from statuses. It reports whether
// there was one.
func (s *Sender) flushCheck(ctx context.Context) (bool, error) {
	if s.AppLogin == nil || !s.limits().spare(s.Now()) { // Apps alone may make check runs
		return false, nil
	}
	if login, err := s.AppLogin(ctx); err != nil || login == "" {
		return false, err
	}
	return flush(ctx, s, s.Checks, s.sendCheck)
}

// sendCheck makes one attempt at one check run, and records the result.
func (s *Sender) sendCheck(ctx context.Context, check landfall.Check) error {
	report := check.Report
	wanted := checkRun(report)
	text, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	digest := landfall.DigestOf(text)
	if check.Repository != report.Repository.ID || check.Run != report.RunID { // each run has a check run of its own
		check.Repository, check.Run, check.ID, check.Body = report.Repository.ID, report.RunID, 0, ""
	}
	var v outcome
	if check.Body != digest {
		traced, span := s.Tracer.Start(ctx, "check", trace.Check(check)...)
		response, err := s.writeCheck(traced, &check, wanted)
		span.End(err)
		if err := notSent(ctx, err); err != nil {
			return err
		}
		if err != nil {
			v = s.classify(checkSubject(check), response, err)
		}
	}
	log := s.Logger.With("app", report.App, "app_id", check.App, "repository", nameOf(report.Repository), "commit",
		check.Commit, "run", report.RunID)
	ctx = context.WithoutCancel(ctx)
	if v.problem != "" {
		return fail(ctx, s, s.Checks, check, checkSubject(check), v, log)
	}
	log.Info("check run told", "check", check.ID, "state", report.State)
	check.Body = digest
	return s.Checks.Record(ctx, check)
}

// writeCheck makes the check run, or changes it if GitHub has it, and sets its ID. After an answer was lost, it looks
// what GitHub has: each change would add the annotations again.
func (s *Sender) writeCheck(ctx context.Context, check *landfall.Check,
	wanted gogithub.CreateCheckRunOptions) (*gogithub.Response, error) {
	if check.ID == 0 || check.Attempts > 0 {
		found, response, err := s.findCheck(ctx, *check, wanted.Name)
		if err != nil {
			return response, err
		}
		if found != nil {
			check.ID = found.GetID()
			if says(found, wanted) {
				return response, nil
			}
		}
	}
	owner, name := pathNames(check.Report.Repository)
	return s.call(ctx, writes, func(ctx context.Context) (*gogithub.Response, error) {
		if check.ID == 0 {
			made, response, err := s.Client.Checks.CreateCheckRun(ctx, owner, name, wanted)
			check.ID = made.GetID()
			return completeAnswer(response, err), err
		}
		_, response, err := s.Client.Checks.UpdateCheckRun(ctx, owner, name, check.ID, gogithub.UpdateCheckRunOptions{
			Name: wanted.Name, DetailsURL: wanted.DetailsURL, ExternalID: wanted.ExternalID, Status: wanted.Status,
			Conclusion: wanted.Conclusion, CompletedAt: wanted.CompletedAt, Output: wanted.Output, Actions: wanted.Actions,
		})
		return completeAnswer(response, err), err
	})
}

// completeAnswer is completeResponse for an answer that may be whole.
func completeAnswer(response *gogithub.Response, err error) *gogithub.Response {
	if err != nil {
		return completeResponse(response)
	}
	return response
}

// says reports whether a check run is over and says what is wanted.
func says(found *gogithub.CheckRun, wanted gogithub.CreateCheckRunOptions) bool {
	return found.GetStatus() == wanted.GetStatus() && found.GetConclusion() == wanted.GetConclusion() &&
		wanted.GetStatus() == "completed" && found.GetOutput().GetTitle() == wanted.Output.GetTitle() &&
		found.GetOutput().GetSummary() == wanted.Output.GetSummary()
}

// findCheck looks for the check run that was made for a run, by the run's ID. It returns nil when there is none.
func (s *Sender) findCheck(ctx context.Context, check landfall.Check, called string) (*gogithub.CheckRun,
	*gogithub.Response, error) {
	owner, name := pathNames(check.Report.Repository)
	options := &gogithub.ListCheckRunsOptions{CheckName: &called, Filter: new("all"),
		ListOptions: gogithub.ListOptions{PerPage: pageSize}}
	var page *gogithub.ListCheckRunsResults // of more re-runs than a page has, an older one is made again
	response, err := s.call(ctx, reads, func(ctx context.Context) (response *gogithub.Response, err error) {
		page, response, err = s.Client.Checks.ListCheckRunsForRef(ctx, owner, name, string(check.Commit), options)
		return response, err
	})
	if err != nil {
		return nil, completeResponse(response), err
	}
	for _, found := range page.CheckRuns {
		if found.GetExternalID() == check.Run {
			return found, response, nil
		}
	}
	return nil, response, nil
}
