// Package runner runs functions: an event in, an event out, by processes that are there already.
//
// A function is a program that reads events as JSON on its standard input and writes one event as JSON on its standard output
// for each. What it writes on standard error is the log of the execution. So it runs in a shell as it runs here:
//
//	echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet"}' | ./function
//
// # Frames
//
// An event goes in on one line, which ends with \n; JSON has no other line ends then. What comes out is a stream of JSON
// objects, with any white space between them and in them: an event ends with its last brace, so that a program that prints
// over several lines is understood as well as one that forgets the line's end. One event is in a process at a time; the next
// one goes in when the answer to the last is out.
//
// A function that takes them gets the body of a request in parts, which are lines behind its event, while it runs, and may answer
// meanwhile. It gets the next event when it has said that it read the last part.
//
// # Pools
//
//	none ──(a call, and none is idle)──▶ busy ──(it answered)──▶ idle ──(idle timeout, not kept warm)──▶ none
//	                                      │ ▲                     │
//	                                      │ └──────(a call)───────┘
//	                                      └──(anything but one answer in time)──▶ killed
//
// There is a pool for each function version and its limits. It grows by calls up to the function's concurrency; one call more
// is refused at once, never queued. A process that did anything but answer is killed and forgotten, and the next call starts
// another: nothing that a caller sent can reach another caller. A function whose caller went away has a second to answer, to nobody;
// then its process is idle.
package runner
