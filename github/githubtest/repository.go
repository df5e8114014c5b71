package githubtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

func repositoryResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{"/repos/{owner}/{repo}": (*Server).showRepository}
}

// Rename gives a repository (owner/name) of an installation another name. Requests by the old one are led to where the
// repository is by its ID, until another repository has that name.
func (s *Server) Rename(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.apps.installations {
		if id, ok := i.Repositories[from]; ok {
			delete(i.Repositories, from)
			i.Repositories[to] = id
			if s.renamed == nil {
				s.renamed = map[string]int64{}
			}
			s.renamed[strings.ToLower(from)] = id
		}
	}
}

// named returns the ID of a repository, and the name as it is written; 0 when no installation has it.
func (s *Server) named(repository string) (id int64, full string) {
	for _, i := range s.apps.installations {
		for full, id := range i.Repositories {
			if strings.EqualFold(full, repository) {
				return id, full
			}
		}
	}
	return 0, ""
}

// nameOf returns the name of a repository with an ID; empty when no installation has it.
func (s *Server) nameOf(id int64) string {
	for _, i := range s.apps.installations {
		for full, its := range i.Repositories {
			if its == id {
				return full
			}
		}
	}
	return ""
}

// locate leads requests by an old name to the ID of the repository, as
// https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api describes it, and finds what is
// asked for by ID. It reports whether it answered.
func (s *Server) locate(w http.ResponseWriter, r *http.Request) (answered bool) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 4)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case parts[0] == "repositories" && len(parts) > 1:
		id, _ := strconv.ParseInt(parts[1], 10, 64)
		if full := s.nameOf(id); full != "" {
			r.URL.Path, r.URL.RawPath = strings.Join(append([]string{"/repos/" + full}, parts[2:]...), "/"), ""
		}
	case parts[0] == "repos" && len(parts) > 2:
		old := parts[1] + "/" + parts[2]
		id := s.renamed[strings.ToLower(old)]
		if another, _ := s.named(old); another != 0 || id == 0 {
			return false
		}
		to := *r.URL
		to.Path = strings.Join(append([]string{fmt.Sprintf("/repositories/%d", id)}, parts[3:]...), "/")
		status := http.StatusTemporaryRedirect
		if r.Method == http.MethodGet {
			status = http.StatusMovedPermanently
		}
		answer := refuse(status, "Moved Permanently")
		answer.header = map[string]string{"Location": s.URL + strings.TrimPrefix(to.RequestURI(), "/")}
		answer.write(w)
		return true
	}
	return false
}

func (s *Server) showRepository(c call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, full := s.named(c.repository)
	if id == 0 || c.Route.Method != http.MethodGet {
		return refuse(http.StatusNotFound, "Not Found")
	}
	owner, name, _ := strings.Cut(full, "/")
	object := example(c, http.StatusOK)
	for _, of := range []string{"source", "parent", "template_repository"} { // it is no fork
		delete(object, of)
	}
	object["id"], object["name"], object["full_name"], object["private"] = id, name, full, true
	object["html_url"], object["clone_url"] = s.pages()+"/"+full, s.pages()+"/"+full+".git"
	object["language"] = nil
	account(object, "owner", owner)
	return say(http.StatusOK, object)
}
