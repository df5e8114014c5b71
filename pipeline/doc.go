// Package pipeline takes an accepted push to a release: it alone knows the order of the steps.
//
// # The run
//
//	            accept
//	              │ one transaction: push, head, run, pending report, job
//	              ▼
//	           queued ──▶ running ──▶ succeeded | failed | error | skipped
//	              ▲          │
//	              └──────────┘ the worker died or stopped, or something outside is down: tried again
//
//	queued, running ──▶ superseded (no reference wants the commit any more) | cancelled
//
// The row in `runs` is the truth; the durable job is its doorbell. A worker owns a run by a lease under an attempt
// number, and every write it makes names that number: a worker that lost its lease changes nothing. Every step can be
// run again with the same result, so a worker that takes over computes again what was only in memory and finds stored
// what was stored.
//
// # Invariants
//
//   - What a run makes becomes visible in one transaction, after all its content is stored.
//   - Only the head of a reference moves pointers; an older push that finishes late moves none.
package pipeline
