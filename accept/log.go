package accept

import (
	"context"

	"landfall.dev/landfall"
)

// acceptedPush is a push that was accepted, and the run of its commit; empty when it has none.
type acceptedPush struct {
	app  landfall.App
	push landfall.Push
	run  string
}

// logAccepted logs the accepted pushes once they are stored, as the first line of each run.
func (acceptor *Acceptor) logAccepted(ctx context.Context, all []acceptedPush) {
	for _, t := range all {
		logger := acceptor.Logger.With(t.app.LogAttrs()...).With("source", t.push.Source, "ref", t.push.Ref, "commit",
			t.push.After)
		if t.run != "" {
			logger = logger.With("run", t.run)
		}
		if t.push.Delivery != "" {
			logger = logger.With("delivery", t.push.Delivery)
		}
		logger.InfoContext(ctx, "push accepted")
	}
}
