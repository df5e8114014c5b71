package history_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/secret"
)

// setSecret gives the secret a value.
func (h *history) setSecret(t *rapid.T) step {
	value := rapid.SampledFrom([]string{"first-value", "second-value"}).Draw(t, "value")
	return h.settingSecret(value, rapid.Bool().Draw(t, "no release"))
}

func (h *history) settingSecret(value string, noRelease bool) step {
	var set deploy.SetSecretResult
	return step{name: "set the secret", about: fmt.Sprint(value, noRelease), do: func(ctx context.Context) (err error) {
		set, err = h.editor.SetSecret(ctx, h.app, deploy.NewSecret{Name: key().Name, Value: secret.Text(value),
			NoRelease: noRelease, Actor: actor})
		return err
	}, next: func(s *state) landfall.Kind {
		u := s.units[key()]
		if u == nil {
			u = &unitState{versions: map[int64]version{}, aliases: map[string]alias{}}
			s.units[key()] = u
		}
		newest := int64(0)
		for number := range u.versions {
			newest = max(newest, number)
		}
		if newest == 0 || s.revoked[newest] || h.words[digestOf{key(), u.versions[newest].of}] != value {
			u.last++
			u.retired = false
			if set.Version.Number == u.last {
				h.learn(key(), value, set.Version.Digest)
			}
			u.versions[u.last] = version{uid: set.Version.UID, of: h.digest[madeOf{key(), value}], production: true}
		}
		if noRelease || len(s.applied) == 0 || s.groups[s.applied[len(s.applied)-1]].units[key()] == 0 {
			return fine
		}
		return h.edited(s, maps.Clone(s.groups[s.applied[len(s.applied)-1]].units), set.Release, false, true)
	}}
}

// edited is what the model says of a change by hand, after its unit was put.
func (h *history) edited(s *state, units map[landfall.UnitID]int64, uid landfall.UID, again, released bool) landfall.Kind {
	base := s.groups[s.applied[len(s.applied)-1]]
	if units[key()] > 0 {
		if units[key()] = s.newestSecret(); units[key()] == 0 {
			return landfall.Conflict
		}
	}
	if !again && h.sameDigests(s, base.units, units) && s.secretsGood(base) {
		return fine
	}
	g := group{commit: base.commit, units: units, code: base.code}
	if uid != "" {
		g.same = h.group(uid)
	}
	if released && !s.whole(g) {
		return landfall.Conflict
	}
	if uid == "" {
		return landfall.Internal // it should have made one
	}
	s.groups[uid] = g
	now := h.clock.Now()
	if refused := s.point(uid, h.branchOf(uid), true, released, "", now); refused != fine {
		return refused
	}
	s.settle(units, true, now)
	return fine
}

// sameDigests reports whether two sets of units are the same app.
func (h *history) sameDigests(s *state, a, b map[landfall.UnitID]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for id, number := range a {
		other, ok := b[id]
		if !ok || number != other && h.wordIn(s, id, number) != h.wordIn(s, id, other) {
			return false
		}
	}
	return true
}

// wordIn is what a version is made of that may have been made just now.
func (h *history) wordIn(s *state, id landfall.UnitID, number int64) string {
	if v, ok := s.units[id].versions[number]; ok {
		return h.words[digestOf{id, v.of}]
	}
	return h.word(id, number)
}

// revoke takes a value of the secret away.
func (h *history) revoke(t *rapid.T) step {
	u := h.want.units[key()]
	if u == nil || len(u.versions) == 0 {
		t.Skip("there is no secret")
	}
	return h.revoking(rapid.SampledFrom(h.numbers(key())).Draw(t, "number"))
}

func (h *history) revoking(number int64) step {
	return step{name: "revoke a secret", do: func(ctx context.Context) error {
		_, err := h.editor.RevokeSecret(ctx, h.app, key().Name, fmt.Sprint(number), actor)
		return err
	}, next: func(s *state) landfall.Kind {
		switch _, there := s.units[key()].versions[number]; {
		case !there:
			return landfall.NotFound
		case s.revoked[number]:
			return fine
		case s.groups[s.live].units[key()] == number:
			return landfall.Conflict
		}
		s.revoked[number] = true
		return fine
	}}
}

// dropSecret deletes the secret.
func (h *history) dropSecret(t *rapid.T) step {
	if h.want.units[key()] == nil {
		t.Skip("there is no secret")
	}
	return step{name: "delete the secret", do: func(ctx context.Context) error {
		return h.editor.DeleteSecret(ctx, h.app, key().Name)
	}, next: func(s *state) landfall.Kind {
		if len(s.units[key()].versions) == 0 {
			return landfall.NotFound
		}
		for uid := range s.releases {
			if s.accessible(uid) && s.groups[uid].units[key()] > 0 {
				return landfall.Conflict
			}
		}
		if h.readersLed(s) {
			return landfall.Conflict
		}
		clear(s.units[key()].versions)
		clear(s.revoked)
		return fine
	}}
}

// readersLed reports whether something that is no release with the secret leads to a version of f that reads it.
func (h *history) readersLed(s *state) bool {
	f := s.units[fn("f")]
	if f == nil {
		return false
	}
	for number := range f.versions {
		led := s.leads(number) || slices.Contains(s.named(), use{fn("f"), number})
		for _, x := range s.executions {
			led = led || x.function == fn("f") && x.number == number
		}
		if led && strings.HasSuffix(h.wordIn(s, fn("f"), number), "true") {
			return true
		}
	}
	return false
}

// configure sets the configuration by hand.
func (h *history) configure(t *rapid.T) step {
	word := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "config")
	var made deploy.EditResult
	return step{name: "set the configuration", about: word, do: func(ctx context.Context) (err error) {
		made, err = h.editor.PutConfig(ctx, h.app, fmt.Appendf(nil, `{"colour":%q}`, word), "", actor)
		return err
	}, next: func(s *state) landfall.Kind {
		if len(s.applied) == 0 {
			return landfall.Conflict
		}
		units := maps.Clone(s.groups[s.applied[len(s.applied)-1]].units)
		if made.Release != "" {
			h.learnOf(made.Release, config(), word)
		}
		digest := h.digest[madeOf{config(), word}]
		if h.word(config(), units[config()]) != word {
			units[config()] = s.put(config(), digest, made.Release, true, false, units)
		}
		return h.edited(s, units, made.Release, false, true)
	}}
}
