package github

import (
	"context"
	"net/url"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// permission asks what a user may do with a repository at this moment: PermissionNone when GitHub knows another user
// under that name.
func (s *Sender) permission(ctx context.Context, repository landfall.GitHubRepository,
	user landfall.GitHubUser) (permission landfall.Permission, response *gogithub.Response, err error) {
	var level *gogithub.RepositoryPermissionLevel
	response, err = s.call(ctx, reads, func(ctx context.Context) (response *gogithub.Response, err error) {
		owner, name := pathNames(repository)
		level, response, err = s.Client.Repositories.GetPermissionLevel(ctx, owner, name, url.PathEscape(user.Login))
		return response, err
	})
	if err != nil {
		return "", completeResponse(response), err
	}
	if level.GetUser().GetID() != user.ID {
		return landfall.PermissionNone, response, nil
	}
	return permissionOf(level.GetPermission(), level.GetUser().GetRoleName()), response, nil
}

// permissionOf returns the permission of a role. An organization may have roles of its own, under any name; the base is
// what GitHub makes of them. It has no word for triage and maintain.
func permissionOf(base, role string) landfall.Permission {
	switch is := landfall.Permission(role); {
	case base == "read" && is == landfall.PermissionTriage, base == "write" && is == landfall.PermissionMaintain:
		return is
	case base == "admin", base == "write", base == "read":
		return landfall.Permission(base)
	}
	return landfall.PermissionNone
}
