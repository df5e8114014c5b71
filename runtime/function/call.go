// Package function has the one value and the one interface by which functions are called, wherever they run, and why
// one gave no answer: every source of events makes a Call, and every room that it passes on its way to the function is
// a Caller.
package function

import (
	"context"
	"io"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/registry"
)

// Call is an event on its way to a function.
type Call struct {
	Function *landfall.Function // nil: the version that the trigger names is gone
	Trigger  *registry.Trigger  // that the event came through; nil: it is for the function by its name
	Contract *contract.Contract // of the function, where the call begins; nil: it takes and answers anything
	Event    event.Event        // nobody else has its attributes: they change on the way
	Body     Body               // the data of the event, if the function takes it in parts; nil: the event has it
	// takes an answer while it is made; nil: its data is gathered, up to the limit of an answer
	Stream    Stream
	Recipient Recipient // of the answer; nil: one that can use every answer
	Accepted  bool      // it was accepted before it runs: a record of it is there already
}

// Caller calls functions.
type Caller interface {
	// Call gives the event to the function and returns its answer. It keeps nothing of the event's data. Of an answer that
	// went to the Stream it returns the event without the data when all of it was taken, or an error when it broke off.
	// The Body is stopped, and nothing of it is read any more, when Call returns, or in a moment. Its errors are those of
	// runner.Runner.Run.
	Call(ctx context.Context, c Call) (event.Event, error)
}

// CallerFunc is a Go function that is a Caller.
type CallerFunc func(ctx context.Context, c Call) (event.Event, error)

// Call implements Caller.
func (f CallerFunc) Call(ctx context.Context, c Call) (event.Event, error) { return f(ctx, c) }

// Body is the body of a request that comes while its function runs. One goroutine reads it.
type Body interface {
	// Read returns what came. Before the end there is no error; io.EOF is the end, and any other error is why it broke
	// off, of which the function is told the message.
	io.Reader

	// Stop makes Read fail, also one that waits. Any goroutine may call it, more than once, also behind the end.
	Stop()

	// Taken returns how many bytes were read. Any goroutine may call it.
	Taken() int64
}

// Stream takes an answer while it is made. What it does not take holds the function up.
type Stream interface {
	// Begin takes the answer's event, without data that follows. Nothing was answered before it.
	Begin(answer event.Event) error
	// Write takes a piece of the data.
	Write(p []byte) (int, error)
}

// Recipient is who gets the answer, as far as the record of the call tells of it.
type Recipient interface {
	// Judge returns why it cannot use an answer: such a call did not succeed.
	Judge(answer event.Event) error
	// Sent returns how many bytes of a streamed answer it got. It is called when the function has answered.
	Sent() int64
}
