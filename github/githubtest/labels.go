package githubtest

import (
	"net/http"
	"slices"
	"strconv"
)

// labelKey names an issue or a pull request.
type labelKey struct {
	repository string // owner/name
	number     int
}

func labelResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/repos/{owner}/{repo}/issues/{issue_number}/labels/{name}": (*Server).removeLabel,
	}
}

// Label puts a label on a pull request.
func (s *Server) Label(repository string, number int, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := labelKey{repository, number}
	if !slices.Contains(s.labels[key], name) {
		s.labels[key] = append(s.labels[key], name)
	}
}

// Labels returns the labels of a pull request.
func (s *Server) Labels(repository string, number int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.labels[labelKey{repository, number}])
}

// removeLabel takes a label away, and answers with those that are left.
func (s *Server) removeLabel(c call) reply {
	number, _ := strconv.Atoi(c.PathParams["issue_number"])
	s.mu.Lock()
	defer s.mu.Unlock()
	key := labelKey{c.repository, number}
	at := slices.Index(s.labels[key], c.PathParams["name"])
	if at < 0 {
		return refuse(http.StatusNotFound, "Label does not exist")
	}
	s.labels[key] = slices.Delete(s.labels[key], at, at+1)
	left := []map[string]any{}
	for i, name := range s.labels[key] {
		left = append(left, map[string]any{
			"id": i + 1, "node_id": "LA_" + strconv.Itoa(i+1), "url": "https://api.github.com/labels/" + name, "name": name,
			"description": nil, "color": "ededed", "default": false,
		})
	}
	return say(http.StatusOK, left)
}
