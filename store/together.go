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
	// maxGroup is how many functions share a transaction at most: nobody waits long for others.
	maxGroup = 64
	// groupCommitLimit is when a database that does not answer is given up: GitHub does so with a delivery.
	groupCommitLimit = 10 * time.Second
)

// commitGroup is where functions wait for the transaction that they will share.
type commitGroup struct {
	mu      sync.Mutex
	leading bool // somebody's transaction is at work, or about to be
	waiting []*member
}

// member is a function of Together that waits.
type member struct {
	f         func(context.Context, *Tx) error
	abandoned func() error  // why nobody waits for it any more
	err       error         // its own
	lead      chan struct{} // gets one when it is the member's turn to lead
	done      chan error
}

// GroupCommit is Update for functions of which many may come at once: those that wait at the same time share one transaction, and
// with it the time until it is on the disk. Each of them takes effect, or not, by itself, as if it had a transaction of its own;
// only when the transaction they share fails, all fail. f has to use the context that it is given, which nobody's leaving ends,
// and may be called twice: what it did is undone before, as is what the database holds of it.
func (db *DB) GroupCommit(ctx context.Context, f func(context.Context, *Tx) error) error {
	m := &member{
		f: f, abandoned: func() error { return classify("store.Together", ctx.Err()) },
		lead: make(chan struct{}, 1), done: make(chan error, 1),
	}
	if !db.group.enter(m) {
		select {
		case err := <-m.done:
			return err
		case <-m.lead:
		}
	}
	runtime.Gosched()                                        // those that are about to come, come first
	db.runGroup(context.WithoutCancel(ctx), db.group.take()) // a statement that was interrupted would take the others along
	return <-m.done
}

// runGroup runs all members in one transaction, and tells each how it went, even when one of them panics.
func (db *DB) runGroup(ctx context.Context, members []*member) {
	ctx, cancel := context.WithTimeout(ctx, groupCommitLimit)
	defer cancel()
	const op landfall.Op = "store.Together"
	var err error
	ended := false
	defer func() {
		if !ended {
			err = &landfall.Error{Op: op, Kind: landfall.Internal, Message: "the transaction that was shared did not end"}
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
		err = &landfall.Error{Op: op, Kind: landfall.Unavailable, Message: "the database did not answer in time", Err: err}
	}
}

// enter makes m wait, and reports whether it is to lead at once.
func (g *commitGroup) enter(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, m)
	lead := !g.leading
	g.leading = true
	return lead
}

// take returns those that waited longest; the first of them leads.
func (g *commitGroup) take() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxGroup)
	members := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	return members
}

// pass makes the next one lead.
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

// runInGroup runs a member without a way to undo it alone, which would be the greater part of the work for one that does little.
func (tx *Tx) runInGroup(ctx context.Context, m *member) error {
	if m.f(ctx, tx) != nil {
		return errFailed
	}
	return nil
}

// runInSavepoint runs a member so that it can be undone alone.
func (tx *Tx) runInSavepoint(ctx context.Context, m *member) error {
	const op = "store.Together"
	if err := tx.exec(ctx, op, `SAVEPOINT together`); err != nil {
		return err
	}
	jobs := len(tx.jobs)
	if m.err = m.f(ctx, tx); m.err != nil {
		tx.jobs = tx.jobs[:jobs]
		if err := tx.exec(ctx, op, `ROLLBACK TO SAVEPOINT together`); err != nil { // the database has undone all already
			return errors.Join(m.err, err)
		}
	}
	return tx.exec(ctx, op, `RELEASE SAVEPOINT together`)
}
