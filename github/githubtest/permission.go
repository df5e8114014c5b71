package githubtest

import (
	"net/http"
	"strconv"
	"strings"
)

// roleKey names a user of a repository.
type roleKey struct {
	repository string // owner/name
	user       int64
}

func permissionResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/repos/{owner}/{repo}/collaborators/{username}/permission": (*Server).showPermission,
	}
}

// Login returns the name of a user.
func Login(user int64) string {
	if user == Bot {
		return Slug + "[bot]"
	}
	return "user-" + strconv.FormatInt(user, 10)
}

// Permit gives a user a role in a repository: none, read, triage, write, maintain, admin, or a role of the
// organization's own, which is written after what GitHub takes it for, like "read:auditor". Others may read.
func (s *Server) Permit(repository string, user int64, role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles[roleKey{repository, user}] = role
}

// Asked returns how often it was asked for the role of a user.
func (s *Server) Asked(repository string, user int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[roleKey{repository, user}]
}

func (s *Server) showPermission(c call) reply {
	id, err := strconv.ParseInt(strings.TrimPrefix(c.PathParams["username"], "user-"), 10, 64)
	if err != nil {
		return refuse(http.StatusNotFound, "Not Found")
	}
	s.mu.Lock()
	role, ok := s.roles[roleKey{c.repository, id}]
	s.asked[roleKey{c.repository, id}]++
	s.mu.Unlock()
	if !ok {
		role = "read"
	}
	permission, own, isOwn := strings.Cut(role, ":")
	switch {
	case isOwn:
		role = own
	case role == "maintain":
		permission = "write"
	case role == "triage":
		permission = "read"
	}
	user := userObject(id, false)
	user["role_name"] = role
	user["permissions"] = map[string]bool{
		"pull": permission != "none", "triage": permission == "write" || permission == "admin" || role == "triage",
		"push": permission == "write" || permission == "admin", "maintain": permission == "admin" || role == "maintain",
		"admin": permission == "admin",
	}
	return say(http.StatusOK, map[string]any{"permission": permission, "role_name": role, "user": user})
}
