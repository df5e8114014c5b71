package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Status is one commit status that the server received.
type Status struct {
	Repository  string `json:"-"` // owner/name
	SHA         string `json:"-"`
	State       string `json:"state"`
	Context     string `json:"context"`
	Description string `json:"description"`
	Target      string `json:"target_url"`
}

func statusResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/repos/{owner}/{repo}/statuses/{sha}":         (*Server).setStatus,
		"/repos/{owner}/{repo}/commits/{ref}/statuses": (*Server).listStatuses,
	}
}

// Statuses returns the statuses of a commit in the order in which they came; of all commits when sha is empty.
func (s *Server) Statuses(sha string) []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.statuses), func(status Status) bool { return sha != "" && status.SHA != sha })
}

func (s *Server) listStatuses(c call) reply {
	list := []map[string]any{}
	for i, status := range slices.Backward(s.Statuses(c.PathParams["ref"])) {
		if status.Repository == c.repository {
			list = append(list, object(i, status))
		}
	}
	return say(http.StatusOK, list)
}

var sha = regexp.MustCompile(`^[0-9a-f]{40}$`)

// setStatus adds a commit status.
func (s *Server) setStatus(c call) reply {
	status := Status{Context: "default"}
	if err := json.NewDecoder(c.Request.Body).Decode(&status); err != nil {
		return refuse(http.StatusBadRequest, "Problems parsing JSON")
	}
	status.Repository, status.SHA = c.repository, c.PathParams["sha"]
	switch {
	case !sha.MatchString(status.SHA):
		return refuse(http.StatusUnprocessableEntity, "No commit found for SHA: "+status.SHA)
	case utf8.RuneCountInString(status.Description) > 140:
		return refuse(http.StatusUnprocessableEntity,
			"Validation Failed: description is too long (maximum is 140 characters)")
	case status.Target != "" && !strings.HasPrefix(status.Target, "http://") &&
		!strings.HasPrefix(status.Target, "https://"):
		return refuse(http.StatusUnprocessableEntity, "Validation Failed: target_url must use http(s) scheme")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, status)
	return say(http.StatusCreated, object(len(s.statuses)-1, status))
}

// object returns a status as GitHub shows it.
func object(index int, status Status) map[string]any {
	at := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC).Add(time.Duration(index) * time.Second).Format(time.RFC3339)
	return map[string]any{
		"url": "https://api.github.com/repos/" + status.Repository + "/statuses/" + status.SHA, "avatar_url": nil,
		"id": index + 1, "node_id": fmt.Sprintf("SC_%d", index+1), "state": status.State, "description": status.Description,
		"target_url": status.Target, "context": status.Context, "created_at": at, "updated_at": at, "creator": nil,
	}
}
