package api

import (
	"context"

	"github.com/google/uuid"

	"landfall.dev/landfall"
)

// identityKey is the context's key of the id of what a request makes.
type identityKey struct{}

// newID returns the id of what a request makes: one for its key, if it has one, else a new one.
func newID(ctx context.Context) string {
	if id, known := ctx.Value(identityKey{}).(string); known {
		return id
	}
	return uuid.NewString()
}

// made returns what an earlier request with the same key made, of which nobody heard, and whether there is such a thing.
func made[T any](ctx context.Context, find func(ctx context.Context, id string) (T, error)) (found T, there bool,
	err error) {
	id, known := ctx.Value(identityKey{}).(string)
	if !known {
		return found, false, nil
	}
	found, err = find(ctx, id)
	return found, err == nil, landfall.Ignore(err, landfall.NotFound)
}
