// Package runner runs functions: an event in, an event out, by processes that are there already.
//
// A function is a program that reads events as JSON on its standard input and writes one event as JSON on its standard
// output for each. What it writes on standard error is the log of the execution. So it runs in a shell as it runs here:
//
//	echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet"}' | ./function
//
// # Frames
//
// An event goes in on one line, which ends with \n; JSON has no other line ends then. What comes out is a stream of
// JSON objects, with any white space between them and in them: an event ends with its last brace, so that a program
// that prints over several lines is understood as well as one that forgets the line's end. One event is in a process at
// a time; the next one goes in when the answer to the last is out.
//
// A function that takes them gets the body of a request in parts, which are lines behind its event, while it runs, and
// may answer meanwhile. It gets the next event when it has said that it read the last part.
//
// # Processes
//
//	         +---- a call, and none is idle ----+
//	         |                                  v
//	start ---+--- Warm ---> idle -- a call --> in a call --- anything else ----> stopping ---> ended
//	                        | | ^               |                                ^
//	                        | | +- an exchange -+                                |
//	                        | +--- idle for too long, and not kept warm; Forget -+
//	                        +----- another function needs its room ------------> evicted ----> ended
//
// An idle process that ends by itself, and one that is killed by Close or in a call that Forget saw, is ended at once.
//
// An exchange is one event that goes in, and one answer that comes out. It ends in one of these ways:
//
//	event read   answer     process                  call
//	yes          one        idle                     has the answer
//	yes          one        idle                     was given up before, by its caller
//	not all      one        stopping                 has the answer
//	yes          any other  stopping                 fails
//	no           none       ended, or is not silent  goes to another process, unless this was the first event
//
// So nothing that a caller sent can reach another caller. A function whose caller went away has a second to answer. One
// that takes a body in parts is idle when it has said that it read them.
//
// # Pools
//
// There is a pool for each function version and its limits. It grows by calls up to the function's concurrency; one
// call more is refused at once, never queued.
package runner
