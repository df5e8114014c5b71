package landfall

import "slices"

// Permission is what a person may do with a repository at GitHub.
type Permission string

// The permissions, each with all that stand before it. The zero value includes none of them.
const (
	PermissionNone     Permission = "none"
	PermissionRead     Permission = "read"
	PermissionTriage   Permission = "triage"
	PermissionWrite    Permission = "write"
	PermissionMaintain Permission = "maintain"
	PermissionAdmin    Permission = "admin"
)

// Includes reports whether who has the permission may do what needs another one.
func (p Permission) Includes(needed Permission) bool {
	ascending := []Permission{
		PermissionNone, PermissionRead, PermissionTriage, PermissionWrite, PermissionMaintain, PermissionAdmin,
	}
	return slices.Contains(ascending, needed) && slices.Index(ascending, p) >= slices.Index(ascending, needed)
}

// GitHubUser is a user of GitHub.
type GitHubUser struct {
	ID    int64 // survives renames
	Login string
}
