package rpc

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/invoke"
)

const (
	logDelay   = 100 * time.Millisecond // for which a log waits for more of it, or for the answer
	writeLimit = 30 * time.Second       // for a caller to take what was written
	// A piece of a stream, too: longer than a gateway waits for a visitor, whom it cuts off itself.
	pieceLimit = 90 * time.Second
)

// reply is the answer to one call while it is being made. What the function logs goes out while it runs, behind its
// back: a caller that does not read must not hold it up.
type reply struct {
	w       http.ResponseWriter
	r       *http.Request
	form    event.Form
	request event.Event

	mu      sync.Mutex
	pending []byte // of the log; a runner bounds it
	timer   *time.Timer
	over    bool

	writing sync.Mutex // guards w, and begun
	begun   bool
}

// log takes a piece of the log. It does not block.
func (a *reply) log(text []byte) {
	if !inFrames(a.r) {
		return // there is no place for it
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.pending = append(a.pending, text...)
	if a.timer == nil {
		a.timer = time.AfterFunc(logDelay, a.flush)
	}
}

// take returns what is to be written of the log, in a frame.
func (a *reply) take(over bool) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	a.over = a.over || over
	if len(a.pending) == 0 {
		return nil
	}
	text := appendFrame(nil, logFrame, a.pending)
	a.pending = a.pending[:0]
	return text
}

// flush writes what there is of the log.
func (a *reply) flush() {
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	over := a.over
	a.mu.Unlock()
	if over {
		return // the answer has it, and w is not ours any more
	}
	text := a.take(false)
	if len(text) == 0 {
		return
	}
	_ = a.send(text, writeLimit) // the caller may be gone
}

// accept lets the caller know that the function began, and the body of its request may come.
func (a *reply) accept() {
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	over := a.over
	a.mu.Unlock()
	if !over && !a.begun {
		_ = a.send(nil, writeLimit) // the caller may be gone
	}
}

// send writes frames that are not the last ones. The caller holds writing.
func (a *reply) send(frames []byte, limit time.Duration) error {
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", contentType)
		a.w.WriteHeader(http.StatusOK)
	}
	control := http.NewResponseController(a.w)
	_ = control.SetWriteDeadline(time.Now().Add(limit)) // a writer that has no connection has no deadline
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	if _, err := a.w.Write(frames); err != nil {
		return err
	}
	return control.Flush()
}

var _ function.Stream = (*reply)(nil)

// Begin implements function.Stream.
func (a *reply) Begin(answer event.Event) error {
	frame, err := appendEvent(nil, headFrame, answer)
	if err != nil {
		return err
	}
	return a.piece(frame)
}

// Write implements function.Stream.
func (a *reply) Write(p []byte) (int, error) {
	if err := a.piece(appendFrame(nil, pieceFrame, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// piece writes a frame of a stream behind what there is of the log. A caller that does not read holds it up.
func (a *reply) piece(frame []byte) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	return a.send(append(a.take(false), frame...), pieceLimit)
}

// end writes the rest of the log, and the answer or the error.
func (a *reply) end(answer event.Event, err error) {
	out := a.take(true)
	a.writing.Lock()
	defer a.writing.Unlock()
	control := http.NewResponseController(a.w)
	_ = control.SetWriteDeadline(time.Now().Add(writeLimit)) // a writer that has no connection has no deadline
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	if !inFrames(a.r) {
		if err != nil {
			writeError(a.w, a.r, a.form, a.request, err)
			return
		}
		_ = event.Write(a.w, http.StatusOK, a.form, answer) // the caller may be gone
		return
	}
	if err == nil {
		out, err = appendEvent(out, answerFrame, answer)
	}
	switch {
	case err != nil && len(out) == 0 && !a.begun:
		writeError(a.w, a.r, a.form, a.request, err)
		return
	case err != nil:
		out = appendFrame(out, errorFrame, encodeFault(err))
	}
	if a.begun {
		_, _ = a.w.Write(out) // the caller may be gone
		return
	}
	status := http.StatusOK
	if err != nil {
		status = invoke.StatusOf(err)
	}
	writeFrames(a.w, status, out)
}

// appendEvent appends the frame of an answer; after an error it appends nothing.
func appendEvent(out []byte, kind byte, answer event.Event) ([]byte, error) {
	text, err := event.Append(append(slices.Clip(out), kind, 0, 0, 0, 0), event.Structured, answer)
	if err != nil {
		return out, err
	}
	setSize(text[len(out):])
	return text, nil
}
