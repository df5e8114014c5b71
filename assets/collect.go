package assets

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"
)

// defaultWorkers is how many objects are processed at once by default.
const defaultWorkers = 16

// Collector deletes objects that nothing refers to any more. Its caller knows which those are.
type Collector struct {
	Workers int // deletions at once; 0: 16
	// called right before each batch of deletions; an error prevents the batch; nil: not called
	Check func(ctx context.Context) error
}

// batch is how many objects are deleted between two checks.
const batch = 256

// DeletePrefix deletes every object below prefix, which cannot be empty. It can be repeated after a failure.
func (c Collector) DeletePrefix(ctx context.Context, store Remover, prefix string) error {
	if err := CheckKey(strings.TrimSuffix(prefix, "/")); err != nil {
		return err
	}
	var keys []string
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		if keys = append(keys, key); len(keys) < batch {
			continue
		}
		if err := c.delete(ctx, store, keys); err != nil {
			return err
		}
		keys = keys[:0]
	}
	return c.delete(ctx, store, keys)
}

// delete deletes a batch.
func (c Collector) delete(ctx context.Context, store Remover, keys []string) error {
	if c.Check != nil && len(keys) > 0 {
		if err := c.Check(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers(c.Workers))
	for _, key := range keys {
		group.Go(func() error { return store.Delete(ctx, key) })
	}
	return group.Wait()
}

func workers(n int) int {
	if n > 0 {
		return n
	}
	return defaultWorkers
}
