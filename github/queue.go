package github

import (
	"context"
	"log/slog"
	"time"

	"landfall.dev/landfall"
)

// Queue is a queue of what GitHub must be told.
type Queue[T any] interface {
	// Due returns at most limit of those whose NextAt is not after now, each with its Report. It returns none of a
	// repository that refuses them.
	Due(ctx context.Context, now time.Time, limit int) ([]T, error)

	// Postpone adds one to the attempts at one, and sets when it is due again and what the problem is.
	Postpone(ctx context.Context, of T, at time.Time, problem string) error

	// Drop gives one up until something happens again.
	Drop(ctx context.Context, of T, problem string) error
}

// Refusals keeps what we may not do at repositories.
type Refusals interface {
	// Refuse records that we may not do something at a repository.
	Refuse(ctx context.Context, repository int64, refusal landfall.Refusal) error

	// Forgive makes something be tried again at all repositories.
	Forgive(ctx context.Context, feature landfall.Feature) error
}

// refusalWait is how long something that GitHub refuses is not tried again at a repository.
const refusalWait = 24 * time.Hour

// forgive makes what GitHub refused be tried again: the credentials may be others.
func (s *Sender) forgive(ctx context.Context) {
	if s.Refusals == nil {
		return
	}
	for _, feature := range []landfall.Feature{landfall.DeploymentsFeature, landfall.ChecksFeature} {
		if err := s.Refusals.Forgive(ctx, feature); err != nil && ctx.Err() == nil {
			s.Logger.Error("what GitHub refused is not tried again yet", "error", err)
		}
	}
}

// flush sends what is due first. It reports whether there was something.
func flush[T any](ctx context.Context, s *Sender, queue Queue[T],
	send func(ctx context.Context, of T) error) (bool, error) {
	due, err := queue.Due(ctx, s.Now(), 1)
	if err != nil || len(due) == 0 {
		return false, err
	}
	return true, send(ctx, due[0])
}

// fail records why GitHub was not told of something.
func fail[T any](ctx context.Context, s *Sender, queue Queue[T], of T, what subject, v outcome,
	log *slog.Logger) error {
	switch {
	case v.refused && what.feature != "":
		until := s.Now().Add(refusalWait)
		log.Warn(what.noun+"s are turned off for this repository", "until", until, "problem", v.problem)
		return s.Refusals.Refuse(ctx, what.id, landfall.Refusal{Feature: what.feature, Problem: v.problem, Until: until})
	case v.drop:
		log.Warn(what.noun+" dropped", "problem", v.problem)
		return queue.Drop(ctx, of, v.problem)
	default:
		log.Warn(what.noun+" postponed", "until", v.at, "problem", v.problem, "cause", v.cause)
		return queue.Postpone(ctx, of, v.at, v.problem)
	}
}
