package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/secret"
)

// instance is one call of a module. A module reads events from a stream as a process does, but an instance of it reads
// one: when it asks for the next one, its answer is complete and it ends.
type instance struct {
	event  io.Reader
	answer []byte
	most   int // bytes of an answer
	frame  frame
	done   bool  // there is an answer
	fault  error // what is wrong with what it wrote
	end    context.CancelFunc
	read   func(text []byte) (event.Event, error)
	made   event.Event // the answer, as it was read
	wrong  error       // with it
	parts  *parts      // that follow it; nil: none do
	begin  func(answer event.Event) (*parts, error)
}

// Read implements io.Reader: it is the standard input.
func (i *instance) Read(p []byte) (int, error) {
	if i.done {
		wasm.Finish()
	}
	return i.event.Read(p)
}

// Write implements io.Writer: it is the standard output.
func (i *instance) Write(p []byte) (int, error) {
	err := i.take(p)
	if err != nil {
		i.fault = err
		i.end()
	}
	return len(p), err
}

func (i *instance) take(p []byte) error {
	if i.fault != nil {
		return i.fault
	}
	rest, err := p, error(nil)
	if !i.done && i.parts == nil {
		rest, err = i.takeEvent(rest)
	}
	if err == nil && !i.done && i.parts != nil {
		rest, err = i.parts.take(rest)
		i.done = i.parts.last
	}
	if err == nil && i.done && !blank(rest) {
		return errMore
	}
	return err
}

// takeEvent takes the answer's event, and returns what is behind it.
func (i *instance) takeEvent(p []byte) (rest []byte, err error) {
	end, ok := i.frame.find(p)
	i.done = end >= 0
	if !i.done {
		end = len(p)
	}
	i.answer = append(i.answer, p[:end]...)
	switch {
	case !ok:
		return nil, errGarbage
	case len(i.answer) > i.most:
		return nil, errTooLarge
	case !i.done:
		return nil, nil
	}
	if i.made, i.wrong = i.read(i.answer); i.wrong == nil && event.Streams(i.made) {
		i.done = false
		if i.parts, err = i.begin(i.made); err != nil {
			err = refusal(err, true)
		}
	}
	return p[end:], err
}

// parts hands on the parts of an answer as they are written.
type parts struct {
	to    function.Stream
	all   gathered // what nobody takes
	total int64
	frame frame
	text  []byte // of the part that is being written
	last  bool
	fault *event.Error  // that the answer ends with
	quiet time.Duration // for which nothing may be written
	timer *time.Timer   // which ends the call then
}

// newParts begins an answer.
func newParts(to function.Stream, answer event.Event, limits Limits, silent func()) (*parts, error) {
	p := &parts{to: to, all: gathered{most: limits.Answer}, quiet: limits.Silence}
	if p.to == nil {
		p.to = &p.all
	}
	err := p.to.Begin(answer)
	p.timer = time.AfterFunc(p.quiet, silent)
	return p, err
}

// take hands on what is written, and returns what is behind the last part.
func (p *parts) take(text []byte) (rest []byte, err error) {
	for !p.last {
		end, ok := p.frame.find(text)
		if !ok {
			p.text = append(p.text, text...)
			return nil, errPart
		}
		if end < 0 {
			p.text = append(p.text, text...)
			if len(p.text) > maxPart {
				return nil, errTooLarge
			}
			return nil, nil
		}
		p.text, text, p.frame = append(p.text, text[:end]...), text[end:], frame{}
		p.timer.Stop() // while somebody takes it
		part, err := hand(p.to, p.text, &p.total)
		if err != nil {
			return nil, err
		}
		p.timer.Reset(p.quiet)
		p.last, p.fault, p.text = part.Last, part.Err, p.text[:0]
	}
	return text, nil
}

// runModule gives an event to a module, in an instance of its own, and returns the answer.
func (r *Runner) runModule(ctx context.Context, f Function, t task) (event.Event, error) {
	pool, err := r.reserve(f, f.Resources.Concurrency)
	if errors.Is(err, errFull) {
		return event.Event{}, busy("%d executions of the function are under way, which is its limit", f.Resources.Concurrency)
	}
	if err != nil {
		return event.Event{}, err
	}
	running, cancel := context.WithDeadline(ctx, t.deadline)
	limits := r.Limits.withDefaults()
	i := &instance{event: bytes.NewReader(t.line), most: limits.Answer, end: cancel}
	defer r.begin(i, pool)()
	var silence atomic.Bool
	var sent *lines
	if t.body != nil {
		sent = &lines{upload: upload{body: t.body, cut: func() { time.AfterFunc(grace, i.end) }}}
		i.event = io.MultiReader(i.event, sent)
		defer context.AfterFunc(running, func() {
			sent.ended.Store(true)
			t.body.Stop()
		})()
	}
	log := &log{function: f.ID, execution: t.execution, sink: r.Logs, most: limits.Log, left: limits.Log,
		hide: f.Hide.Stream()}
	i.read = func(text []byte) (event.Event, error) { return parse(text, t.execution, f.Hide, log) }
	i.begin = func(answer event.Event) (*parts, error) {
		return newParts(t.to, answer, limits, func() {
			silence.Store(true)
			i.end()
		})
	}
	err = r.Modules.Run(running, f.Module, wasm.Program{
		Args: f.Args, Env: f.Env, Memory: f.Resources.Memory, Stdin: i, Stdout: i, Stderr: log,
	})
	log.end()
	if i.parts != nil {
		i.parts.timer.Stop()
	}
	switch {
	case sent != nil && sent.broken != nil && ctx.Err() == nil:
		return event.Event{}, brokenOff(sent.broken)
	case silence.Load() && ctx.Err() == nil && time.Now().Before(t.deadline):
		return event.Event{}, silent(limits.Silence, log.trace())
	case err != nil || i.fault != nil || !i.done:
		return event.Event{}, moduleFault(ctx, err, i, f.Hide, log.trace(), t)
	case i.parts != nil:
		return i.parts.all.ended(i.made, i.parts.fault), nil
	}
	return i.made, i.wrong
}

// begin makes an instance end with the runner. What it returns is called when the instance has ended.
func (r *Runner) begin(i *instance, p *pool) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[*instance]struct{}{}
	}
	r.calls[i] = struct{}{}
	if r.closed {
		i.end() // Close did not see it
	}
	return func() {
		i.end()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, i)
		r.free(p)
		r.left.Done()
	}
}

// moduleFault says why there is no answer.
func moduleFault(ctx context.Context, err error, i *instance, hide *secret.Redactor, trace string, t task) error {
	end, ended := errors.AsType[*wasm.EndError](err)
	refused, untaken := errors.AsType[*refusedError](i.fault)
	switch {
	case untaken && ctx.Err() == nil:
		return refused.told()
	case i.parts != nil && (errors.Is(i.fault, errPart) || errors.Is(i.fault, errMore)):
		return noPart(i.fault, i.parts.text, hide, trace)
	case i.fault != nil && !untaken:
		return wrote(i.fault, i.answer, hide, i.most, trace)
	case ctx.Err() != nil:
		return landfall.Wrapf("runner.Run", landfall.Canceled, context.Cause(ctx), "the call was given up")
	case errors.Is(err, context.DeadlineExceeded):
		return failed(function.ReasonTimeout, trace, "the function did not answer within %s", t.timeout)
	case errors.Is(err, context.Canceled):
		return landfall.Errorf("runner.Run", landfall.Canceled, "the runner is stopping")
	case ended && end.Full:
		return busy("the modules that run here take all the memory that they may have")
	case ended && end.Memory:
		return failed(function.ReasonMemory, trace, "the function wanted more memory than it may have")
	case ended && end.Trap != "":
		return failed(function.ReasonExit, end.Trap+"\n"+trace, "the function was ended: %s", firstLine(end.Trap))
	case ended:
		return failed(function.ReasonExit, trace, "the function ended with exit code %d before it answered", end.Code)
	case err != nil:
		return &landfall.Error{Op: "runner.Run", Kind: landfall.KindOf(err), Message: landfall.MessageOf(err), Err: err}
	case !blank(i.answer):
		return failed(function.ReasonExit, trace, "the function ended with exit code 0 in the middle of its answer")
	}
	return failed(function.ReasonExit, trace, "the function ended with exit code 0 before it answered")
}
