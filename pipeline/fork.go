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

// base returns the base branch of a fork's pull request, and the commit at its head.
func (c checkout) base(ctx context.Context) (branch string, commit landfall.CommitSHA, err error) {
	pushes, err := c.pushes(ctx, c.DB)
	if err != nil {
		return "", "", err
	}
	if len(pushes) == 0 {
		return "", "", landfall.Errorf("pipeline.base", landfall.Canceled, "the pull request has moved on")
	}
	branch = pushes[len(pushes)-1].PullRequest.Base
	commit, err = c.mirror.Branch(branch)
	if err != nil {
		err = landfall.Wrapf("pipeline.base", landfall.KindOf(err), err, "a fork is built as its base branch says, and %s: "+
			"let the pull request have another base branch", landfall.MessageOf(err))
	}
	return branch, commit, err
}

// readFork is read for a fork's commit, which has what its base branch allows.
func (c checkout) readFork(ctx context.Context) (source, error) {
	branch, commit, err := c.base(ctx)
	if err == nil {
		err = c.mirror.LimitModules(ctx, commit)
	}
	if err != nil {
		return source{}, err
	}
	s, err := c.readCommit(ctx)
	if err == nil {
		s.spec, err = s.underBase(ctx, branch, commit)
	}
	if err != nil {
		return source{}, err
	}
	return s, s.check(ctx)
}

// underBase returns what a fork's commit may declare, given what the head of its base branch declares.
func (s source) underBase(ctx context.Context, branch string, commit landfall.CommitSHA) (*spec.Spec, error) {
	const op landfall.Op = "pipeline.underBase"
	base := source{checkout: s.checkout}
	var err error
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
