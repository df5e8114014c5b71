package history_test

import (
	"context"
	"strconv"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// promote makes a release live.
func (h *history) promote(t *rapid.T) step {
	uid := some(h, "release", h.want.releases)
	if uid == "" {
		t.Skip("there is none")
	}
	return h.promoting(uid)
}

func (h *history) promoting(uid landfall.UID) step {
	return step{name: "promote", about: string(uid), do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error { return deploy.Promote(ctx, tx, app, uid, h.by()) })
	}, next: func(s *state) landfall.Kind {
		s.heldLive = false
		return s.moveLive(uid, false)
	}}
}

// rollBack makes an earlier release live.
func (h *history) rollBack(t *rapid.T) step {
	uid := landfall.UID("")
	if rapid.Bool().Draw(t, "named") {
		uid = some(h, "release", h.want.releases)
	}
	return step{name: "roll back", about: string(uid), do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error { return deploy.Rollback(ctx, tx, app, uid, h.by()) })
	}, next: func(s *state) landfall.Kind {
		to := uid
		if to == "" {
			if to = s.previous(); to == "" {
				return landfall.Conflict
			}
		}
		s.heldLive = true
		return s.moveLive(to, true)
	}}
}

// hold holds live, or lets go of it.
func (h *history) hold(t *rapid.T) step {
	held := rapid.Bool().Draw(t, "held")
	return step{name: "hold", about: strconv.FormatBool(held), do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error { return deploy.Hold(ctx, tx, app, held) })
	}, next: func(s *state) landfall.Kind {
		s.heldLive = held
		return fine
	}}
}

// tag tags a release.
func (h *history) tag(t *rapid.T) step {
	uid := some(h, "release", h.want.releases)
	if uid == "" {
		t.Skip("there is none")
	}
	name := rapid.SampledFrom([]string{"beta", "gold"}).Draw(t, "tag")
	return h.tagging(name, uid)
}

func (h *history) tagging(name string, uid landfall.UID) step {
	return step{name: "tag", about: name + " " + string(uid), do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
			return deploy.SetTag(ctx, tx, landfall.Tag{App: app.ID, Name: name, Kind: landfall.HandTag, Release: uid}, h.by())
		})
	}, next: func(s *state) landfall.Kind {
		if !s.accessible(uid) {
			return landfall.Conflict
		}
		s.tags[name] = tag{uid, landfall.HandTag, h.clock.Now()}
		return fine
	}}
}

// untag removes a tag.
func (h *history) untag(t *rapid.T) step {
	name := some(h, "tag", h.want.tags)
	if name == "" {
		t.Skip("there is none")
	}
	return h.untagging(name)
}

func (h *history) untagging(name string) step {
	return step{name: "untag", about: name, do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
			_, err := deploy.RemoveTag(ctx, tx, app.ID, name, h.by())
			return err
		})
	}, next: func(s *state) landfall.Kind {
		delete(s.tags, name)
		return fine
	}}
}

// expire lets go of a release.
func (h *history) expire(t *rapid.T) step {
	uid := some(h, "release", h.want.releases)
	if uid == "" {
		t.Skip("there is none")
	}
	return h.expiring(uid)
}

func (h *history) expiring(uid landfall.UID) step {
	return step{name: "expire", about: string(uid), do: func(ctx context.Context) error {
		return h.move(ctx, func(tx *store.Tx, app *landfall.App) error {
			return deploy.Expire(ctx, tx, *app, uid, h.clock.Now())
		})
	}, next: func(s *state) landfall.Kind {
		if !s.accessible(uid) {
			return fine
		}
		if s.live == uid || s.canary.release == uid {
			return landfall.Conflict
		}
		for _, t := range s.tags {
			if t.release == uid {
				return landfall.Conflict
			}
		}
		s.expireAll(func(other landfall.UID, _ release) bool { return other == uid })
		return fine
	}}
}
