package queue

import (
	"context"

	"landfall.dev/landfall"
)

// PublishAsIs is Publish for what others write to NATS by themselves.
func (b *Broker) PublishAsIs(ctx context.Context, o Owner, m landfall.Message) error {
	_, err := b.publish(ctx, o, m)
	return err
}
