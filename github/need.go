package github

import (
	"path"
	"strings"
)

// Permission is what a GitHub App may do in the repositories of an installation.
type Permission struct {
	Name  string // as GitHub's API has it
	Level string // read or write
	// Without is what does not work without the permission; empty: nothing works.
	Without string
}

// Permissions are all that our App asks for: the least for what Landfall does.
func Permissions() []Permission {
	return []Permission{
		{"metadata", "read", ""},
		{"contents", "read", ""},
		{"statuses", "write", "commits get no status"},
		{"pull_requests", "write", "pull requests get no preview and no comment"},
		{"checks", "write", "commits get statuses, and no checks with their buttons"},
		{"deployments", "write", "pull requests show no deployments"},
		{"merge_queues", "read", "commits of merge queues get no status, so a queue that requires one waits"},
		{"issues", "read", "commands in comments (/landfall …) are not heard"},
	}
}

// Events are those that our App asks for. GitHub sends those about installations without being asked.
func Events() []string {
	return []string{"push", "pull_request", "check_run", "check_suite", "merge_group", "issue_comment", "repository"}
}

// need is the permission that a request needs.
type need struct{ request, permission, level string }

// needs are the requests that we send about a repository. The path is a pattern of package path, from the repository's
// own on.
func needs() []need {
	return []need{
		{"GET", "metadata", "read"},
		{"GET collaborators/*/permission", "metadata", "read"},
		{"POST statuses/*", "statuses", "write"},
		{"GET commits/*/statuses", "statuses", "read"},
		{"GET commits/*/status", "statuses", "read"},
		{"GET commits/*/pulls", "pull_requests", "read"},
		{"GET pulls", "pull_requests", "read"},
		{"GET pulls/*", "pull_requests", "read"},
		{"GET issues/*/comments", "pull_requests", "read"},
		{"POST issues/*/comments", "pull_requests", "write"},
		{"GET issues/comments/*", "pull_requests", "read"},
		{"PATCH issues/comments/*", "pull_requests", "write"},
		{"DELETE issues/comments/*", "pull_requests", "write"},
		{"GET issues/comments/*/reactions", "pull_requests", "read"},
		{"POST issues/comments/*/reactions", "pull_requests", "write"},
		{"DELETE issues/*/labels/*", "pull_requests", "write"},
		{"POST check-runs", "checks", "write"},
		{"GET check-runs/*", "checks", "read"},
		{"PATCH check-runs/*", "checks", "write"},
		{"GET commits/*/check-runs", "checks", "read"},
		{"GET deployments", "deployments", "read"},
		{"POST deployments", "deployments", "write"},
		{"DELETE deployments/*", "deployments", "write"},
		{"GET deployments/*/statuses", "deployments", "read"},
		{"POST deployments/*/statuses", "deployments", "write"},
		{"GET branches", "contents", "read"},
		{"GET git/matching-refs/*", "contents", "read"},
	}
}

// needOf returns the repository that a request is about, as repositoryOf does, and the permission that it needs; false
// when the request is none of those that we send.
func needOf(method, requested string) (repository string, n need, known bool) {
	repository, rest, ok := repositoryOf(requested)
	if !ok {
		return "", need{}, false
	}
	if rest != "" {
		rest = " " + rest
	}
	for _, n := range needs() {
		if ok, _ := path.Match(n.request, method+rest); ok {
			return repository, n, true
		}
	}
	return "", need{}, false
}

// repositoryOf returns the repository that a path is about, and what follows in the path. It is owner/name, or the ID
// alone: to that GitHub leads who asks for a repository by an old name.
func repositoryOf(requested string) (repository, rest string, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(requested, "/"), "/", 4)
	switch {
	case parts[0] == "repos" && len(parts) > 2:
		return parts[1] + "/" + parts[2], strings.Join(parts[3:], ""), true
	case parts[0] == "repositories" && len(parts) > 1 && isID(parts[1]):
		return parts[1], strings.Join(parts[2:], "/"), true
	}
	return "", "", false
}

// isID reports whether a repository that repositoryOf returned is an ID.
func isID(repository string) bool {
	return strings.Trim(repository, "0123456789") == "" && repository != ""
}

// pathTo returns the path of a repository that repositoryOf returned.
func pathTo(repository string) string {
	if isID(repository) {
		return "repositories/" + repository
	}
	return "repos/" + repository
}
