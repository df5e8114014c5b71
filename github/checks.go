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

	// Record stores what GitHub has: Repository, Run, ID and Body. With whole, that is all there is to tell.
	Record(ctx context.Context, check landfall.Check, whole bool) error
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

// sendCheck makes one request for a check run, and records the result. What does not fit into that one is told by the
// next, after the statuses that are due meanwhile.
func (s *Sender) sendCheck(ctx context.Context, check landfall.Check) error {
	report := check.Report
	if name := checkName(report); check.Repository != report.Repository.ID || check.Run != name { // it needs another one
		check.Repository, check.Run, check.ID, check.Body = report.Repository.ID, name, 0, ""
	}
	wanted := checkRun(report)
	noted, err := notedOf(check.Body, wanted)
	if err != nil {
		return err
	}
	all := len(wanted.Output.Annotations)
	var v outcome
	if noted < 0 || noted < all {
		traced, span := s.Tracer.Start(ctx, "check", trace.Check(check)...)
		var response *gogithub.Response
		noted, response, err = s.writeCheck(traced, &check, wanted, max(noted, 0))
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
	log.Info("check run told", "check", check.ID, "state", report.State, "annotations", noted)
	if check.Body, err = bodyOf(wanted, noted); err != nil {
		return err
	}
	return s.Checks.Record(ctx, check, noted == all)
}

// bodyOf returns the digest of a check run with so many of its annotations.
func bodyOf(wanted gogithub.CreateCheckRunOptions, noted int) (landfall.Digest, error) {
	output := *wanted.Output
	output.Annotations = output.Annotations[:noted]
	wanted.Output = &output
	text, err := json.Marshal(wanted)
	return landfall.DigestOf(text), err
}

// notedOf returns how many annotations a check run has at GitHub, by the digest of what was sent; −1 when it says
// something else there.
func notedOf(body landfall.Digest, wanted gogithub.CreateCheckRunOptions) (noted int, err error) {
	for {
		digest, err := bodyOf(wanted, noted)
		if err != nil || digest == body {
			return noted, err
		}
		if noted == len(wanted.Output.Annotations) {
			return -1, nil
		}
		noted = min(noted+someAnnotations, len(wanted.Output.Annotations))
	}
}

// writeCheck makes the check run, or changes it if GitHub has it, and sets its ID. It returns how many annotations it
// has then, of which some were noted before. It looks first what GitHub has when an answer may have been lost: each
// request adds its annotations to those that are there.
func (s *Sender) writeCheck(ctx context.Context, check *landfall.Check, wanted gogithub.CreateCheckRunOptions,
	noted int) (int, *gogithub.Response, error) {
	all := wanted.Output.Annotations
	if check.ID == 0 || check.Attempts > 0 || len(all) > 0 {
		found, response, err := s.findCheck(ctx, *check, wanted.Name)
		if err != nil {
			return 0, response, err
		}
		if found != nil {
			check.ID = found.GetID()
			noted = min(max(noted, found.GetOutput().GetAnnotationsCount()), len(all))
			if noted == len(all) && says(found, wanted) {
				return noted, response, nil
			}
		}
	}
	output := *wanted.Output
	output.Annotations = all[noted:min(noted+someAnnotations, len(all))]
	wanted.Output = &output
	owner, name := pathNames(check.Report.Repository)
	response, err := s.call(ctx, writes, func(ctx context.Context) (*gogithub.Response, error) {
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
	return noted + len(output.Annotations), response, err
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
