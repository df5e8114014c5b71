package deploy

import (
	"context"
	"crypto/rand"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/store"
)

// The bounds of a canary of a release.
const (
	allVisitors       = 100 // percent
	MinCanaryInterval = time.Second
	maxCanaryInterval = 30 * 24 * time.Hour
	canaryRequests    = 100 // of its release: before, its failures say nothing
)

// CanaryReason is the reason for which live moves at the end of a canary.
const CanaryReason = "canary"

// StartCanary lets a share of the visitors of an app's live address get another release whole. Invalid when a number is
// out of its bounds. Conflict when nothing is live, when the release is live or expired, when live is held, and while
// another canary of the app runs; also when the release could not become live in the end.
func StartCanary(ctx context.Context, tx *store.Tx, app landfall.App, c landfall.ReleaseCanary, by Mover) error {
	const op landfall.Op = "deploy.StartCanary"
	if err := checkCanary(c); err != nil {
		return err
	}
	switch running, err := tx.RunningReleaseCanary(ctx, app.ID); {
	case landfall.Ignore(err, landfall.NotFound) != nil:
		return err
	case err == nil:
		return landfall.Errorf(op, landfall.Conflict,
			"a canary of release %s runs; end it first: landfall release canary %s --stop", running.Release, app.Name)
	case app.Live == "":
		return landfall.Errorf(op, landfall.Conflict, "nothing of %[1]s is live, so all visitors can get the release at "+
			"once: landfall release live %[1]s %[2]s", app.Name, c.Release)
	case app.Live == c.Release:
		return landfall.Errorf(op, landfall.Conflict, "release %s is live: all visitors get it already", c.Release)
	case app.Held:
		return landfall.Errorf(op, landfall.Conflict, "live is held at %s, and a canary would move it in the end; let it go "+
			"first: landfall release resume %s", app.Live, app.Name)
	}
	if _, err := canBeLive(ctx, tx, app, c.Release); err != nil {
		return err
	}
	c.ID, c.App, c.Key, c.Actor = rand.Text(), app.ID, rand.Text(), by.Actor
	c.Started, c.Next = by.At, by.At.Add(c.Interval)
	return putCanary(ctx, tx, c, landfall.ReleaseCanaryRunning, by, landfall.CanaryFigures{}, landfall.CanaryFigures{})
}

func checkCanary(c landfall.ReleaseCanary) error {
	const op landfall.Op = "deploy.StartCanary"
	switch {
	case c.Weight < 1 || c.Weight >= allVisitors:
		return landfall.Errorf(op, landfall.Invalid,
			"the weight is %d, and must be between 1 and %d per cent of the visitors", c.Weight, allVisitors-1)
	case c.Step < 1 || c.Step > allVisitors:
		return landfall.Errorf(op, landfall.Invalid, "the step is %d, and must be between 1 and %d per cent", c.Step,
			allVisitors)
	case c.Threshold < 0 || c.Threshold > allVisitors:
		return landfall.Errorf(op, landfall.Invalid, "the threshold is %d, and must be between 0 and %d per cent",
			c.Threshold, allVisitors)
	case c.Interval < MinCanaryInterval || c.Interval > maxCanaryInterval:
		return landfall.Errorf(op, landfall.Invalid, "the interval is %s, and must be between 1s and 720h", c.Interval)
	}
	return nil
}

// EndCanary ends the canary of an app that runs: all visitors get live again. It reports false when none runs.
func EndCanary(ctx context.Context, tx *store.Tx, app string, state landfall.ReleaseCanaryState,
	by Mover) (bool, error) {
	c, err := tx.RunningReleaseCanary(ctx, app)
	if err != nil {
		return false, landfall.Ignore(err, landfall.NotFound)
	}
	newer, live, err := tx.ReleaseCanaryFigures(ctx, c.ID)
	if err != nil {
		return false, err
	}
	c.Weight = 0
	return true, putCanary(ctx, tx, c, state, by, newer, live)
}

// putCanary stores a canary and what happened to it.
func putCanary(ctx context.Context, tx *store.Tx, c landfall.ReleaseCanary, state landfall.ReleaseCanaryState, by Mover,
	newer, live landfall.CanaryFigures) error {
	c.State, c.Reason = state, by.Reason
	if state != landfall.ReleaseCanaryRunning {
		c.Ended, c.Next = by.At, time.Time{}
	}
	if err := tx.PutReleaseCanary(ctx, c); err != nil {
		return err
	}
	return tx.CreateReleaseCanaryStep(ctx, c.ID, landfall.ReleaseCanaryStep{At: by.At, Weight: c.Weight, State: state,
		Reason: by.Reason, Actor: by.Actor, Canary: newer, Live: live})
}

// DriveCanary does what is due for the canary of an app that runs, and reports whether gateways are to show another
// share. It returns as soon as the figures say so, and grows by a step when its interval is over, until the release is
// live. While live is held, it does not grow.
func DriveCanary(ctx context.Context, tx *store.Tx, appID string, now time.Time) (changed bool, err error) {
	c, err := tx.RunningReleaseCanary(ctx, appID)
	if err != nil {
		return false, landfall.Ignore(err, landfall.NotFound)
	}
	app, err := tx.App(ctx, appID)
	if err != nil {
		return false, err
	}
	newer, live, err := tx.ReleaseCanaryFigures(ctx, c.ID)
	if err != nil {
		return false, err
	}
	rule := canary.Rule{Step: c.Step, Threshold: c.Threshold, MinRequests: canaryRequests, Relative: true}
	due := !now.Before(c.Next) && !app.Held
	decided := rule.Decide(c.Weight, due, canary.Figures(live), canary.Figures(newer))
	by := Mover{Reason: decided.Reason, At: now}
	switch decided.Verdict {
	case canary.Hold, canary.Start, canary.Stop: // the last two are not decided
		return false, nil
	case canary.Advance:
		c.Weight, c.Next = decided.Weight, now.Add(c.Interval)
		err = putCanary(ctx, tx, c, landfall.ReleaseCanaryRunning, by, newer, live)
	case canary.Return:
		c.Weight = 0
		err = putCanary(ctx, tx, c, landfall.ReleaseCanaryReturned, by, newer, live)
	case canary.Done:
		err = finishCanary(ctx, tx, &app, c, by, newer, live)
	}
	if err == nil {
		_, err = tx.Changed(ctx, appID)
	}
	return err == nil, err
}

// finishCanary makes the release of a canary live. When it cannot be live, as without a secret that was revoked, the
// canary returns, and says why.
func finishCanary(ctx context.Context, tx *store.Tx, app *landfall.App, c landfall.ReleaseCanary, by Mover,
	newer, live landfall.CanaryFigures) error {
	state := landfall.ReleaseCanaryLive
	c.Weight = allVisitors
	if _, err := canBeLive(ctx, tx, *app, c.Release); landfall.Is(err, landfall.Conflict) {
		state, c.Weight, by.Reason = landfall.ReleaseCanaryReturned, 0, landfall.MessageOf(err)
	} else if err != nil {
		return err
	}
	if err := putCanary(ctx, tx, c, state, by, newer, live); err != nil || state != landfall.ReleaseCanaryLive {
		return err
	}
	return MoveLive(ctx, tx, app, c.Release, Mover{Actor: c.Actor, Reason: CanaryReason, At: by.At})
}
