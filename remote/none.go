package remote

import (
	"context"

	"landfall.dev/landfall"
)

// None stands for Repositories on a machine without git: it has none.
type None struct{}

// Path has the contract of Repositories.
func (None) Path(string) string { return "" }

// Heads has the contract of Repositories.
func (None) Heads(context.Context, string) (map[landfall.RefName]landfall.CommitSHA, error) {
	return nil, landfall.Errorf("remote", landfall.NotFound, "the built-in remote is off")
}

// Named has the contract of Repositories.
func (n None) Named(ctx context.Context, app string,
	_ []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error) {
	return n.Heads(ctx, app)
}

// Lacks has the contract of Repositories.
func (None) Lacks(_ context.Context, _ string, commits []landfall.CommitSHA) ([]landfall.CommitSHA, error) {
	return commits, nil
}

// SetHead has the contract of Repositories.
func (None) SetHead(context.Context, string, string) error { return nil }

// Repack has the contract of Repositories.
func (None) Repack(context.Context, string) error { return nil }

// OldApplies has the contract of Repositories.
func (n None) OldApplies(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error) {
	return n.Heads(ctx, app)
}

// DropApplies has the contract of Repositories.
func (None) DropApplies(context.Context, string, []landfall.RefName) error { return nil }

// Remove has the contract of Repositories.
func (None) Remove(context.Context, string) error { return nil }
