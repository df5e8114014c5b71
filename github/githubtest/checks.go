package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// CheckRun is one check run that the server received.
type CheckRun struct {
	Repository  string        `json:"-"` // owner/name
	ID          int64         `json:"-"`
	SHA         string        `json:"head_sha"`
	Name        string        `json:"name"`
	ExternalID  string        `json:"external_id"`
	Details     string        `json:"details_url"`
	Status      string        `json:"status"`
	Conclusion  string        `json:"conclusion"`
	StartedAt   string        `json:"started_at"`
	CompletedAt string        `json:"completed_at"`
	Output      CheckOutput   `json:"output"`
	Actions     []CheckAction `json:"actions"`
}

// CheckOutput is what a check run says.
type CheckOutput struct {
	Title       string       `json:"title"`
	Summary     string       `json:"summary"`
	Text        string       `json:"text"`
	Annotations []Annotation `json:"annotations"` // those of all requests
}

// Annotation is a note at lines of a file.
type Annotation struct {
	Path    string `json:"path"`
	Start   int    `json:"start_line"`
	End     int    `json:"end_line"`
	Level   string `json:"annotation_level"`
	Message string `json:"message"`
}

// CheckAction is a button.
type CheckAction struct {
	Label       string `json:"label"`
	Description string `json:"description"`
	Identifier  string `json:"identifier"`
}

func checkResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/repos/{owner}/{repo}/check-runs":                (*Server).serveChecks,
		"/repos/{owner}/{repo}/check-runs/{check_run_id}": (*Server).serveChecks,
		"/repos/{owner}/{repo}/commits/{ref}/check-runs":  (*Server).listChecks,
	}
}

// CheckRuns returns the check runs of a commit, oldest first; of all commits when sha is empty.
func (s *Server) CheckRuns(repository, sha string) []CheckRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.checks), func(c CheckRun) bool {
		return c.Repository != repository || sha != "" && c.SHA != sha
	})
}

// serveChecks makes, shows or changes a check run. Apps alone may write them.
func (s *Server) serveChecks(c call) reply {
	var run CheckRun
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.checks)
	if text := c.PathParams["check_run_id"]; text != "" {
		id, _ := strconv.ParseInt(text, 10, 64)
		i = slices.IndexFunc(s.checks, func(run CheckRun) bool { return run.ID == id && run.Repository == c.repository })
		if i < 0 {
			return refuse(http.StatusNotFound, "Not Found")
		}
		run = s.checks[i]
	}
	if c.Route.Method == http.MethodGet {
		return say(http.StatusOK, checkObject(run))
	}
	if !strings.HasPrefix(c.Request.Header.Get("Authorization"), "Bearer ghs_") {
		return refuse(http.StatusForbidden, "You must authenticate via a GitHub App.")
	}
	before := run
	noted := run.Output.Annotations
	run.Output.Annotations, run.Actions = nil, nil
	if err := json.NewDecoder(c.Request.Body).Decode(&run); err != nil {
		return refuse(http.StatusBadRequest, "Problems parsing JSON")
	}
	for _, text := range []string{run.Output.Summary, run.Output.Text} {
		if len(text) > 65535 {
			return refuse(http.StatusUnprocessableEntity, "Validation Failed: only 65535 bytes are allowed")
		}
	}
	run.Output.Annotations = append(slices.Clone(noted), run.Output.Annotations...)
	switch {
	case run.Conclusion != "" && run.Status != "in_progress" && run.Status != "queued":
		run.Status = "completed"
	case run.Status == "":
		run.Status = "queued"
	case run.Status != "completed":
		run.Conclusion, run.CompletedAt = "", ""
	case run.Conclusion == "":
		return refuse(http.StatusUnprocessableEntity, "Validation Failed: conclusion is required")
	}
	if before.Status == "completed" && run.Status != "completed" { // GitHub goes on showing what came of it
		run.Status, run.Conclusion, run.CompletedAt = before.Status, before.Conclusion, before.CompletedAt
	}
	status := http.StatusOK
	if i == len(s.checks) {
		status, run.Repository, run.ID = http.StatusCreated, c.repository, 3_000_001+int64(i)
		if !sha.MatchString(run.SHA) {
			return refuse(http.StatusUnprocessableEntity, "No commit found for SHA: "+run.SHA)
		}
		s.checks = append(s.checks, run)
	}
	s.checks[i] = run
	return say(status, checkObject(run))
}

// listChecks lists the check runs of a commit: those of a name if one is given, and of each name the newest alone
// unless all are asked for.
func (s *Server) listChecks(c call) reply {
	query := c.Request.URL.Query()
	list := []map[string]any{}
	seen := map[string]bool{}
	for _, run := range slices.Backward(s.CheckRuns(c.repository, c.PathParams["ref"])) {
		if name := query.Get("check_name"); name != "" && name != run.Name ||
			query.Get("filter") != "all" && seen[run.Name] {
			continue
		}
		seen[run.Name] = true
		list = append(list, checkObject(run))
	}
	return say(http.StatusOK, map[string]any{"total_count": len(list), "check_runs": list})
}

// checkObject returns a check run as GitHub shows it.
func checkObject(run CheckRun) map[string]any {
	at := fmt.Sprintf("https://api.github.com/repos/%s/check-runs/%d", run.Repository, run.ID)
	optional := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	return map[string]any{
		"id": run.ID, "node_id": fmt.Sprintf("CR_%d", run.ID), "head_sha": run.SHA, "name": run.Name, "url": at,
		"html_url": at, "details_url": optional(run.Details), "external_id": run.ExternalID, "status": run.Status,
		"conclusion": optional(run.Conclusion), "started_at": optional(run.StartedAt),
		"completed_at": optional(run.CompletedAt), "check_suite": map[string]any{"id": 5}, "app": nil,
		"pull_requests": []any{},
		"output": map[string]any{
			"title": optional(run.Output.Title), "summary": optional(run.Output.Summary), "text": optional(run.Output.Text),
			"annotations_count": len(run.Output.Annotations), "annotations_url": at + "/annotations"},
	}
}
