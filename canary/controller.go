package canary

import (
	"context"
	"errors"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

const all = 100

// What the history of a canary has beside the verdicts.
const (
	Start Verdict = "start"
	Stop  Verdict = "stop" // somebody moved what the canary moves
)

// TurnEvery is how often Turn is called.
const TurnEvery = time.Second

// Controller lets the canaries that run go on. All that it knows is in the store.
type Controller struct {
	DB  *store.DB
	Now func() time.Time
}

// Turn decides about each canary that is due, and ends those whose alias or trigger somebody else moved. Only the
// leader can. Each decision is one transaction with the move.
func (c *Controller) Turn(ctx context.Context) error {
	running, err := c.DB.RunningCanaries(ctx)
	if err != nil {
		return landfall.Ignore(err, landfall.Unavailable) // others say it
	}
	var failed error
	for _, r := range running {
		err := c.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error { return c.turn(ctx, tx, r) })
		if err != nil {
			failed = errors.Join(failed, landfall.Wrapf("canary.Turn", landfall.KindOf(err), err, "the canary %s of %s", r.Name,
				r.App))
		}
	}
	return failed
}

// turn decides about one canary.
func (c *Controller) turn(ctx context.Context, tx *store.Tx, r landfall.Canary) error {
	now := c.Now()
	before := [2]int64{r.Older.Number, r.Newer.Number}
	r, err := tx.Canary(ctx, r.AppID, r.Name)
	if err != nil || r.State != landfall.CanaryRunning {
		return landfall.Ignore(err, landfall.NotFound) // deleted meanwhile
	}
	stopped, err := inspect(ctx, tx, &r)
	if err != nil {
		return err
	}
	if stopped != "" {
		return settle(ctx, tx, &r, Decision{Verdict: Stop, Weight: r.Weight, Reason: stopped}, now)
	}
	if before != [2]int64{r.Older.Number, r.Newer.Number} {
		r.Older.Before, r.Newer.Before, r.Since, r.Next = r.Older.Total, r.Newer.Total, now, now.Add(r.Interval)
		r.Reason = "a function has another version, and the figures count anew"
		return tx.PutCanary(ctx, r)
	}
	if now.Before(r.Next) {
		return nil
	}
	rule := Rule{Step: r.Step, Threshold: r.Threshold, MinRequests: r.MinRequests}
	return settle(ctx, tx, &r, rule.Decide(r.Weight, true, Figures(r.Older.Figures()), Figures(r.Newer.Figures())), now)
}

// inspect reads which versions a canary's functions mean now, and returns why it cannot go on; empty: it can.
func inspect(ctx context.Context, tx *store.Tx, c *landfall.Canary) (stopped string, err error) {
	if c.Alias != "" {
		_, a, err := findAlias(ctx, tx, *c, c.Newer.Function)
		if landfall.Is(err, landfall.NotFound) {
			return "the alias is gone", nil
		}
		if a.Declared != "" {
			return "the alias is declared by now, at " + a.Declared + ", and pushes move it", err
		}
		shares := map[int64]int{}
		for _, s := range a.Shares {
			shares[s.Number] = s.Percent
		}
		if err == nil && (shares[c.Newer.Number] != c.Weight || shares[c.Older.Number] != all-c.Weight) {
			return "somebody moved the alias to " + a.String(), nil
		}
		return "", err
	}
	app, err := tx.ActiveApp(ctx, c.AppID)
	if err != nil {
		return "the app is gone", landfall.Ignore(err, landfall.NotFound)
	}
	t, err := findTrigger(ctx, tx, app, c.Trigger)
	switch {
	case landfall.Is(err, landfall.NotFound):
		return "the live release " + string(app.Live) + " has no such trigger", nil
	case err != nil:
		return "", err
	case t.Version != c.TriggerVersion:
		return "the live release " + string(app.Live) + " has another version of the trigger", nil
	}
	err = resolve(ctx, tx, app, c)
	if landfall.Is(err, landfall.NotFound) {
		return landfall.MessageOf(err), nil
	}
	return "", err
}

// settle writes a decision with its figures, and moves the calls.
func settle(ctx context.Context, tx *store.Tx, c *landfall.Canary, d Decision, at time.Time) error {
	step := landfall.CanaryStep{At: at, Verdict: string(d.Verdict), Weight: d.Weight, Older: c.Older.Figures(),
		Newer: c.Newer.Figures(), Reason: d.Reason}
	if err := tx.CreateCanaryStep(ctx, c.ID, step); err != nil {
		return err
	}
	moves := c.Weight != d.Weight
	c.Weight, c.Reason, c.Next = d.Weight, d.Reason, at.Add(c.Interval)
	if d.Verdict != Hold {
		c.Since, c.Older.Before, c.Newer.Before = at, c.Older.Total, c.Newer.Total
	}
	switch {
	case d.Verdict == Return:
		c.State = landfall.CanaryReturned
	case d.Verdict == Stop:
		c.State = landfall.CanaryStopped
	case d.Weight == all:
		c.State = landfall.CanarySucceeded
	}
	if c.State != landfall.CanaryRunning {
		c.Finished, c.Next = at, time.Time{}
		c.Older.Before, c.Newer.Before = before(c.Older, step.Older), before(c.Newer, step.Newer)
	}
	if err := tx.PutCanary(ctx, *c); err != nil || !moves {
		return err
	}
	if err := move(ctx, tx, *c, at); err != nil {
		return err
	}
	_, err := tx.Changed(ctx, c.AppID)
	return err
}

// before returns what was counted before the last step, so that the figures which ended a canary stay to be seen.
func before(s landfall.CanarySide, last landfall.CanaryFigures) landfall.CanaryFigures {
	return landfall.CanaryFigures{Requests: s.Total.Requests - last.Requests, Failures: s.Total.Failures - last.Failures}
}

// move gives both sides the calls that a canary says.
func move(ctx context.Context, tx *store.Tx, c landfall.Canary, at time.Time) error {
	if c.Trigger != "" {
		return tx.PutTriggerWeight(ctx, c.AppID, store.TriggerWeight{Trigger: c.Trigger, Version: c.TriggerVersion,
			Newer: c.Newer.Ref, Percent: c.Weight})
	}
	row, _, err := findAlias(ctx, tx, c, c.Newer.Function)
	if err != nil {
		return err
	}
	to := []versioning.Weight{{Selector: c.Older.Ref, Percent: all - c.Weight}, {Selector: c.Newer.Ref, Percent: c.Weight}}
	to = slices.DeleteFunc(to, func(w versioning.Weight) bool { return w.Percent == 0 })
	slices.SortStableFunc(to, func(x, y versioning.Weight) int { return y.Percent - x.Percent }) // as people write them
	_, err = versioning.SetAlias(ctx, tx, row, versioning.NewAlias{Name: c.Alias, To: to, Actor: "canary " + c.Name,
		Reason: c.Reason, At: at})
	return err
}
