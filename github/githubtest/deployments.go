package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Deployment is one deployment that the server received.
type Deployment struct {
	Repository  string // owner/name
	ID          int64
	SHA         string // of Ref, when it was made
	Ref         string
	Environment string
	Description string
	Payload     json.RawMessage
	Transient   bool
	Production  bool
	Statuses    []DeploymentStatus // oldest first
}

// State returns the newest state of a deployment: pending while it has none.
func (d Deployment) State() string {
	if len(d.Statuses) == 0 {
		return "pending"
	}
	return d.Statuses[len(d.Statuses)-1].State
}

// DeploymentStatus is one status of a deployment.
type DeploymentStatus struct {
	State          string `json:"state"`
	Description    string `json:"description"`
	EnvironmentURL string `json:"environment_url"`
	LogURL         string `json:"log_url"`
	AutoInactive   *bool  `json:"auto_inactive"`
}

// deployments are what a Server has of them.
type deployments struct {
	all    []Deployment
	refs   map[string]string // commits by "owner/name branch"
	behind map[string]bool   // branches, as above, that lack commits of the default branch
}

func deploymentResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/repos/{owner}/{repo}/deployments":                          (*Server).serveDeployments,
		"/repos/{owner}/{repo}/deployments/{deployment_id}/statuses": (*Server).serveDeploymentStatuses,
	}
}

// Point points a branch at a commit. Behind says that it lacks commits of the default branch. For deployments, a
// repository has no other branches.
func (s *Server) Point(repository, branch, commit string, behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deployments.refs == nil {
		s.deployments.refs, s.deployments.behind = map[string]string{}, map[string]bool{}
	}
	s.deployments.refs[repository+" "+branch], s.deployments.behind[repository+" "+branch] = commit, behind
}

// Deployments returns the deployments of a repository, oldest first; of one environment when it is not empty.
func (s *Server) Deployments(repository, environment string) []Deployment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.deployments.all), func(d Deployment) bool {
		return d.Repository != repository || environment != "" && d.Environment != environment
	})
}

// serveDeployments lists or makes deployments.
func (s *Server) serveDeployments(c call) reply {
	if c.Route.Method == http.MethodGet {
		query := c.Request.URL.Query()
		list := []map[string]any{}
		for _, d := range slices.Backward(s.Deployments(c.repository, query.Get("environment"))) {
			if (query.Get("sha") == "" || query.Get("sha") == d.SHA) && (query.Get("ref") == "" || query.Get("ref") == d.Ref) {
				list = append(list, deploymentObject(d))
			}
		}
		return s.page(c, list)
	}
	sent := struct {
		Ref         string          `json:"ref"`
		Merge       *bool           `json:"auto_merge"`
		Contexts    *[]string       `json:"required_contexts"`
		Payload     json.RawMessage `json:"payload"`
		Environment string          `json:"environment"`
		Description string          `json:"description"`
		Transient   bool            `json:"transient_environment"`
		Production  *bool           `json:"production_environment"`
	}{Environment: "production", Payload: json.RawMessage(`""`)}
	if err := json.NewDecoder(c.Request.Body).Decode(&sent); err != nil {
		return refuse(http.StatusBadRequest, "Problems parsing JSON")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	branch := c.repository + " " + sent.Ref
	commit, ok := s.deployments.refs[branch]
	if sha.MatchString(sent.Ref) {
		commit, ok = sent.Ref, true
	}
	switch {
	case !ok:
		return refuse(http.StatusUnprocessableEntity, "No ref found for: "+sent.Ref)
	case s.deployments.behind[branch] && (sent.Merge == nil || *sent.Merge):
		return say(http.StatusAccepted, map[string]string{"message": "Auto-merged main into " + sent.Ref + " on deployment."})
	case !s.succeeded(c.repository, commit, sent.Contexts):
		return refuse(http.StatusConflict, "Conflict: Commit status checks failed for "+sent.Ref+".")
	}
	d := Deployment{
		Repository: c.repository, ID: 2_000_001 + int64(len(s.deployments.all)), SHA: commit, Ref: sent.Ref,
		Environment: sent.Environment, Description: sent.Description, Payload: sent.Payload, Transient: sent.Transient,
		Production: sent.Environment == "production",
	}
	if sent.Production != nil {
		d.Production = *sent.Production
	}
	s.deployments.all = append(s.deployments.all, d)
	return say(http.StatusCreated, deploymentObject(d))
}

// succeeded reports whether the newest statuses of a commit in the wanted contexts are success; in all contexts that it
// has when wanted is nil.
func (s *Server) succeeded(repository, commit string, wanted *[]string) bool {
	newest := map[string]string{}
	if wanted != nil {
		for _, context := range *wanted {
			newest[context] = "missing"
		}
	}
	for _, status := range s.statuses {
		if _, named := newest[status.Context]; status.Repository == repository && status.SHA == commit &&
			(named || wanted == nil) {
			newest[status.Context] = status.State
		}
	}
	for _, state := range newest {
		if state != "success" {
			return false
		}
	}
	return true
}

// serveDeploymentStatuses lists or adds statuses of a deployment.
func (s *Server) serveDeploymentStatuses(c call) reply {
	id, _ := strconv.ParseInt(c.PathParams["deployment_id"], 10, 64)
	var sent DeploymentStatus
	if c.Route.Method == http.MethodPost {
		if err := json.NewDecoder(c.Request.Body).Decode(&sent); err != nil {
			return refuse(http.StatusBadRequest, "Problems parsing JSON")
		}
		if utf8.RuneCountInString(sent.Description) > 140 {
			return refuse(http.StatusUnprocessableEntity,
				"Validation Failed: description is too long (maximum is 140 characters)")
		}
		for _, address := range []string{sent.EnvironmentURL, sent.LogURL} {
			if u, err := url.Parse(address); err != nil || address != "" && u.Scheme != "http" && u.Scheme != "https" {
				return refuse(http.StatusUnprocessableEntity, "Validation Failed: must use http(s) scheme")
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.deployments.all
	i := slices.IndexFunc(all, func(d Deployment) bool { return d.ID == id && d.Repository == c.repository })
	if i < 0 {
		return refuse(http.StatusNotFound, "Not Found")
	}
	if c.Route.Method == http.MethodGet {
		list := []map[string]any{}
		for n, status := range slices.Backward(all[i].Statuses) {
			list = append(list, deploymentStatusObject(all[i], n, status))
		}
		return s.page(c, list)
	}
	all[i].Statuses = append(all[i].Statuses, sent)
	if sent.State == "success" && (sent.AutoInactive == nil || *sent.AutoInactive) {
		for n, d := range all[:i] {
			if d.Repository == c.repository && d.Environment == all[i].Environment && !d.Transient && !d.Production &&
				d.State() == "success" {
				all[n].Statuses = append(all[n].Statuses, DeploymentStatus{State: "inactive"})
			}
		}
	}
	return say(http.StatusCreated, deploymentStatusObject(all[i], len(all[i].Statuses)-1, sent))
}

// instant is when everything that has no other time was made.
const instant = "2026-11-20T15:00:00Z"

// deploymentObject returns a deployment as GitHub shows it.
func deploymentObject(d Deployment) map[string]any {
	repository := "https://api.github.com/repos/" + d.Repository
	at := fmt.Sprintf("%s/deployments/%d", repository, d.ID)
	return map[string]any{
		"url": at, "id": d.ID, "node_id": fmt.Sprintf("DE_%d", d.ID), "sha": d.SHA, "ref": d.Ref, "task": "deploy",
		"payload": d.Payload, "original_environment": d.Environment, "environment": d.Environment,
		"description": d.Description, "creator": userObject(Self, false), "created_at": instant, "updated_at": instant,
		"statuses_url": at + "/statuses", "repository_url": repository, "transient_environment": d.Transient,
		"production_environment": d.Production,
	}
}

// deploymentStatusObject returns a deployment's status as GitHub shows it.
func deploymentStatusObject(d Deployment, index int, status DeploymentStatus) map[string]any {
	repository := "https://api.github.com/repos/" + d.Repository
	deployment := fmt.Sprintf("%s/deployments/%d", repository, d.ID)
	return map[string]any{
		"url": fmt.Sprintf("%s/statuses/%d", deployment, index+1), "id": d.ID*1000 + int64(index),
		"node_id": fmt.Sprintf("DES_%d", d.ID*1000+int64(index)), "state": status.State, "creator": userObject(Self, false),
		"description": status.Description, "environment": d.Environment, "target_url": status.LogURL, "created_at": instant,
		"updated_at": instant, "deployment_url": deployment, "repository_url": repository,
		"environment_url": status.EnvironmentURL, "log_url": status.LogURL,
	}
}
