package history_test

import (
	"context"
	"maps"
	"time"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

const canaryInterval, canaryStep = time.Minute, 40

// startCanary lets a share of the visitors get another release.
func (h *history) startCanary(t *rapid.T) step {
	others := maps.Clone(h.want.releases)
	if rapid.IntRange(0, 4).Draw(t, "any") > 0 {
		maps.DeleteFunc(others, func(uid landfall.UID, r release) bool { return r.expired || uid == h.want.live })
	}
	uid := some(h, "release", others)
	if uid == "" {
		t.Skip("there is none")
	}
	weight := rapid.SampledFrom([]int{10, 50, 70, 110}).Draw(t, "weight")
	return step{name: "start a canary", about: string(uid), do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
			return deploy.StartCanary(ctx, tx, *app, landfall.ReleaseCanary{Release: uid, Weight: weight, Step: canaryStep,
				Interval: canaryInterval, Threshold: 1}, h.by())
		})
	}, next: func(s *state) landfall.Kind {
		switch {
		case weight > 100: // V5
			return landfall.Invalid
		case s.canary.release != "", s.live == "", s.live == uid, s.heldLive, !s.accessible(uid),
			!s.secretsGood(s.groups[uid]):
			return landfall.Conflict
		}
		s.canary = canary{uid, weight}
		return fine
	}}
}

// stopCanary ends the canary that runs.
func (h *history) stopCanary(*rapid.T) step {
	return step{name: "stop a canary", do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
			_, err := deploy.EndCanary(ctx, tx, app.ID, landfall.ReleaseCanaryEnded, h.by())
			return err
		})
	}, next: func(s *state) landfall.Kind {
		s.canary = canary{}
		return fine
	}}
}

// driveCanary lets visitors come to a canary until its interval is over, of whom many get errors or none does.
func (h *history) driveCanary(t *rapid.T) step {
	figures := landfall.CanaryFigures{Requests: 200}
	if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
		figures.Failures = 100
	}
	return step{name: "drive a canary", do: func(ctx context.Context) error {
		h.clock.pass(canaryInterval)
		changed := false
		err := h.db.Update(ctx, func(tx *store.Tx) error {
			c, err := tx.RunningReleaseCanary(ctx, h.app.ID)
			if err != nil {
				return landfall.Ignore(err, landfall.NotFound)
			}
			if err := tx.AddReleaseCanaryCounts(ctx, c.ID, "history", true, figures); err != nil {
				return err
			}
			changed, err = deploy.DriveCanary(ctx, tx, h.app.ID, h.clock.Now())
			return err
		})
		if err == nil && changed {
			h.rollout.Show(ctx, h.app)
		}
		return err
	}, next: func(s *state) landfall.Kind {
		to := s.canary.release
		switch {
		case to == "":
		case figures.Failures > 0:
			s.canary = canary{}
		case s.heldLive:
		case s.canary.weight+canaryStep < 100:
			s.canary.weight += canaryStep
		case !s.secretsGood(s.groups[to]): // it cannot become live, so it returns
			s.canary = canary{}
		default:
			return s.moveLive(to, false)
		}
		return fine
	}}
}
