package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/function"
)

const (
	maxPart   = 64 << 10 // bytes of a part of a body
	lingering = 2 * time.Second
)

// inParts reports whether the body of a request to a function follows its event.
func inParts(r *http.Request) bool { return r.Header.Get(bodyHeader) != "" }

// incoming is the body of a request to a function that comes in frames behind the event. No more than one frame of it
// is held.
type incoming struct {
	from    io.Reader
	control *http.ResponseController
	most    int64  // bytes; 0: as many as come
	want    func() // is called once, before the first part is read; nil: nothing is
	taken   atomic.Int64

	reading sync.Mutex   // held by a Read; guards room and rest
	room    bytes.Buffer // for a frame
	rest    []byte       // of a frame

	mu      sync.Mutex // guards what is below, and the deadline
	stopped bool
	ended   bool // the last frame was there, and nothing is behind it
}

var _ function.Body = (*incoming)(nil)

// receive returns the event of a request whose body follows, and that body.
func receive(w http.ResponseWriter, r *http.Request) ([]byte, *incoming, error) {
	if !inFrames(r) || r.Header.Get(functionHeader) == "" {
		return nil, nil, &landfall.Error{Op: "call", Kind: landfall.Invalid,
			Message: "a body in parts needs " + functionHeader + " and Accept: " + contentType}
	}
	in := &incoming{from: r.Body, control: http.NewResponseController(w)}
	// Without it, net/http would read the rest before it answers. A writer that has no connection needs none.
	_ = in.control.EnableFullDuplex()
	_, text, err := readFrame(in.from, map[byte]int{headFrame: maxEvent})
	if err != nil {
		return nil, nil, landfall.Wrapf("call", landfall.Invalid, err, "the event could not be read to its end")
	}
	return text, in, nil
}

// broke returns the error for a body that breaks off.
func broke(message string, cause error) error {
	return &landfall.Error{Op: "rpc.Read", Kind: landfall.Canceled, Message: message, Err: cause}
}

// Read implements function.Body.
func (in *incoming) Read(p []byte) (int, error) {
	in.reading.Lock()
	defer in.reading.Unlock()
	if len(in.rest) == 0 {
		if err := in.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

// next reads a frame.
func (in *incoming) next() error {
	if err := in.await(); err != nil {
		return err
	}
	kind, text, err := readFrameInto(&in.room, in.from,
		map[byte]int{pieceFrame: maxPart, endFrame: 0, errorFrame: maxFault})
	switch {
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF // its end is a frame
	case err == nil && kind == endFrame && !atEnd(in.from):
		err = errFrame
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if err == nil && kind == endFrame {
		in.ended = true
		return io.EOF
	}
	if err == nil && kind == pieceFrame && (in.taken.Add(int64(len(text))) <= in.most || in.most == 0) {
		in.rest = text
		return nil
	}
	err = in.broken(kind, text, err)
	in.stopped = true
	return err
}

// broken returns why there is no more of it. The caller holds the lock.
func (in *incoming) broken(kind byte, text []byte, err error) error {
	switch {
	case err == nil && kind == pieceFrame:
		return landfall.Errorf("rpc.Read", landfall.Invalid, "it is larger than the limit of %d bytes", in.most)
	case err == nil:
		if said := decodeFault("call.Read", text); said != nil {
			return said
		}
		return broke("who sent it says no more", nil)
	case in.stopped:
		return broke("the call is over", nil)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return broke(fmt.Sprintf("nothing of it came for %s", pieceLimit), err)
	case errors.Is(err, errFrame):
		return broke("what came is no part of it", err)
	}
	return broke("who sent it went away", err)
}

// await lets a Read wait for a part, unless there is to be no Read any more.
func (in *incoming) await() error {
	in.mu.Lock()
	stopped, ended, want := in.stopped, in.ended, in.want
	in.want = nil
	if !stopped && !ended {
		_ = in.control.SetReadDeadline(time.Now().Add(pieceLimit)) // a writer that has no connection has no deadline
	}
	in.mu.Unlock()
	switch {
	case ended:
		return io.EOF
	case stopped:
		return broke("the call is over", nil)
	case want != nil:
		want()
	}
	return nil
}

// Stop implements function.Body.
func (in *incoming) Stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.stopped && !in.ended {
		in.stopped = true
		_ = in.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// Taken implements function.Body.
func (in *incoming) Taken() int64 { return in.taken.Load() }

// end ends it, whoever reads. The request is net/http's again, which may read what is left for a moment, so that who
// still sends gets the answer.
func (in *incoming) end() {
	in.Stop()
	in.reading.Lock()
	defer in.reading.Unlock()
	if !in.ended {
		_ = in.control.SetReadDeadline(time.Now().Add(lingering))
	}
}

// outgoing is the body of a call on its way to one process: the event, and, when the process has accepted it, frames
// with the parts of the body. One goroutine reads it. It ends without an error, which would take the answer away, too:
// what has no last frame is half a body.
type outgoing struct {
	body     function.Body
	rest     []byte // of a frame
	room     []byte
	last     bool // nothing is behind rest
	accepted <-chan struct{}
	over     <-chan struct{}
	close    func()
}

// Read implements io.Reader.
func (o *outgoing) Read(p []byte) (int, error) {
	for len(o.rest) == 0 {
		if o.last || !o.next() {
			return 0, io.EOF
		}
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

// next makes a frame of what there is of the body. It reports whether there is one.
func (o *outgoing) next() bool {
	select {
	case <-o.accepted:
	case <-o.over:
	}
	select {
	case <-o.over:
		return false
	default:
	}
	if o.room == nil {
		o.room = make([]byte, frameHead+maxPart/2)
		o.room[0] = pieceFrame
	}
	n, err := o.body.Read(o.room[frameHead:])
	o.rest = o.room[:0]
	if n > 0 {
		o.rest = o.room[:frameHead+n]
		setSize(o.rest)
	}
	switch {
	case errors.Is(err, io.EOF):
		o.rest, o.last = appendFrame(o.rest, endFrame, nil), true
	case err != nil:
		o.rest, o.last = appendFrame(o.rest, errorFrame, encodeFault(err)), true
	}
	return true
}

// Close implements io.Closer.
func (o *outgoing) Close() error {
	o.close()
	return nil
}

// upload lets the data of the event be a body that follows it.
func (q *request) upload(body function.Body) {
	q.body = body
	q.Header.Set(bodyHeader, "yes")
}

// parts lets an HTTP request have the event and the body that follows it. What was sent before is over.
func (q *request) parts(r *http.Request) {
	q.Over()
	over, end := context.WithCancel(r.Context())
	accepted := make(chan struct{})
	q.accept, q.over = sync.OnceFunc(func() { close(accepted) }), end
	event := appendFrame(nil, headFrame, q.Body)
	r.ContentLength, r.Close = -1, true // what is left of a body is nobody's request
	r.GetBody = func() (io.ReadCloser, error) {
		attempt, end := context.WithCancel(over)
		return &outgoing{body: q.body, rest: event, accepted: accepted, over: attempt.Done(), close: end}, nil
	}
	r.Body, _ = r.GetBody() // it does not fail
}

// Accept lets the body be sent, if there is one and the answer says that the function began. It reports whether it
// does.
func (q *request) Accept(answer *http.Response) bool {
	if q.accept == nil || answer.StatusCode != http.StatusOK {
		return false
	}
	q.accept()
	return true
}

// Over lets no more of the body be sent.
func (q *request) Over() {
	if q.over != nil {
		q.over()
	}
}
