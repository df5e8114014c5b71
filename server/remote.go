package server

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/upkeep"
)

// elsewhere returns where the built-in remote is for a process that has not got it; nil for the one that has.
func (s *server) elsewhere() *accept.Elsewhere {
	if s.config.has(roleAPI) {
		return nil
	}
	return &accept.Elsewhere{Password: secret.Text(s.config.RoleSecret), URL: func(app string) string {
		return s.config.URL.JoinPath("git", app+".git").String()
	}}
}

// builtInRemote is the built-in remote.
type builtInRemote interface {
	accept.Remote
	upkeep.Repositories
}

// remote returns the built-in remote.
func (s *server) remote() builtInRemote {
	if s.repos == nil {
		return noRemote{}
	}
	return s.repos
}

// noRemote stands for the built-in remote on a machine without git: it has no repositories.
type noRemote struct{}

// Path implements accept.Remote.
func (noRemote) Path(string) string { return "" }

// Heads implements accept.Remote.
func (noRemote) Heads(context.Context, string) (map[landfall.RefName]landfall.CommitSHA, error) {
	return nil, &landfall.Error{Op: "remote", Kind: landfall.NotFound, Message: "the built-in remote is off"}
}

// Named implements accept.Remote.
func (n noRemote) Named(ctx context.Context, app string, _ []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error) {
	return n.Heads(ctx, app)
}

// Lacks implements accept.Remote.
func (noRemote) Lacks(_ context.Context, _ string, commits []landfall.CommitSHA) ([]landfall.CommitSHA, error) {
	return commits, nil
}

// SetHead implements accept.Remote.
func (noRemote) SetHead(context.Context, string, string) error { return nil }

// Repack implements upkeep.Repositories.
func (noRemote) Repack(context.Context, string) error { return nil }

// Remove implements upkeep.Repositories.
func (noRemote) Remove(context.Context, string) error { return nil }
