// Package router sends an event to the process that is best to run its function: to one that has the version hot, else to the least
// busy. It is the same for who calls a function in the process as for who sends it an event over HTTP, and a single runner is as good
// to it as many, or as another router.
//
// # Which one
//
//	has an idle process of the function, as far as is known ──▶ the least busy of those
//	none has                                               ──▶ the least busy of all, better one that ran the function before
//
// What a router knows is what it did itself: how many calls of its own are under way, and how many answers at once a process gave for
// a function in the last moment. Nobody is asked before a call.
//
// # When a call is sent again
//
// A process that says that the function did not begin, since it is busy or stops, has the event sent to another one, once. Where no
// connection can be made, nothing was sent, and each of the others may be tried. After anything else the function may have run: the
// caller is told, and decides. Of a body that comes while the function runs nothing is read before the function began.
//
// # Who is used
//
// Every process is asked for its health each second. One that does not answer, that stops, or to which no connection can be made
// gets no events until it answers again, unless there is no other one.
package router
