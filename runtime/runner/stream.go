package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/secret"
)

// gathered is a function.Stream that keeps all.
type gathered struct {
	bytes.Buffer

	most  int
	begun bool
}

// Begin implements function.Stream.
func (g *gathered) Begin(answer event.Event) error {
	g.begun = true
	_, err := g.Write(answer.Data())
	return err
}

// Write implements function.Stream.
func (g *gathered) Write(p []byte) (int, error) {
	if g.Len()+len(p) > g.most {
		return 0, errTooLarge
	}
	return g.Buffer.Write(p)
}

// errPart says that a part of an answer is none.
var errPart = errors.New("it is no part of an answer")

// stream hands on the parts of an answer.
func (p *process) stream(ctx context.Context, t task, answer event.Event) (event.Event, error) {
	to, all := t.to, &gathered{most: p.most}
	if to == nil {
		to = all
	}
	p.until = time.Unix(1, 0) // who goes away now ends the call at once
	done := context.AfterFunc(ctx, p.cut)
	fault, err := p.parts(ctx, t, to, answer)
	if !done() {
		<-p.hurried
		err = cmp.Or(err, context.Cause(ctx))
	}
	if err != nil {
		return event.Event{}, p.broken(ctx, err, t)
	}
	if cap(p.answer) > large {
		p.answer = make([]byte, 0, usual)
	}
	return all.ended(answer, fault), nil
}

// ended returns an answer that was streamed: with the error that it ends with, or with the data that was gathered.
func (g *gathered) ended(answer event.Event, fault *event.Error) event.Event {
	answer.DataEncoded, answer.DataBase64 = g.Bytes(), false
	if g.begun {
		event.SetWhole(&answer)
	}
	if fault != nil {
		event.SetError(&answer, *fault)
		answer.DataEncoded = nil
	}
	return answer
}

// broken says why a streamed answer broke off.
func (p *process) broken(ctx context.Context, err error, t task) error {
	var refused *refusedError
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &refused):
		return refused.told()
	case errors.Is(err, errPart), errors.Is(err, errMore):
		return noPart(err, p.answer, p.hide, p.log.trace())
	case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(t.deadline) && !p.died(0):
		return silent(p.quiet, p.log.trace())
	}
	return p.fault(ctx, err, t)
}

// noPart says what is wrong with what a function wrote as a part of its answer, or after the last one.
func noPart(err error, text []byte, hide *secret.Redactor, trace string) error {
	if errors.Is(err, errMore) {
		return failed(function.ReasonProtocol, trace, "the function wrote more after the last part of its answer")
	}
	return failed(function.ReasonProtocol, trace, "the function wrote what is no part of its answer: %q",
		beginning(text, hide))
}

// silent says that a function did not go on with its answer.
func silent(since time.Duration, trace string) error {
	return failed(function.ReasonTimeout, trace, "the function sent no part of its answer for %s", since)
}

// Untaken returns the error for a call whose answer a Stream did not take to its end.
func Untaken(err error) error {
	return landfall.Wrapf("runner.Run", landfall.Canceled, err, "nobody takes the rest of the answer")
}

// refusedError is that of a Stream.
type refusedError struct {
	error

	first bool // nothing was taken
}

// told is what Run says of it.
func (r *refusedError) told() error {
	if r.first {
		return r.error
	}
	return Untaken(r.error)
}

// parts hands on an answer and its parts, up to the last. It returns the error that the function ends with.
func (p *process) parts(ctx context.Context, t task, to function.Stream, answer event.Event) (*event.Error, error) {
	if err := to.Begin(answer); err != nil {
		return nil, refusal(err, true)
	}
	for total := int64(0); ; {
		if err := p.await(ctx, t); err != nil {
			return nil, err
		}
		if err := p.readPart(); err != nil {
			return nil, err
		}
		part, err := hand(to, p.answer, &total)
		if err != nil {
			return nil, err
		}
		p.confirmed = p.confirmed || part.Read
		switch {
		case part.Last && !blank(p.rest) && p.given == nil: // else it may be that it has read all
			return nil, errMore
		case part.Last:
			return part.Err, nil
		}
	}
}

// await sets until when the next part must be there. A function that is to answer soon has that limit anyway.
func (p *process) await(ctx context.Context, t task) error {
	if t.timeout <= p.quiet {
		return nil
	}
	until := time.Now().Add(p.quiet)
	if until.After(t.deadline) {
		until = t.deadline
	}
	if err := p.Stdout.SetReadDeadline(until); err != nil {
		return err
	}
	if p.given != nil { // what broke off may have set the deadline before
		if soon := p.given.soon.Load(); soon != nil {
			return cmp.Or(p.Stdout.SetReadDeadline(*soon), ctx.Err())
		}
	}
	return ctx.Err() // whose end may have, too
}

// hand hands on a part of an answer, of which there were total bytes before it.
func hand(to function.Stream, text []byte, total *int64) (event.Part, error) {
	part, err := event.ParsePart(text)
	if err != nil {
		return event.Part{}, fmt.Errorf("%w: %w", errPart, err)
	}
	if *total += int64(len(part.Data)); *total > maxStreamed {
		return event.Part{}, errTooLarge
	}
	if len(part.Data) > 0 {
		if _, err := to.Write(part.Data); err != nil {
			return event.Part{}, refusal(err, false)
		}
	}
	return part, nil
}

// refusal is what an error of a Stream is to the runner: that it is too large is the function's fault.
func refusal(err error, first bool) error {
	if errors.Is(err, errTooLarge) {
		return err
	}
	return &refusedError{err, first}
}

// Limits of an answer that is streamed. One part is held in memory at a time.
const (
	maxStreamed = 1 << 30
	maxPart     = 1 << 20
)

// readPart reads the next part into answer, from what was read already and what comes.
func (p *process) readPart() error {
	p.answer = append(p.answer[:0], p.rest...)
	p.frame, p.rest = frame{}, nil
	for from := 0; ; {
		end, ok := p.frame.find(p.answer[from:])
		if !ok {
			return errPart
		}
		if end >= 0 {
			p.rest = p.answer[from+end:]
			p.answer = p.answer[:from+end]
			return nil
		}
		if len(p.answer) == cap(p.answer) {
			if len(p.answer) > maxPart {
				return errTooLarge
			}
			p.answer = append(make([]byte, 0, 2*cap(p.answer)), p.answer...)
		}
		from = len(p.answer)
		n, err := p.Stdout.Read(p.answer[from:cap(p.answer)])
		p.answer = p.answer[:from+n]
		if n == 0 && err != nil {
			return err
		}
	}
}
