package runner

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
)

// partSize is how much of a body is held at a time.
const partSize = 32 << 10

// upload makes parts of a body. Nobody else knows its fields before it is over.
type upload struct {
	body   function.Body
	cut    func() // is called when it broke off; nil: nothing is
	room   []byte
	line   []byte
	last   bool        // the last part was made
	broken error       // why there is no more of it
	ended  atomic.Bool // the answer is there, or none will be: nothing is missed
}

// next returns the next part as a line, good until the next call; io.EOF behind the last one.
func (u *upload) next() ([]byte, error) {
	if u.last {
		return nil, io.EOF
	}
	if u.room == nil {
		u.room = make([]byte, partSize)
	}
	n, err := u.body.Read(u.room)
	for n == 0 && err == nil {
		n, err = u.body.Read(u.room)
	}
	u.line = u.line[:0]
	if n > 0 {
		u.line = event.AppendPart(u.line, u.room[:n])
	}
	if err == nil {
		return u.line, nil
	}
	u.last = true
	if errors.Is(err, io.EOF) {
		u.line = event.AppendLast(u.line, nil)
		return u.line, nil
	}
	if !u.ended.Load() {
		u.broken = err
	}
	fault := function.EventError(err)
	u.line = event.AppendLast(u.line, &fault)
	if u.cut != nil && u.broken != nil {
		u.cut()
	}
	return u.line, nil
}

// brokenOff returns the error of a call whose body broke off.
func brokenOff(err error) error {
	return &landfall.Error{
		Op: "runner.Run", Kind: landfall.Canceled,
		Message: "the request's body broke off: " + landfall.MessageOf(err), Err: err,
	}
}

// given is an upload on its way into a process.
type given struct {
	upload

	whole bool          // the last part was written
	over  chan struct{} // closed when nothing is written any more; what is above is known then

	soon atomic.Pointer[time.Time] // until when it may answer, of a body that broke off; nil: it did not
}

// give begins to give the process the task's event, and the parts behind it.
func (p *process) give() {
	g := &given{over: make(chan struct{})}
	g.body, p.given = p.task.body, g
	line, deadline := slices.Clone(p.task.line), p.task.deadline // the task may be over before it is written
	g.cut = func() {                                             // as hurry
		soon := time.Now().Add(grace)
		if deadline.Before(soon) {
			soon = deadline
		}
		g.soon.Store(&soon)
		_ = p.Stdin.SetWriteDeadline(soon)
		_ = p.Stdout.SetReadDeadline(soon)
	}
	go func() {
		defer close(g.over)
		var err error
		for err == nil {
			if _, err = p.Stdin.Write(line); err == nil {
				line, err = g.next()
			}
		}
		g.whole = errors.Is(err, io.EOF)
	}()
}

// isOver reports whether all that is going to be written was, in a moment at the latest.
func (g *given) isOver() bool {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-g.over:
		return true
	case <-timer.C:
		return false
	}
}

// hasRead reports whether the process has said that it has read all that it was given, and nothing else, so that the
// next event is none of these parts for it. Only what is said counts: who reads ahead has taken parts out of the pipe
// that it may yet take for events.
func (p *process) hasRead() bool {
	return p.given.whole && p.confirmed && blank(p.rest) && p.unread() == 0
}

// afterParts ends a call whose event had parts behind it. Its process is there for the next one when it has read all of
// them.
func (r *Runner) afterParts(ctx context.Context, p *process, answer event.Event, err error) (event.Event, error) {
	g := p.given
	g.ended.Store(true)
	g.body.Stop()
	if err != nil && !p.served {
		_ = p.Stdin.SetWriteDeadline(time.Unix(1, 0))
		r.discard(p, killing)
		<-g.over
		if g.broken != nil && ctx.Err() == nil {
			err = brokenOff(g.broken)
		}
		return event.Event{}, err
	}
	if !p.confirmed || !g.isOver() || !p.hasRead() {
		r.settle(p)
		return answer, err
	}
	r.release(p)
	if g.broken != nil && err == nil {
		return event.Event{}, brokenOff(g.broken)
	}
	return answer, err
}

// settle lets a process that has answered already read the parts that are left, and say so, while its caller goes on.
func (r *Runner) settle(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		p.Kill()
		return
	}
	r.left.Go(func() {
		if p.settles() {
			r.release(p)
		} else {
			r.discard(p, killing)
		}
	})
}

// settles waits until the process says that it has read all, which it must in a moment.
func (p *process) settles() bool {
	p.calling.Lock()
	defer p.calling.Unlock()
	soon := time.Now().Add(grace)
	if errors.Join(p.Stdin.SetWriteDeadline(soon), p.Stdout.SetReadDeadline(soon)) != nil {
		return false // it has ended
	}
	<-p.given.over
	if !p.confirmed {
		if p.readPart() != nil {
			return false
		}
		part, err := event.ParsePart(p.answer)
		p.confirmed = err == nil && part.Read
	}
	return p.hasRead()
}

// lines is an upload as a module reads it.
type lines struct {
	upload

	rest []byte
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (n int, err error) {
	if len(l.rest) == 0 {
		if l.rest, err = l.next(); err != nil {
			return 0, err
		}
	}
	n = copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
