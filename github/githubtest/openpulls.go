package githubtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

func openPullResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/repos/{owner}/{repo}/pulls":               (*Server).listPulls,
		"/repos/{owner}/{repo}/pulls/{pull_number}": (*Server).showPull,
	}
}

// keepPull keeps a pull request as an event of it says.
func (s *Server) keepPull(repository string, payload []byte) {
	var event struct {
		Pull map[string]any `json:"pull_request"`
	}
	_ = json.Unmarshal(payload, &event) // what GitHub sends is JSON
	s.Pull(repository, event.Pull)
}

// pullObject returns a pull request as GitHub shows it.
func (s *Server) pullObject(c call, pull map[string]any) map[string]any {
	object := example(c, http.StatusOK)
	for _, field := range []string{"number", "state", "created_at", "updated_at", "closed_at", "merged_at"} {
		object[field] = pull[field]
	}
	labels := []map[string]any{}
	for i, name := range s.labels[labelKey{c.repository, numberOf(pull)}] {
		labels = append(labels, map[string]any{"id": i + 1, "node_id": "LA_" + strconv.Itoa(i+1), "name": name,
			"url": "https://api.github.com/labels/" + name, "description": "", "color": "ededed", "default": false})
	}
	object["labels"], object["requested_teams"] = labels, []any{}
	for _, end := range []string{"head", "base"} {
		known, _ := pull[end].(map[string]any)
		shown, _ := object[end].(map[string]any)
		shown["ref"], shown["sha"] = known["ref"], known["sha"]
		from, there := known["repo"].(map[string]any)
		if !there {
			shown["repo"] = nil
			continue
		}
		of, _ := shown["repo"].(map[string]any)
		of = copied(of)
		of["id"], of["name"], of["full_name"] = from["id"], from["name"], from["full_name"]
		if owner, ok := from["owner"].(map[string]any); ok {
			if login, ok := owner["login"].(string); ok {
				account(of, "owner", login)
			}
		}
		shown["repo"] = of
	}
	return object
}

// listPulls answers with one page of the pull requests in a state, the oldest first.
func (s *Server) listPulls(c call) reply {
	wanted := c.Request.URL.Query().Get("state")
	if wanted == "" {
		wanted = "open"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []map[string]any{}
	all := slices.SortedFunc(slices.Values(s.pulls[c.repository]), func(a, b map[string]any) int {
		return numberOf(a) - numberOf(b)
	})
	for _, pull := range all {
		if pull["state"] == wanted || wanted == "all" {
			list = append(list, s.pullObject(c, pull))
		}
	}
	page, header := s.pageOf(c, list)
	got := unlessKnown(c, say(http.StatusOK, page))
	maps.Copy(got.header, header)
	return got
}

func (s *Server) showPull(c call) reply {
	number, _ := strconv.Atoi(c.PathParams["pull_number"])
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pull := range s.pulls[c.repository] {
		if numberOf(pull) == number {
			return unlessKnown(c, say(http.StatusOK, s.pullObject(c, pull)))
		}
	}
	return refuse(http.StatusNotFound, "Not Found")
}

// numberOf returns the number of a pull request.
func numberOf(pull map[string]any) int {
	switch number := pull["number"].(type) {
	case float64:
		return int(number)
	case int:
		return number
	}
	return 0
}
