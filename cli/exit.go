package cli

import (
	"cmp"
	"errors"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// exitOfKind is the exit code of each kind of failure.
func exitOfKind(k landfall.Kind) int {
	codes := [...]int{
		landfall.Internal: 1, landfall.Invalid: 2, landfall.NotFound: 3, landfall.Conflict: 4, landfall.Unauthorized: 5,
		landfall.Forbidden: 5, landfall.Unavailable: 6, landfall.Canceled: 130,
	}
	if int(k) >= len(codes) {
		k = landfall.Internal
	}
	return codes[k]
}

// exitHeld is the exit code of an apply whose release was made, but did not become live because live is held.
const exitHeld = 7

// errHeld says that a release was made, but live is held.
var errHeld = errors.New("live is held")

// ExitCode is the exit code of a command that ended with err.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errHeld):
		return exitHeld
	}
	return exitOfKind(landfall.KindOf(err))
}

// runError is what the end of a run means for the command that waited for it; nil where the run came to its end.
func runError(run client.Run) error {
	kind := landfall.Internal
	switch run.State {
	case landfall.RunSucceeded, landfall.RunSkipped:
		return nil
	case landfall.RunFailed:
		if kind = landfall.Invalid; run.Stats.OverPlan {
			kind = landfall.Conflict
		}
	case landfall.RunSuperseded:
		kind = landfall.Conflict
	case landfall.RunCancelled, landfall.RunDeclined, landfall.RunExpired:
		kind = landfall.Canceled
	case landfall.RunError, landfall.RunQueued, landfall.RunRunning, landfall.RunWaiting:
	}
	return landfall.Errorf("cli", kind, "%s", cmp.Or(run.Reason, "the run ended as "+string(run.State)))
}
