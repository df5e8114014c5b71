package assets

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"
)

// defaultWorkers is how many objects are on their way at once where nothing else is said.
const defaultWorkers = 16

// Collector deletes what nothing refers to any more. Whether something does is its caller's to know.
type Collector struct {
	Workers int // deletions at once; 0: 16
}

// DeletePrefix deletes every object below prefix, which cannot be empty. It can be repeated after a failure.
func (c Collector) DeletePrefix(ctx context.Context, store Remover, prefix string) error {
	if err := CheckKey(strings.TrimSuffix(prefix, "/")); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers(c.Workers))
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			group.Go(func() error { return err })
			break
		}
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
