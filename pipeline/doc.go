// Package pipeline makes a release from an accepted push. No other package knows the order of the steps.
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
// The row in `runs` is the truth; the durable job only wakes a worker. A worker owns a run by a lease under an attempt
// number, and every write it makes names that number, so a worker that lost its lease changes nothing. Every step can
// be repeated with the same result: a worker that takes over computes again what was only in memory, and finds what was
// stored.
//
// # Invariants
//
//   - What a run makes becomes visible in one transaction, after all its content is stored.
//   - Only the head of a reference moves pointers; an older push that finishes late moves none.
package pipeline
