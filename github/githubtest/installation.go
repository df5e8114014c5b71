package githubtest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (s *Server) installationObject(c call, i *Installation) map[string]any {
	object := example(c, http.StatusOK)
	object["id"], object["app_id"], object["app_slug"] = i.ID, s.apps.app.ID, Slug
	object["repository_selection"] = map[bool]string{true: "all", false: "selected"}[i.All]
	object["permissions"], object["events"] = i.Permissions, s.apps.app.Manifest.Events
	object["html_url"] = fmt.Sprintf("%s/settings/installations/%d", s.pages(), i.ID)
	object["suspended_at"], object["suspended_by"] = nil, nil
	if i.Suspended {
		object["suspended_at"], object["suspended_by"] = "2026-11-20T15:00:00Z", userObject(Self, false)
	}
	account(object, "account", i.Account)
	return object
}

func (s *Server) listInstallations(c call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []map[string]any{}
	for _, i := range s.apps.installations {
		object := s.installationObject(c, i)
		if owner, ok := object["account"].(map[string]any); ok { // by the description it is a user and an enterprise at once
			owner["name"], owner["slug"], owner["created_at"], owner["updated_at"] = i.Account, i.Account, nil, nil
		}
		all = append(all, object)
	}
	return s.page(c, all)
}

func (s *Server) oneInstallation(c call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.pathInstallation(c)
	switch {
	case i == nil:
		return refuse(http.StatusNotFound, "Not Found")
	case c.Route.Method == http.MethodDelete:
		s.apps.installations = slices.DeleteFunc(s.apps.installations, func(o *Installation) bool { return o == i })
		return reply{status: http.StatusNoContent}
	}
	return say(http.StatusOK, s.installationObject(c, i))
}

func (s *Server) pathInstallation(c call) *Installation {
	id, _ := strconv.ParseInt(c.PathParams["installation_id"], 10, 64)
	return s.installation(id)
}

func (s *Server) repositoryInstallation(c call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.apps.installations {
		if i.has(c.repository) {
			return say(http.StatusOK, s.installationObject(c, i))
		}
	}
	return refuse(http.StatusNotFound, "Not Found")
}

// issueToken issues an installation token, narrowed to what is asked for.
func (s *Server) issueToken(c call) reply {
	var asked struct {
		Repositories  []string          `json:"repositories"`
		RepositoryIDs []int64           `json:"repository_ids"`
		Permissions   map[string]string `json:"permissions"`
	}
	if c.Request.ContentLength != 0 {
		if err := json.NewDecoder(c.Request.Body).Decode(&asked); err != nil {
			return refuse(http.StatusBadRequest, "Problems parsing JSON")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.pathInstallation(c)
	switch {
	case i == nil:
		return refuse(http.StatusNotFound, "Not Found")
	case i.Suspended:
		return refuse(http.StatusForbidden, "This installation has been suspended")
	}
	token := &InstallationToken{Installation: i.ID, Permissions: asked.Permissions, text: "ghs_" + rand.Text(),
		Expires: s.now().Add(tokenAge).Truncate(time.Second)}
	if token.Permissions == nil {
		token.Permissions = i.Permissions
	}
	for name, level := range token.Permissions {
		if !allows(&InstallationToken{Permissions: i.Permissions}, name+":"+level) {
			return refuse(http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation.")
		}
	}
	for _, name := range asked.Repositories {
		token.Repositories = append(token.Repositories, i.Account+"/"+name)
	}
	for _, id := range asked.RepositoryIDs {
		name := strconv.FormatInt(id, 10)
		for full, known := range i.Repositories {
			if known == id {
				name = full
			}
		}
		token.Repositories = append(token.Repositories, name)
	}
	if slices.ContainsFunc(token.Repositories, func(name string) bool { return !i.has(name) }) {
		return refuse(http.StatusUnprocessableEntity, "There is at least one repository that does not exist or is not "+
			"accessible to the parent installation.")
	}
	s.apps.issued = append(s.apps.issued, token)
	return say(http.StatusCreated, map[string]any{
		"token": token.text, "expires_at": token.Expires.UTC().Format(time.RFC3339), "permissions": token.Permissions,
		"repository_selection": map[bool]string{true: "all", false: "selected"}[i.All && len(token.Repositories) == 0],
	})
}

// listRepositories lists what an installation token sees.
func (s *Server) listRepositories(c call) reply {
	bearer, _ := strings.CutPrefix(c.Request.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.valid(bearer)
	if t == nil { // the plain token
		return refuse(http.StatusForbidden, "You must authenticate with an installation access token in order to list "+
			"repositories for an installation.")
	}
	i := s.installation(t.Installation)
	list := []map[string]any{}
	documented, _ := example(c, http.StatusOK)["repositories"].([]any)
	for full, id := range i.Repositories {
		if !s.covers(t, full) {
			continue
		}
		first, _ := documented[0].(map[string]any)
		one := maps.Clone(first)
		_, name, _ := strings.Cut(full, "/")
		one["id"], one["name"], one["full_name"], one["private"] = id, name, full, true
		one["html_url"], one["clone_url"] = s.pages()+"/"+full, s.pages()+"/"+full+".git"
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b map[string]any) int {
		return strings.Compare(fmt.Sprint(a["full_name"]), fmt.Sprint(b["full_name"]))
	})
	page, header := s.pageOf(c, list)
	answer := say(http.StatusOK, map[string]any{"total_count": len(list), "repositories": page})
	answer.header = header
	return answer
}

// pageOf returns the page of a list that a call asks for, and the header that says where the next one is.
func (s *Server) pageOf(c call, all []map[string]any) (page []map[string]any, header map[string]string) {
	query := c.Request.URL.Query()
	size, number := 30, 1
	if n, err := strconv.Atoi(query.Get("per_page")); err == nil {
		size = min(n, 100)
	}
	if n, err := strconv.Atoi(query.Get("page")); err == nil {
		number = n
	}
	if number*size < len(all) {
		query.Set("page", strconv.Itoa(number+1))
		header = map[string]string{"Link": fmt.Sprintf(`<%s%s?%s>; rel="next"`, s.URL, c.Request.URL.Path[1:],
			query.Encode())}
	}
	return all[min((number-1)*size, len(all)):min(number*size, len(all))], header
}
