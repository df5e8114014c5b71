// Package remote is the built-in git remote over smart HTTP, by which pushes come in.
//
// It drives the real git: `git receive-pack` and `git upload-pack` with --stateless-rpc, one process a request, on bare
// repositories ROOT/ID.git. A push goes through these states:
//
//	commands read ─▶ queued ─▶ receiving ─▶ checked ─▶ moved ─▶ accepted ─▶ followed
//	      │             │          │           │                    │           │
//	     400       client gone   git's     Receiver.Check      kept, found   client gone:
//	                             own no     says no            at next start  the run goes on
//
// Receiving, checked and moved happen inside git, which calls two hooks of ours. They speak with the server through two
// inherited pipes: pre-receive writes where the new objects wait (git's quarantine) and the list of updates, and reads
// one number, its exit code; post-receive writes the list of the references that moved. What the person who pushed
// reads is written by the server into git's side band, after git has ended; so following a run holds no process.
//
// Invariants:
//   - Nothing moves before Receiver.Check agreed, and a hook that cannot ask refuses.
//   - From the agreement until Receiver.Accept returned, the repository's lock is held, by the server and by git
//     itself, and Heads takes it too. So pushes are accepted in the order in which they moved references, and Heads
//     never reads a reference that is about to move, nor one that moved and is about to be accepted, also when the git
//     that moves it belongs to a server that was killed.
//   - A client that goes away never kills a git that receives. It takes the input away, and git refuses a torn pack;
//     before the agreement it ends the check, and nothing moves; after it, everything moves and is accepted.
//   - Memory does not grow with the size of a push: git streams, and its memory is limited.
package remote
