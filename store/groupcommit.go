package store

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"landfall.dev/landfall"
)

const (
	// maxGroup is how many functions share a transaction at most, so that nobody waits long for others.
	maxGroup = 64
	// groupCommitLimit is when a database that does not answer is given up. GitHub gives up a delivery after the same
	// time.
	groupCommitLimit = 10 * time.Second
)

// commitGroup is where functions wait for the transaction that they will share.
type commitGroup struct {
	mu      sync.Mutex
	leading bool // a transaction is running, or about to begin
	waiting []*member
}

// member is a function of GroupCommit that waits.
type member struct {
	f         func(context.Context, *Tx) error
	abandoned func() error  // says why nobody waits for it any more
	err       error         // the error of the member itself
	lead      chan struct{} // gets one element when the member must lead
	done      chan error
}

// GroupCommit is Update for functions that may come in large numbers: those that wait at the same time share one
// transaction, and so the time for writing to the disk. Each one takes effect, or not, as if it had a transaction of
// its own. Only when the shared transaction fails do all fail. f must use the context that it gets, which does not end
// when a caller leaves. f may be called twice; what the first call did is undone before.
func (db *DB) GroupCommit(ctx context.Context, f func(context.Context, *Tx) error) error {
	m := &member{
		f: f, abandoned: func() error { return classify("store.GroupCommit", ctx.Err()) },
		lead: make(chan struct{}, 1), done: make(chan error, 1),
	}
	if !db.group.enter(m) {
		select {
		case err := <-m.done:
			return err
		case <-m.lead:
		}
	}
	runtime.Gosched()                                        // lets callers enter that are just about to
	db.runGroup(context.WithoutCancel(ctx), db.group.take()) // an interrupted statement would undo the others, too
	return <-m.done
}

// runGroup runs all members in one transaction, and tells each its result, even when one of them panics.
func (db *DB) runGroup(ctx context.Context, members []*member) {
	ctx, cancel := context.WithTimeout(ctx, groupCommitLimit)
	defer cancel()
	const op landfall.Op = "store.GroupCommit"
	var err error
	ended := false
	defer func() {
		if !ended {
			err = landfall.Errorf(op, landfall.Internal, "the transaction that was shared did not end")
		}
		db.group.pass()
		for _, m := range members {
			m.done <- errors.Join(err, m.err)
		}
	}()
	err = db.runAll(ctx, members, (*Tx).runInGroup)
	if errors.Is(err, errFailed) {
		err = db.runAll(ctx, members, (*Tx).runInSavepoint)
	}
	ended = true
	if errors.Is(err, context.DeadlineExceeded) {
		err = landfall.Wrapf(op, landfall.Unavailable, err, "the database did not answer in time")
	}
}

// enter makes m wait, and reports whether m must lead at once.
func (g *commitGroup) enter(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, m)
	lead := !g.leading
	g.leading = true
	return lead
}

// take returns the members that have waited longest; the first of them leads.
func (g *commitGroup) take() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxGroup)
	members := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	return members
}

// pass makes the next member lead.
func (g *commitGroup) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leading = len(g.waiting) > 0
	if g.leading {
		g.waiting[0].lead <- struct{}{}
	}
}

// errFailed says that a member failed which cannot be undone alone.
var errFailed = errors.New("a function that shares the transaction failed")

func (db *DB) runAll(ctx context.Context, members []*member, run func(*Tx, context.Context, *member) error) error {
	return db.Update(ctx, func(tx *Tx) error {
		for _, m := range members {
			if m.err = m.abandoned(); m.err != nil {
				continue
			}
			if err := run(tx, ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// runInGroup runs a member without a savepoint. For a small member, a savepoint would be most of the work.
func (tx *Tx) runInGroup(ctx context.Context, m *member) error {
	if m.f(ctx, tx) != nil {
		return errFailed
	}
	return nil
}

// runInSavepoint runs a member so that it can be undone alone.
func (tx *Tx) runInSavepoint(ctx context.Context, m *member) error {
	const op = "store.GroupCommit"
	if err := tx.exec(ctx, op, `SAVEPOINT together`); err != nil {
		return err
	}
	jobs := len(tx.jobs)
	if m.err = m.f(ctx, tx); m.err != nil {
		tx.jobs = tx.jobs[:jobs]
		// the database has rolled back everything already
		if err := tx.exec(ctx, op, `ROLLBACK TO SAVEPOINT together`); err != nil {
			return errors.Join(m.err, err)
		}
	}
	return tx.exec(ctx, op, `RELEASE SAVEPOINT together`)
}
