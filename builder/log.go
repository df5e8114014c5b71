package builder

import (
	"cmp"
	"container/heap"
	"context"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"landfall.dev/landfall"
)

// maxLogged bounds how many commits Log looks at.
const maxLogged = 20_000

// Log lists the commits that lead to one and not to another, newest first and at most so many, as git log FROM..TO
// does. It fetches nothing. Kinds: NotFound when r's mirror is not here, or lacks a commit.
func (m *Mirrors) Log(ctx context.Context, r Remote, from, to landfall.CommitSHA, most int) ([]CommitInfo, error) {
	const op = landfall.Op("builder.log")
	mirror := m.open(r)
	defer func() { _ = mirror.Close() }()
	l := log{mirror: mirror, seen: map[plumbing.Hash]*logged{}}
	for i, sha := range []landfall.CommitSHA{to, from} {
		name, err := objectName(op, sha)
		if err == nil {
			err = l.add(name, i > 0)
		}
		if err != nil {
			return nil, landfall.Wrapf(op, landfall.NotFound, err, "the commits of %s are not stored here", r.name())
		}
	}
	var found []*logged
	for l.goesOn(found) {
		if err := ctx.Err(); err != nil {
			return nil, &landfall.Error{Op: op, Kind: landfall.Canceled, Err: err}
		}
		next, _ := heap.Pop(&l).(*logged)
		if !next.known {
			l.wanted--
			found = append(found, next)
		}
		for _, parent := range next.ParentHashes {
			if err := l.add(parent, next.known); err != nil {
				return nil, mirror.readError(op, err)
			}
		}
	}
	commits := make([]CommitInfo, 0, min(len(found), most))
	for _, c := range found {
		if c.known || len(commits) == most { // known: a merge led to it later than to its children
			continue
		}
		commits = append(commits, infoOf(c.Commit))
	}
	return commits, nil
}

// log is a walk from commits to their parents, the newest first.
type log struct {
	mirror *Mirror
	seen   map[plumbing.Hash]*logged
	queue  []*logged
	wanted int // commits in the queue that are not known
}

// logged is a commit of the walk.
type logged struct {
	*object.Commit

	known  bool // it leads to what is left out
	queued bool
}

// goesOn reports whether the walk can still find a commit, or one that leads to what was found and is left out: that is
// no older, but for clocks that were wrong.
func (l *log) goesOn(found []*logged) bool {
	if l.wanted > 0 {
		return len(l.seen) < maxLogged
	}
	return len(l.queue) > 0 && len(found) > 0 &&
		!l.queue[0].Committer.When.Before(found[len(found)-1].Committer.When)
}

// add adds a commit to the walk, or notes that one of it is known.
func (l *log) add(name plumbing.Hash, known bool) error {
	c, ok := l.seen[name]
	switch {
	case ok && (!known || c.known):
		return nil
	case ok:
		c.known = true
		if c.queued {
			l.wanted--
			return nil
		}
	default:
		commit, err := l.mirror.commit(name)
		if err != nil {
			return err
		}
		commit.Hash = name
		c = &logged{Commit: commit, known: known}
		l.seen[name] = c
	}
	if !known {
		l.wanted++
	}
	heap.Push(l, c)
	return nil
}

// Len implements heap.Interface.
func (l *log) Len() int { return len(l.queue) }

// Less implements heap.Interface.
func (l *log) Less(i, j int) bool {
	a, b := l.queue[i], l.queue[j]
	return cmp.Or(b.Committer.When.Compare(a.Committer.When), cmp.Compare(a.Hash.String(), b.Hash.String())) < 0
}

// Swap implements heap.Interface.
func (l *log) Swap(i, j int) { l.queue[i], l.queue[j] = l.queue[j], l.queue[i] }

// Push implements heap.Interface.
func (l *log) Push(x any) {
	c, _ := x.(*logged)
	c.queued = true
	l.queue = append(l.queue, c)
}

// Pop implements heap.Interface.
func (l *log) Pop() any {
	last := len(l.queue) - 1
	c := l.queue[last]
	c.queued = false
	l.queue = l.queue[:last]
	return c
}
