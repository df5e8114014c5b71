// Package rpc lets a function run in another process than the one where it is called.
//
//	caller ──(POST /run: an event)──▶ router ──(the same)──▶ runner ──(GET /functions/…: how to run it)──▶ registry
//	       ◀──(log …, answer or error)──    ◀──(the same)──
//
// # The call
//
// An event is sent as CloudEvents are over HTTP, structured or binary, by who knows the secret that all roles share. It
// names its function by the attribute that the Fn document has for it, function, which is a URL. The same and more
// stands in two headers, so that nobody on the way has to read the event: Landfall-Function is the function with the
// group version whose configuration it has, and Landfall-Resources is what the trigger says over the function.
//
// # The answer
//
// Who accepts nothing else gets the function's answer as an event in the form of the request, and an error as an event
// with an error. Who accepts contentType gets frames: pieces of the execution's log as they come, and at last the
// answer or the error with all that it says, so that it is the same error as in one process. A frame is a letter for
// its kind, the number of its bytes as four bytes, the first the highest, and these bytes.
//
// Who also has the header Landfall-Stream takes an answer while it is made: a frame with its event, frames with pieces
// of its data, each when the function has made it, and at last the answer without data, or the error that it broke off
// by. What ends without a last frame broke off, too: half an answer is never a whole one.
//
// # The body of a request while it comes
//
// Who has the header Landfall-Body sends frames: the event without data, then pieces of its data, and a last one that
// says that this was all, or the error that it broke off by. What ends without a last frame broke off, too. Nothing is
// sent behind the event before the head of the answer is there, with the status 200: it says that the function began.
// The answer comes while the rest is sent, may be complete before it, and is in frames. The connection ends with it.
//
// # What did not begin
//
// An answer with the header Landfall-Refused says that the function surely did not begin: it may be called elsewhere.
// Of a connection that breaks after the event was sent nobody knows whether it did, and the error says so:
// function.ReasonLost.
//
// # The router
//
// A Router sends an event to the process that is best to run its function: to one that has the version hot, else to the
// least busy. It is the same for who calls a function in the process as for who sends it an event over HTTP, and a
// single runner is as good to it as many, or as another router.
//
//	has an idle process of the function, as far as is known ──▶ the least busy of those
//	none has                                               ──▶ the least busy of all, better one that ran it before
//
// What a router knows is what it did itself: how many calls of its own are under way, and how many answers at once a
// process gave for a function in the last moment. Nobody is asked before a call.
//
// A process that says that the function did not begin, since it is busy or stops, has the event sent to another one,
// once. Where no connection can be made, nothing was sent, and each of the others may be tried. After anything else the
// function may have run: the caller is told, and decides. Of a body that comes while the function runs nothing is read
// before the function began.
//
// Every process is asked for its health each second. One that does not answer, that stops, or to which no connection
// can be made gets no events until it answers again, unless there is no other one.
package rpc
