package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
	"landfall.dev/landfall/trace"
)

// Deployments is the queue of deployments of which GitHub must be told.
type Deployments interface {
	Queue[landfall.Deployment]

	// Record stores what GitHub has: Repository, ID, Release, Told and Replaced. With whole, that is all there is to tell.
	Record(ctx context.Context, deployment landfall.Deployment, whole bool) error
}

// sendDeployment makes one step towards what GitHub is to show of a deployment, and records the result. Statuses that
// are due meanwhile go before the next step.
func (s *Sender) sendDeployment(ctx context.Context, deployment landfall.Deployment) error {
	if deployment.Repository != deployment.Report.Repository.ID { // the app has another repository than before
		deployment.Repository, deployment.ID, deployment.Release = deployment.Report.Repository.ID, 0, ""
		deployment.Told, deployment.Replaced = false, 0
	}
	traced, span := s.Tracer.Start(ctx, "deployment", trace.Deployment(deployment)...)
	whole, response, err := s.deploy(traced, &deployment)
	span.End(err)
	if err := notSent(ctx, err); err != nil {
		return err
	}
	var v outcome
	what := deploymentSubject(deployment)
	if _, ok := errors.AsType[hiddenError](err); ok {
		v = outcome{problem: what.forbidden, refused: true}
	} else if err != nil {
		v = s.classify(what, response, err)
	}
	report := deployment.Report
	log := s.Logger.With("app", report.AppName, "app_id", deployment.App, "repository", nameOf(report.Repository),
		"pointer", deployment.Pointer, "release", report.Release)
	ctx = context.WithoutCancel(ctx)
	if v.problem != "" {
		return fail(ctx, s, s.Deployments, deployment, what, v, log)
	}
	if response != nil {
		log.Info("deployment told", "deployment", deployment.ID, "whole", whole)
	}
	return s.Deployments.Record(ctx, deployment, whole)
}

// deploy makes the next request for a deployment, and changes what is known of it. It reports whether that was all.
// The release becomes active before the one that it replaces becomes inactive, so GitHub shows one at any time.
func (s *Sender) deploy(ctx context.Context, d *landfall.Deployment) (whole bool, response *gogithub.Response,
	err error) {
	report := d.Report
	same := d.ID != 0 && d.Release == report.Release
	switch {
	case same && !d.Told:
		if response, err = s.setDeployment(ctx, d, d.ID, "success"); err == nil {
			d.Told = true
		}
		return d.Replaced == 0, response, asHidden(response, err)
	case d.Replaced != 0:
		if response, err = s.retire(ctx, d, d.Replaced); err == nil {
			d.Replaced = 0
		}
		return same || d.ID == 0 && report.Release == "", response, err
	case same:
		return true, nil, nil
	case report.Release == "":
		if d.ID != 0 {
			if response, err = s.retire(ctx, d, d.ID); err == nil {
				d.ID, d.Release, d.Told = 0, "", false
			}
		}
		return true, response, err
	}
	response, err = s.makeDeployment(ctx, d)
	return false, response, err
}

// hiddenError is GitHub's answer that something does not exist, to a request for what was there just before: so it
// answers those who may not write it.
type hiddenError struct{ error }

// asHidden returns err, as a hiddenError when the answer is one.
func asHidden(response *gogithub.Response, err error) error {
	if isGone(response) {
		return hiddenError{err}
	}
	return err
}

// retire sets a deployment inactive. One that is gone needs nothing.
func (s *Sender) retire(ctx context.Context, d *landfall.Deployment, id int64) (*gogithub.Response, error) {
	response, err := s.setDeployment(ctx, d, id, "inactive")
	if isGone(response) {
		return response, nil
	}
	return response, err
}

func isGone(response *gogithub.Response) bool {
	return response != nil && response.StatusCode == http.StatusNotFound
}

// setDeployment adds a status to a deployment. GitHub sets no other one inactive for it: which one that is, is known
// here.
func (s *Sender) setDeployment(ctx context.Context, d *landfall.Deployment, id int64,
	state string) (*gogithub.Response, error) {
	status := &gogithub.DeploymentStatusRequest{State: &state, AutoInactive: new(false)}
	if state != "inactive" {
		status.EnvironmentURL, status.LogURL = optional(d.Report.URL), optional(d.Report.Run)
		status.Description = new(describe(d.Report))
	}
	return s.call(ctx, writes, func(ctx context.Context) (*gogithub.Response, error) {
		owner, name := pathNames(d.Report.Repository)
		_, response, err := s.Client.Repositories.CreateDeploymentStatus(ctx, owner, name, id, status)
		return response, err
	})
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// describe returns what a deployment says, as a text that is no markup.
func describe(report landfall.DeploymentReport) string {
	if report.Production {
		return landfall.CutDescription(fmt.Sprintf("Release %s of %s is live.", report.Release, report.AppName))
	}
	return landfall.CutDescription(fmt.Sprintf("Preview %s of %s.", report.Release, report.AppName))
}

// mark is the payload of the deployments that we make: it says for what they were made.
type mark struct {
	Installation string       `json:"landfall"`
	App          string       `json:"app"` // its id
	Pointer      string       `json:"pointer"`
	Release      landfall.UID `json:"release"`
}

// makeDeployment finds or makes a deployment, and sets ID and Release. What was found can be one for an earlier
// release, whose answer was lost: it is then replaced like any other.
func (s *Sender) makeDeployment(ctx context.Context, d *landfall.Deployment) (*gogithub.Response, error) {
	found, response, err := s.findDeployment(ctx, d)
	if err != nil {
		return response, err
	}
	if found == nil {
		ref := string(d.Report.Commit)
		if d.Report.Branch != "" { // the pull request shows what was made for its branch
			ref = d.Report.Branch
		}
		found, response, err = s.createDeployment(ctx, d, ref)
		if err == nil && found.GetSHA() != string(d.Report.Commit) { // the branch has moved, and we do not know yet
			if response, err = s.retire(ctx, d, found.GetID()); err == nil {
				found, response, err = s.createDeployment(ctx, d, string(d.Report.Commit))
			}
		}
		if err != nil {
			return response, asHidden(response, err)
		}
	}
	d.Replaced, d.ID, d.Told, d.Release = d.ID, found.GetID(), false, ""
	if found.GetSHA() == string(d.Report.Commit) {
		d.Release = markOf(found).Release
	}
	return response, nil
}

// createDeployment makes a deployment. It is made whatever other statuses the commit has, and merges nothing.
func (s *Sender) createDeployment(ctx context.Context, d *landfall.Deployment, ref string) (made *gogithub.Deployment,
	response *gogithub.Response, err error) {
	report := d.Report
	request := &gogithub.DeploymentRequest{
		Ref: &ref, AutoMerge: new(false), RequiredContexts: &[]string{}, Environment: &report.Environment,
		Payload: mark{s.URL, d.App, d.Pointer, report.Release}, Description: new(describe(report)),
		TransientEnvironment: new(!report.Production), ProductionEnvironment: &report.Production,
	}
	response, err = s.call(ctx, writes, func(ctx context.Context) (response *gogithub.Response, err error) {
		owner, name := pathNames(report.Repository)
		made, response, err = s.Client.Repositories.CreateDeployment(ctx, owner, name, request)
		return response, err
	})
	if err != nil {
		return nil, completeResponse(response), err // an answer that was cut off is looked for
	}
	return made, response, nil
}

// findDeployment looks for the newest deployment that we made for a pointer after the one that is known.
func (s *Sender) findDeployment(ctx context.Context, d *landfall.Deployment) (*gogithub.Deployment,
	*gogithub.Response, error) {
	owner, name := pathNames(d.Report.Repository)
	options := &gogithub.DeploymentsListOptions{
		Environment: d.Report.Environment, ListOptions: gogithub.ListOptions{PerPage: pageSize}}
	var page []*gogithub.Deployment // the newest first: further ones are older than what a lost answer can have made
	response, err := s.call(ctx, reads, func(ctx context.Context) (response *gogithub.Response, err error) {
		page, response, err = s.Client.Repositories.ListDeployments(ctx, owner, name, options)
		return response, err
	})
	if err != nil {
		return nil, completeResponse(response), err
	}
	for _, found := range page {
		m := markOf(found)
		if m.Installation == s.URL && m.App == d.App && m.Pointer == d.Pointer && found.GetID() > d.ID {
			return found, response, nil
		}
	}
	return nil, response, nil
}

// markOf returns the mark of a deployment; an empty one when it was made by somebody else.
func markOf(d *gogithub.Deployment) (m mark) {
	var text string
	if json.Unmarshal(d.Payload, &text) == nil { // GitHub may return it as a text
		d.Payload = json.RawMessage(text)
	}
	if json.Unmarshal(d.Payload, &m) != nil {
		return mark{}
	}
	return m
}

func deploymentSubject(d landfall.Deployment) subject {
	repository := nameOf(d.Report.Repository)
	return subject{
		noun: "deployment", feature: landfall.DeploymentsFeature, id: d.Report.Repository.ID,
		repository: repository, attempts: d.Attempts,
		forbidden: fmt.Sprintf("The token may not make deployments of %s: it needs write access to deployments (a classic "+
			"token the scope repo_deployment). Everything else goes on without.", repository),
		refused: fmt.Sprintf("GitHub refused the deployment: check that commit %s is still in %s.",
			d.Report.Commit.Short(), repository),
	}
}
