package execution

import (
	"context"
	"time"
)

// Look is for tests, which put the clock forward.
func (r *Recorder) Look(ctx context.Context, now time.Time) { r.look(ctx, now) }

// Pause is for tests, which do not wait.
var Pause = pause
