package pipeline

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// noNetwork says why the builds of a fork reach no host; empty for all others.
func (a *attempt) noNetwork() string {
	if a.run.Fork == 0 {
		return ""
	}
	return "forks build without a network"
}

// ownKey returns the key under which a build's output is stored. That of a fork's commit is for that commit alone:
// nothing is taken from other builds, and no other takes from it.
func (a *attempt) ownKey(key landfall.Digest) landfall.Digest {
	if a.run.Fork == 0 {
		return key
	}
	return landfall.DigestOf([]byte(landfall.ForkBranch(a.run.Fork) + " " + string(a.run.Commit) + " " + string(key)))
}

// underBase returns what a fork's commit may declare, given what the head of its base branch declares.
func (s source) underBase(ctx context.Context) (*spec.Spec, error) {
	const op landfall.Op = "pipeline.underBase"
	pushes, err := s.pushes(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	if len(pushes) == 0 {
		return nil, landfall.Errorf(op, landfall.Canceled, "the pull request has moved on")
	}
	branch := pushes[len(pushes)-1].PullRequest.Base
	commit, err := s.mirror.Branch(branch)
	if err != nil {
		return nil, landfall.Wrapf(op, landfall.KindOf(err), err, "a fork is built as its base branch says, and %s: let the "+
			"pull request have another base branch", landfall.MessageOf(err))
	}
	base := source{checkout: s.checkout}
	if base.files, err = s.filesOf(ctx, commit); err == nil {
		base.spec, err = base.readSpec(ctx)
	}
	if err != nil {
		return nil, landfall.Wrapf(op, landfall.KindOf(err), err, "a fork is built as its base branch says, and the specs "+
			"of %s at %s cannot be read: %s", branch, commit.Short(), landfall.MessageOf(err))
	}
	declared, notes, err := s.spec.UnderBase(base.spec)
	if err != nil {
		return nil, err
	}
	s.logf("pull request %d of a fork: build, environments and limits are those of %s at %s; no secrets, no network",
		s.run.Fork, branch, commit.Short())
	for _, note := range notes {
		s.logf("warning: %s", note)
	}
	return declared, nil
}
